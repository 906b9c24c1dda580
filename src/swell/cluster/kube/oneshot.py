"""Sends calls with the standard library's HTTP client, for commands that make one and are done.

Without asyncio, whose import they would have to wait for. The same calls, answers and errors as the
asyncio client's; one connection, used by one thread.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import NamedTuple, NoReturn, Self, TypeVar
from urllib.parse import urlsplit

from swell.api.resource import Resource
from swell.cluster import decoding
from swell.cluster.kube import policy
from swell.cluster.kube.access import Access
from swell.cluster.kube.calls import KubeCall
from swell.cluster.kube.credentials import client_tls, load_certificate
from swell.runtime.cluster import WatchEvent
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError, error_for

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how much a single command waits for."""

    answer_s: float = 30.0
    answer_bytes_max: int = 512 << 20
    line_bytes_max: int = 16 << 20


PATIENCE = Patience()


class _Answer(NamedTuple):
    code: int
    retry_after: str
    body: bytes


class OneShot:
    """One API server as one user, for a few calls one after the other."""

    def __init__(
        self,
        access: Access,
        rng: Random,
        patience: Patience = PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self._rng = rng
        self._patience = patience
        self._sleep = sleep
        self._tls = client_tls(access)
        self._header: str | None = None
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def send(self, call: KubeCall[R]) -> R:
        """The call's answer, after as many attempts as are safe."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return call.read(self._send_once(call))
            except (ClusterError, UnreachableError) as error:
                pause_s = policy.pause_before_retry(
                    error, attempt=attempt, writes=call.writes, chance=self._rng.random()
                )
                if pause_s is None:
                    raise
                self._sleep(pause_s)

    def watch(self, call: KubeCall[None], resource: Resource[T]) -> Iterator[WatchEvent[T]]:
        """Changes as they come, until the server ends the watch."""
        for line in self.lines(call):
            yield decoding.decode_event(line, resource)

    def lines(self, call: KubeCall[R]) -> Iterator[bytes]:
        """The lines of a watch or a followed log, for as long as the server sends them."""
        response = self._open(call)
        if response.status != 200:
            self._refuse(call, self._answer(call, response))
        if self._connection is not None and self._connection.sock is not None:
            self._connection.sock.settimeout(None)  # the call's own timeoutSeconds ends it
        limit = self._patience.line_bytes_max
        try:
            while line := response.readline(limit):
                if len(line) >= limit:
                    raise decoding.nonsense(f"a line longer than {limit} bytes")
                yield line.rstrip(b"\n")
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"{call.path}: {error}") from error
        finally:
            self._close()

    def _send_once(self, call: KubeCall[R]) -> bytes:
        answer = self._answer(call, self._open(call))
        if not 200 <= answer.code < 300:
            self._refuse(call, answer)
        return answer.body

    def _open(self, call: KubeCall[R]) -> http.client.HTTPResponse:
        """Send. A connection is only kept between attempts, so a broken one is no mystery."""
        headers = {
            "Accept": call.accept,
            "User-Agent": "swell",
            "Authorization": self._authorization(),
        }
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        connection = self._connect()
        try:
            path = urlsplit(self._access.server).path + call.path
            given = {name: value for name, value in headers.items() if value}
            connection.request(call.method, path, call.body, given)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._close()
            raise _lost(call, error) from error

    def _answer(self, call: KubeCall[R], response: http.client.HTTPResponse) -> _Answer:
        limit = self._patience.answer_bytes_max
        try:
            body = response.read(limit + 1)
        except (OSError, http.client.HTTPException) as error:
            raise _lost(call, error) from error
        finally:
            self._close()
        if len(body) > limit:
            text = f"{call.path}: an answer of more than {limit} bytes"
            raise OutcomeUnknownError(text) if call.writes else decoding.nonsense(text)
        return _Answer(response.status, response.headers.get("Retry-After") or "", body)

    def _refuse(self, call: KubeCall[R], answer: _Answer) -> NoReturn:
        if 300 <= answer.code < 400:
            raise decoding.nonsense(f"a redirect, which is not followed: HTTP {answer.code}")
        error = error_for(decoding.decode_status(answer.body, answer.code, answer.retry_after))
        if call.writes and policy.is_outcome_unknown(error):
            raise OutcomeUnknownError(str(error)) from error
        raise error

    def _connect(self) -> http.client.HTTPConnection:
        self._close()
        url = urlsplit(self._access.server)
        host, secure = url.hostname or "", url.scheme == "https"
        port = url.port or (443 if secure else 80)
        made = http.client.HTTPConnection(host, port, timeout=self._patience.answer_s)
        try:
            made.connect()
            if secure:  # by hand, for http.client cannot expect another name than the host's
                name = self._access.tls_server_name or host
                made.sock = self._tls.wrap_socket(made.sock, server_hostname=name)
        except OSError as error:
            made.close()
            raise UnreachableError(f"{self._access.server}: {error}") from error
        self._connection = made
        return made

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _authorization(self) -> str:
        if self._header is None:
            self._header = self._log_in()
        return self._header

    def _log_in(self) -> str:
        """Read what is simply written down ourselves; only a real login needs more machinery."""
        user = self._access.user
        if user.source is None and user.token_file is None:
            if user.certificate_pem:
                load_certificate(self._tls, user.certificate_pem, user.key_pem)
            return f"Bearer {user.token}" if user.token else ""
        import asyncio

        from swell.cluster.kube.credentials import credential_source
        from swell.runtime.clock import SystemClock

        return asyncio.run(
            credential_source(self._access, self._tls, SystemClock()).authorization()
        )


def _lost(call: KubeCall[R], error: Exception) -> Exception:
    text = f"{call.method} {call.path}: {type(error).__name__} {error}"
    return OutcomeUnknownError(text) if call.writes else UnreachableError(text)
