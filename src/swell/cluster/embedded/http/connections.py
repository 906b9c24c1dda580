"""The connections of the server: how many there may be, and how long one may send nothing.

A connection counts as silent until a request on it has had a valid token. Silent connections are
limited and timed, so that clients without a token cannot use up descriptors or memory:

    accepted --> TLS --> silent --- request with the token --> known --> closed by either side
                   |        |
                   |        +--- too old, or pushed out by newer ones --> aborted
                   +--- no handshake in time --> closed

A request whose headers do not come to their end in time ends its connection, known or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from swell.runtime.clock import Clock

# Descriptors of the process: no more than this are asked for, because some programs that it starts
# go through all of them.
DESCRIPTORS_MAX = 65_536
# Descriptors that connections leave to the store, to node agents and to the processes they start.
DESCRIPTORS_RESERVED = 256
# Silent connections of one address. A burst of this many new clients is still served.
SILENT_MAX = 500
SILENT_S_MAX = 30.0
HEADERS_S_MAX = 30.0
HANDSHAKE_S_MAX = 15.0
ACCEPT_BACKOFF_S = 0.1
TLS_BUFFER_BYTES = 64 << 10
# What one side has sent and the other has not read, beyond which the connection waits. asyncio lets
# a quarter and half of a megabyte pass.
UNREAD_BYTES_MAX = 64 << 10
SWEEP_INTERVAL_S = 1.0
# Errors of accept that pass when other descriptors or memory are given back.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

HandleRequest = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(eq=False, slots=True)
class Connection:
    """One accepted connection. Its transport is missing until the TLS handshake is done."""

    peer: str
    begun_at: float
    socket: socket.socket
    task: asyncio.Task[None] | None = None
    transport: asyncio.BaseTransport | None = None
    is_known: bool = False
    request_begun_at: float | None = None  # bytes of a request have come, but not all its headers

    def abort(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class Connections:
    """All connections of one server."""

    def __init__(self, clock: Clock, n_max: int | None = None) -> None:
        self._clock = clock
        self._n_max = n_max if n_max is not None else descriptors() - DESCRIPTORS_RESERVED
        self._open: dict[Connection, None] = {}  # oldest first
        self._silent: dict[str, dict[Connection, None]] = {}  # by peer, oldest first
        self._by_protocol: dict[object, Connection] = {}
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def received(self, protocol: RequestHandler) -> None:
        """Called when bytes come while no request is being handled."""
        connection = self._by_protocol.get(protocol)
        if connection is not None and connection.request_begun_at is None:
            connection.request_begun_at = self._clock.monotonic()

    def lost(self, protocol: RequestHandler) -> None:
        connection = self._by_protocol.pop(protocol, None)
        if connection is not None:
            self._forget(connection)

    def watching(self, handle: HandleRequest) -> HandleRequest:
        """A handler that also notes the progress of its connection."""

        async def handle_noted(request: web.BaseRequest) -> web.StreamResponse:
            connection = self._by_protocol.get(request.protocol)
            if connection is not None:
                connection.request_begun_at = None
            return await handle(request)

        return handle_noted

    def authenticated(self, request: web.BaseRequest) -> None:
        """Called when a request had a valid token: its connection is silent no more."""
        connection = self._by_protocol.get(request.protocol)
        if connection is not None and not connection.is_known:
            connection.is_known = True
            self._unmark(connection)

    @contextlib.asynccontextmanager
    async def accepting(
        self, listener: socket.socket, tls: ssl.SSLContext, new: Callable[[], RequestHandler]
    ) -> AsyncIterator[None]:
        """Accept connections in the background while this is entered."""
        shrink_tls_buffers()
        listener.setblocking(False)
        tasks = [
            asyncio.ensure_future(self._accept(listener, tls, new)),
            asyncio.ensure_future(self._sweep()),
        ]
        try:
            yield
        finally:
            handshakes = [c.task for c in self._open if c.task is not None and c.transport is None]
            for task in [*tasks, *handshakes]:
                task.cancel()
            await asyncio.gather(*tasks, *handshakes, return_exceptions=True)
            listener.close()

    # -- accepting ---------------------------------------------------------------------------

    async def _accept(
        self, listener: socket.socket, tls: ssl.SSLContext, new: Callable[[], RequestHandler]
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._push_out("")
                    await asyncio.sleep(ACCEPT_BACKOFF_S)
                # Any other error is one of a client that is gone already.
                continue
            peer = str(address[0])
            if not self._make_room(peer):
                accepted.close()
                continue
            connection = Connection(peer, self._clock.monotonic(), accepted)
            self._open[connection] = None
            self._silent.setdefault(peer, {})[connection] = None
            connection.task = asyncio.ensure_future(self._begin_tls(connection, tls, new))
            connection.task.add_done_callback(partial(self._drop_unfinished, connection))

    async def _begin_tls(
        self, connection: Connection, tls: ssl.SSLContext, new: Callable[[], RequestHandler]
    ) -> None:
        loop = asyncio.get_running_loop()

        def protocol() -> RequestHandler:
            made = new()
            self._by_protocol[made] = connection
            return made

        with contextlib.suppress(OSError):  # no TLS, or not in time
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                if not await _has_data(connection.socket):
                    return
            # One handshake begins in a turn of the loop, so that a burst of them leaves room for
            # requests in between.
            async with self._turn:
                await asyncio.sleep(0)
            transport, _ = await loop.connect_accepted_socket(
                protocol, connection.socket, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S_MAX
            )
            transport.set_write_buffer_limits(high=UNREAD_BYTES_MAX)
            if hasattr(transport, "set_read_buffer_limits"):  # of asyncio's TLS only
                transport.set_read_buffer_limits(high=UNREAD_BYTES_MAX)
            connection.transport = transport

    def _drop_unfinished(self, connection: Connection, _task: asyncio.Task[None]) -> None:
        """Called when the task of a connection ends, even if it was cancelled before it began."""
        if connection.transport is not None:
            return
        connection.socket.close()
        self._forget(connection)
        for protocol in [p for p, c in self._by_protocol.items() if c is connection]:
            del self._by_protocol[protocol]

    def _make_room(self, peer: str) -> bool:
        """Push a silent connection out where there are too many; False when none can be."""
        if len(self._silent.get(peer, ())) >= SILENT_MAX:
            self._push_out(peer)
        return len(self._open) < self._n_max or self._push_out("")

    def _push_out(self, peer: str) -> bool:
        """Abort the oldest silent connection, of one peer or of the one with the most."""
        if not peer:
            peer = max(self._silent, key=lambda one: len(self._silent[one]), default="")
        oldest = next(iter(self._silent.get(peer, ())), None)
        if oldest is None:
            return False
        oldest.abort()
        self._forget(oldest)
        return True

    # -- time --------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            now = self._clock.monotonic()
            for connection in list(self._open):
                begun = connection.request_begun_at
                is_old = not connection.is_known and now - connection.begun_at > SILENT_S_MAX
                if is_old or (begun is not None and now - begun > HEADERS_S_MAX):
                    connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._unmark(connection)

    def _unmark(self, connection: Connection) -> None:
        silent = self._silent.get(connection.peer)
        if silent is not None:
            silent.pop(connection, None)
            if not silent:
                del self._silent[connection.peer]


async def _has_data(accepted: socket.socket) -> bool:
    """Wait until bytes come; False when the client closes instead.

    TLS begins only then: its buffers take a quarter of a megabyte for every connection.
    """
    loop = asyncio.get_running_loop()
    accepted.setblocking(False)
    ready: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(accepted, note)
    try:
        await ready
    finally:
        loop.remove_reader(accepted)
    return bool(accepted.recv(1, socket.MSG_PEEK))


def shrink_tls_buffers() -> None:
    """Let every TLS connection of this process have a smaller buffer for what it receives.

    asyncio's takes 256 KiB for each, so that a thousand watches would take a quarter of a gigabyte.
    A TLS record has 16 KiB at most.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors() -> int:
    """The number of descriptors that this process may have."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else max(soft, 512)
