"""How many tasks are in each status: of a job, a role or a sub-group."""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.model.tasks import N_STATUSES, READY, TaskStatus

# Plain numbers: counters are read all the time, and indexing with an IntEnum member is slower.
_ALLOCATED, _BINDING, _BOUND, _RUNNING, _SUCCEEDED = map(int, READY)
_PENDING = int(TaskStatus.PENDING)
_FAILED = int(TaskStatus.FAILED)
_BEST_EFFORT_PENDING = N_STATUSES  # one more counter behind those of the statuses


class TaskCounts:
    """How many tasks of a job, or of one of its roles, are in each status."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * (N_STATUSES + 1)

    def add(self, status: TaskStatus, n: int, *, best_effort: bool) -> None:
        self._counts[status] += n
        if best_effort and status is TaskStatus.PENDING:
            self._counts[_BEST_EFFORT_PENDING] += n

    def shift(self, old: TaskStatus, new: TaskStatus, n: int, *, best_effort: bool) -> None:
        """Records that n tasks went from one status to another."""
        if best_effort:
            self.add(old, -n, best_effort=True)
            self.add(new, n, best_effort=True)
            return
        self._counts[old] -= n
        self._counts[new] += n

    def __getitem__(self, status: TaskStatus) -> int:
        return self._counts[status]

    def of(self, statuses: Sequence[TaskStatus]) -> int:
        counts = self._counts
        return sum(counts[status] for status in statuses)

    @property
    def ready(self) -> int:
        """Tasks that are allocated, binding, bound, running or succeeded."""
        counts = self._counts
        held = counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING]
        return held + counts[_SUCCEEDED]

    @property
    def confirmed(self) -> int:
        """Ready tasks without those whose binding may still fail: bound, running, succeeded."""
        counts = self._counts
        return counts[_BOUND] + counts[_RUNNING] + counts[_SUCCEEDED]

    @property
    def ready_or_best_effort(self) -> int:
        """Ready tasks, and pending ones that ask for nothing: backfill finds those a node."""
        # Written out: this is asked several times for every gang.
        counts = self._counts
        held = counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING]
        return held + counts[_SUCCEEDED] + counts[_BEST_EFFORT_PENDING]

    @property
    def best_effort(self) -> int:
        """Pending tasks that ask for nothing: the work of backfill."""
        return self._counts[_BEST_EFFORT_PENDING]

    @property
    def asking(self) -> int:
        """Pending tasks that ask for resources: the work of allocate."""
        return self._counts[_PENDING] - self._counts[_BEST_EFFORT_PENDING]

    @property
    def scheduled(self) -> int:
        """Tasks that are bound, running, succeeded or failed."""
        counts = self._counts
        return counts[_BOUND] + counts[_RUNNING] + counts[_SUCCEEDED] + counts[_FAILED]

    @property
    def waiting(self) -> int:
        return self._counts[TaskStatus.PIPELINED]

    @property
    def live(self) -> int:
        return self.ready + self.waiting + self._counts[TaskStatus.PENDING]
