"""A group of one member, for a launcher that no operator started: as `torchrun --standalone`."""

from __future__ import annotations

from collections.abc import Callable

from swell.api.report import TrainingReport
from swell.train.bus.plan import Departure, GroupPlan, Held, Member

_HOST = "127.0.0.1"


class SingleNode:
    """A group that consists of this launcher, and changes only when its workers fail."""

    def __init__(self, is_asked_to_leave: Callable[[], bool]) -> None:
        self._is_asked_to_leave = is_asked_to_leave
        self._generation = 0

    def join(self, held: Held, *, trained: bool) -> GroupPlan | Departure:  # noqa: ARG002
        if self.is_leaving:
            return Departure.LEAVE
        self._generation += 1
        own = Member(index=0, instance=0, incarnation=1, host=_HOST, meeting=0, held=held)
        return GroupPlan(
            generation=self._generation,
            epoch=0,
            members=(own,),
            prefix=str(self._generation),
            source=0,
            behind=(),
        )

    def begin(self, step: int) -> bool:  # noqa: ARG002
        return not self.is_leaving

    def failed(self, generation: int) -> None:
        """Do nothing: there is no other member to tell."""

    def is_aborted(self, generation: int) -> bool:
        return generation < self._generation

    def conclude(self, generation: int) -> bool:  # noqa: ARG002
        return True

    def finish(self) -> None:
        """Do nothing: there is no other member to tell."""

    def publish(self, report: TrainingReport) -> None:
        """Do nothing: a process that is in no job is not asked for reports."""

    @property
    def is_leaving(self) -> bool:
        return self._is_asked_to_leave()

    def close(self) -> None:
        """Do nothing: there is neither a thread nor a line."""
