"""Groups that never change: a process alone, and one that torchrun has started."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

from swell.api.report import TrainingReport
from swell.train.bus.plan import NOTHING, Departure, GroupPlan, Held, Member
from swell.train.forks import keep_from_children


class FixedGroup:
    """A group whose size is given from outside. A broken one is for the outside to restart.

    SIGTERM ends it at the next step: with a checkpoint, if there is a folder for one.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self._leaving = False
        self._broken = False
        self._old_handler: Any = None
        self.report: TrainingReport | None = None
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGTERM, self._terminate)
            keep_from_children(self)

    def join(self, held: Held, *, trained: bool) -> GroupPlan | Departure:  # noqa: ARG002
        if self._leaving:
            return Departure.SAVE if self._rank == 0 else Departure.LEAVE
        if self._broken:
            # Ended with an error, so that whoever started the processes starts them anew.
            raise SystemExit(1)
        members = tuple(Member(i, 0, i, "", 0, NOTHING) for i in range(self._size))
        behind = tuple(range(1, self._size))
        return GroupPlan(1, 0, members, "torchrun", source=0, behind=behind)

    def begin(self, step: int) -> bool:  # noqa: ARG002
        # Members of a larger group must stop at the same step, which they cannot agree on here:
        # torchrun stops them all, and they go on from their last checkpoint.
        return not (self._leaving and self._size == 1)

    def failed(self, generation: int) -> None:  # noqa: ARG002
        self._broken = True

    def is_aborted(self, generation: int) -> bool:  # noqa: ARG002
        return False

    def conclude(self, generation: int) -> bool:  # noqa: ARG002
        return True

    def finish(self) -> None:
        """Do nothing: the end of a process says all."""

    def publish(self, report: TrainingReport) -> None:
        self.report = report

    @property
    def is_leaving(self) -> bool:
        return self._leaving

    def close(self) -> None:
        if self._old_handler is not None:
            signal.signal(signal.SIGTERM, self._old_handler)
            self._old_handler = None

    def forget_in_child(self) -> None:
        """Let a forked child end on SIGTERM as it would have without this group."""
        self.close()

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        if self._size > 1:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        del frame
        self._leaving = True


def fixed_group(environ: Mapping[str, str]) -> FixedGroup:
    """The group that torchrun's variables describe; without them, a process alone."""
    if "RANK" in environ and "WORLD_SIZE" in environ:
        return FixedGroup(int(environ["RANK"]), int(environ["WORLD_SIZE"]))
    return FixedGroup(0, 1)
