"""Numbers and intervals as scripts give them, refused in a sentence where they make no sense."""

from __future__ import annotations

import operator
import re
from typing import Any

from swell.train.errors import TrainError

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


def count_of(name: str, value: Any, least: int) -> int:
    """The whole number that an argument is, numpy's included."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise TrainError(f"{name} is {value!r}: it is a whole number, at least {least}")
    return number


def seconds_of(interval: str | float) -> float:
    """The seconds of an interval such as "10m"; a bare number is seconds."""
    if isinstance(interval, int | float) and interval >= 0.0:
        return float(interval)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(interval).strip())
    if not match:
        raise TrainError(f'save_every is "{interval}": give seconds, or a number with s, m or h')
    return float(match[1]) * UNITS_S[match[2]]
