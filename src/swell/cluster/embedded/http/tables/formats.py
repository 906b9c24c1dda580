"""Texts of cells: ages and durations as kubectl writes them, and its marks for missing values."""

from __future__ import annotations

from swell.api.times import parse_time

UNKNOWN = "<unknown>"
NONE = "<none>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_YEAR = 365 * _DAY


def age(timestamp: object, now: float) -> str:
    """The time since a timestamp; `<unknown>` when there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(timestamp))
    except ValueError:
        return UNKNOWN


def human_duration(seconds: float) -> str:
    """A duration in at most two units, rounded as kubectl rounds it.

    The larger the duration, the sooner the smaller unit is left out. A clock that is one second
    ahead gives 0s; more than that is `<invalid>`.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 3 * _HOUR:
        minutes, rest = divmod(whole, _MINUTE)
        return f"{minutes}m{rest}s" if minutes < 10 and rest else f"{minutes}m"
    if whole < 8 * _DAY:
        return _hours(whole)
    days, years = whole // _DAY, whole // _YEAR
    if years < 2:
        return f"{days}d"
    rest = days % 365
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def _hours(whole: int) -> str:
    hours, days = whole // _HOUR, whole // _DAY
    if hours < 8:
        minutes = whole // _MINUTE % 60
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    rest = hours % 24
    return f"{days}d{rest}h" if rest else f"{days}d"
