"""The plugin resource-strategy-fit packs or spreads by resource, and spares scarce nodes.

- Each resource has a strategy of its own: GPUs may be packed while processors are spread.
- `sra` prefers nodes without the resources that it lists, for pods that can go elsewhere.
- `proportional` keeps processors and memory beside scarce resources (see `proportional`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from swell.api import codec
from swell.scheduler.config import Arguments, PluginOption, flag_in, number_in
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.pod_notes import NO_STRATEGY
from swell.scheduler.model.resources import Dimensions, Matrix, Vector
from swell.scheduler.model.tasks import Shape
from swell.scheduler.plugins.proportional import Proportional, reserve_rules
from swell.scheduler.session import Session

WEIGHT: Final = "resourceStrategyFitWeight"
RESOURCES: Final = "resources"
SRA: Final = "sra"
PROPORTIONAL: Final = "proportional"
MOST: Final = "MostAllocated"
LEAST: Final = "LeastAllocated"
_WEIGHT_DEFAULT: Final = 10.0
_SCORE_MAX: Final = 100.0
_FIELDS: Final = {
    SRA: ("enable", "resources", "weight", "resourceWeight"),
    PROPORTIONAL: ("enable", "resources", "resourceProportion"),
}


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one resource counts: fuller nodes or emptier ones first, and how much."""

    is_most: bool
    weight: float


_DEFAULT: Final = {"cpu": Strategy(False, 1.0), "memory": Strategy(False, 1.0)}


def open_resource_strategy_fit(session: Session, option: PluginOption) -> Hooks:
    given = option.arguments
    nodes, dimensions = session.snapshot.nodes, session.snapshot.dimensions
    fit = _FitScores(given, dimensions)
    scarce = _scarce_weights(given.table(SRA))
    share = _sra_weight(given.table(SRA))

    def node_score(shape: Shape) -> Vector:
        return spare_scarce(shape, nodes.allocatable, dimensions, scarce) * share

    reserve = None
    if _is_on(given.table(PROPORTIONAL)):
        reserve = reserve_rules(session.snapshot, proportional_of(given))
    return Hooks(
        load_score=fit.score,
        node_score=node_score if scarce else None,
        usable_room=None if reserve is None else reserve.usable_room,
        diagnose=None if reserve is None else reserve.diagnose,
    )


def proportional_of(given: Arguments) -> Proportional:
    """Returns the rule of the newer names."""
    table = given.table(PROPORTIONAL)
    rates = table.get("resourceProportion")
    return Proportional.of(_listed(table), rates if isinstance(rates, dict) else {})


class _FitScores:
    """The scores by load, with the strategies of each shape looked up once."""

    def __init__(self, given: Arguments, dimensions: Dimensions) -> None:
        weight = given.number(WEIGHT, _WEIGHT_DEFAULT)
        self._weight = weight if weight > 0 else _WEIGHT_DEFAULT
        self._strategies = strategies_of(given)
        self._dimensions = dimensions
        self._known: dict[Shape, list[tuple[int, Strategy]]] = {}

    def score(self, shape: Shape, fill: Matrix) -> Vector:
        """Returns the score of nodes by how full each resource would be with the task."""
        strategies = self._known.get(shape)
        if strategies is None:
            strategies = self._known[shape] = self._of_shape(shape)
        points = np.zeros(fill.shape[1])
        total = sum(strategy.weight for _, strategy in strategies)
        if not total:
            return points
        is_full = np.zeros(fill.shape[1], dtype=np.bool_)
        for place, strategy in strategies:
            of_place = fill[place]
            # A node that has nothing of the resource shows 0 here: it gets no points for it.
            free = np.where(of_place > 0, 1.0 - of_place, 0.0)
            points += strategy.weight * (of_place if strategy.is_most else free)
            is_full |= of_place > 1.0
        points *= _SCORE_MAX * self._weight / total
        points[is_full] = 0.0
        return points

    def _of_shape(self, shape: Shape) -> list[tuple[int, Strategy]]:
        """Returns the strategies of the resources that a shape asks for, by place."""
        strategies: Mapping[str, Strategy] = self._strategies
        if shape.strategy != NO_STRATEGY:
            strategies = chosen_by_pod(strategies, *shape.strategy)
        found = []
        for place in shape.quota_places.tolist():
            strategy = match(strategies, self._dimensions.names[place])
            if strategy is not None:
                found.append((place, strategy))
        return found


def strategies_of(given: Arguments) -> dict[str, Strategy]:
    """Returns the strategies by resource, or by the prefix of one that ends in `*`."""
    rows = given.table(RESOURCES)
    found = {
        name: _strategy(row) for name, row in rows.items() if isinstance(row, dict) and name != "*"
    }
    return found or dict(_DEFAULT)


def _strategy(row: Mapping[str, object]) -> Strategy:
    weight = number_in(row.get("weight"))
    is_most = row.get("type") == MOST  # any other type is LeastAllocated, as in Volcano
    return Strategy(is_most, weight if weight is not None and weight > 0 else 1.0)


def match(strategies: Mapping[str, Strategy], name: str) -> Strategy | None:
    """Returns the strategy of a resource: by its name, else by the longest prefix."""
    exact = strategies.get(name)
    if exact is not None:
        return exact
    prefixes = [
        key for key in strategies if key.endswith("*") and name.startswith(key.removesuffix("*"))
    ]
    return strategies[max(prefixes, key=len)] if prefixes else None


def chosen_by_pod(
    strategies: Mapping[str, Strategy], kind: str, weights: str
) -> Mapping[str, Strategy]:
    """Returns the strategies as the annotations of a pod change them.

    An unknown type and weights that are no JSON of numbers change nothing. A resource without a
    weight counts 0.
    """
    found = dict(strategies)
    try:
        given = codec.decode(weights.encode(), dict[str, float]) if weights else None
    except msgspec.DecodeError:
        given = None
    if given is not None:
        least = Strategy(False, 1.0)
        found = {
            name: Strategy((match(strategies, name) or least).is_most, max(weight, 0.0))
            for name, weight in given.items()
        }
    if kind in {MOST, LEAST}:
        found = {name: Strategy(kind == MOST, one.weight) for name, one in found.items()}
    return found


def spare_scarce(
    shape: Shape, allocatable: Matrix, dimensions: Dimensions, scarce: Mapping[str, float]
) -> Vector:
    """Returns up to 100 for nodes without scarce resources, 0 for those that lack what it asks."""
    total = sum(scarce.values())
    if not total:
        return np.zeros(allocatable.shape[1])
    there = np.zeros(allocatable.shape[1])
    for name, weight in scarce.items():
        place = dimensions.known(name)
        if place is not None:
            there += weight * (allocatable[place] > 0)
    points = _SCORE_MAX * (1.0 - there / total)
    asked = shape.quota_places
    points[(allocatable[asked] == 0).any(axis=0)] = 0.0
    return points


def _is_on(table: Mapping[str, object]) -> bool:
    return flag_in(table.get("enable")) is True


def _listed(table: Mapping[str, object]) -> str:
    """Returns the names of a table, which may also be a list, with commas between them."""
    value = table.get("resources", "")
    if isinstance(value, list):
        return ",".join(str(name) for name in value)
    return value if isinstance(value, str) else ""


def _scarce_weights(table: Mapping[str, object]) -> dict[str, float]:
    """Returns the weights of the resources that `sra` lists; nothing unless it is on."""
    if not _is_on(table):
        return {}
    given = table.get("resourceWeight")
    weights = given if isinstance(given, dict) else {}
    found: dict[str, float] = {}
    for name in filter(None, (part.strip() for part in _listed(table).split(","))):
        weight = number_in(weights.get(name))
        found[name] = 1.0 if weight is None or weight < 0 else weight
    return found


def _sra_weight(table: Mapping[str, object]) -> float:
    weight = number_in(table.get("weight"))
    return 1.0 if weight is None or weight < 0 else weight


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields what of the tables has no effect."""
    given = option.arguments
    if WEIGHT in given.values and given.number(WEIGHT, 1.0) <= 0:
        value = given.values[WEIGHT]
        yield f"argument {WEIGHT!r} has no effect: {value!r} is not positive, so 10 is used"
    yield from _remarks_on_resources(given.table(RESOURCES))
    for argument, fields in _FIELDS.items():
        table = given.table(argument)
        for name in table:
            if name not in fields:
                yield f"field {name!r} of {argument!r} is ignored: it has {', '.join(fields)}"
        if table and not _is_on(table):
            yield f"argument {argument!r} has no effect without `enable: true`"
        elif table and not _listed(table):
            yield f"argument {argument!r} has no effect: it lists no resources"
    if _is_on(given.table(PROPORTIONAL)) and _listed(given.table(PROPORTIONAL)):
        yield from proportional_of(given).remarks


def _remarks_on_resources(rows: Mapping[str, object]) -> Iterator[str]:
    for name, row in rows.items():
        if name == "*":
            yield "resource '*' is ignored: a prefix must stand before the star"
        elif not isinstance(row, dict):
            yield f"resource {name!r} is ignored: {row!r} is not a mapping with type and weight"
        else:
            if row.get("type") not in {MOST, LEAST}:
                yield f"resource {name!r}: type {row.get('type')!r} counts as {LEAST}"
            weight = number_in(row.get("weight", 1))
            if weight is None or weight <= 0:
                yield f"resource {name!r}: weight {row.get('weight')!r} counts as 1"


KNOWN: Final = KnownPlugin(
    switches=("enableNodeOrder", "enablePredicate"),
    arguments={
        WEIGHT: ArgumentKind.NUMBER,
        RESOURCES: ArgumentKind.TABLE,
        SRA: ArgumentKind.TABLE,
        PROPORTIONAL: ArgumentKind.TABLE,
    },
    remarks=remarks,
)
