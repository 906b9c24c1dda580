"""An answer that goes on for minutes, as a watch does: read piece by piece as it comes.

Waking up costs more than reading: of a busy stream, all that has come in a moment is read at once.
What nobody reads does not pile up beyond a bound.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swell.cluster.kube.answers import AnswerBody, AnswerHead, take_head
from swell.cluster.kube.connection import KubeConnection, LostError

# A stream is left alone after pieces that came close upon each other, the longer the more of them
# there were; unless so much came at once that more must be waiting. A few, as the pods of one gang
# are, make no stream busy: whoever waits for the last of them has it at once.
REST_S: Final = 0.005
REST_S_MAX: Final = 0.03
N_FEW: Final = 8
_FLOOD_BYTES: Final = 128 << 10
_UNREAD_BYTES_MAX: Final = 1 << 20


class AnswerStream(KubeConnection):
    """One connection for one answer. Whoever opened it closes it."""

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
        """Send the request; the head of its answer."""
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
        """What has come of the body since the last time; nothing when it is over."""
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
        """Let more come, without being woken up for it."""
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
        """Wait until something has come."""
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

    # --- what the loop calls

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
