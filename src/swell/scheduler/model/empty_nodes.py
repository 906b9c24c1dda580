"""Whether a gang could ever start: by what the nodes have in all, not by what is free now.

A node counts also while it is not ready, cordoned or tainted, since that may pass; its labels have
to match. Nothing is said of a cluster without nodes, to which one may be added, nor while a node
cannot be read. Answers are kept until a node or the gang changes: a cycle pays for what is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from swell.api import impossible
from swell.api.core import Node
from swell.api.impossible import Shortage
from swell.api.matching import node_selector_matches
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import NodeTable, fits, slots
from swell.scheduler.model.resources import (
    PODS,
    TOLERANCE,
    Dimensions,
    Mask,
    Vector,
    amount_text,
    amount_texts,
)
from swell.scheduler.model.tasks import READY, Shape, Task, TaskStatus

# Tasks that count towards the minimum, now or when they get a node.
_LIVE = frozenset({*READY, TaskStatus.PENDING, TaskStatus.PIPELINED})


@dataclass(frozen=True, slots=True)
class _ShapeRoom:
    """How many pods of a shape the nodes would take if they were empty, and why none if none."""

    n_places: int
    problem: tuple[Shortage, ...] = ()
    is_matched: bool = True


class EmptyNodes:
    """Answers why a gang can never start on these nodes."""

    def __init__(self, nodes: NodeTable, dimensions: Dimensions) -> None:
        self._nodes = nodes
        self._dimensions = dimensions
        self._version = -1
        self._rooms: dict[int, _ShapeRoom] = {}
        self._answers: dict[str, tuple[tuple[object, ...], str]] = {}

    def why_never(self, job: JobInfo) -> str:
        """Returns the sentence why the gang can never start; empty if it may."""
        nodes = self._nodes
        if self._version != nodes.version:
            self._version = nodes.version
            self._rooms.clear()
            self._answers.clear()
        state = (job.group, len(job.tasks), job.counts.live)
        known = self._answers.get(job.key)
        if known is None or known[0][0] is not job.group or known[0][1:] != state[1:]:
            known = self._answers[job.key] = (state, self._answer(job))
        return known[1]

    def forget(self, key: str) -> None:
        self._answers.pop(key, None)

    def _answer(self, job: JobInfo) -> str:
        if not any(self._nodes.objects) or self._nodes.closed:
            return ""
        parts: dict[str, list[Task]] = {}
        for task in job.tasks.values():
            if task.status in _LIVE and not task.unreadable:
                parts.setdefault(task.role if job.role_minimums else "", []).append(task)
        minimums = job.role_minimums or {"": job.min_member}
        for role, minimum in sorted(minimums.items()):
            if problem := self._of_part(role, minimum, parts.get(role, [])):
                return problem
        return self._of_total(job)

    def _of_part(self, role: str, minimum: int, tasks: list[Task]) -> str:
        """Returns why too few of these tasks can ever have a node at once."""
        name = role or (tasks[0].role if tasks else "") or "the gang"
        rooms = {task.shape.serial: self._room(task.shape) for task in tasks}
        hopeless = [
            task
            for task in tasks
            if task.shape.shares_devices or not rooms[task.shape.serial].n_places
        ]
        if hopeless and len(tasks) - len(hopeless) < minimum:
            return self._problem_text(name, hopeless[0].shape, rooms[hopeless[0].shape.serial])
        # Of tasks with different shapes it is not counted how many fit beside each other.
        if len(rooms) == 1:
            n_places = rooms[tasks[0].shape.serial].n_places
            if n_places < minimum:
                each = self._amounts(tasks[0].shape.request)
                return impossible.too_few_places(name, minimum, n_places, each)
        return ""

    def _problem_text(self, role: str, shape: Shape, room: _ShapeRoom) -> str:
        if shape.shares_devices:
            return impossible.shares_devices(role)
        if not room.is_matched:
            return impossible.no_node_matches(role, shape.spec.node_selector)
        if room.problem:
            return impossible.pod_too_large(role, room.problem)
        return impossible.no_node_has_all(role, self._amounts(shape.request))

    def _of_total(self, job: JobInfo) -> str:
        asked = job.min_resources
        if asked is None:
            return ""
        there = self._nodes.allocatable[:, self._present()].sum(axis=1)
        texts = [
            impossible.cluster_too_small(
                self._dimensions.names[place],
                amount_text(self._dimensions.names[place], float(there[place])),
                amount_text(self._dimensions.names[place], float(asked[place])),
            )
            for place in np.flatnonzero(asked > there + TOLERANCE).tolist()
            if place != PODS
        ]
        return "; ".join(sorted(texts))

    def _room(self, shape: Shape) -> _ShapeRoom:
        room = self._rooms.get(shape.serial)
        if room is None:
            room = self._rooms[shape.serial] = self._new_room(shape)
        return room

    def _new_room(self, shape: Shape) -> _ShapeRoom:
        matching = self._matching(shape)
        if not matching.any():
            return _ShapeRoom(0, is_matched=False)
        room = self._nodes.allocatable[:, matching]
        if fits(shape, room).any():
            return _ShapeRoom(int(slots(shape, room).sum()))
        return _ShapeRoom(0, tuple(self._shortages(shape, room.max(axis=1))))

    def _shortages(self, shape: Shape, largest: Vector) -> Iterable[Shortage]:
        for place in shape.fit_places:
            if place != PODS and largest[place] <= shape.request[place] - TOLERANCE:
                name = self._dimensions.names[place]
                has = amount_text(name, float(largest[place])) if largest[place] else ""
                yield Shortage(name, amount_text(name, float(shape.request[place])), has)

    def _present(self) -> Mask:
        return self._nodes.present

    def _matching(self, shape: Shape) -> Mask:
        spec = shape.spec
        affinity = spec.affinity and spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        if not spec.node_selector and not required:
            return self._present()
        selector = spec.node_selector.items()

        def matches(node: Node) -> bool:
            return selector <= node.metadata.labels.items() and (
                not required or node_selector_matches(required, node)
            )

        return self._nodes.where(matches)

    def _amounts(self, request: Vector) -> dict[str, str]:
        amounts = amount_texts(self._dimensions, request)
        amounts.pop("pods", None)
        return amounts
