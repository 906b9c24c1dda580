"""Sends calls: kept connections, bounded concurrency, time-outs, size caps, retries.

What it never does: follow a redirect, decompress, read an answer of any size, or repeat a write
that may have happened.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self, TypeVar

from swell.cluster import decoding
from swell.cluster.kube import policy
from swell.cluster.kube.access import Access
from swell.cluster.kube.calls import KubeCall
from swell.cluster.kube.connection import KubeEndpoint, LostError, NotSentError, TooLargeError
from swell.cluster.kube.credentials import client_tls, credential_source
from swell.cluster.kube.pool import CallSlots, ConnectionPool, HttpAnswer
from swell.cluster.kube.stream import AnswerStream
from swell.runtime.clock import Clock
from swell.runtime.errors import (
    ClusterError,
    OutcomeUnknownError,
    UnauthorizedError,
    UnreachableError,
    error_for,
)

R = TypeVar("R")
# What has come of a stream since the last time; nothing when it is over.
Read = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may take, and how long it waits."""

    n_calls: int = 32  # at the same time; watches come on top
    connect_s: float = 10.0  # also for one of the n_calls to become free
    answer_s: float = 30.0
    answer_bytes_max: int = 512 << 20
    line_bytes_max: int = 16 << 20  # one watch event
    watch_slack_s: float = 30.0  # beyond the time-out the server was asked to keep
    keep_alive_s: float = 30.0  # servers close idle connections later than this


LIMITS = ClientLimits()


class Transport:
    """One API server as one user. Open it with `async with`."""

    def __init__(
        self, access: Access, clock: Clock, rng: random.Random, limits: ClientLimits = LIMITS
    ) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self.limits = limits
        self._tls = client_tls(access)
        self._identity = credential_source(access, self._tls, clock)
        self._slots = CallSlots(limits.n_calls, limits.connect_s + limits.answer_s)
        self._server = KubeEndpoint(
            access.server,
            self._tls,
            server_name=access.tls_server_name,
            connect_s=limits.connect_s,
        )
        self._wire = ConnectionPool(
            self._server,
            keep_alive_s=limits.keep_alive_s,
            answer_s=limits.answer_s,
            answer_bytes_max=limits.answer_bytes_max,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.close()

    async def send(self, call: KubeCall[R]) -> R:
        """The call's answer, after as many attempts as are safe."""
        attempt = 0
        renewed = False
        while True:
            attempt += 1
            try:
                return call.read(await self._send_once(call))
            except UnauthorizedError:
                if renewed:
                    raise
                renewed = True  # the token may just have expired: once more with a fresh one
                self._identity.forget()
            except (ClusterError, UnreachableError) as error:
                pause_s = policy.pause_before_retry(
                    error, attempt=attempt, writes=call.writes, chance=self._rng.random()
                )
                if pause_s is None:
                    raise
                await self._clock.sleep(pause_s)

    async def _send_once(self, call: KubeCall[R]) -> bytes:
        await self._slots.take()
        try:
            answer = await self._ask(call)
        finally:
            self._slots.give_back()
        if 200 <= answer.status < 300:
            return answer.body
        error = _refusal(
            answer.status, answer.body, answer.headers.get(b"retry-after", b"").decode("latin-1")
        )
        if call.writes and policy.is_outcome_unknown(error):
            raise OutcomeUnknownError(str(error)) from error
        raise error

    async def _ask(self, call: KubeCall[R]) -> HttpAnswer:
        """Send; the error's type says whether the request may have had an effect."""
        authorization = await self._identity.authorization()
        head = _head(call.accept, authorization, call.content_type if call.body else "")
        try:
            return await self._wire.call(call.method, call.path, head, call.body)
        except NotSentError as error:
            raise UnreachableError(f"{call.method} {call.path}: {error}") from error
        except LostError as error:
            raise _lost(call, error) from error
        except TooLargeError as error:
            text = f"{call.method} {call.path}: {error}"
            raise (OutcomeUnknownError(text) if call.writes else decoding.nonsense(text)) from error

    @asynccontextmanager
    async def stream(self, call: KubeCall[R], life_s: float) -> AsyncIterator[Read]:
        """Reads the answer as it comes, for at most that long. For calls that write nothing."""
        total_s = life_s + self.limits.watch_slack_s
        authorization = await self._identity.authorization()
        headers = _head(call.accept, authorization, "")
        with _lost_as_unreachable(call):
            stream = await self._server.connect(lambda: AnswerStream(total_s))
        try:
            with _lost_as_unreachable(call):
                head = await stream.ask(self._server.request(call.method, call.path, headers, None))

            async def read() -> bytes:
                with _lost_as_unreachable(call):
                    return await stream.read()

            if head.status != 200:
                retry_after = head.headers.get(b"retry-after", b"").decode("latin-1")
                raise _refusal(head.status, await self._whole(read), retry_after)
            yield read
        finally:
            stream.close()

    async def _whole(self, read: Read) -> bytes:
        """All that can be read, of what is said in a refusal."""
        parts: list[bytes] = []
        while part := await read():
            parts.append(part)
            if sum(map(len, parts)) > self.limits.line_bytes_max:
                raise decoding.nonsense("a refusal without end")
        return b"".join(parts)


@contextmanager
def _lost_as_unreachable(call: KubeCall[R]) -> Iterator[None]:
    try:
        yield
    except (LostError, NotSentError) as error:
        raise UnreachableError(f"{call.method} {call.path}: {error}") from error


def _lost(call: KubeCall[R], error: Exception) -> Exception:
    """What a broken connection means: a write may have happened."""
    text = f"{call.method} {call.path}: {type(error).__name__} {error}"
    return OutcomeUnknownError(text) if call.writes else UnreachableError(text)


def _refusal(status: int, raw: bytes, retry_after: str) -> ClusterError:
    """The error that an answer other than success stands for."""
    if 300 <= status < 400:
        return decoding.nonsense(f"a redirect, which is not followed: HTTP {status}")
    return error_for(decoding.decode_status(raw, status, retry_after))


@lru_cache(maxsize=64)
def _head(accept: str, authorization: str, content_type: str) -> bytes:
    """Header lines that hardly ever change. A token may not bring lines of its own."""
    lines = {"Accept": accept, "Authorization": authorization, "Content-Type": content_type}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    if text.count("\n") != sum(map(bool, lines.values())):
        raise UnreachableError("a header with a line break is not sent")
    return text.encode("latin-1")
