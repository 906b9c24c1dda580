"""What can go wrong when talking to a cluster.

ClusterError                    the server answered with a Status
├── BadRequestError             400
├── UnauthorizedError           401
├── ForbiddenError              403
├── NotFoundError               404
├── AlreadyExistsError          409, reason AlreadyExists
├── ConflictError               409, any other reason: read again, decide again
├── GoneError                   410: the version is compacted, list again
├── InvalidError                422: the object is wrong; no retry will help
├── TooManyRequestsError        429: wait `retry_after_s`
└── ServerError                 5xx, or an answer that makes no sense
UnreachableError                the request did not reach the server: nothing happened
OutcomeUnknownError             a write was sent and no answer came: it may have happened
MalformedError                  the answer's object has a shape we do not know; a write happened
"""

from __future__ import annotations

from swell.api.meta import Key, Status


class ClusterError(Exception):
    """The server's refusal, with its Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or status.reason or str(status.code))
        self.status = status

    @property
    def retry_after_s(self) -> float:
        return float(self.status.details.retry_after_seconds) if self.status.details else 0.0


class BadRequestError(ClusterError): ...


class UnauthorizedError(ClusterError): ...


class ForbiddenError(ClusterError): ...


class NotFoundError(ClusterError): ...


class AlreadyExistsError(ClusterError): ...


class ConflictError(ClusterError): ...


class GoneError(ClusterError): ...


class InvalidError(ClusterError): ...


class TooManyRequestsError(ClusterError): ...


class ServerError(ClusterError): ...


class UnreachableError(Exception):
    """The request was not sent, so nothing happened; safe to repeat."""


class OutcomeUnknownError(Exception):
    """A write was sent but its answer was lost: read consistently before the next action."""


class MalformedError(Exception):
    """One object was asked for and came, but not in a shape we understand."""

    def __init__(self, key: Key, error: str) -> None:
        super().__init__(f"{key}: {error}")
        self.key = key
        self.error = error


_BY_CODE: dict[int, type[ClusterError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def error_for(status: Status) -> ClusterError:
    """The exception that stands for a Status."""
    if status.code == 409 and status.reason == "AlreadyExists":
        return AlreadyExistsError(status)
    return _BY_CODE.get(status.code, ServerError if status.code >= 500 else ClusterError)(status)
