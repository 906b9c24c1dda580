"""The table of functions that expressions may call.

The library's modules fill it with `define` and `method`. A function has overloads; each says which
types it takes, which type it returns, what to run, and what that costs for arguments of given
sizes. Costs are Kubernetes' own, so that the same rules are accepted here and there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from swell.cel.types import UNBOUNDED, CelType

# cel-go's cost factors, which Kubernetes uses: of a character or byte that is read, and of a
# character of a regular expression.
TRAVERSAL = 0.1
REGEX = 0.25

# Types are checked before a function is called, so implementations take what they are given.
Implementation: TypeAlias = Callable[..., Any]


class Estimate(NamedTuple):
    """The cost of a call, and the size of its result where that is known."""

    cost: float
    result_size: float | None = None


# Computes the cost from the sizes of the arguments, or from their types (`Overload.by_type`).
CostRule: TypeAlias = Callable[..., Estimate]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    params: tuple[CelType, ...]
    result: CelType
    run: Implementation
    cost: CostRule
    by_type: bool  # the cost rule takes types, not sizes

    def estimate(self, given: list[CelType]) -> Estimate:
        return self.cost(*given) if self.by_type else self.cost(*(one.size for one in given))


# By name, and whether it is called as a method; the target of a method is its first parameter.
FUNCTIONS: dict[tuple[str, bool], list[Overload]] = {}


def constant(*_sizes: float) -> Estimate:
    return Estimate(1.0)


def traversal(factor: float = TRAVERSAL) -> CostRule:
    """The cost rule of a function that reads its first argument and returns nothing larger."""
    return lambda first, *_: Estimate(spent(first, factor), first)


def spent(size: float, factor: float) -> float:
    return size if size == UNBOUNDED else math.ceil(size * factor)


def define(
    name: str,
    params: tuple[CelType, ...],
    result: CelType,
    run: Implementation,
    *,
    member: bool = False,
    cost: CostRule = constant,
    by_type: bool = False,
) -> None:
    """Add an overload of a function to the table."""
    overload = Overload(params, result, run, cost, by_type)
    FUNCTIONS.setdefault((name, member), []).append(overload)


def method(
    name: str,
    params: tuple[CelType, ...],
    result: CelType,
    run: Implementation,
    *,
    cost: CostRule = constant,
    by_type: bool = False,
) -> None:
    """Add an overload of a method to the table; the first parameter is its target."""
    define(name, params, result, run, member=True, cost=cost, by_type=by_type)
