"""The exceptions a call to a cluster may raise.

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
└── ServerError                 5xx, or an answer that cannot be read
UnreachableError                the request did not reach the server: nothing happened
OutcomeUnknownError             a write was sent and no answer came: it may have happened
MalformedError                  the answer's object cannot be decoded; a write has happened
"""

from __future__ import annotations

from swell.api.meta import Key, Status


class ClusterError(Exception):
    """The server refused the request; carries its Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or status.reason or str(status.code))
        self.status = status

    @property
    def retry_after_s(self) -> float:
        return float(self.status.details.retry_after_seconds) if self.status.details else 0.0


class BadRequestError(ClusterError):
    """The request cannot be read: 400."""


class UnauthorizedError(ClusterError):
    """The credentials are missing or not accepted: 401."""


class ForbiddenError(ClusterError):
    """The credentials do not allow the request: 403."""


class NotFoundError(ClusterError):
    """The object or its kind does not exist: 404."""


class AlreadyExistsError(ClusterError):
    """The name is taken: 409 with the reason AlreadyExists."""


class ConflictError(ClusterError):
    """The object has changed since it was read: any other 409."""


class GoneError(ClusterError):
    """The resource version is compacted: 410. The collection must be listed anew."""


class InvalidError(ClusterError):
    """The object breaks a rule: 422. No retry will help."""


class TooManyRequestsError(ClusterError):
    """The server or a disruption budget asks to wait: 429."""


class ServerError(ClusterError):
    """The server failed: 5xx. A write may have happened all the same."""


class UnreachableError(Exception):
    """The request was not sent, so nothing happened and it may be repeated."""


class OutcomeUnknownError(Exception):
    """A write was sent and its answer was lost: read consistently before the next action."""


class MalformedError(Exception):
    """The one object asked for came, and could not be decoded."""

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
    """Returns the exception for a Status."""
    if status.code == 409 and status.reason == "AlreadyExists":
        return AlreadyExistsError(status)
    return _BY_CODE.get(status.code, ServerError if status.code >= 500 else ClusterError)(status)
