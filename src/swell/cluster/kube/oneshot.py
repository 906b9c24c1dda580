"""Sends single calls and reads long answers with blocking sockets, for commands.

A command makes a few calls one after the other and must start fast. So this client imports neither
asyncio nor an HTTP library. It follows the same `policy` and reads with the same `answers` as the
asynchronous client. It is used by one thread. If asked to, it keeps the connection of a call for
the next one; then it is closed after use.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import TracebackType
from typing import Self, TypeVar

from swell.cluster.kube.access import Access
from swell.cluster.kube.answers import (
    AnswerReader,
    HttpAnswer,
    LineSplitter,
    LostError,
    NotSentError,
)
from swell.cluster.kube.calls import KubeCall
from swell.cluster.kube.credentials import client_tls, load_certificate
from swell.cluster.kube.policy import (
    LIMITS,
    ClientLimits,
    RetryPolicy,
    ServerAddress,
    port_errors,
    read_answer,
    refusal,
)
from swell.runtime.errors import ClusterError, UnreachableError

R = TypeVar("R")
A = TypeVar("A")
_PIECE_BYTES = 64 << 10
_WAIT_S_MIN = 0.001


class OneShot:
    """One API server as one user, for a few calls one after the other."""

    def __init__(
        self,
        access: Access,
        rng: Random,
        limits: ClientLimits = LIMITS,
        sleep: Callable[[float], None] = time.sleep,
        *,
        keeps_connection: bool = False,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._access = access
        self._warn = warn
        self._keeps_connection = keeps_connection
        self._address = ServerAddress(access.server, access.tls_server_name)
        self._rng = rng
        self._limits = limits
        self._sleep = sleep
        self._tls = client_tls(access)
        self._header: str | None = None
        self._kept: tuple[socket.socket, float] | None = None  # with the time since it is idle

    def close(self) -> None:
        """Close the connection that is kept for the next call; a call after this opens another."""
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    def send(self, call: KubeCall[R]) -> R:
        """Returns the call's decoded answer, after as many attempts as are safe."""
        return self._with_retries(call, lambda: read_answer(call, self._exchange(call)))

    def stream(self, call: KubeCall[R]) -> LineStream:
        """Opens a watch or a followed log, after as many attempts as are needed."""
        return self._with_retries(call, lambda: self._open(call))

    def lines(self, call: KubeCall[R]) -> Iterator[bytes]:
        """The lines of a long answer, for as long as the server sends them."""
        with self.stream(call) as stream:
            while (lines := stream.read(None)) is not None:
                yield from lines

    def _with_retries(self, call: KubeCall[R], attempt: Callable[[], A]) -> A:
        policy = RetryPolicy(call, self._rng.random)
        while True:
            try:
                return attempt()
            except (ClusterError, UnreachableError) as error:
                retry = policy.after(error)
                if retry is None:
                    raise
                if retry.renews_credentials:
                    self._header = None
                self._sleep(retry.pause_s)

    def _exchange(self, call: KubeCall[R]) -> HttpAnswer:
        reader = AnswerReader(self._limits.answer_bytes_max)
        with port_errors(call), _closed_on_error(self._sent(call)) as connection:
            self._receive_until(lambda: reader.is_over, connection, reader)
        answer = reader.answer()
        for text in answer.head.warnings:
            self._warn(text)
        # Bytes behind the answer belong to no request: the next one must not take them for its own.
        if answer.head.is_last or reader.has_more or not self._keeps_connection:
            connection.close()
        else:
            self._kept = connection, time.monotonic()
        return answer

    def _open(self, call: KubeCall[R]) -> LineStream:
        reader = AnswerReader(self._limits.answer_bytes_max)
        with port_errors(call), _closed_on_error(self._connected(call)) as connection:
            self._receive_until(lambda: reader.head is not None, connection, reader)
            if reader.head is not None and reader.head.status != 200:
                self._receive_until(lambda: reader.is_over, connection, reader)
                raise refusal(reader.head, reader.take())
        return LineStream(call, connection, reader, self._limits.line_bytes_max)

    def _receive_until(
        self, is_done: Callable[[], bool], connection: socket.socket, reader: AnswerReader
    ) -> None:
        deadline = time.monotonic() + self._limits.answer_s
        while not is_done():
            if not _receive(connection, reader, deadline - time.monotonic()):
                raise LostError("no answer came in time") from TimeoutError()

    def _sent(self, call: KubeCall[R]) -> socket.socket:
        """Returns a connection on which the call's request has been sent: the kept one, or new."""
        kept = self._take_kept()
        if kept is None:
            return self._connected(call)
        with _closed_on_error(kept):
            self._write(kept, self._address.request(call, self._authorization()))
        return kept

    def _take_kept(self) -> socket.socket | None:
        """Returns the connection of the last call, unless it is old, or the server has closed it.

        A request on a connection that the server closes at that moment would be of unknown outcome.
        """
        if self._kept is None:
            return None
        (connection, since), self._kept = self._kept, None
        is_old = time.monotonic() - since > self._limits.keep_alive_s
        if is_old or select.select([connection], [], [], 0)[0]:
            connection.close()
            return None
        return connection

    def _connected(self, call: KubeCall[R]) -> socket.socket:
        """Returns a new connection on which the call's request has been sent."""
        request = self._address.request(call, self._authorization())
        address = (self._address.host, self._address.port)
        try:
            with _closed_on_error(socket.create_connection(address, self._limits.connect_s)) as raw:
                connection = self._secured(raw)
        except OSError as error:
            raise NotSentError(f"{self._access.server}: {error}") from error
        with _closed_on_error(connection):
            self._write(connection, request)
        return connection

    def _write(self, connection: socket.socket, request: bytes) -> None:
        try:
            connection.settimeout(self._limits.answer_s)
            connection.sendall(request)
        except OSError as error:
            raise LostError(f"{type(error).__name__} {error}") from error

    def _secured(self, raw: socket.socket) -> socket.socket:
        if not self._address.is_secure:
            return raw
        return self._tls.wrap_socket(raw, server_hostname=self._address.tls_name)

    def _authorization(self) -> str:
        if self._header is None:
            self._header = self._log_in()
        return self._header

    def _log_in(self) -> str:
        """Returns the Authorization header. Only users with a login need asyncio for it."""
        user = self._access.user
        if user.source is None and user.token_file is None:
            if user.certificate_pem:
                load_certificate(self._tls, user.certificate_pem, user.key_pem)
            return f"Bearer {user.token}" if user.token else ""
        import asyncio

        from swell.cluster.kube.credentials import credential_source
        from swell.runtime.clock import SystemClock

        source = credential_source(self._access, self._tls, SystemClock())
        return asyncio.run(source.authorization())


class LineStream:
    """A long answer, such as a watch or a followed log, read by lines. Close it after use."""

    def __init__(
        self,
        call: KubeCall[R],
        connection: socket.socket,
        reader: AnswerReader,
        line_bytes_max: int,
    ) -> None:
        self._call = call
        self._connection = connection
        self._reader = reader
        self._splitter = LineSplitter(line_bytes_max)
        self._is_exhausted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def read(self, within_s: float | None) -> list[bytes] | None:
        """Returns the lines that came, none if none came in this time; None when it is over.

        With a time of None it waits for as long as the server keeps the answer open.
        """
        if self._is_exhausted:
            return None
        lines = self._splitter.cut(self._reader.take())
        if not lines and not self._reader.is_over:
            with port_errors(self._call):
                _receive(self._connection, self._reader, within_s)
            lines = self._splitter.cut(self._reader.take())
        if not self._reader.is_over:
            return lines
        self._is_exhausted = True
        rest = self._splitter.rest()  # a log may end without an end of line
        return [*lines, rest] if rest else lines


@contextmanager
def _closed_on_error(connection: socket.socket) -> Iterator[socket.socket]:
    """Close a connection if the block fails; leave it open otherwise."""
    is_kept = False
    try:
        yield connection
        is_kept = True
    finally:
        if not is_kept:
            connection.close()


def _receive(connection: socket.socket, reader: AnswerReader, within_s: float | None) -> bool:
    """Feed the reader with the next piece; False when none came in this time."""
    try:
        # A time-out of 0 would mean a socket that does not wait at all.
        connection.settimeout(None if within_s is None else max(within_s, _WAIT_S_MIN))
        piece = connection.recv(_PIECE_BYTES)
    except TimeoutError:
        return False
    except OSError as error:
        raise LostError(f"{type(error).__name__} {error}") from error
    if piece:
        reader.feed(piece)
    elif not reader.end():
        raise LostError("the connection was lost: closed by the server")
    return True
