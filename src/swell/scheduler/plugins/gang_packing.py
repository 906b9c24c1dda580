"""The plugin gang-packing puts a gang on as few nodes as it can.

A node that has some of the gang comes first. Otherwise that with the least room that takes all of
the gang that is left, so that larger rooms stay whole; or, if none does, that with the most room.
Each node is scored for the gang and not for one task alone, which `binpack` cannot do: it would
fill the fullest node first, whose room may end in the middle of the gang.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.nodes import slots
from swell.scheduler.model.resources import Mask, Vector
from swell.scheduler.model.tasks import TAKES_LATER, Task, TaskStatus
from swell.scheduler.session import Session

WEIGHT: Final = "gangpacking.weight"
# As much as the default weights of nodeorder (9) and binpack (1) together: fewer nodes matter more
# than how full they are.
_WEIGHT_DEFAULT: Final = 10.0
# The scores of a node that has some of the gang, of one that takes the rest of it, at most, and of
# one that does not.
_OWN, _WHOLE, _PART = 100.0, 80.0, 40.0

KNOWN: Final = KnownPlugin(switches=("enableNodeOrder",), arguments={WEIGHT: ArgumentKind.NUMBER})


def open_gang_packing(session: Session, option: PluginOption) -> Hooks:
    nodes = session.snapshot.nodes
    weight = option.arguments.number(WEIGHT, _WEIGHT_DEFAULT)

    def relative_score(task: Task, scored: Mask) -> Vector | None:
        job = task.job
        if job is None or not weight:
            return None
        n_left = max(job.role(task.role).of((TaskStatus.PENDING,)), 1)
        score = packing(slots(task.shape, nodes.idle) * scored, n_left)
        for other in job.tasks.values():
            if other.role == task.role and TAKES_LATER[other.status]:
                score[other.node] = _OWN
        return score * weight

    return Hooks(relative_score=relative_score)


def packing(room: Vector, n_left: int) -> Vector:
    """Returns the scores of nodes that take so many tasks each, for a gang with n to place."""
    takes_all = room >= n_left
    tightness = n_left / np.maximum(room, 1.0)
    largest = max(float(room.max(initial=0.0)), 1.0)
    whole = _PART + (_WHOLE - _PART) * tightness
    return np.where(takes_all, whole, _PART * room / largest)
