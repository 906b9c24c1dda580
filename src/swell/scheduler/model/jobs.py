"""Jobs: a PodGroup with its tasks, counted by status, and the amounts that it holds and asks for.

`SchedulerSnapshot` keeps counts and amounts in step, so no question walks over all tasks.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from swell.api.quantity import QuantityError
from swell.api.scheduling import PodGroup, PodGroupPhase
from swell.scheduler.model.native_groups import NativeTerms, was_scheduled
from swell.scheduler.model.queue_rules import DEFAULT_QUEUE
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import Refusal
from swell.scheduler.model.resources import Dimensions, Vector, excess, widened
from swell.scheduler.model.sub_groups import SubGroups
from swell.scheduler.model.task_counts import TaskCounts
from swell.scheduler.model.tasks import ALLOCATED, EVICTABLE, Task, TaskStatus


class JobInfo:
    """One PodGroup with its tasks, and what they hold (`allocated`) and ask for (`pending`)."""

    __slots__ = (
        "_dimensions",
        "_roles",
        "allocated",
        "barred",
        "counts",
        "created",
        "elastic",
        "group",
        "is_annotated",
        "is_constrained",
        "key",
        "levels",
        "min_member",
        "min_resources",
        "n_annotated",
        "native",
        "pending",
        "phase",
        "priority",
        "queue",
        "reserved",
        "role_minimums",
        "starts_at",
        "sub_groups",
        "tasks",
        "topology",
        "topology_refusal",
        "unreadable",
    )

    def __init__(self, group: PodGroup, priority: int, dimensions: Dimensions) -> None:
        meta, spec = group.metadata, group.spec
        self._dimensions = dimensions
        self.key = f"{meta.namespace}/{meta.name}"
        self.group = group
        self.priority = priority
        self.created = meta.creation_timestamp or ""
        self.queue: QueueInfo | None = None
        self.phase = group.status.phase  # a session may change it before it is written
        self.min_member = spec.min_member
        # As in Volcano: with a total below the sum of the roles' minimums only the total counts.
        sums_up = spec.min_member >= sum(spec.min_task_member.values())
        self.role_minimums = dict(spec.min_task_member) if sums_up else {}
        self.min_resources = (
            None if spec.min_resources is None else dimensions.vector(spec.min_resources)
        )
        # Whether it matters which nodes are close to each other: see `scheduler.domains`.
        self.is_constrained = bool(spec.network_topology or spec.sub_group_policy)
        self.topology = spec.network_topology
        self.sub_groups = (
            SubGroups(spec.sub_group_policy, spec.network_topology)
            if spec.sub_group_policy
            else None
        )
        # Without either, annotations of its pods say it: see `annotated_gangs`. Then it has the
        # levels that they name, the one that a soft constraint begins with, and perhaps a refusal.
        self.n_annotated = 0
        self.is_annotated = False
        self.levels: tuple[str, ...] = ()
        self.starts_at = ""
        self.topology_refusal: Refusal | None = None
        self.unreadable = ""  # why its minimum is not known
        self.native: NativeTerms | None = None  # if its group is one of Kubernetes itself
        self.barred: Refusal | None = None  # why none of its pods is placed, whatever room there is
        self.tasks: dict[str, Task] = {}
        self.counts = TaskCounts()
        self._roles: dict[str, TaskCounts] = {}
        self.allocated = dimensions.zero()
        self.pending = dimensions.zero()
        # What this job adds to its queue's sums for admission, as of the last `settle`.
        self.reserved = dimensions.zero()
        self.elastic = dimensions.zero()

    @property
    def takes_annotations(self) -> bool:
        """Whether annotations of its pods count: the group says nothing about topology itself."""
        spec = self.group.spec
        return spec.network_topology is None and not spec.sub_group_policy

    @property
    def queue_name(self) -> str:
        """The name of the queue that the group asks for, whether it exists or not."""
        return self.group.spec.queue or DEFAULT_QUEUE

    def role(self, name: str) -> TaskCounts:
        counts = self._roles.get(name)
        if counts is None:
            counts = self._roles[name] = TaskCounts()
        return counts

    def in_status(self, status: TaskStatus) -> Iterator[Task]:
        return (task for task in self.tasks.values() if task.status is status)

    def evictable(self) -> Iterator[Task]:
        return (task for task in self.tasks.values() if task.status in EVICTABLE)

    @property
    def on_hold(self) -> str:
        """Why the job neither gets nor loses anything for now; empty if it takes part.

        It is because its group, or a queue that its limits come from, cannot be read.
        """
        if self.unreadable or self.queue is None:
            return self.unreadable
        for queue in self.queue.lineage:
            if queue.unreadable:
                return queue.unreadable
        return ""

    @property
    def is_admitted(self) -> bool:
        # Asked very often, hence two identity checks instead of a lookup in a set.
        return not (self.phase is PodGroupPhase.PENDING or self.phase is PodGroupPhase.EMPTY)

    @property
    def was_running(self) -> bool:
        """Whether the gang was complete before and is below its minimum now: it has lost pods."""
        if self.counts.ready >= self.min_member:
            return False
        if self.phase is PodGroupPhase.RUNNING or self.phase is PodGroupPhase.UNKNOWN:
            return True
        if self.counts[TaskStatus.BOUND] or self.counts[TaskStatus.RUNNING]:
            return True
        # A Scheduled condition, true or false, is only written for a gang that was complete.
        conditions = self.group.status.conditions
        return any(c.type == "Scheduled" for c in conditions) or was_scheduled(self.group)

    @property
    def never_claims(self) -> bool:
        """Whether nothing may be evicted for the job."""
        return self.native is not None and self.native.never_claims

    @property
    def is_served(self) -> bool:
        """Whether the job is this scheduler's: a native group is by a pod that names it."""
        return self.native is None or self.native.n_own > 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be decided for the job."""
        if not self.is_served:
            return True
        counts = self.counts
        return self.is_admitted and not (counts[TaskStatus.PENDING] or counts.waiting)

    def reservation(self) -> Vector:
        """Returns what admission reserves for the part of the minimum that is not allocated yet."""
        reserves = self.phase is PodGroupPhase.INQUEUE or (
            self.phase is PodGroupPhase.RUNNING and self.counts.of(ALLOCATED) >= self.min_member
        )
        if self.min_resources is None or not reserves:
            return self._dimensions.zero()
        return excess(self.min_resources, self.allocated)

    def lendable(self) -> Vector:
        """Returns what the job holds beyond its minimum."""
        if self.min_resources is None:
            return self.allocated.copy()
        return excess(self.allocated, self.min_resources)

    def asks_for_admission(self) -> Vector | None:
        """Returns the minimum without what the job holds already, or None without a minimum.

        A gang that fell below its minimum would otherwise wait for its own pods.
        """
        return None if self.min_resources is None else excess(self.min_resources, self.allocated)

    def settle(self, *, leaving: bool = False) -> None:
        """Brings what the job adds to its queue's sums for admission up to date."""
        queue = self.queue
        if queue is not None and self.min_resources is None and not leaving:
            # A shortcut for jobs without minimum, most of them of one pod: they reserve nothing,
            # and all they hold is elastic.
            queue.elastic += self.allocated - self.elastic
            self.elastic = self.allocated.copy()
            return
        if queue is not None:
            queue.reserved -= self.reserved
            queue.elastic -= self.elastic
        if queue is None or leaving:
            self.reserved, self.elastic = self._dimensions.zero(), self._dimensions.zero()
            return
        self.reserved, self.elastic = self.reservation(), self.lendable()
        queue.reserved += self.reserved
        queue.elastic += self.elastic

    def widen(self, width: int) -> None:
        self.allocated = widened(self.allocated, width)
        self.pending = widened(self.pending, width)
        self.reserved = widened(self.reserved, width)
        self.elastic = widened(self.elastic, width)
        if self.min_resources is not None:
            self.min_resources = widened(self.min_resources, width)

    def __repr__(self) -> str:
        return f"<{self.key} {self.phase.value}>"


def read_job(
    group: PodGroup, priority: int, dimensions: Dimensions, unreadable: str = ""
) -> JobInfo:
    """Returns the job of a group. One with an amount that is no number is unreadable."""
    try:
        job = JobInfo(group, priority, dimensions)
    except QuantityError as error:
        unreadable = unreadable or f"group {group.metadata.key}: minResources: {error}"
        spec = replace(group.spec, min_resources=None)
        job = JobInfo(replace(group, spec=spec), priority, dimensions)
        job.group = group
    job.unreadable = unreadable
    return job
