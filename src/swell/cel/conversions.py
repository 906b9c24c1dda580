"""Conversions between types, and the parts of times and durations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from swell.cel.functions import Estimate, define, method, traversal
from swell.cel.operators import INT_RANGE, UINT_RANGE
from swell.cel.syntax import UInt
from swell.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    EvaluationError,
    TypeValue,
    kind_of,
)


def _to_int(bounds: tuple[int, int], make: type[int]) -> Callable[[object], int]:
    def convert(value: object) -> int:
        # Python would also accept spaces and underscores.
        if isinstance(value, str) and not WHOLE.fullmatch(value):
            raise EvaluationError(f"type conversion error: {value[:40]!r}")
        try:
            whole = int(value)  # type: ignore[call-overload]
        except (ValueError, OverflowError) as error:
            raise EvaluationError(f"type conversion error: {value!r}") from error
        if not bounds[0] <= whole <= bounds[1]:
            raise EvaluationError("integer overflow")
        return make(whole)

    return convert


def _to_double(value: object) -> float:
    if isinstance(value, str) and ("_" in value or value != value.strip()):
        raise EvaluationError(f"type conversion error: {value[:40]!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise EvaluationError(f"type conversion error: {value!r}") from error


def _to_bool(text: str) -> bool:
    if text in {"1", "t", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "false", "FALSE", "False"}:
        return False
    raise EvaluationError(f"type conversion error: {text!r}")


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("invalid UTF-8 in bytes") from error


def show_double(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)


def show_duration(value: timedelta) -> str:
    seconds = value.total_seconds()
    return f"{int(seconds)}s" if seconds.is_integer() else f"{seconds}s"


def show_timestamp(value: datetime) -> str:
    text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return text + "Z"


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
# The pattern takes more than linear time on a long row of digits.
DURATION_LENGTH_MAX = 200
WHOLE = re.compile(r"[-+]?[0-9]{1,20}")
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_timestamp(text: str) -> datetime:
    """The time an RFC 3339 text says; EvaluationError when it says none."""
    if not _TIME.fullmatch(text):
        raise EvaluationError(f"type conversion error: {text!r} is no timestamp")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise EvaluationError(f"type conversion error: {text!r} is no timestamp") from error


def _from_epoch(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError) as error:
        raise EvaluationError("timestamp overflow") from error


def parse_duration(text: str) -> timedelta:
    """The duration a text in Go's notation says, such as `1h30m`; EvaluationError for others."""
    sign = -1 if text.startswith("-") else 1
    rest = text.lstrip("+-")
    if rest == "0":
        return timedelta()
    parts = list(_DURATION.finditer(rest)) if len(rest) <= DURATION_LENGTH_MAX else []
    if not parts or "".join(part.group() for part in parts) != rest:
        raise EvaluationError(f"type conversion error: {text!r} is no duration")
    units = {**_UNITS_S, "\u00b5s": 1e-6, "\u03bcs": 1e-6}
    try:
        return sign * timedelta(seconds=sum(float(p[1]) * units[p[2]] for p in parts))
    except OverflowError as error:
        raise EvaluationError("duration out of range") from error


for _name, _type, _bounds, _make in (
    ("int", INT, INT_RANGE, int),
    ("uint", UINT, UINT_RANGE, UInt),
):
    for _from in (INT, UINT, DOUBLE, STRING):
        define(_name, (_from,), _type, _to_int(_bounds, _make))
# Seconds since the epoch.
define("int", (TIMESTAMP,), INT, lambda time: math.floor(time.timestamp()))
for _from in (DOUBLE, INT, UINT, STRING):
    define("double", (_from,), DOUBLE, _to_double)
define("bool", (BOOL,), BOOL, bool)
define("bool", (STRING,), BOOL, _to_bool)
define("string", (STRING,), STRING, str, cost=traversal())
define("string", (BYTES,), STRING, _decode, cost=traversal())
define("string", (BOOL,), STRING, lambda value: "true" if value else "false")
define("string", (INT,), STRING, str)
define("string", (UINT,), STRING, str)
define("string", (DOUBLE,), STRING, show_double)
define("string", (TIMESTAMP,), STRING, show_timestamp)
define("string", (DURATION,), STRING, show_duration)
define("bytes", (BYTES,), BYTES, bytes, cost=traversal())
define("bytes", (STRING,), BYTES, str.encode, cost=traversal())
define("timestamp", (STRING,), TIMESTAMP, parse_timestamp)
define("timestamp", (TIMESTAMP,), TIMESTAMP, lambda value: value)
define("timestamp", (INT,), TIMESTAMP, _from_epoch)
define("duration", (STRING,), DURATION, parse_duration)
define("duration", (DURATION,), DURATION, lambda value: value)
define("dyn", (A,), DYN, lambda value: value, cost=lambda size: Estimate(1.0, size))
define("type", (A,), TYPE, lambda value: TypeValue(kind_of(value)))


# --- times -------------------------------------------------------------------------------------


def _zone(name: str) -> tzinfo:
    try:
        if re.fullmatch(r"[+-]?\d\d:\d\d", name):
            signed = name if name[0] in "+-" else "+" + name
            zone = datetime.strptime(signed, "%z").tzinfo
            return zone or UTC
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise EvaluationError(f"unknown time zone {name!r}") from error


def _define_time_part(name: str, part: Callable[[datetime], int]) -> None:
    method(name, (TIMESTAMP,), INT, lambda time: part(time.astimezone(UTC)))
    method(name, (TIMESTAMP, STRING), INT, lambda time, zone: part(time.astimezone(_zone(zone))))


_define_time_part("getFullYear", lambda time: time.year)
# Months and getDayOfMonth count from 0, getDate from 1; Sunday is day 0 of a week.
_define_time_part("getMonth", lambda time: time.month - 1)
_define_time_part("getDate", lambda time: time.day)
_define_time_part("getDayOfMonth", lambda time: time.day - 1)
_define_time_part("getDayOfWeek", lambda time: time.isoweekday() % 7)
_define_time_part("getDayOfYear", lambda time: time.timetuple().tm_yday - 1)
_define_time_part("getHours", lambda time: time.hour)
_define_time_part("getMinutes", lambda time: time.minute)
_define_time_part("getSeconds", lambda time: time.second)
_define_time_part("getMilliseconds", lambda time: time.microsecond // 1000)
for _name, _unit_s in (("getHours", 3600), ("getMinutes", 60), ("getSeconds", 1)):
    method(_name, (DURATION,), INT, lambda span, unit_s=_unit_s: int(span.total_seconds() / unit_s))
method("getMilliseconds", (DURATION,), INT, lambda span: int(span.total_seconds() * 1000))
