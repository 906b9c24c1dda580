"""The value of an unquoted word in YAML, as kubectl reads it.

Booleans and octal numbers are those of YAML 1.1. There are no numbers to base 60, and dates stay
text.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_NAMED: dict[str, bool | float | None] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(
    r"([-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_EXACT_MAX = 2**53  # up to here every whole number is a float
_INTEGER_SIZE_MAX = 70  # of 64 bits written in binary, with sign and prefix


def plain_scalar(text: str) -> Scalar:
    """Returns the value of a word without quotes."""
    if text in _NAMED:
        return _NAMED[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    value = number(plain) if _FLOAT.fullmatch(plain) else math.inf
    return value if math.isfinite(value) else text


def number(text: str) -> int | float:
    """Returns the value of a decimal number. 1.0 is 1, because kubectl sends it as JSON."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < _EXACT_MAX else value


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text) if len(text) <= _INTEGER_SIZE_MAX else None
    if match is None or match.lastgroup is None:
        return None
    magnitude = int(match[match.lastgroup], _BASES[match.lastgroup])
    value = -magnitude if match[1] == "-" else magnitude
    return value if -(2**63) <= value < 2**64 else None
