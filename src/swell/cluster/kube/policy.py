"""The rules by which both clients send calls: limits, requests, retries, and what answers mean.

The asynchronous client (`transport`) and the single-call client (`oneshot`) only move bytes.
Everything that could differ between them is decided here, so that it does not. Pure: random
numbers are handed in and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit

from swell.api.backoff import Backoff
from swell.cluster import decoding
from swell.cluster.kube.answers import (
    AnswerHead,
    HttpAnswer,
    LostError,
    NotSentError,
    TooLargeError,
)
from swell.cluster.kube.calls import KubeCall
from swell.runtime.errors import (
    ClusterError,
    OutcomeUnknownError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    error_for,
)

R = TypeVar("R")

ATTEMPTS_MAX = 5
RESEND = Backoff(base_s=0.1, cap_s=5.0)
# A server may ask for a pause of any length in Retry-After; a longer one is cut to this.
RETRY_AFTER_MAX_S = 30.0
# How long a watch is asked to last, drawn from this range as client-go does: watches that began
# together must not end together.
WATCH_S = (300.0, 600.0)

# Failures that may pass by themselves. 501, for example, does not.
_TRANSIENT_CODES = frozenset({500, 502, 503, 504})
# Codes that a proxy or an overloaded server also gives for a write that was carried out. 503 is
# not among them: API servers answer it before they start to work.
_OUTCOME_UNKNOWN_CODES = frozenset({500, 502, 504})


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of one client: how much it takes and how long it waits."""

    n_calls: int = 32  # at the same time; watches come on top
    connect_s: float = 10.0  # also for one of the n_calls to become free
    answer_s: float = 30.0
    answer_bytes_max: int = 512 << 20
    line_bytes_max: int = 16 << 20  # one watch event
    watch_slack_s: float = 30.0  # beyond the time-out that the server was asked to keep
    keep_alive_s: float = 30.0  # API servers close idle connections later than this


LIMITS = ClientLimits()


class ServerAddress:
    """The place of an API server, taken from its URL, and the requests that are sent there."""

    def __init__(self, url: str, tls_server_name: str = "") -> None:
        parts = urlsplit(url)
        self.is_secure = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.is_secure else 80)
        # The name that the server's certificate must have.
        self.tls_name = tls_server_name or self.host
        self._prefix = parts.path.rstrip("/").encode()
        self._host_header = parts.netloc.rpartition("@")[2].encode()

    def request(self, call: KubeCall[R], authorization: str) -> bytes:
        """Returns the bytes of a call's request."""
        body = call.body
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        return b"%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: swell\r\n%s%s%s\r\n%s" % (
            call.method.encode(),
            self._prefix,
            call.path.encode(),
            self._host_header,
            _header_lines(call.accept, authorization, call.content_type if body else ""),
            _own_lines(call.headers),
            length,
            body or b"",
        )


@lru_cache(maxsize=64)
def _header_lines(accept: str, authorization: str, content_type: str) -> bytes:
    """Returns the headers that are the same for most calls, which is why they are cached."""
    lines = (("Accept", accept), ("Authorization", authorization), ("Content-Type", content_type))
    return _own_lines(tuple(line for line in lines if line[1]))


def _own_lines(lines: tuple[tuple[str, str], ...]) -> bytes:
    text = "".join(f"{name}: {value}\r\n" for name, value in lines)
    # A token read from a file could otherwise add headers of its own.
    if text.count("\n") != len(lines):
        raise UnreachableError("a header with a line break is not sent")
    return text.encode("latin-1")


@dataclass(frozen=True, slots=True)
class Retry:
    """The next attempt of a call: after a pause, and with new credentials if these are to blame."""

    pause_s: float = 0.0
    renews_credentials: bool = False


class RetryPolicy:
    """Decides, failure by failure, whether one call is sent again.

        sending --answer----------------------> done
         ^   |
         |   +--401, for the first time-------> renew the credentials --+
         |   +--transient and safe to repeat--> pause ------------------+
         |   +--any other failure, or the last attempt--> failed        |
         +--------------------------------------------------------------+

    A write is repeated only when it is known not to have been carried out.
    """

    def __init__(
        self, call: KubeCall[R], chance: Callable[[], float], attempts_max: int = ATTEMPTS_MAX
    ) -> None:
        self._writes = call.writes
        self._chance = chance  # draws from [0, 1)
        self._n_attempts_max = attempts_max
        self._n_failures = 0
        self._has_renewed = False

    def after(self, error: ClusterError | UnreachableError) -> Retry | None:
        """Returns how to send the call again; None when the failure is final."""
        self._n_failures += 1
        if isinstance(error, UnauthorizedError):
            if self._has_renewed:
                return None
            self._has_renewed = True  # the token may just have expired
            return Retry(renews_credentials=True)
        if self._n_failures >= self._n_attempts_max or not self._is_repeatable(error):
            return None
        asked_s = error.retry_after_s if isinstance(error, ClusterError) else 0.0
        # Full jitter: clients that failed together must not come back together.
        backoff_s = RESEND.full_s(self._n_failures) * self._chance()
        return Retry(min(asked_s, RETRY_AFTER_MAX_S) + backoff_s)

    def _is_repeatable(self, error: ClusterError | UnreachableError) -> bool:
        if isinstance(error, UnreachableError):
            return True
        if isinstance(error, TooManyRequestsError):
            return not _is_disruption_budget(error)
        return error.status.code in _TRANSIENT_CODES and not self._writes


def _is_disruption_budget(error: ClusterError) -> bool:
    """Whether a 429 refuses an eviction: that is an answer, not a request to slow down."""
    details = error.status.details
    return details is not None and any(c.reason == "DisruptionBudget" for c in details.causes)


def read_answer(call: KubeCall[R], answer: HttpAnswer) -> R:
    """Returns the decoded answer of a call, or raises the error that the answer stands for."""
    if 200 <= answer.head.status < 300:
        return call.read(answer.body)
    error = refusal(answer.head, answer.body)
    if call.writes and error.status.code in _OUTCOME_UNKNOWN_CODES:
        raise OutcomeUnknownError(str(error)) from error
    raise error


def refusal(head: AnswerHead, body: bytes) -> ClusterError:
    """Returns the error of an answer that is not a success."""
    if 300 <= head.status < 400:
        # Following it would send our credentials to another server than the one configured.
        return decoding.nonsense(f"a redirect, which is not followed: HTTP {head.status}")
    return error_for(decoding.decode_status(body, head.status, head.retry_after))


@contextmanager
def port_errors(call: KubeCall[R]) -> Iterator[None]:
    """Raise a failed exchange as the port's error, whose type says if a write may have happened.

    UnreachableError stands for a call that had no effect. Its cause is the operating system's
    error where there is one, so that commands can say what is wrong with the address.
    """
    try:
        yield
    except (NotSentError, LostError, TooLargeError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        text = f"{call.method} {call.path}: {error}"
        if call.writes and not isinstance(error, NotSentError):
            raise OutcomeUnknownError(text) from cause
        if isinstance(error, TooLargeError):
            raise decoding.nonsense(text) from cause
        raise UnreachableError(text) from cause
