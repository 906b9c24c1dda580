"""The table of functions expressions may call, and how the library's files fill it.

A function has overloads: the types it takes, the type it gives, what it does, and what that costs
as a function of the sizes of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from swell.cel.types import UNBOUNDED, CelType

TRAVERSAL = 0.1  # a character or a byte that is looked at
REGEX = 0.25  # a character of a regular expression

# The library's functions are called with values whose types were checked.
Implementation: TypeAlias = Callable[..., Any]


class Estimate(NamedTuple):
    cost: float
    result_size: float | None = None


# By the sizes of the arguments; those of lists also by their types.
CostRule: TypeAlias = Callable[..., Estimate]


@dataclass(frozen=True, slots=True)
class Overload:
    params: tuple[CelType, ...]
    result: CelType
    run: Implementation
    cost: CostRule
    by_type: bool  # the cost rule takes types, not sizes

    def estimate(self, given: list[CelType]) -> Estimate:
        return self.cost(*given) if self.by_type else self.cost(*(one.size for one in given))


# By name and whether it is called on a target, which then is the first parameter.
FUNCTIONS: dict[tuple[str, bool], list[Overload]] = {}


def constant(*_sizes: float) -> Estimate:
    return Estimate(1.0)


def traversal(factor: float = TRAVERSAL) -> CostRule:
    """The first argument is walked through, and the result is no larger."""
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
    """Add an overload to the table."""
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
    define(name, params, result, run, member=True, cost=cost, by_type=by_type)
