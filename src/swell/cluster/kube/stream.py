"""Reads an answer that goes on for minutes, as a watch does, piece by piece.

Waking up costs more than reading, so a busy stream is left to fill for a moment and then read at
once (ADR 15). Reading from the socket is paused when more than a bound is unread.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swell.cluster.kube.answers import AnswerBody, AnswerHead, LostError, take_head
from swell.cluster.kube.connection import KubeConnection

# A stream is busy when pieces come close upon each other. It then rests before the next read:
# REST_S for each piece beyond the first N_FEW, at most REST_S_MAX. A few pieces, such as the pods
# of one gang, do not make it busy, so that the last of them is read at once.
REST_S: Final = 0.005
REST_S_MAX: Final = 0.03
N_FEW: Final = 8
# After a piece of this size more must be waiting already, so there is no rest.
_FLOOD_BYTES: Final = 128 << 10
_UNREAD_BYTES_MAX: Final = 1 << 20


class AnswerStream(KubeConnection):
    """One connection for one answer. The code that opened it closes it."""

    def __init__(self, life_s: float) -> None:
        super().__init__()
        self._data = bytearray()
        self._body: AnswerBody | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end = ""  # why nothing more will come
        self._read_at = float("-inf")
        self._n_close = 0  # pieces in a row that came close upon the one before
        self._rest_s = 0.0
        self._is_full = False
        self._life_s = life_s
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self, request: bytes) -> AnswerHead:
        """Send the request and return the head of its answer."""
        if self._transport is not None:
            self._transport.write(request)
        try:
            while (head := take_head(self._data)) is None:
                await self._more()
            self._body = AnswerBody(head)
        except ValueError as error:
            raise LostError(f"the answer is not HTTP: {error}") from error
        return head

    async def read(self) -> bytes:
        """Returns the part of the body that has come since the last time; empty when it is over."""
        if self._rest_s:
            await self._rest()
        while not (piece := self._take()) and not self._is_over():
            await self._more()
        now = asyncio.get_running_loop().time()
        is_close = now - self._read_at < self._rest_s + REST_S
        self._n_close = self._n_close + 1 if is_close else 0
        self._rest_s = min(max(0, self._n_close - N_FEW) * REST_S, REST_S_MAX)
        if len(piece) >= _FLOOD_BYTES:
            self._rest_s = 0.0
        self._read_at = now
        return piece

    async def _rest(self) -> None:
        """Let more bytes come without being woken up for each of them."""
        if self._raw is None:
            return
        self._raw.pause_reading()
        await asyncio.sleep(self._rest_s)
        self._raw.resume_reading()

    def _take(self) -> bytes:
        if self._body is None:
            raise RuntimeError("nothing has been asked")
        try:
            return self._body.take(self._data)
        except ValueError as error:
            raise LostError(f"the answer is not HTTP: {error}") from error

    def _is_over(self) -> bool:
        body = self._body
        return body is None or body.is_over or bool(self._end and body.ends_with_connection)

    async def _more(self) -> None:
        """Wait until bytes have come; LostError when no more will."""
        if self._is_full and self._raw is not None:
            self._is_full = False
            self._raw.resume_reading()
        if self._end:
            raise LostError(self._end)
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # --- callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._timer = asyncio.get_running_loop().call_later(self._life_s, self._expire)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > _UNREAD_BYTES_MAX and self._raw is not None:
            self._is_full = True
            self._raw.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end = self._end or f"the connection was lost: {exc or 'closed by the server'}"
        self._wake()
        super().connection_lost(exc)

    def _expire(self) -> None:
        self._end = "the answer took longer than was asked for"
        self._wake()
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
