"""Whether and when a member leaves."""

from __future__ import annotations

from dataclasses import dataclass

from swell.train.bus.knowledge import Knowledge
from swell.train.bus.messages import Depart, MemberPhase
from swell.train.bus.plan import Departure

# One that was asked to leave goes after this time, whatever the others say: the default grace
# period of Kubernetes is 30 s, and a checkpoint may have to be written within it.
LEAVE_S = 20.0
SAVE_S = 10.0
# The word that others hold the state is true when it is sent. A process that was paused since it
# asked for it asks again, since those others may be dead by now.
ANSWER_S = 1.0


@dataclass(slots=True)
class Departing:
    """The requests to leave that a member has heard, and the answer that it gave."""

    departure: Departure | None = None  # given to the training thread
    deferred: Departure | None = None  # for a training thread that is in a group
    _leave_by: float | None = None
    _asked_back: float = float("-inf")

    def ask(self, within_s: float | None, now: float) -> None:
        """Take the request to be gone within some seconds, if that is known."""
        limit = LEAVE_S if within_s is None else max(1.0, min(LEAVE_S, within_s - SAVE_S))
        self._leave_by = min(now + limit, self._leave_by or now + limit)

    def must_stop(self, know: Knowledge, now: float) -> bool:
        """Whether no further step may be done, agreed on or not."""
        return know.is_ghost or (know.is_leaving and self._is_late(now))

    def due(self, know: Knowledge, now: float) -> Departure | None:
        """The way to leave now; None while there is something to wait for."""
        status = know.status
        if status.phase is not MemberPhase.READY:
            return None
        if know.is_ghost:
            return Departure.LEAVE
        if not know.is_leaving:
            return None
        # Until a new group has formed, it may need the state again: its leader says when.
        is_needed = know.plan is not None and status.trained
        if not is_needed and not know.is_in_plan(status.incarnation):
            return Departure.LEAVE
        if self._is_late(now):
            return Departure.SAVE if status.trained else Departure.LEAVE
        return None

    def is_sure(self, word: Depart, know: Knowledge, now: float) -> bool:
        """Whether the leader's word to leave is to be followed; it is asked back otherwise."""
        status = know.status
        is_keeper = status.trained and status.phase is MemberPhase.READY
        is_answer = word.is_final and now - self._asked_back <= ANSWER_S
        if word.departure is Departure.LEAVE and is_keeper and not is_answer:
            self._asked_back = now
            return False
        return True

    def _is_late(self, now: float) -> bool:
        return self._leave_by is not None and now > self._leave_by
