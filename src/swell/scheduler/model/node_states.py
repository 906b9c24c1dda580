"""States of nodes: equal nodes have one number, so that what follows from a state is kept once.

The state of a node is all that changes with its tasks and all that it has: allocatable, idle and
future resources. Nodes of a few kinds that take pods of a few shapes go through the same states
again and again; what a shape scores in a state is computed once (`node_scores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from swell.api.core import PRIVATE_PORTS, Node
from swell.scheduler.model.resources import Matrix, Places, Vector
from swell.scheduler.model.tasks import Shape

_ROWS_MIN = 64


class NodeColumns(NamedTuple):
    """The amounts of some nodes or states. `future` is `idle` itself where they are equal."""

    allocatable: Matrix
    idle: Matrix
    future: Matrix
    divisor: Matrix  # allocatable, infinite where there is none, so that its share is 0


class NodeStates:
    """Every state seen so far, and which state follows when a task of some shape is placed.

    States are numbered in the order in which they were seen. So who remembers how many there were
    finds those that are new since: see `since`.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        # One row a state: its four parts, one after the other. A row of its own is what a new state
        # is made from, compared by and kept as, at the cost of one small array each.
        self._rows: Matrix = np.zeros((_ROWS_MIN, len(NodeColumns._fields) * width))
        self._numbers: dict[bytes, int] = {}
        # By serial of the shape and whether the task starts now: by state, the state that follows;
        # and what has to be subtracted from a state's row.
        self._following: dict[tuple[int, bool], dict[int, int]] = {}
        self._taken: dict[tuple[int, bool], Vector] = {}
        self.idle_is_future = True  # in every state so far
        self.n = 0

    def numbers(self, allocatable: Matrix, idle: Matrix, future: Matrix) -> list[int]:
        """Returns the numbers of the states of some nodes, one column each."""
        self.idle_is_future = self.idle_is_future and bool((idle == future).all())
        divisor = np.where(allocatable == 0, np.inf, allocatable)
        columns = np.concatenate([allocatable, idle, future, divisor])
        return [self._number(row) for row in np.ascontiguousarray(columns.T)]

    def columns(self, states: Sequence[int] | Places) -> NodeColumns:
        """Returns the amounts of some states."""
        return self._parts(self._rows.take(states, axis=0))

    def used(self, states: Places, resources: Places) -> Matrix:
        """Returns what is used of some resources in some states: one column a state."""
        rows = self._rows.take(states, axis=0)
        found = rows.take(resources, axis=1)
        found -= rows.take(resources + self._width, axis=1)
        return np.ascontiguousarray(found.T)

    def since(self, number: int, shape: Shape, *, now: bool) -> NodeColumns:
        """Returns the amounts of all states from this number on.

        After them come those of the states that follow when one task of the shape is placed, which
        have no numbers yet unless they have been seen.
        """
        self.following(shape, now=now)
        rows = self._rows[number : self.n]
        after = rows - self._taken[shape.serial, now]
        return self._parts(np.concatenate((rows, after)))

    def following(self, shape: Shape, *, now: bool) -> dict[int, int]:
        """Returns the known next states when one task of the shape is placed, by state.

        A task that cannot start now takes room in the future only.
        """
        key = (shape.serial, now)
        found = self._following.get(key)
        if found is None:
            found = self._following[key] = {}
            nothing = np.zeros(self._width)
            parts = (nothing, shape.request if now else nothing, shape.request, nothing)
            self._taken[key] = np.concatenate(parts)
        return found

    def after(self, state: int, shape: Shape, *, now: bool) -> int:
        """Returns the state that follows when one task of the shape is placed."""
        following = self.following(shape, now=now)
        found = following.get(state)
        if found is None:
            row = self._rows[state] - self._taken[shape.serial, now]
            self.idle_is_future = self.idle_is_future and now
            found = following[state] = self._number(row)
        return found

    def before(self, state: int, shape: Shape, *, now: bool) -> int:
        """Returns the state that one follows when a task of the shape is placed."""
        self.following(shape, now=now)
        return self._number(self._rows[state] + self._taken[shape.serial, now])

    def _number(self, row: Vector) -> int:
        key = row.tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self.n
            self.n += 1
            if number == len(self._rows):
                self._rows = np.pad(self._rows, ((0, number), (0, 0)))
            self._rows[number] = row
        return number

    def _parts(self, rows: Matrix) -> NodeColumns:
        # One row a resource again: to compute with whole rows costs less than to step through them.
        columns, width = np.ascontiguousarray(rows.T), self._width
        return NodeColumns(
            columns[:width],
            columns[width : 2 * width],
            columns[2 * width : 3 * width],
            columns[3 * width :],
        )


def facts_of(node: Node) -> tuple[object, ...]:
    """Returns all of a node that decisions depend on."""
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    meta = node.metadata
    return (
        meta.labels,
        meta.annotations.get(PRIVATE_PORTS),
        node.spec,
        node.status.allocatable,
        ready,
    )
