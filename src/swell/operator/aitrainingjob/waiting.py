"""Whether a time has passed, by a wall clock that may have been set back meanwhile.

Waits that are recorded in the cluster are measured in wall time, because whoever goes on waiting
may be another process. A beginning that lies ahead of us shows that the clock was set back; to
wait for it again could take any time.
"""

from __future__ import annotations

SKEW_S = 60.0  # what clocks of different machines may differ by


def has_passed(since: float, limit_s: float, now: float) -> bool:
    """Whether `limit_s` seconds have passed since a moment, as far as anybody can tell."""
    return now >= since + limit_s or now < since - SKEW_S
