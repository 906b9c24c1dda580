"""The cost of an evaluation while it runs: work that is done and values that are produced.

The estimate at compile time knows declared sizes only. Here each call is charged by the same rule
with the actual sizes, and each produced value by its own size, so that neither time nor memory of
an evaluation can grow beyond its allowance. Charges use Kubernetes' cost units; producing a list or
map is charged by its items, which Kubernetes does not do because its concatenations are lazy.
"""

from __future__ import annotations

from swell.cel.functions import TRAVERSAL, Overload, constant
from swell.cel.types import (
    BYTES,
    DYN,
    SCALARS,
    STRING,
    CelType,
    EvaluationError,
    Optional,
    list_of,
)

# Kubernetes' limit of one evaluation.
CALL_COST_MAX = 1_000_000
# A step of a loop costs this much before its body; between cel-go's 3 for `all` and 13 for `map`.
STEP_COST = 4
# The same for a value inside a list or map that is produced or compared.
NODE_COST = 3
_SIZED = frozenset({"string", "bytes", "list", "map", "dyn", "object", "optional", "param:A"})


class CostExceededError(EvaluationError):
    """The evaluation needs more work or memory than it may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def spend(frame: list[object], cost: float) -> None:
    """Charge a cost to an evaluation; CostExceededError when it has no more left.

    What is left stays negative then: an operator that ignores the error of one of its sides finds
    nothing left for the other one.
    """
    left = frame[0]
    left = left - cost if isinstance(left, (int, float)) else -1
    frame[0] = left
    if left < 0:
        raise CostExceededError


def call_cost(overload: Overload, values: list[object]) -> float:
    """The cost of a call with these arguments."""
    if overload.cost is constant:
        return 1.0
    if overload.by_type:
        return overload.cost(*map(_type_with_size, values)).cost
    return overload.cost(*map(_size, values)).cost


def is_sized(type_: CelType) -> bool:
    """Whether values of a type can be large."""
    return type_.kind in _SIZED


def is_nested(type_: CelType) -> bool:
    """Whether values of a type can hold lists and maps, and so hold the same one many times."""
    plain = SCALARS | {"string", "bytes"}
    return type_.kind in _SIZED - {"string", "bytes"} and any(
        param.kind not in plain for param in type_.params or (DYN,)
    )


def weight(value: object, enough: float, *, nested: bool = True) -> float:
    """The cost of producing a value, or of comparing it; counting ends when there is enough.

    A list that holds the same list twice counts it twice, as every walk through it will.
    """
    if isinstance(value, (str, bytes)):
        return len(value) * TRAVERSAL
    if not nested:
        return float(len(value)) if isinstance(value, (list, dict)) else 1.0
    total = 0.0
    waiting = [value]
    while waiting and total <= enough:
        one = waiting.pop()
        if isinstance(one, Optional):
            one = one.value
        if isinstance(one, (str, bytes)):
            total += NODE_COST + len(one) * TRAVERSAL
        elif isinstance(one, dict):
            total += NODE_COST * (1 + len(one))
            waiting.extend(one.values())
        elif isinstance(one, list):
            total += NODE_COST
            waiting.extend(one)
        else:
            total += NODE_COST
    return total


def charge_product(frame: list[object], value: object, type_: CelType) -> object:
    """Charge a value that was produced, and return it."""
    left = frame[0]
    enough = left if isinstance(left, (int, float)) else 0
    spend(frame, weight(value, enough, nested=is_nested(type_)))
    return value


def _size(value: object) -> float:
    return float(len(value)) if isinstance(value, (str, bytes, list, dict)) else 1.0


def _type_with_size(value: object) -> CelType:
    """A type for a cost rule that also needs the size of a list's items."""
    if not isinstance(value, list):
        return STRING.sized(_size(value))
    texts = [len(one) for one in value if isinstance(one, (str, bytes))]
    # The mean of all items: the rules multiply it by their number.
    item = (BYTES if texts else DYN).sized(sum(texts) / len(value) if texts else 1.0)
    return list_of(item, len(value))
