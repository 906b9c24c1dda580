"""Timestamps as the API writes them (RFC 3339, UTC), to and from seconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

# The format `date-time` of schemas. Its letters may be small ones.
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def format_time(seconds: float) -> str:
    """Returns a metav1.Time: whole seconds, rounded down."""
    return _second(int(seconds))


@lru_cache(maxsize=64)  # timestamps written together are mostly equal
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Returns a metav1.MicroTime: six digits of a second, as Leases have them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=1024)  # those of a job, its pods and their containers are mostly equal, too
def parse_time(text: str) -> float:
    """Returns seconds since the epoch; raises ValueError if the text is no timestamp."""
    moment = datetime.fromisoformat(text if text[-1:] != "z" else text.upper())
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without a time zone: {text!r}")
    return moment.timestamp()


def is_date_time(text: str) -> bool:
    """Whether a server takes the text where a schema asks for the format `date-time`."""
    try:
        return _DATE_TIME.fullmatch(text) is not None and parse_time(text.upper()) is not None
    except ValueError:
        return False


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
