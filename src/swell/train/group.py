"""The group as the training thread sees it. The bus implements it, and so does a process alone."""

from __future__ import annotations

from typing import Protocol

from swell.api.report import TrainingReport
from swell.train.bus.plan import Departure, GroupPlan, Held


class Group(Protocol):
    """A way to train together. All methods are called by the training thread.

    The implementation calls the `on_abort(generation)` it was made with, on a thread of its own,
    as soon as a generation has broken up: the training thread may sit in a collective, which has
    to end then.
    """

    def join(self, held: Held, *, trained: bool) -> GroupPlan | Departure:
        """Wait, outside any group, for the next plan; or for the word to leave.

        `trained` is false for a member whose state nobody needs: a new process that has built its
        model, and loaded no checkpoint.
        """
        ...

    def begin(self, step: int) -> bool:
        """Whether this step may begin. If not, leave the group and join again."""
        ...

    def failed(self, generation: int) -> None:
        """Say that a step of this generation broke off here, or that it could not be formed."""
        ...

    def is_aborted(self, generation: int) -> bool:
        """Whether this generation has broken up, whatever its collectives pretend."""
        ...

    def conclude(self, generation: int) -> bool:
        """Say that all is trained in this generation, and wait until all its members say so.

        False when it breaks up before: some may lack the last state, and get it in a next group.
        """
        ...

    def finish(self) -> None:
        """Say that all is trained: this member's end is no failure."""
        ...

    def publish(self, report: TrainingReport) -> None:
        """Set the report that is given to those who ask."""
        ...

    @property
    def is_leaving(self) -> bool:
        """Whether this member was asked to leave, by a signal or by its release file."""
        ...

    def close(self) -> None:
        """End all threads and lines of the group."""
        ...
