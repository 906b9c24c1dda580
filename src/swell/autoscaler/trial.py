"""Trials in the mirror: pods that do not exist are put in, moved about, and taken out again.

A plan opens one trial, asks through it, and closes it; then the mirror is as it was before.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from swell.api.meta import ObjectMeta
from swell.api.pod import Pod, PodPhase, PodStatus
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.mirror import SCHEDULER, SchedulerMirror, as_member
from swell.scheduler.model.resources import Vector
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus
from swell.scheduler.session import Session

# No object of the API has this in its name, so an imagined pod collides with no real one.
_MARK = "~"
_PRESENT = frozenset({TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RUNNING})


class Trial:
    """The scheduler's snapshot for the time of one plan, with a log of what was changed in it."""

    def __init__(self, mirror: SchedulerMirror) -> None:
        self.mirror = mirror
        self.snapshot: SchedulerSnapshot = mirror.snapshot()
        self._imagined: list[str] = []
        self._moves: list[tuple[Task, TaskStatus, int]] = []
        self._sums: dict[str, tuple[Vector, Vector, Vector]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()
        if self._sums is not None:
            self.reset_sums()
        for key in reversed(self._imagined):
            self.snapshot.remove_pod(key)

    def session(self) -> Session:
        return self.mirror.session()

    # --- pods that do not exist

    def imagine_member(self, job: JobState, state: RoleState) -> Task:
        """Puts in a pending pod of a role's gang, as the operator would create it."""
        pod = self._replica(job, state)
        return self._put(as_member(pod, job.view.group.name, state.view.name))

    def imagine_bystander(self, job: JobState, state: RoleState) -> Task:
        """Puts in a pod like the role's that belongs to no gang: it only takes room and ports."""
        pod = self._replica(job, state)
        spec = msgspec.structs.replace(pod.spec, scheduler_name=_MARK)
        return self._put(msgspec.structs.replace(pod, spec=spec))

    def _put(self, pod: Pod) -> Task:
        task = self.snapshot.put_pod(pod)
        self._imagined.append(task.key)
        return task

    def _replica(self, job: JobState, state: RoleState) -> Pod:
        view, role = job.view, state.view
        spec, labels = role.template.spec, dict(role.template.labels)
        # A pod that exists shows best how the operator makes them: with ports, with its own marks.
        for pod in state.pods:
            task = self.snapshot.task(str(pod.key))
            if task is not None:
                spec, labels = task.pod.spec, task.pod.metadata.labels
                break
        # Without an index: the pod is no replica yet, and so at no place beyond the target.
        labels = {name: text for name, text in labels.items() if not name.endswith("ndex")}
        name = f"{view.id.name}-{role.name}{_MARK}{len(self._imagined)}"
        return Pod(
            metadata=ObjectMeta(name=name, namespace=view.id.namespace, labels=labels),
            spec=msgspec.structs.replace(
                spec,
                node_name="",
                volumes=(),
                scheduling_gates=(),
                scheduler_name=spec.scheduler_name or SCHEDULER,
            ),
            status=PodStatus(phase=PodPhase.PENDING),
        )

    # --- moves, which are undone in reverse

    def mark(self) -> int:
        return len(self._moves)

    def place(self, task: Task, node: int) -> None:
        self._move(task, TaskStatus.ALLOCATED, node)

    def release(self, task: Task) -> None:
        """Takes a pod away, as if it had left already."""
        if task.status in _PRESENT:
            self._move(task, TaskStatus.FAILED, NOWHERE)

    def undo(self, mark: int = 0) -> None:
        while len(self._moves) > mark:
            task, status, node = self._moves.pop()
            self.snapshot.move(task, status, node)

    def _move(self, task: Task, status: TaskStatus, node: int) -> None:
        self._moves.append((task, task.status, task.node))
        self.snapshot.move(task, status, node)

    # --- sums of queues

    def reset_sums(self) -> None:
        """Sets the sums of all queues back to those of the first call, and at last when closed."""
        if self._sums is None:
            self._sums = {
                name: (queue.allocated.copy(), queue.pending.copy(), queue.subtree.copy())
                for name, queue in self.snapshot.queues.items()
            }
            return
        for name, sums in self._sums.items():
            queue = self.snapshot.queues[name]
            queue.allocated, queue.pending, queue.subtree = (one.copy() for one in sums)
