"""Whether a failed call may be sent again, and after which pause. Pure: chance is an argument."""

from __future__ import annotations

from swell.api.backoff import Backoff
from swell.runtime.errors import ClusterError, TooManyRequestsError, UnreachableError

ATTEMPTS_MAX = 5
RESEND = Backoff(base_s=0.1, cap_s=5.0)
RETRY_AFTER_MAX_S = 30.0  # a server may ask for any pause; nobody waits longer unasked

# What may pass by itself; 501, for one, will not.
_PASSING_CODES = frozenset({500, 502, 503, 504})
# What a proxy or a busy server says of a write that may well have been done.
_UNKNOWN_CODES = frozenset({500, 502, 504})


def pause_before_retry(
    error: ClusterError | UnreachableError, *, attempt: int, writes: bool, chance: float
) -> float | None:
    """Seconds to wait before sending again; None when the error is the answer.

    A write is only repeated when it is known not to have happened. `chance` is in [0, 1).
    """
    if attempt >= ATTEMPTS_MAX or not _may_repeat(error, writes=writes):
        return None
    asked_s = error.retry_after_s if isinstance(error, ClusterError) else 0.0
    # Full jitter: clients that failed together must not come back together.
    return min(asked_s, RETRY_AFTER_MAX_S) + RESEND.full_s(attempt) * chance


def is_outcome_unknown(error: ClusterError) -> bool:
    """Whether the answer to a write leaves open if it was done."""
    return error.status.code in _UNKNOWN_CODES


def _may_repeat(error: ClusterError | UnreachableError, *, writes: bool) -> bool:
    if isinstance(error, UnreachableError):
        return True
    if isinstance(error, TooManyRequestsError):
        return not _is_budget(error)
    return error.status.code in _PASSING_CODES and not writes


def _is_budget(error: ClusterError) -> bool:
    """A disruption budget's refusal of an eviction is an answer, not a request to slow down."""
    details = error.status.details
    return details is not None and any(c.reason == "DisruptionBudget" for c in details.causes)
