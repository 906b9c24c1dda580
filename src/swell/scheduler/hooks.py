"""The plugin interface: the functions a plugin may register, and how their answers combine.

A plugin is a function that opens it for one session and returns its `Hooks`. A hook decides nothing
alone. `Votes` asks one hook of all plugins, tier by tier, and combines the answers by a rule that
differs from hook to hook. Each rule is Volcano's, with one exception: victims must be granted by
all enabled plugins of all tiers, and an empty agreement is final (ADR 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.model.domain_tree import Cells, Indexes
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo, QueueShare
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.resources import Mask, Matrix, Vector
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import Shape, Task, in_own_order

if TYPE_CHECKING:
    from swell.scheduler.session import Session

# Keys of one hook are compared with each other only; the smaller comes first.
SortKey = float | str | tuple[float | str, ...]
# The answer of `shortfall` when no number of tasks of the role makes the job ready. Larger than
# any job, and small enough to be added and compared as an ordinary number.
UNREACHABLE = 1 << 30
F = TypeVar("F")


class Vote(Enum):
    """An answer to a yes-or-no question. ABSTAIN leaves the decision to the other plugins."""

    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"


# (preemptor, candidates in order) -> those of the candidates that may be evicted.
VictimVote = Callable[[Task, Sequence[EvictionUnit]], Sequence[EvictionUnit]]


@dataclass(frozen=True, slots=True)
class DomainScores:
    """The score of every domain, and what is added to the highest of those that take the pods."""

    score: Vector
    bonus: Vector


class CellScoresAhead(Protocol):
    """Foresees the scores of cells when more tasks like one will have been placed."""

    def begin(self, shape: Shape) -> Vector:
        """Returns the score of every cell for a task of a shape, rounded."""

    def place(self, cell: int, n: int) -> None:
        """Places n tasks on nodes of a cell, in thought."""

    def end(self, nodes: Sequence[int]) -> None:
        """Remembers the nodes of all tasks that were placed in thought, one each."""

    def near(self, cell: int) -> tuple[slice | Indexes, Vector] | None:
        """Returns the cells whose scores change with tasks in one of them, and their scores.

        What changes for all nodes alike does not count. None if no score changes.
        """


class GatheringScores(NamedTuple):
    """Scores of nodes for one task, equal for all nodes of one cell of the network.

    `scores` returns those of all cells in score steps, not rounded. A task that is placed raises
    the score of its own cell at least as much as of any other, for the next task like it. `settled`
    are the nodes for which this holds; None means all. `ahead` foresees them where that is
    possible.
    """

    cells: Cells
    scores: Callable[[], Vector]
    settled: Mask | None = None
    ahead: CellScoresAhead | None = None

    @property
    def of_nodes(self) -> Vector:
        """The scores of all nodes, rounded as all scores are."""
        found: Vector = np.rint(self.scores())[self.cells.of_node]
        return found


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions of one plugin in one session. A hook that is None has no opinion."""

    # Order: the smaller key comes first.
    job_key: Callable[[JobInfo], SortKey] | None = None
    queue_key: Callable[[QueueInfo], SortKey] | None = None
    # True when an allocation in one queue makes the keys of other queues larger.
    queue_keys_interact: bool = False
    # True when it may make them smaller, too: then all queues are compared anew at every turn.
    queue_keys_may_fall: bool = False
    task_key: Callable[[Task], SortKey] | None = None
    # Order of the victims' queues, seen from a preemptor: the larger key is evicted from first.
    victim_queue_key: Callable[[Task, QueueInfo], SortKey] | None = None

    # The state of a job.
    job_valid: Callable[[JobInfo], Refusal | None] | None = None
    # How many more tasks of a role make the job ready: 0 when it is ready already, UNREACHABLE
    # when tasks of this role cannot make it so.
    shortfall: Callable[[JobInfo, str], int] | None = None
    pipelined: Callable[[JobInfo], Vote] | None = None
    starving: Callable[[JobInfo], bool] | None = None

    # Admission: `enqueueable` asks, `admitted` reports that all plugins permitted it.
    enqueueable: Callable[[JobInfo], Vote | Refusal] | None = None
    admitted: Callable[[JobInfo], None] | None = None

    # Quota.
    overused: Callable[[QueueInfo], bool] | None = None
    # How many of n tasks of a shape the queue may still take.
    allowance: Callable[[QueueInfo, Shape, int], int] | None = None
    # For metrics; None for a queue that the plugin does not know.
    queue_share: Callable[[QueueInfo], QueueShare | None] | None = None
    # Whether the queue may evict from other queues for the task.
    preemptive: Callable[[QueueInfo, Task], bool] | None = None
    # Why the queue may not take all of n tasks of a shape.
    quota_refusal: Callable[[QueueInfo, Shape, int], Refusal | None] | None = None
    # Whether an amount that leaves the second queue frees some of the quota that the first queue
    # lacks for one task of a shape. False while the first queue lacks none.
    frees_quota: Callable[[QueueInfo, Shape, QueueInfo, Vector], bool] | None = None

    # Victims. The hooks about a whole job or queue are a cheap first filter: they may pass one none
    # of whose tasks the vote grants, but never reject one whose tasks it would grant.
    preemptable: VictimVote | None = None
    preemptable_job: Callable[[Task, JobInfo], bool] | None = None
    reclaimable: VictimVote | None = None
    reclaimable_queue: Callable[[QueueInfo], bool] | None = None
    shuffle_victims: Callable[[Sequence[Task]], Sequence[Task]] | None = None

    # Nodes. `node_filter` depends on the shape only, so no eviction changes it. `task_filter`
    # depends on the tasks already placed; it returns None when nothing restricts the task.
    node_filter: Callable[[Shape], Mask] | None = None
    task_filter: Callable[[Task, bool], Mask | None] | None = None
    # Why nodes refuse a task: each reason with the nodes that pass it, in the order of the checks.
    diagnose: Callable[[Task], Iterable[tuple[WaitReason, Mask, str]]] | None = None
    node_score: Callable[[Shape], Vector] | None = None
    # Scores nodes by their utilization (resources x nodes) with one more task of the shape. A value
    # above 1 means too full; a resource that a node does not have counts as 0. The score of a node
    # depends on its own utilization only: it is kept for all nodes in the same state (ADR 172).
    # The vector is a new one, and the caller's to change; the matrix is not to be written to.
    load_score: Callable[[Shape, Matrix], Vector] | None = None
    task_score: Callable[[Task], Vector | None] | None = None
    # Scores the nodes that can take the task against each other; None if nothing is to compare.
    relative_score: Callable[[Task, Mask], Vector | None] | None = None
    # What tasks of a shape may use of some room (resources x nodes), where a part is kept.
    usable_room: Callable[[Shape, Matrix], Matrix] | None = None
    # The nodes that tasks of a queue may use, and their scores; None stands for all, and for 0.
    queue_filter: Callable[[QueueInfo], Mask | None] | None = None
    queue_score: Callable[[QueueInfo], Vector | None] | None = None
    gathering_score: Callable[[Task], GatheringScores | None] | None = None

    # Network topology (`domains`). Whether gangs are kept within the tiers that they ask for.
    offers_gradients: bool = False
    # Scores every domain for the pods of a gang or sub-group.
    domain_score: Callable[[JobInfo, SubGroup | None], DomainScores] | None = None
    # Sub-groups: how many more tasks make one ready, whether it is once its tasks have started,
    # and in which order they are placed.
    sub_group_shortfall: Callable[[SubGroup], int] | None = None
    sub_group_pipelined: Callable[[SubGroup], Vote] | None = None
    sub_group_key: Callable[[SubGroup], SortKey] | None = None

    # The end of a session: why the job counts as unschedulable, or None.
    unschedulable: Callable[[JobInfo], Refusal | None] | None = None


Plugin = Callable[["Session", PluginOption], Hooks]
OpenPlugin = tuple[PluginOption, Hooks]
Tiers = Sequence[Sequence[OpenPlugin]]


def by_tier(tiers: Tiers, pick: Callable[[Hooks], F | None], switch: str = "") -> list[list[F]]:
    """Returns one hook of all plugins that have it and whose switch for it is on."""
    return [
        [
            hook
            for option, hooks in tier
            if (hook := pick(hooks)) is not None and (not switch or option.is_on(switch))
        ]
        for tier in tiers
    ]


def flat(tiers: Tiers, pick: Callable[[Hooks], F | None], switch: str = "") -> list[F]:
    """Returns the same hooks in one list, for rules that do not look at tiers."""
    return [hook for tier in by_tier(tiers, pick, switch) for hook in tier]


def _up_to(tiers: Tiers, name: str) -> Tiers:
    """Returns the open plugins up to and with the one of this name; none if it is not open."""
    listed = [one for tier in tiers for one in tier]
    last = next((at for at, (option, _) in enumerate(listed) if option.name == name), -1)
    return [listed[: last + 1]]


class Votes:
    """The combined answers of all open plugins of a session."""

    def __init__(self, tiers: Tiers) -> None:
        self._job_keys = flat(tiers, lambda h: h.job_key, "enableJobOrder")
        self._queue_keys = flat(tiers, lambda h: h.queue_key, "enableQueueOrder")
        self.queue_keys_interact = any(h.queue_keys_interact for tier in tiers for _, h in tier)
        self.queue_keys_may_fall = any(h.queue_keys_may_fall for tier in tiers for _, h in tier)
        self._ranks = flat(_up_to(tiers, "priority"), lambda h: h.job_key, "enableJobOrder")
        self._task_keys = flat(tiers, lambda h: h.task_key, "enableTaskOrder")
        self._victim_queue_keys = flat(tiers, lambda h: h.victim_queue_key)
        self._valid = flat(tiers, lambda h: h.job_valid)
        self._shortfall = flat(tiers, lambda h: h.shortfall, "enableJobReady")
        self._pipelined = by_tier(tiers, lambda h: h.pipelined, "enableJobPipelined")
        self._starving = by_tier(tiers, lambda h: h.starving, "enableJobStarving")
        self._enqueueable = by_tier(tiers, lambda h: h.enqueueable, "enableJobEnqueued")
        self._admitted = flat(tiers, lambda h: h.admitted, "enableJobEnqueued")
        self._queue_share = flat(tiers, lambda h: h.queue_share)
        self._overused = flat(tiers, lambda h: h.overused, "enabledOverused")
        self._allowance = flat(tiers, lambda h: h.allowance, "enabledAllocatable")
        self._quota_refusal = flat(tiers, lambda h: h.quota_refusal, "enabledAllocatable")
        self._frees_quota = flat(tiers, lambda h: h.frees_quota, "enabledAllocatable")
        self._preemptive = flat(tiers, lambda h: h.preemptive, "enablePreemptive")
        self._preemptable = flat(tiers, lambda h: h.preemptable, "enablePreemptable")
        self._preemptable_job = flat(tiers, lambda h: h.preemptable_job, "enablePreemptable")
        self._reclaimable = flat(tiers, lambda h: h.reclaimable, "enableReclaimable")
        self._reclaimable_queue = flat(tiers, lambda h: h.reclaimable_queue, "enableReclaimable")
        self._shuffle_victims = by_tier(tiers, lambda h: h.shuffle_victims, "enabledVictim")
        self._unschedulable = flat(tiers, lambda h: h.unschedulable)
        offers = flat(tiers, lambda h: h.offers_gradients or None, "enabledHyperNodeGradient")
        self.offers_gradients = any(offers)
        self._domain_scores = flat(tiers, lambda h: h.domain_score, "enabledHyperNodeOrder")
        self._sub_shortfall = flat(tiers, lambda h: h.sub_group_shortfall, "enabledSubJobReady")
        self._sub_pipelined = by_tier(
            tiers, lambda h: h.sub_group_pipelined, "enabledSubJobPipelined"
        )
        self._sub_keys = flat(tiers, lambda h: h.sub_group_key, "enabledSubJobOrder")

    # --- order: the first plugin that sees a difference decides, then creation time, then name

    def job_key(self, job: JobInfo) -> tuple[object, ...]:
        """The key by which jobs of a queue are served.

        A gang that ran and has lost pods comes before jobs that have not started: the pods it
        still has do nothing until it is complete again.
        """
        return (not job.was_running, *self.importance_of(job))

    def importance_of(self, job: JobInfo) -> tuple[object, ...]:
        """The key of a job without that precedence. Victims are ordered by it."""
        return (*(key(job) for key in self._job_keys), job.created, job.key)

    def rank_of(self, job: JobInfo) -> tuple[object, ...]:
        """The part of that key up to priorities: among victims of equal rank the price decides."""
        return tuple(key(job) for key in self._ranks)

    def victim_rank(self, preemptor: Task, job: JobInfo) -> tuple[object, ...]:
        """The key of a victim before its price: how near its queue is, its queue, its rank."""
        if job.queue is None:
            return ()
        near = tuple(key(preemptor, job.queue) for key in self._victim_queue_keys)
        return (near, self.queue_key(job.queue), self.rank_of(job))

    def queue_key(self, queue: QueueInfo) -> tuple[object, ...]:
        return (*(key(queue) for key in self._queue_keys), queue.created, queue.name)

    def task_key(self, task: Task) -> tuple[object, ...]:
        return (*(key(task) for key in self._task_keys), task.order)

    def tasks_in_order(self, tasks: Iterable[Task]) -> list[Task]:
        # Stable sorts by one key after the other, the last first: no tuple is made for each of tens
        # of thousands of tasks, and usually all tasks of a gang have the same keys.
        ordered = in_own_order(tasks)
        for key in reversed(self._task_keys):
            keys = list(map(key, ordered))
            if keys and keys.count(keys[0]) < len(keys):
                ordered.sort(key=key)
        return ordered

    def victims_in_order(self, preemptor: Task, tasks: Sequence[Task]) -> list[Task]:
        """Sorts candidates so that the least important comes first.

        Compared are, in this order: how near the queue is to the preemptor's, then queue, job and
        task, each of them last in the order in which it is served.
        """
        known: dict[str, tuple[object, ...]] = {}

        def rank(task: Task) -> tuple[object, ...]:
            job = task.job
            if job is None or job.queue is None:
                return ()
            if job.key not in known:
                near = tuple(key(preemptor, job.queue) for key in self._victim_queue_keys)
                known[job.key] = (near, self.queue_key(job.queue), self.importance_of(job))
            return (*known[job.key], self.task_key(task))

        return sorted(tasks, key=rank, reverse=True)

    # --- jobs

    def invalid(self, job: JobInfo) -> Refusal | None:
        """Why the job cannot be scheduled as it is: the first refusal of any plugin."""
        # A loop and not `next`, here and below: this is asked for every gang, and a generator costs
        # more than the answer.
        for vote in self._valid:
            refusal = vote(job)
            if refusal is not None:
                return refusal
        return None

    def shortfall(self, job: JobInfo, role: str = "") -> int:
        """How many more tasks of a role make the job ready: the largest answer counts."""
        if len(self._shortfall) == 1:  # the usual case, of the plugin gang, asked for all the time
            return self._shortfall[0](job, role)
        return max([vote(job, role) for vote in self._shortfall], default=0)

    def is_ready(self, job: JobInfo) -> bool:
        return self.shortfall(job) == 0

    def is_pipelined(self, job: JobInfo) -> bool:
        """Whether the job is complete once its pipelined tasks have started.

        In each tier one REJECT decides, then one PERMIT; a tier that abstains passes the question
        on. Without any answer the job counts as pipelined.
        """
        return _is_permitted([vote(job) for vote in tier] for tier in self._pipelined)

    def is_starving(self, job: JobInfo) -> bool:
        """Whether all plugins of the first tier with this hook call the job starving.

        With no plugin registered for this hook, no job is.
        """
        tier = next((tier for tier in self._starving if tier), [])
        return bool(tier) and all(vote(job) for vote in tier)

    # --- domains and sub-groups

    def domain_scores(self, job: JobInfo, part: SubGroup | None) -> DomainScores | None:
        """Returns the scores of every domain for a part of the job; None if no plugin has any."""
        found = [score(job, part) for score in self._domain_scores]
        if not found:
            return None
        first, *others = found
        for one in others:
            first = DomainScores(first.score + one.score, first.bonus + one.bonus)
        return first

    def part_shortfall(self, job: JobInfo, part: SubGroup | None, role: str = "") -> int:
        """How many more tasks make a sub-group ready. A job without sub-groups is one part."""
        if part is None:
            return self.shortfall(job, role)
        return max((vote(part) for vote in self._sub_shortfall), default=0)

    def is_part_pipelined(self, job: JobInfo, part: SubGroup | None) -> bool:
        """The same as `is_pipelined`, for a sub-group."""
        if part is None:
            return self.is_pipelined(job)
        return _is_permitted([vote(part) for vote in tier] for tier in self._sub_pipelined)

    def sub_group_key(self, part: SubGroup) -> tuple[object, ...]:
        return (*(key(part) for key in self._sub_keys), part.order)

    # --- admission and quota

    def refuses_admission(self, job: JobInfo) -> Refusal | None:
        """Why the job is not admitted, by the same rule of tiers as `is_pipelined`."""
        for tier in self._enqueueable:
            votes = [vote(job) for vote in tier]
            refusal = next((vote for vote in votes if isinstance(vote, Refusal)), None)
            if refusal is not None:
                return refusal
            if Vote.PERMIT in votes:
                return None
        return None

    def admitted(self, job: JobInfo) -> None:
        """Reports an admission to all plugins that reserve quota for admitted jobs."""
        for hook in self._admitted:
            hook(job)

    def is_overused(self, queue: QueueInfo) -> bool:
        for vote in self._overused:  # noqa: SIM110 - as above
            if vote(queue):
                return True
        return False

    def queue_share(self, queue: QueueInfo) -> QueueShare | None:
        """Returns how the first plugin that keeps quotas describes the queue, or None."""
        return next((share for vote in self._queue_share if (share := vote(queue))), None)

    def allowance(self, queue: QueueInfo, shape: Shape, n: int) -> int:
        """How many of n tasks of a shape the queue may take: the smallest answer counts."""
        for vote in self._allowance:
            n = min(n, vote(queue, shape, n))
        return n

    def quota_refusal(self, queue: QueueInfo, shape: Shape, n: int) -> Refusal | None:
        """Why the queue may not take all of n tasks."""
        return next((r for vote in self._quota_refusal if (r := vote(queue, shape, n))), None)

    def frees_quota(
        self, queue: QueueInfo, shape: Shape, victim: QueueInfo, amount: Vector
    ) -> bool:
        """Whether an amount that leaves `victim` frees quota that `queue` lacks for one task."""
        return any(vote(queue, shape, victim, amount) for vote in self._frees_quota)

    def is_preemptive(self, queue: QueueInfo, task: Task) -> bool:
        """Whether the queue may evict from other queues for the task."""
        return all(vote(queue, task) for vote in self._preemptive)

    # --- victims

    def preemptable(self, preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        return _agreed(self._preemptable, preemptor, victims)

    def reclaimable(self, preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        return _agreed(self._reclaimable, preemptor, victims)

    def may_preempt(self, preemptor: Task, job: JobInfo) -> bool:
        """Whether any task of the job could be preempted. False when no plugin votes on victims."""
        return bool(self._preemptable) and all(v(preemptor, job) for v in self._preemptable_job)

    def may_reclaim_from(self, queue: QueueInfo) -> bool:
        """Whether any task of the queue could be reclaimed, by whichever other queue."""
        return bool(self._reclaimable) and all(vote(queue) for vote in self._reclaimable_queue)

    def shuffle_victims(self, tasks: Sequence[Task]) -> list[Task]:
        """Returns the tasks that the first tier with an answer wants moved, by name."""
        for tier in self._shuffle_victims:
            named = {task.key: task for vote in tier for task in vote(tasks)}
            if named:
                return [named[key] for key in sorted(named)]
        return []

    # --- the end of a session

    def unschedulable(self, job: JobInfo) -> Refusal | None:
        for vote in self._unschedulable:
            refusal = vote(job)
            if refusal is not None:
                return refusal
        return None


def _is_permitted(tiers: Iterable[Sequence[Vote]]) -> bool:
    """Whether the first tier that does not abstain permits; true if all abstain."""
    for votes in tiers:
        if Vote.REJECT in votes:
            return False
        if Vote.PERMIT in votes:
            return True
    return True


def _agreed(
    votes: Sequence[VictimVote], preemptor: Task, victims: Sequence[EvictionUnit]
) -> list[EvictionUnit]:
    """Returns the units that all plugins grant, in the order given; none without a plugin.

    A unit is dropped with any unit that must be evicted before it.
    """
    if not votes:
        return []
    granted = {id(unit) for unit in victims}
    for vote in votes:
        granted &= {id(unit) for unit in vote(preemptor, victims)}
    return [
        unit
        for unit in victims
        if id(unit) in granted and all(id(before) in granted for before in unit.after)
    ]
