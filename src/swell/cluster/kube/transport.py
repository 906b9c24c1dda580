"""Sends calls: kept connections, bounded concurrency, time-outs, size caps, retries.

Single calls go over connections of our own (`wire`), streams over aiohttp.
What it never does: follow a redirect, decompress, read an answer of any size, or repeat a write
that may have happened.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from yarl import URL

from swell.cluster import decoding
from swell.cluster.kube import retrying
from swell.cluster.kube.access import Access
from swell.cluster.kube.calls import Call
from swell.cluster.kube.identity import client_tls, identity_of
from swell.cluster.kube.wire import Answer, LostError, NotSentError, TooLargeError, Wire
from swell.runtime.clock import Clock
from swell.runtime.errors import (
    ClusterError,
    OutcomeUnknownError,
    UnauthorizedError,
    UnreachableError,
    error_for,
)

R = TypeVar("R")
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take, and how long it waits."""

    n_calls: int = 32  # at the same time; watches come on top
    connect_s: float = 10.0  # also for one of the n_calls to become free
    answer_s: float = 30.0
    answer_bytes_max: int = 512 << 20
    line_bytes_max: int = 16 << 20  # one watch event
    watch_slack_s: float = 30.0  # beyond the time-out the server was asked to keep
    keep_alive_s: float = 30.0  # servers close idle connections later than this


LIMITS = Limits()


class Transport:
    """One API server as one user. Open it with `async with`."""

    def __init__(
        self, access: Access, clock: Clock, rng: random.Random, limits: Limits = LIMITS
    ) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self.limits = limits
        self._tls = client_tls(access)
        self._identity = identity_of(access, self._tls, clock)
        self._slots = asyncio.Semaphore(limits.n_calls)
        self._wire = Wire(
            access.server,
            self._tls,
            server_name=access.tls_server_name,
            connect_s=limits.connect_s,
            keep_alive_s=limits.keep_alive_s,
            answer_bytes_max=limits.answer_bytes_max,
        )
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            ssl=self._tls, limit=0, keepalive_timeout=self.limits.keep_alive_s
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "swell"},
            skip_auto_headers=("Accept-Encoding",),
        )
        # aiohttp resends PUT and DELETE when a kept connection breaks; only we know what may be.
        self._session._retry_connection = False  # noqa: SLF001
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._wire.close()
        if self._session is not None:
            await self._session.close()

    async def send(self, call: Call[R]) -> R:
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
                pause_s = retrying.pause_before_retry(
                    error, attempt=attempt, writes=call.writes, chance=self._rng.random()
                )
                if pause_s is None:
                    raise
                await self._clock.sleep(pause_s)

    async def _send_once(self, call: Call[R]) -> bytes:
        await self._acquire()
        try:
            answer = await self._ask(call)
        finally:
            self._slots.release()
        if 200 <= answer.status < 300:
            return answer.body
        error = _refusal(
            answer.status, answer.body, answer.headers.get(b"retry-after", b"").decode("latin-1")
        )
        if call.writes and retrying.is_outcome_unknown(error):
            raise OutcomeUnknownError(str(error)) from error
        raise error

    async def _ask(self, call: Call[R]) -> Answer:
        """Send; the error's type says whether the request may have had an effect."""
        if self._session is None:
            raise RuntimeError("the transport is not open")
        authorization = await self._identity.authorization()
        head = _head(call.accept, authorization, call.content_type if call.body else "")
        try:
            async with asyncio.timeout(self.limits.connect_s + self.limits.answer_s) as limit:
                return await self._wire.call(call.method, call.path, head, call.body)
        except NotSentError as error:
            raise UnreachableError(f"{call.method} {call.path}: {error}") from error
        except LostError as error:
            raise _lost(call, error) from error
        except TooLargeError as error:
            text = f"{call.method} {call.path}: {error}"
            raise (OutcomeUnknownError(text) if call.writes else decoding.nonsense(text)) from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise _lost(call, error) from error

    @asynccontextmanager
    async def stream(self, call: Call[R], life_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer's chunks as they come, for at most that long."""
        limits = self.limits
        total_s = life_s + limits.watch_slack_s
        patience = aiohttp.ClientTimeout(total=total_s, connect=limits.connect_s)
        response = await self._open(call, patience)
        try:
            if response.status != 200:
                raw = await self._bounded(response, call)
                retry_after = response.headers.get("Retry-After", "")
                raise _refusal(response.status, raw, retry_after)
            yield _chunks(response, call)
        finally:
            response.close()

    async def _open(self, call: Call[R], patience: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send; the error's type says whether the request may have had an effect."""
        if self._session is None:
            raise RuntimeError("the transport is not open")
        headers = {"Accept": call.accept, "Authorization": await self._identity.authorization()}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        try:
            return await self._session.request(
                call.method,
                URL(self._access.server + call.path, encoded=True),
                data=call.body,
                headers={name: value for name, value in headers.items() if value},
                timeout=patience,
                allow_redirects=False,
                server_hostname=self._access.tls_server_name or None,
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _lost(call, error) from error

    async def _bounded(self, response: aiohttp.ClientResponse, call: Call[R]) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for chunk in _chunks(response, call):
            parts.append(chunk)
            size += len(chunk)
            if size > self.limits.answer_bytes_max:
                response.close()
                text = f"{call.method} {call.path}: an answer of more than {size} bytes"
                raise OutcomeUnknownError(text) if call.writes else decoding.nonsense(text)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _acquire(self) -> None:
        """Become one of the calls that may run at the same time."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(self.limits.connect_s + self.limits.answer_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise UnreachableError("too many calls are waiting for the server") from error


async def _chunks(response: aiohttp.ClientResponse, call: Call[R]) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _lost(call, error) from error


def _lost(call: Call[R], error: Exception) -> Exception:
    """What a broken connection means: a write may have happened unless none was ever made."""
    text = f"{call.method} {call.path}: {type(error).__name__} {error}"
    if isinstance(error, _NOT_SENT) or not call.writes:
        return UnreachableError(text)
    return OutcomeUnknownError(text)


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
