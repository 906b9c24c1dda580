"""The language's operators: access, equality, arithmetic, comparison; sizes and text functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from swell.cel.functions import (
    REGEX,
    TRAVERSAL,
    Estimate,
    define,
    method,
    spent,
)
from swell.cel.syntax import UInt
from swell.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    NOTHING,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    EvaluationError,
    OpenMap,
    Optional,
    kind_of,
    list_of,
    map_of,
)
from swell.schema.patterns import PatternError, compile_pattern, text_length_max

INT_RANGE = (-(2**63), 2**63 - 1)
UINT_RANGE = (0, 2**64 - 1)
NUMBERS = frozenset({"int", "uint", "double"})


# --- access ------------------------------------------------------------------------------------


def field(value: object, name: str) -> object:
    """The field of an object or a map; EvaluationError when it is missing."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        if isinstance(value, OpenMap):
            return {}
        raise EvaluationError(f"no such key: {name}")
    raise EvaluationError(f"no such overload: {kind_of(value)}.{name}")


def optional_field(value: object, name: str) -> object:
    """The field as an optional value; nothing when it, or the optional it is selected from, is."""
    value = value if isinstance(value, Optional) else Optional(value, True)
    if not value.present:
        return NOTHING
    if not isinstance(value.value, dict):
        raise EvaluationError(f"no such overload: {kind_of(value.value)}.?{name}")
    return _entry(value.value, name)


def optional_property(value: object, name: str) -> object:
    """As `optional_field`, for an object with declared fields: there null counts as missing."""
    found = optional_field(value, name)
    return NOTHING if isinstance(found, Optional) and found.value is None else found


def item(value: object, key: object) -> object:
    """The item of a list or the value of a key; EvaluationError when there is none."""
    found = optional_item(value, key)
    if not found.present:
        problem = "index out of bounds" if isinstance(value, list) else "no such key"
        raise EvaluationError(f"{problem}: {key}")
    return found.value


def optional_item(value: object, key: object) -> Optional:
    """The item of a list or the value of a key as an optional; nothing when it is missing."""
    if isinstance(value, Optional):
        return optional_item(value.value, key) if value.present else NOTHING
    # Numbers of all kinds are one key when their values are equal.
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
        return Optional(value[key], True) if 0 <= key < len(value) else NOTHING
    if isinstance(value, dict) and kind_of(key) not in {"list", "map"}:
        return _entry(value, key)
    raise EvaluationError("no such overload: _[_]")


def _entry(value: dict[Any, object], key: object) -> Optional:
    if key in value:
        return Optional(value[key], True)
    return Optional({}, True) if isinstance(value, OpenMap) else NOTHING


def has_field(value: object, name: str) -> bool:
    """The result of `has(value.name)`; null counts as missing."""
    if not isinstance(value, dict):
        raise EvaluationError(f"no such overload: has on {kind_of(value)}")
    return value.get(name) is not None


# --- equality ----------------------------------------------------------------------------------


def equal(left: object, right: object) -> bool:
    """Whether two values are equal in the language.

    Numbers compare by value across kinds; values of other kinds are never equal. Python alone
    would take `True` for 1.
    """
    kind, other = kind_of(left), kind_of(right)
    if kind != other:
        return kind in NUMBERS and other in NUMBERS and left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    return left == right


def same_items(left: object, right: object) -> bool:
    """Whether two lists that are sets hold the same items, in any order."""
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return False
    return {identity(one) for one in left} == {identity(one) for one in right}


def identity(value: object) -> object:
    """A hashable value that is the same for values that are equal in the language."""
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        return ("map", frozenset((key, identity(item)) for key, item in value.items()))
    return (kind_of(value) if kind_of(value) not in NUMBERS else "number", value)


def contains_item(wanted: object, items: list[object]) -> bool:
    """Whether a list has an item that is equal in the language, which `in` of Python is not."""
    return any(equal(wanted, one) for one in items)


def comparison_cost(size: float) -> float:
    return spent(size, TRAVERSAL)


# --- arithmetic --------------------------------------------------------------------------------


def _in_range(bounds: tuple[int, int], run: Callable[[int, int], int]) -> Callable[[int, int], int]:
    low, high = bounds
    unsigned = low == 0

    def checked(left: int, right: int) -> int:
        # Python's integers do not overflow; those of the language have 64 bits.
        result = run(int(left), int(right))
        if not low <= result <= high:
            raise EvaluationError("integer overflow")
        return UInt(result) if unsigned else result

    return checked


def _quotient(left: int, right: int) -> int:
    """Division that rounds towards zero, as in CEL; Python's rounds down."""
    if right == 0:
        raise EvaluationError("division by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return left - right * _quotient(left, right)


def _divide(left: float, right: float) -> float:
    """Division of doubles, where dividing by zero is infinity or no number, not an error."""
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left * right)
    return left / right


def _moment(run: Callable[[Any, Any], Any]) -> Callable[[Any, Any], object]:
    """Arithmetic of times, whose results must be within the years 1 to 9999."""

    def checked(left: object, right: object) -> object:
        try:
            return run(left, right)
        except OverflowError as error:
            raise EvaluationError("timestamp overflow") from error

    return checked


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
define("+", (TIMESTAMP, DURATION), TIMESTAMP, _moment(operator.add))
define("+", (DURATION, TIMESTAMP), TIMESTAMP, _moment(lambda left, right: right + left))
define("+", (DURATION, DURATION), DURATION, _moment(operator.add))
define("-", (TIMESTAMP, TIMESTAMP), DURATION, operator.sub)
define("-", (TIMESTAMP, DURATION), TIMESTAMP, _moment(operator.sub))
define("-", (DURATION, DURATION), DURATION, _moment(operator.sub))
define("neg", (INT,), INT, _negate)
define("neg", (DOUBLE,), DOUBLE, operator.neg)
define("!", (BOOL,), BOOL, operator.not_)


# --- comparison --------------------------------------------------------------------------------


def _smaller_size(left: float, right: float) -> Estimate:
    return Estimate(comparison_cost(min(left, right)))


# Numbers of different kinds may be compared with each other, values of other kinds may not.
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
# In a map the key is looked up; in a list every item is compared.
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
        compiled = compile_pattern(pattern)
        if len(text) > text_length_max(compiled):
            raise EvaluationError("cost limit exceeded: the pattern is too large for the text")
        return compiled.search(text) is not None
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
