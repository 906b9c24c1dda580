"""The bytes of a body: bounded in size, time and number, and handled off the loop if large.

Nothing here runs before the token of the request has been checked. A compressed body is not
inflated: a real server takes every body as it is. A large body is parsed and decided on in a
thread, one at a time, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import web

from swell.cluster.embedded import refusals

BODY_BYTES_MAX = 3 << 20  # kube-apiserver's limit
# For a whole body: 3 MiB take this long at 100 KiB/s, which is slower than any loopback.
BODY_S_MAX = 30.0
# A body up to this size is parsed within milliseconds, and a thread would only make it slower.
PARSED_INLINE_BYTES_MAX = 32 << 10

# Large bodies at one time, from their first byte to their answer. One of 3 MiB may take 20 MiB more
# once it is decoded, so that all of them together stay within some 200 MiB.
LARGE_BYTES_MAX = 32 << 20
LARGE_WAIT_S_MAX = 30.0

T = TypeVar("T")
# One thread: parsers hold the interpreter's lock, so that several would only starve the loop.
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large")


class LargeBodies:
    """The room in memory that large bodies share. A request waits until there is enough for it."""

    def __init__(self, n_bytes_max: int = LARGE_BYTES_MAX) -> None:
        self._n_free = n_bytes_max
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def room_for(
        self, request: web.BaseRequest, limit_s: float = LARGE_WAIT_S_MAX
    ) -> AsyncIterator[None]:
        """Hold room for a body while its request is answered; 429 when there is none in time."""
        n_bytes = _n_bytes_at_most(request)
        if n_bytes <= PARSED_INLINE_BYTES_MAX:
            yield
            return
        try:
            async with asyncio.timeout(limit_s):
                await self._take(n_bytes)
        except TimeoutError:
            raise refusals.too_many_large_bodies() from None
        try:
            yield
        finally:
            self._give_back(n_bytes)

    async def _take(self, n_bytes: int) -> None:
        if not self._waiting and self._n_free >= n_bytes:
            self._n_free -= n_bytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((n_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had its turn in the same moment
                self._give_back(n_bytes)
            raise

    def _give_back(self, n_bytes: int) -> None:
        self._n_free += n_bytes
        # In the order of their coming: a small one must not keep a large one waiting for ever.
        while self._waiting and (self._waiting[0][1].done() or self._fits_next()):
            wanted, turn = self._waiting.popleft()
            if not turn.done():
                self._n_free -= wanted
                turn.set_result(None)

    def _fits_next(self) -> bool:
        return self._waiting[0][0] <= self._n_free


def _n_bytes_at_most(request: web.BaseRequest) -> int:
    """How large the body of a request can be; one that does not say may be as large as any."""
    if not request.body_exists:
        return 0
    said = request.content_length
    return BODY_BYTES_MAX if said is None else min(said, BODY_BYTES_MAX)


async def read_body(request: web.BaseRequest, limit_s: float = BODY_S_MAX) -> bytes:
    """The whole body; 413 when it is too large, 408 when it comes too slowly."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise refusals.too_large(BODY_BYTES_MAX)
    if request.content.is_eof():
        # It came with its headers, as small bodies do: there is nothing to wait for.
        return _within_limit(request.content.read_nowait())
    try:
        async with asyncio.timeout(limit_s):
            return await _received(request)
    except TimeoutError:
        raise refusals.body_too_slow(limit_s) from None


async def parsed(parse: Callable[[bytes], T], raw: bytes) -> T:
    """Parse a body: a small one here, a large one in a thread."""
    if len(raw) <= PARSED_INLINE_BYTES_MAX:
        return parse(raw)
    return await off_loop(lambda: parse(raw))


async def off_loop(work: Callable[[], T]) -> T:
    """Do something that takes long in a thread. It must read nothing that changes meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_thread, _without_collections, work)


def _without_collections(work: Callable[[], T]) -> T:
    """Do something that makes many objects, none of them garbage, without looking for garbage.

    A collection stops all threads, and a large schema would cause one after the other. No other
    code of this process turns collections off, and this thread does one thing at a time.
    """
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


def _within_limit(raw: bytes) -> bytes:
    if len(raw) > BODY_BYTES_MAX:
        raise refusals.too_large(BODY_BYTES_MAX)
    return raw


async def _received(request: web.BaseRequest) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise refusals.too_large(BODY_BYTES_MAX)
    return parts[0] if len(parts) == 1 else b"".join(parts)
