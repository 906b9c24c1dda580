"""Where the time of a job went: every second of its life has exactly one cause. Pure.

    created                                                                       ended
    |-- queued --|-- starting --|-- running --|-- restart --|-- running --|-- ending --|

The causes follow from the phases of the record, its marks, and whether the job had run before: a
job that waits for room again after it was preempted has lost that time by the preemption, whatever
its phase is called. A time that lies before its predecessor (clocks differ, and are set back)
counts as that predecessor's, so that the parts always add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from swell.history.life import (
    ENDING,
    PAUSED,
    RESUMED,
    STARTED,
    SUSPENDED,
    JobLife,
    Mark,
    PhaseChange,
)


class LedgerCause(StrEnum):
    """Why a second of a job's life passed as it did."""

    QUEUED = "queued"  # it waited for room, and had not run since it was submitted or resumed
    BLOCKED = "blocked"  # it waited for other jobs
    SUSPENDED = "suspended"
    STARTING = "starting"  # it had room; its containers were not all started
    RUNNING = "running"
    RESTART = "restart"  # a pod failed or was deleted
    RESIZE = "resize"
    PREEMPTION = "preemption"  # pods were taken away for another job
    NODE = "node"  # a node or an accelerator was lost
    ENDING = "ending"  # its end was decided; its pods were leaving


# The causes whose time is lost: the job had been running, and would have gone on.
LOST = (LedgerCause.RESTART, LedgerCause.RESIZE, LedgerCause.PREEMPTION, LedgerCause.NODE)

_NODE_REASONS = frozenset({"NodeLost", "GPUFault"})
_PREEMPTION_REASONS = frozenset({"Preempted", "Reclaimed", "Evicted", "PreemptedByScheduler"})
_RESIZE_REASONS = frozenset({"Shrunk", "Resized"})
_FINAL = frozenset({"Succeed", "Failed", "Timeout", "Preempted", "NodeFail", "Deleted"})
_RUNNING, _SCALING = "Running", "Scaling"
_ALIVE = frozenset({_RUNNING, _SCALING})
# The cause of a phase that nothing else explains.
_PLAIN = {
    _RUNNING: LedgerCause.RUNNING,
    _SCALING: LedgerCause.RESIZE,
    "Creating": LedgerCause.STARTING,
    "Restarting": LedgerCause.RESTART,
    "Terminating": LedgerCause.RESTART,
}


# A struct, because a page shows those of ten thousand jobs: it is made in a fifth of the time.
class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """A stretch of time with one cause, and the words that the status had for it."""

    start: float
    end: float
    cause: LedgerCause
    detail: str = ""

    @property
    def seconds(self) -> float:
        return self.end - self.start


class TimeLedger(msgspec.Struct, frozen=True, gc=False):
    """The stretches of a life, one after the other without a gap, and their sums by cause."""

    entries: tuple[LedgerEntry, ...]
    seconds: dict[LedgerCause, float]

    @property
    def wall_s(self) -> float:
        return self.entries[-1].end - self.entries[0].start if self.entries else 0.0

    @property
    def lost_s(self) -> float:
        return sum(self.seconds.get(cause, 0.0) for cause in LOST)


def ledger_of(life: JobLife, now: float) -> TimeLedger:
    """Returns the ledger of a life, up to its end or to now."""
    until = max(life.created, now if life.ended is None else life.ended)
    entries = _entries(life, until)
    if life.marks and any(mark.name == PAUSED for mark in life.marks):
        entries = _carved(entries, life.marks)
    sums: dict[LedgerCause, float] = {}
    for one in entries:
        cause = one.cause
        sums[cause] = sums.get(cause, 0.0) + (one.end - one.start)
    return TimeLedger(tuple(entries), sums)


@dataclass(slots=True)
class _Standing:
    """How the job stands between two changes."""

    phase: str = ""
    has_run: bool = False
    lost_by: LedgerCause | None = None
    is_suspended: bool = False
    is_blocked: bool = False
    is_ending: bool = False

    def enter(self, change: PhaseChange) -> None:
        was_running = self.phase in _ALIVE
        self.phase = change.phase
        self.is_blocked = change.reason == "WaitingForJobs"
        if change.phase in _ALIVE:
            self.has_run, self.lost_by, self.is_suspended = True, None, False
            return
        if change.reason == "Suspended":
            self.is_suspended = True
        found = _loss(change.reason)
        # The first pass after a loss may know only that a pod is gone; a later one knows why.
        if was_running or (self.lost_by is LedgerCause.RESTART and found is not None):
            self.lost_by = found or LedgerCause.RESTART

    def mark(self, mark: Mark) -> None:
        if mark.name == SUSPENDED:
            self.is_suspended = True
        elif mark.name == RESUMED:
            # It queues anew, by its user's wish: this is nobody's fault.
            self.is_suspended, self.lost_by = False, None
        elif mark.name == STARTED:
            self.is_blocked = False
        elif mark.name == ENDING:
            self.is_ending = True

    @property
    def cause(self) -> LedgerCause:  # the order of the questions is the rule
        if self.is_ending:
            return LedgerCause.ENDING
        if self.is_suspended:
            return LedgerCause.SUSPENDED
        if self.phase in _ALIVE:
            return _PLAIN[self.phase]
        if self.lost_by is not None:
            return self.lost_by
        if self.is_blocked:
            return LedgerCause.BLOCKED
        return _PLAIN.get(self.phase, LedgerCause.QUEUED)


def _entries(life: JobLife, until: float) -> list[LedgerEntry]:
    standing = _Standing()
    entries: list[LedgerEntry] = []
    at, cause, detail = life.created, LedgerCause.QUEUED, ""
    # Ten thousand lives are asked for at once: this loop is what a query of them costs.
    for change in _in_order(life):
        if isinstance(change, PhaseChange):
            standing.enter(change)
            text = change.message or change.reason
        else:
            standing.mark(change)
            text = detail
        became = standing.cause
        if became is not cause or (text and text != detail):
            moment = change.at if change.at < until else until
            if moment > at:
                entries.append(LedgerEntry(at, moment, cause, detail))
                at = moment
            cause, detail = became, text
    if until > at or not entries:
        entries.append(LedgerEntry(at, until, cause, detail))
    return entries


def _in_order(life: JobLife) -> Sequence[PhaseChange | Mark]:
    """Returns phases and marks by time; of one moment, phases come first.

    A phase keeps its place among phases, also where its time is earlier than its predecessor's.
    """
    if not life.marks:
        return [change for change in life.phases if change.phase not in _FINAL]
    latest = life.created
    timed: list[tuple[float, int, int, PhaseChange | Mark]] = []
    for at, change in enumerate(life.phases):
        latest = max(latest, change.at)
        if change.phase not in _FINAL:
            timed.append((latest, 0, at, change))
    timed += [(mark.at, 1, at, mark) for at, mark in enumerate(life.marks)]
    return [one[3] for one in sorted(timed, key=lambda one: one[:3])]


def _loss(reason: str) -> LedgerCause | None:
    """Returns the cause that a reason names; None for one that says no more than a restart."""
    if reason in _NODE_REASONS:
        return LedgerCause.NODE
    if reason in _PREEMPTION_REASONS:
        return LedgerCause.PREEMPTION
    return LedgerCause.RESIZE if reason in _RESIZE_REASONS else None


def _carved(entries: Iterable[LedgerEntry], marks: Iterable[Mark]) -> list[LedgerEntry]:
    """Returns the entries with the pauses that programs reported taken out of their running."""
    pauses = [(one.at - one.seconds, one.at) for one in marks if one.name == PAUSED]
    carved: list[LedgerEntry] = []
    for entry in entries:
        at = entry.start
        if entry.cause is LedgerCause.RUNNING:
            for began, ended in sorted(pauses):
                start, end = max(began, at), min(ended, entry.end)
                if start >= end:
                    continue
                if start > at:
                    carved.append(LedgerEntry(at, start, entry.cause, entry.detail))
                carved.append(LedgerEntry(start, end, LedgerCause.RESIZE, "the group changed"))
                at = end
        if at < entry.end or at == entry.start:
            carved.append(LedgerEntry(at, entry.end, entry.cause, entry.detail))
    return carved
