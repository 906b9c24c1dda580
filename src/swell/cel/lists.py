"""Functions on lists, sets and optional values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from itertools import pairwise
from typing import Any

from swell.cel import operators
from swell.cel.functions import TRAVERSAL, Estimate, define, method, spent
from swell.cel.syntax import UInt
from swell.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NOTHING,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    CelType,
    EvaluationError,
    Optional,
    list_of,
    optional_of,
)

# `lists.range` makes a list from one number, so its cost says nothing of its size.
LIST_MAX = 1_000_000
# The types with an order, for which sort, min and max are defined.
COMPARABLE = (INT, UINT, DOUBLE, BOOL, STRING, BYTES, TIMESTAMP, DURATION)
ZEROS: dict[str, object] = {
    "int": 0, "uint": UInt(0), "double": 0.0, "duration": timedelta(),
}  # fmt: skip


def _walk(items: CelType, *_: CelType) -> Estimate:
    """The cost of reading every item, strings in full."""
    return Estimate(items.size * _item_cost(items))


def _copy(items: float, *_: float) -> Estimate:
    return Estimate(items, items)


def _compare_all(items: CelType, *_: CelType) -> Estimate:
    """The cost of comparing every item with every other."""
    return Estimate(items.size * items.size * _item_cost(items), items.size)


def _item_cost(items: CelType) -> float:
    item = items.params[0] if items.params else items
    return 1.0 + (spent(item.size, TRAVERSAL) if item.kind in {"string", "bytes"} else 0.0)


def _both(left: float, right: float) -> Estimate:
    return Estimate(left * right)


def _extreme(choose: Callable[..., Any]) -> Callable[[list[Any]], object]:
    def extreme(items: list[Any]) -> object:
        if not items:
            raise EvaluationError("min and max are called on an empty list")
        return choose(items)

    return extreme


def _sum_of(type_: CelType) -> Callable[[list[Any]], object]:
    zero = ZEROS[type_.kind]
    return lambda items: reduce(lambda left, right: left + right, items, zero)


def _index_of(items: list[object], wanted: object) -> int:
    return next((at for at, one in enumerate(items) if operators.equal(one, wanted)), -1)


def _last_index_of(items: list[object], wanted: object) -> int:
    at = _index_of(items[::-1], wanted)
    return at if at < 0 else len(items) - 1 - at


def _slice(items: list[object], start: int, end: int) -> list[object]:
    if not 0 <= start <= end <= len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list length is {len(items)}")
    return items[start:end]


def _flatten(items: list[object], depth: int = 1) -> list[object]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[object] = []
    for item in items:
        flat += _flatten(item, depth - 1) if isinstance(item, list) and depth else [item]
    return flat


def _distinct(items: list[object]) -> list[object]:
    # Not by a set: items need not be hashable, and 1 equals 1.0 here.
    kept: list[object] = []
    for item in items:
        if not operators.contains_item(item, kept):
            kept.append(item)
    return kept


def _range(count: int) -> list[int]:
    if count > LIST_MAX:
        raise EvaluationError("cost limit exceeded: too many items")
    return list(range(count))


def _edge(at: int) -> Callable[[list[object]], Optional]:
    return lambda items: Optional(items[at], True) if items else NOTHING


LIST = list_of(A)
for _type in COMPARABLE:
    method(
        "isSorted",
        (list_of(_type),),
        BOOL,
        lambda items: all(left <= right for left, right in pairwise(items)),
        cost=_walk,
        by_type=True,
    )
    method("min", (list_of(_type),), _type, _extreme(min), cost=_walk, by_type=True)
    method("max", (list_of(_type),), _type, _extreme(max), cost=_walk, by_type=True)
    method("sort", (list_of(_type),), list_of(_type), sorted, cost=_compare_all, by_type=True)
for _type in (INT, UINT, DOUBLE, DURATION):
    method("sum", (list_of(_type),), _type, _sum_of(_type), cost=_walk, by_type=True)
method("indexOf", (LIST, A), INT, _index_of, cost=_walk, by_type=True)
method("lastIndexOf", (LIST, A), INT, _last_index_of, cost=_walk, by_type=True)
method("slice", (LIST, INT, INT), LIST, _slice, cost=_copy)
method("flatten", (list_of(LIST),), LIST, _flatten, cost=_walk, by_type=True)
method("flatten", (list_of(DYN), INT), list_of(DYN), _flatten, cost=_walk, by_type=True)
method("distinct", (LIST,), LIST, _distinct, cost=_compare_all, by_type=True)
method("reverse", (LIST,), LIST, lambda items: items[::-1], cost=_copy)
method("first", (LIST,), optional_of(A), _edge(0))
method("last", (LIST,), optional_of(A), _edge(-1))
define("lists.range", (INT,), list_of(INT), _range)


# --- sets --------------------------------------------------------------------------------------


def _contains(items: list[object], wanted: list[object]) -> bool:
    return all(operators.contains_item(one, items) for one in wanted)


define("sets.contains", (LIST, LIST), BOOL, _contains, cost=_both)
define(
    "sets.equivalent",
    (LIST, LIST),
    BOOL,
    lambda left, right: _contains(left, right) and _contains(right, left),
    cost=_both,
)
define(
    "sets.intersects",
    (LIST, LIST),
    BOOL,
    lambda left, right: any(operators.contains_item(one, right) for one in left),
    cost=_both,
)


# --- optional values ---------------------------------------------------------------------------


def _of_non_zero(value: object) -> Optional:
    # The zero values of the language's types; an empty list or map counts as one.
    zero = value in (None, 0, 0.0, "", b"", False, [], {}) or value == timedelta()
    return NOTHING if zero else Optional(value, True)


MAYBE = optional_of(A)
define("optional.of", (A,), MAYBE, lambda value: Optional(value, True))
define("optional.ofNonZeroValue", (A,), MAYBE, _of_non_zero)
define("optional.none", (), optional_of(DYN), lambda: NOTHING)
method("hasValue", (MAYBE,), BOOL, lambda maybe: maybe.present)
method("value", (MAYBE,), A, Optional.get)
method("orValue", (MAYBE, A), A, lambda maybe, other: maybe.value if maybe.present else other)
method("or", (MAYBE, MAYBE), MAYBE, lambda maybe, other: maybe if maybe.present else other)
