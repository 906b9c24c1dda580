"""Sends calls for the asynchronous client: single ones through the pool, long answers as streams.

It owns the credentials, the connections and the clock. Which failures are sent again, and what an
answer means, is decided in `policy`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from swell.cluster import decoding
from swell.cluster.kube.access import Access
from swell.cluster.kube.answers import HttpAnswer, TooLargeError
from swell.cluster.kube.calls import KubeCall
from swell.cluster.kube.connection import KubeEndpoint
from swell.cluster.kube.credentials import client_tls, credential_source
from swell.cluster.kube.policy import (
    LIMITS,
    ClientLimits,
    RetryPolicy,
    ServerAddress,
    port_errors,
    read_answer,
    refusal,
)
from swell.cluster.kube.pool import CallSlots, ConnectionPool
from swell.cluster.kube.stream import AnswerStream
from swell.runtime.clock import Clock
from swell.runtime.errors import ClusterError, UnreachableError

R = TypeVar("R")
# Returns the part of a stream that has come since the last time; empty when it is over.
Read = Callable[[], Awaitable[bytes]]


class Transport:
    """One API server as one user. Open it with `async with`."""

    def __init__(
        self, access: Access, clock: Clock, rng: random.Random, limits: ClientLimits = LIMITS
    ) -> None:
        self.limits = limits
        self._clock = clock
        self._rng = rng
        tls = client_tls(access)
        self._credentials = credential_source(access, tls, clock)
        self._slots = CallSlots(limits.n_calls, limits.connect_s + limits.answer_s)
        self._address = ServerAddress(access.server, access.tls_server_name)
        self._endpoint = KubeEndpoint(self._address, tls, connect_s=limits.connect_s)
        self._pool = ConnectionPool(
            self._endpoint,
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
        await self._endpoint.close()

    async def send(self, call: KubeCall[R]) -> R:
        """Returns the call's decoded answer, after as many attempts as are safe."""
        policy = RetryPolicy(call, self._rng.random)
        while True:
            try:
                return await self._send_once(call)
            except (ClusterError, UnreachableError) as error:
                await self._prepare_retry(policy, error)

    async def _send_once(self, call: KubeCall[R]) -> R:
        await self._slots.take()
        try:
            request = self._address.request(call, await self._credentials.authorization())
            with port_errors(call):
                answer = await self._pool.exchange(request)
        finally:
            self._slots.give_back()
        return read_answer(call, answer)

    @asynccontextmanager
    async def stream(self, call: KubeCall[R], life_s: float) -> AsyncIterator[Read]:
        """Opens a long answer, for at most that long. For calls that write nothing.

        Only expired credentials are dealt with here. An informer, which every watch belongs to,
        has a back-off of its own for all other failures.
        """
        policy = RetryPolicy(call, self._rng.random, attempts_max=1)
        while True:
            try:
                stream = await self._open(call, life_s + self.limits.watch_slack_s)
                break
            except (ClusterError, UnreachableError) as error:
                await self._prepare_retry(policy, error)

        async def read() -> bytes:
            with port_errors(call):
                return await stream.read()

        try:
            yield read
        finally:
            stream.close()

    async def ask(self, call: KubeCall[R], within_s: float, bytes_max: int) -> HttpAnswer:
        """Returns the answer as it is, whatever its status, by a connection of its own.

        For calls that the server passes on to programs: how long and how large their answers are is
        no word of the server. Raises UnreachableError when there is none within these bounds.
        """
        request = self._address.request(call, await self._credentials.authorization())
        with port_errors(call):
            stream = await self._endpoint.connect(lambda: AnswerStream(within_s))
            try:
                head, body = await stream.ask(request), b""
                while part := await stream.read():
                    body += part
                    if len(body) > bytes_max:
                        raise TooLargeError(f"more than {bytes_max} bytes")
            finally:
                stream.close()
        # A 401 may be the program's word: credentials are renewed after other calls.
        return HttpAnswer(head, body)

    async def _open(self, call: KubeCall[R], total_s: float) -> AnswerStream:
        request = self._address.request(call, await self._credentials.authorization())
        with port_errors(call):
            stream = await self._endpoint.connect(lambda: AnswerStream(total_s))
            is_accepted = False
            try:
                head = await stream.ask(request)
                if head.status != 200:
                    raise refusal(head, await self._read_all(stream))
                is_accepted = True
            finally:
                if not is_accepted:
                    stream.close()
        return stream

    async def _read_all(self, stream: AnswerStream) -> bytes:
        """Returns the body of a refused stream."""
        parts: list[bytes] = []
        while part := await stream.read():
            parts.append(part)
            if sum(map(len, parts)) > self.limits.line_bytes_max:
                raise decoding.nonsense("a refusal without end")
        return b"".join(parts)

    async def _prepare_retry(
        self, policy: RetryPolicy, error: ClusterError | UnreachableError
    ) -> None:
        """Wait for the next attempt; raises the error when there is none."""
        retry = policy.after(error)
        if retry is None:
            raise error
        if retry.renews_credentials:
            self._credentials.forget()
        if retry.pause_s:
            await self._clock.sleep(retry.pause_s)
