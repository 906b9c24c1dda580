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

    def score(shape: Shape, fill: Matrix) -> Vector:
        # This runs for every gang, on a few dozen states, where each operation on an array costs
        # more than its arithmetic: so there are few, and none that would change nothing.
        places = [place for place, _ in shape.quota_amounts if place in weights]
        # A resource that a node does not have scores 0, but its weight counts (as in Volcano).
        total = sum(weights[place] for place in places)
        if not total:
            return np.zeros(fill.shape[1])
        first, *others = places
        fullest: Vector = fill[first]
        points: Vector = weights[first] * fullest
        for place in others:
            of_place = fill[place]
            fullest = np.maximum(fullest, of_place)
            points += of_place if weights[place] == 1.0 else weights[place] * of_place
        points *= _SCORE_MAX * own / total
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
