"""The plugin binpack prefers fuller nodes, so that whole nodes stay free for large tasks."""

from __future__ import annotations

from typing import Final

import numpy as np

from swell.scheduler.config import Arguments, PluginOption
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.nodes import Matrix
from swell.scheduler.model.resources import Vector
from swell.scheduler.model.tasks import Shape
from swell.scheduler.session import Session

WEIGHT: Final = "binpack.weight"
RESOURCES: Final = "binpack.resources"
ARGUMENTS: tuple[str, ...] = (
    WEIGHT, "binpack.cpu", "binpack.memory", RESOURCES, "binpack.resources.",
)  # fmt: skip
_SCORE_MAX = 100.0  # of a plugin with weight 1, as in kube-scheduler


def open_binpack(session: Session, option: PluginOption) -> Hooks:
    own, names = weights_of(option.arguments)
    weights = session.snapshot.dimensions.zero()
    listed: set[int] = set()
    for name, weight in names.items():
        place = session.snapshot.dimensions.known(name)
        if place is not None:
            weights[place] = weight
            listed.add(place)

    def score(shape: Shape, fill: Matrix) -> Vector:
        points = np.zeros(fill.shape[1])
        overflows = np.zeros(fill.shape[1], dtype=np.bool_)
        total = 0.0
        for place in shape.quota_places.tolist():
            if place not in listed:
                continue
            # A resource that a node does not have scores 0, but its weight counts (as in Volcano).
            total += float(weights[place])
            overflows |= fill[place] > 1.0
            points += weights[place] * fill[place]
        if not total:
            return points
        return np.where(overflows, 0.0, points / total * (_SCORE_MAX * own))

    return Hooks(load_score=score)


def weights_of(arguments: Arguments) -> tuple[float, dict[str, float]]:
    """Returns the weight of the plugin and of each resource; a negative one counts as 1."""

    def weight(name: str) -> float:
        value = arguments.number(name, 1.0)
        return 1.0 if value < 0 else value

    names = {"cpu": weight("binpack.cpu"), "memory": weight("binpack.memory")}
    for name in arguments.text(RESOURCES).split(","):
        if name.strip():
            names[name.strip()] = weight(f"binpack.resources.{name.strip()}")
    return weight(WEIGHT), names
