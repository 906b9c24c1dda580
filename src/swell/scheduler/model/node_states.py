"""States of nodes: equal nodes have one number, so that what follows from a state is kept once.

The state of a node is all that changes with its tasks and all that it has: allocatable, idle and
future resources. Nodes of a few kinds that take pods of a few shapes go through the same states
again and again; what a shape scores in a state is computed once (`placement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from swell.scheduler.model.resources import Matrix, Places
from swell.scheduler.model.tasks import Shape

_N_PARTS = 3  # allocatable, idle, future: one below the other, they tell states apart
_COLUMNS_MIN = 64


class NodeColumns(NamedTuple):
    """The amounts of some nodes or states. `future` is `idle` itself where they are equal."""

    allocatable: Matrix
    idle: Matrix
    future: Matrix
    divisor: Matrix  # allocatable, infinite where there is none, so that its share is 0


class NodeStates:
    """Every state seen so far, and which state follows when a task of some shape is placed."""

    def __init__(self, width: int) -> None:
        self._width = width
        # The parts of each state, and the divisor below them: one column a state.
        self._columns: Matrix = np.zeros(((_N_PARTS + 1) * width, _COLUMNS_MIN))
        self._numbers: dict[bytes, int] = {}
        # By serial of the shape and whether the task starts now: by state, the state that follows.
        self._following: dict[tuple[int, bool], dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, columns: Matrix) -> list[int]:
        """Returns the numbers of the states of columns that have all three parts."""
        known, width, found = self._numbers, self._width, []
        rows = np.ascontiguousarray(columns.T)
        size = rows.shape[1] * rows.itemsize
        content = rows.tobytes()
        for at in range(rows.shape[0]):
            key = content[at * size : (at + 1) * size]
            number = known.get(key)
            if number is None:
                number = known[key] = len(known)
                if number >= self._columns.shape[1]:
                    self._columns = np.pad(self._columns, ((0, 0), (0, number)))
                column, has = self._columns[:, number], rows[at, :width]
                column[: _N_PARTS * width] = rows[at]
                column[_N_PARTS * width :] = np.where(has == 0, np.inf, has)
            found.append(number)
        return found

    def columns(self, states: Sequence[int] | Places) -> NodeColumns:
        """Returns the amounts of some states."""
        width, columns = self._width, self._columns.take(states, axis=1)
        return NodeColumns(*(columns[at : at + width] for at in range(0, len(columns), width)))

    def following(self, shape: Shape, *, now: bool) -> dict[int, int]:
        """Returns the known next states when one task of the shape is placed, by state.

        A task that cannot start now takes room in the future only.
        """
        key = (shape.serial, now)
        found = self._following.get(key)
        if found is None:
            found = self._following[key] = {}
        return found

    def after(self, state: int, shape: Shape, *, now: bool) -> int:
        """Returns the state that follows when one task of the shape is placed."""
        found = self.following(shape, now=now).get(state)
        return self.chain(state, shape, 1, now=now)[0] if found is None else found

    def chain(self, state: int, shape: Shape, n: int, *, now: bool) -> list[int]:
        """Returns the states after 1, 2, ... n tasks of the shape, and remembers them."""
        width = self._width
        columns = np.repeat(self._columns[: _N_PARTS * width, state, None], n, axis=1)
        taken = np.multiply.outer(shape.request, np.arange(1.0, n + 1))
        columns[2 * width :] -= taken
        if now:
            columns[width : 2 * width] -= taken
        found = self.numbers(columns)
        following = self.following(shape, now=now)
        for one in found:
            following[state] = one
            state = one
        return found
