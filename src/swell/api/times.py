"""Timestamps as the API writes them (RFC 3339, UTC), to and from seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def format_time(seconds: float) -> str:
    """Returns a metav1.Time: whole seconds, rounded down."""
    return _second(int(seconds))


@lru_cache(maxsize=64)  # timestamps written together are mostly equal
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Returns a metav1.MicroTime: six digits of a second, as Leases have them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Returns seconds since the epoch; raises ValueError if the text is no timestamp."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without a time zone: {text!r}")
    return moment.timestamp()


# How much the clocks of different machines may differ.
SKEW_S = 60.0


def has_passed(since: float, limit_s: float, now: float) -> bool:
    """Whether `limit_s` seconds have passed since a moment that is recorded in the cluster.

    Such waits are measured in wall time, because another process may go on waiting. A moment that
    lies in the future shows that the clock was set back since; it counts as passed, because to
    wait for it again could take any time.
    """
    return now >= since + limit_s or now < since - SKEW_S


def duration(seconds: float) -> str:
    """Returns a time span in its largest unit of which there are two: 90s says more than 1m."""
    whole = max(int(seconds), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
