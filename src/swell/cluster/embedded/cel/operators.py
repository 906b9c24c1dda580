"""The language's own operators, conversions and functions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from swell.cluster.embedded.cel.functions import (
    REGEX,
    TRAVERSAL,
    Estimate,
    define,
    method,
    spent,
    traversal,
)
from swell.cluster.embedded.cel.syntax import UInt
from swell.cluster.embedded.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NOTHING,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    EvaluationError,
    Optional,
    TypeValue,
    kind_of,
    list_of,
    map_of,
)
from swell.cluster.embedded.schema.patterns import PatternError, compile_pattern

INT_RANGE = (-(2**63), 2**63 - 1)
UINT_RANGE = (0, 2**64 - 1)
NUMBERS = frozenset({"int", "uint", "double"})


# --- access ------------------------------------------------------------------------------------


def field(value: object, name: str) -> object:
    if isinstance(value, dict):
        if name in value:
            return value[name]
        raise EvaluationError(f"no such key: {name}")
    raise EvaluationError(f"no such overload: {kind_of(value)}.{name}")


def optional_field(value: object, name: str) -> object:
    value = value if isinstance(value, Optional) else Optional(value, True)
    if not value.present:
        return NOTHING
    if not isinstance(value.value, dict):
        raise EvaluationError(f"no such overload: {kind_of(value.value)}.?{name}")
    return Optional(value.value[name], True) if name in value.value else NOTHING


def optional_property(value: object, name: str) -> object:
    """As `optional_field`, of an object with a schema: there, null is absence."""
    found = optional_field(value, name)
    return NOTHING if isinstance(found, Optional) and found.value is None else found


def item(value: object, key: object) -> object:
    found = optional_item(value, key)
    if not found.present:
        problem = "index out of bounds" if isinstance(value, list) else "no such key"
        raise EvaluationError(f"{problem}: {key}")
    return found.value


def optional_item(value: object, key: object) -> Optional:
    if isinstance(value, Optional):
        return optional_item(value.value, key) if value.present else NOTHING
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
        return Optional(value[key], True) if 0 <= key < len(value) else NOTHING
    if isinstance(value, dict) and kind_of(key) not in {"list", "map"}:
        return Optional(value[key], True) if key in value else NOTHING
    raise EvaluationError("no such overload: _[_]")


def has_field(value: object, name: str) -> bool:
    """`has(value.name)`."""
    if not isinstance(value, dict):
        raise EvaluationError(f"no such overload: has on {kind_of(value)}")
    return value.get(name) is not None


# --- equality ----------------------------------------------------------------------------------


def equal(left: object, right: object) -> bool:
    """Equality of the language: numbers by value, everything else only within its kind."""
    kind, other = kind_of(left), kind_of(right)
    if kind != other:
        return kind in NUMBERS and other in NUMBERS and left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    return left == right


def same_items(left: object, right: object) -> bool:
    """Equality of lists in which order says nothing."""
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return False
    return all(contains_item(one, right) for one in left) and all(
        contains_item(one, left) for one in right
    )


def contains_item(wanted: object, items: list[object]) -> bool:
    return any(equal(wanted, one) for one in items)


def comparison_cost(size: float) -> float:
    return spent(size, TRAVERSAL)


# --- arithmetic --------------------------------------------------------------------------------


def _in_range(bounds: tuple[int, int], run: Callable[[int, int], int]) -> Callable[[int, int], int]:
    low, high = bounds
    unsigned = low == 0

    def checked(left: int, right: int) -> int:
        result = run(int(left), int(right))
        if not low <= result <= high:
            raise EvaluationError("integer overflow")
        return UInt(result) if unsigned else result

    return checked


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return left - right * _quotient(left, right)


def _divide(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left * right)
    return left / right


def _concat_cost(left: float, right: float) -> Estimate:
    return Estimate(spent(left + right, TRAVERSAL), left + right)


def _list_concat_cost(left: float, right: float) -> Estimate:
    return Estimate(1.0, left + right)


def _negate(value: int) -> int:
    if value == INT_RANGE[0]:
        raise EvaluationError("integer overflow")
    return -value


for _type, _bounds in ((INT, INT_RANGE), (UINT, UINT_RANGE)):
    for _symbol, _run in (
        ("+", operator.add),
        ("-", operator.sub),
        ("*", operator.mul),
        ("/", _quotient),
        ("%", _remainder),
    ):
        define(_symbol, (_type, _type), _type, _in_range(_bounds, _run))
define("+", (DOUBLE, DOUBLE), DOUBLE, operator.add)
define("-", (DOUBLE, DOUBLE), DOUBLE, operator.sub)
define("*", (DOUBLE, DOUBLE), DOUBLE, operator.mul)
define("/", (DOUBLE, DOUBLE), DOUBLE, _divide)
define("+", (STRING, STRING), STRING, operator.add, cost=_concat_cost)
define("+", (BYTES, BYTES), BYTES, operator.add, cost=_concat_cost)
define("+", (list_of(A), list_of(A)), list_of(A), operator.add, cost=_list_concat_cost)
define("+", (TIMESTAMP, DURATION), TIMESTAMP, operator.add)
define("+", (DURATION, TIMESTAMP), TIMESTAMP, lambda left, right: right + left)
define("+", (DURATION, DURATION), DURATION, operator.add)
define("-", (TIMESTAMP, TIMESTAMP), DURATION, operator.sub)
define("-", (TIMESTAMP, DURATION), TIMESTAMP, operator.sub)
define("-", (DURATION, DURATION), DURATION, operator.sub)
define("neg", (INT,), INT, _negate)
define("neg", (DOUBLE,), DOUBLE, operator.neg)
define("!", (BOOL,), BOOL, operator.not_)


# --- comparison --------------------------------------------------------------------------------


def _smaller_size(left: float, right: float) -> Estimate:
    return Estimate(comparison_cost(min(left, right)))


for _symbol, _compare in (
    ("<", operator.lt),
    ("<=", operator.le),
    (">", operator.gt),
    (">=", operator.ge),
):
    for _left in (INT, UINT, DOUBLE):
        for _right in (INT, UINT, DOUBLE):
            define(_symbol, (_left, _right), BOOL, _compare)
    for _type in (BOOL, TIMESTAMP, DURATION):
        define(_symbol, (_type, _type), BOOL, _compare)
    for _type in (STRING, BYTES):
        define(_symbol, (_type, _type), BOOL, _compare, cost=_smaller_size)

define(
    "in",
    (A, list_of(A)),
    BOOL,
    contains_item,
    cost=lambda _wanted, items: Estimate(items),
)
define("in", (A, map_of(A, B)), BOOL, lambda key, entries: key in entries)


# --- sizes and texts ---------------------------------------------------------------------------


def _regex_cost(text: float, pattern: float) -> Estimate:
    return Estimate(spent(text + 1, TRAVERSAL) * spent(pattern, REGEX))


def _contains_cost(text: float, part: float) -> Estimate:
    return Estimate(spent(text, TRAVERSAL) * spent(part, TRAVERSAL))


def _part_cost(_text: float, part: float) -> Estimate:
    return Estimate(spent(part, TRAVERSAL))


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except PatternError as error:
        raise EvaluationError(str(error)) from error


for _type in (STRING, BYTES, list_of(A), map_of(A, B)):
    define("size", (_type,), INT, len)
    method("size", (_type,), INT, len)
method("contains", (STRING, STRING), BOOL, operator.contains, cost=_contains_cost)
method("startsWith", (STRING, STRING), BOOL, str.startswith, cost=_part_cost)
method("endsWith", (STRING, STRING), BOOL, str.endswith, cost=_part_cost)
method("matches", (STRING, STRING), BOOL, _matches, cost=_regex_cost)
define("matches", (STRING, STRING), BOOL, _matches, cost=_regex_cost)


# --- conversions -------------------------------------------------------------------------------


def _to_int(bounds: tuple[int, int], make: type[int]) -> Callable[[object], int]:
    def convert(value: object) -> int:
        try:
            whole = int(value)  # type: ignore[call-overload]
        except (ValueError, OverflowError) as error:
            raise EvaluationError(f"type conversion error: {value!r}") from error
        if not bounds[0] <= whole <= bounds[1]:
            raise EvaluationError("integer overflow")
        return make(whole)

    return convert


def _to_double(value: object) -> float:
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
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_timestamp(text: str) -> datetime:
    if not _TIME.fullmatch(text):
        raise EvaluationError(f"type conversion error: {text!r} is no timestamp")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise EvaluationError(f"type conversion error: {text!r} is no timestamp") from error


def parse_duration(text: str) -> timedelta:
    sign = -1 if text.startswith("-") else 1
    rest = text.lstrip("+-")
    if rest == "0":
        return timedelta()
    parts = list(_DURATION.finditer(rest))
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
define("timestamp", (INT,), TIMESTAMP, lambda seconds: datetime.fromtimestamp(seconds, UTC))
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
