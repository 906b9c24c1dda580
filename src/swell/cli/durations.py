"""Durations as people write them: 15s, 10m, 1h30m, 500ms; a bare number is seconds."""

from __future__ import annotations

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds_of(text: str | float) -> float:
    """The seconds a duration stands for; ValueError if it is none."""
    if not isinstance(text, str):
        return float(text)
    if text.replace(".", "", 1).isdecimal():
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a duration: {text!r}; write it like 15s, 10m or 1h30m")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
