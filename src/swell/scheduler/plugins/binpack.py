"""The plugin binpack prefers fuller nodes, so that whole nodes stay free for large tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from swell.scheduler.config import Arguments, PluginOption, number_in
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.resources import Matrix, Vector
from swell.scheduler.model.tasks import Shape
from swell.scheduler.session import Session

WEIGHT: Final = "binpack.weight"
RESOURCES: Final = "binpack.resources"
_OF_RESOURCE: Final = "binpack.resources."
_SCORE_MAX = 100.0  # of a plugin with weight 1, as in kube-scheduler


def open_binpack(session: Session, option: PluginOption) -> Hooks:
    own, names = weights_of(option.arguments)
    known = session.snapshot.dimensions.known
    weights = {place: names[name] for name in names if (place := known(name)) is not None}
    # By shape: the resources that it is scored by with their weights, and what the sum of their
    # parts is multiplied by; 0 where nothing is to be scored.
    terms: dict[Shape, tuple[list[tuple[int, float]], float]] = {}

    def terms_of(shape: Shape) -> tuple[list[tuple[int, float]], float]:
        scored = [(place, weights[place]) for place, _ in shape.quota_amounts if place in weights]
        # A resource that a node does not have scores 0, but its weight counts (as in Volcano).
        total = sum(weight for _, weight in scored)
        return scored, _SCORE_MAX * own / total if total else 0.0

    def score(shape: Shape, fill: Matrix) -> Vector:
        # This runs for every gang, on a few dozen states, where each operation on an array costs
        # more than its arithmetic: so there are few, and none that would change nothing.
        known_terms = terms.get(shape)
        if known_terms is None:
            known_terms = terms[shape] = terms_of(shape)
        scored, scale = known_terms
        if not scale:
            return np.zeros(fill.shape[1])
        (first, weight), *others = scored
        fullest: Vector = fill[first]
        points: Vector = weight * fullest
        for place, weight in others:
            of_place = fill[place]
            fullest = np.maximum(fullest, of_place)
            points += of_place if weight == 1.0 else weight * of_place
        points *= scale
        points *= fullest <= 1.0
        return points

    return Hooks(load_score=score)


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields which weights have no effect."""
    listed = [name.strip() for name in option.arguments.text(RESOURCES).split(",")]
    for name, value in option.arguments.values.items():
        resource = name.removeprefix(_OF_RESOURCE)
        if name.startswith(_OF_RESOURCE) and resource not in listed:
            yield f"argument {name!r} has no effect: list {resource} in {RESOURCES!r} as well"
        elif name != RESOURCES and (number_in(value) or 0.0) < 0:
            yield f"argument {name!r} has no effect: {value!r} is negative, and counts as 1"


KNOWN: Final = KnownPlugin(
    switches=("enableNodeOrder",),
    arguments={
        WEIGHT: ArgumentKind.NUMBER,
        "binpack.cpu": ArgumentKind.NUMBER,
        "binpack.memory": ArgumentKind.NUMBER,
        RESOURCES: ArgumentKind.TEXT,
        _OF_RESOURCE: ArgumentKind.NUMBER,
    },
    remarks=remarks,
)


def weights_of(arguments: Arguments) -> tuple[float, dict[str, float]]:
    """Returns the weight of the plugin and of each resource; a negative one counts as 1."""

    def weight(name: str) -> float:
        value = arguments.number(name, 1.0)
        return 1.0 if value < 0 else value

    names = {"cpu": weight("binpack.cpu"), "memory": weight("binpack.memory")}
    for name in arguments.text(RESOURCES).split(","):
        if name.strip():
            names[name.strip()] = weight(f"{_OF_RESOURCE}{name.strip()}")
    return weight(WEIGHT), names
