"""The plugin capacity: a queue deserves what its spec says, and borrows what is idle.

With hierarchy, queues form a tree: limits hold at every level, and which queue has to give back is
decided along the path. While the tree is broken, or a queue has both jobs and children, nothing is
admitted, allocated or reclaimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks, SortKey, Vote
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queue_rules import ROOT
from swell.scheduler.model.queues import QueueInfo, QueueShare
from swell.scheduler.model.reasons import QueueLimit, Refusal, WaitReason
from swell.scheduler.model.resources import (
    PODS,
    Mask,
    Places,
    Vector,
    exceeds_on_relevant,
    excess,
    less_equal,
    less_equal_on_some,
    quota_places,
)
from swell.scheduler.model.tasks import Shape, Task
from swell.scheduler.plugins.quota import (
    Claimable,
    LimitCheck,
    copies_below,
    frees_some,
    quota_refusal,
)
from swell.scheduler.session import Session

ANCESTOR_LEVEL: Final = "ancestorReclaimLevel"


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields which arguments have no effect."""
    level = option.arguments.values.get(ANCESTOR_LEVEL)
    if level is not None and not option.is_on("enableHierarchy"):
        yield f"argument {ANCESTOR_LEVEL!r} has no effect without enableHierarchy"
    elif level is not None and int(option.arguments.number(ANCESTOR_LEVEL, 0)) < 0:
        yield f"argument {ANCESTOR_LEVEL!r} has no effect: {level!r} is negative"


KNOWN: Final = KnownPlugin(
    switches=(
        "enableHierarchy", "enableQueueOrder", "enabledAllocatable", "enablePreemptive",
        "enableReclaimable", "enableJobEnqueued",
    ),
    arguments={ANCESTOR_LEVEL: ArgumentKind.NUMBER},
    remarks=remarks,
)  # fmt: skip


def open_capacity(session: Session, option: PluginOption) -> Hooks:
    rules = _CapacityRules(session, option)
    return Hooks(
        queue_key=rules.queue_key,
        queue_share=rules.queue_share,
        queue_keys_interact=rules.is_tree,
        victim_queue_key=rules.victim_queue_key if rules.is_tree else None,
        allowance=rules.allowance,
        quota_refusal=rules.quota_refusal,
        frees_quota=rules.frees_quota,
        preemptive=rules.preemptive,
        reclaimable=rules.reclaimable,
        enqueueable=rules.enqueueable,
        admitted=rules.admitted,
    )


class _CapacityRules:
    """The hooks of the plugin in one session, over the entitlement of every queue."""

    def __init__(self, session: Session, option: PluginOption) -> None:
        queues = self._queues = session.snapshot.queues
        self._limits = LimitCheck(session.snapshot.dimensions, session.total)
        self._claimable = Claimable(session)
        self.is_tree = option.is_on("enableHierarchy")
        levels = int(option.arguments.number(ANCESTOR_LEVEL, 0))
        self._levels = max(levels, 0) if self.is_tree else 0
        self._problem = tree_problem(queues) if self.is_tree else None
        self._of = entitlements(queues, session.total, is_tree=self.is_tree)
        self._nothing = np.zeros_like(session.total)
        self._reserved = {name: self._nothing.copy() for name in queues}
        self._elastic = {name: self._nothing.copy() for name in queues}
        for queue in queues.values():
            for ancestor in self._line(queue):
                self._reserved[ancestor.name] += queue.reserved
                self._elastic[ancestor.name] += queue.elastic

    # --- order

    def queue_key(self, queue: QueueInfo) -> SortKey:
        """Returns the sort key: priority, then shares of what is deserved, from the root down."""
        key: list[float | str] = [-queue.priority]
        for level in reversed(self._line(queue)):
            mine = self._of[level.name]
            key += [share_of(self._held(level), mine), float(not mine.has_any)]
        return tuple(key)

    def queue_share(self, queue: QueueInfo) -> QueueShare | None:
        mine = self._of.get(queue.name)
        if mine is None:
            return None
        held = self._held(queue)
        # As proportion has it: overused is a queue that has all it deserves.
        has_all = mine.has_any and not (held < mine.deserved)[mine.given].any()
        return QueueShare(held, mine.deserved, mine.limit, share_of(held, mine), bool(has_all))

    def victim_queue_key(self, preemptor: Task, queue: QueueInfo) -> SortKey:
        """Returns how many ancestors the queue shares: the nearest relative is evicted first."""
        own = preemptor.job.queue if preemptor.job else None
        shared = set(own.lineage) & set(queue.lineage) if own else ()
        return float(len(shared))

    # --- limits

    def allowance(self, queue: QueueInfo, shape: Shape, n: int) -> int:
        if self._problem or not queue.is_open:
            return 0
        for level in self._line(queue):
            n = min(n, copies_below(self._held(level), shape, self._of[level.name].limit, n))
        return n

    def quota_refusal(self, queue: QueueInfo, shape: Shape, n: int) -> Refusal | None:
        if self._problem:
            return Refusal(WaitReason.QUEUE_TREE, self._problem)
        if not queue.is_open:
            return Refusal(WaitReason.QUEUE_CLOSED, f"queue {queue.name} is not open")
        for level in self._line(queue):
            limits = self._exceeded(level, n * shape.request, self._held(level))
            if limits:
                return quota_refusal("would get more than it may have", limits)
        return None

    def frees_quota(
        self, queue: QueueInfo, shape: Shape, victim: QueueInfo, amount: Vector
    ) -> bool:
        """Whether the victim's queue is below the lowest full level of the asking queue's line.

        A victim frees room at every level that it shares with the asking queue and at no other, so
        one that is below the lowest full level frees room at all full ones.
        """
        if self._problem or not queue.is_open:
            return False
        for level in self._line(queue):
            held, limit = self._held(level), self._of[level.name].limit
            if not copies_below(held, shape, limit, 1):
                return level in self._line(victim) and frees_some(held, shape, limit, amount)
        return False

    def enqueueable(self, job: JobInfo) -> Vote | Refusal:
        queue = job.queue
        if self._problem:
            return Refusal(WaitReason.QUEUE_TREE, self._problem)
        if queue is None or not queue.is_open:
            return Refusal(WaitReason.QUEUE_CLOSED, f"queue {queue and queue.name} is not open")
        asked = job.asks_for_admission()
        if asked is None:
            return Vote.PERMIT
        for level in self._line(queue):
            held = self._held(level) + self._reserved[level.name] - self._elastic[level.name]
            # Computed only on demand: usually there is room without counting on evictions.
            if self._exceeded(level, asked, held):
                held = held - self._claimable.in_queue(job) - self._reclaimable_below(level, job)
            refusal = quota_refusal(
                "holds or reserves too much", self._exceeded(level, asked, held)
            )
            if refusal is not None:
                return refusal
        return Vote.PERMIT

    def admitted(self, job: JobInfo) -> None:
        asked = job.asks_for_admission()
        if job.queue is None or asked is None:
            return
        for level in self._line(job.queue):
            self._reserved[level.name] += asked

    # --- eviction

    def preemptive(self, queue: QueueInfo, task: Task) -> bool:
        """Whether the queue is within its limit and entitled to some of what the task asks for.

        With `ancestorReclaimLevel` N the entitlement of one of N ancestors is enough. The limits
        of ancestors are not asked for here: victims below an ancestor free room at it (ADR 68).
        """
        own = self._of[queue.name].limit
        if self._problem or not queue.is_open:
            return False
        if not copies_below(self._held(queue), task.shape, own, 1):
            return False
        return self._is_entitled(queue, task.request, task.shape.quota_places)

    def reclaimable(self, preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        """Returns the units that their queues have to give back, one after the other."""
        own = preemptor.job.queue if preemptor.job else None
        if self._problem or own is None:
            return []
        left: dict[str, Vector] = {}
        granted: list[EvictionUnit] = []
        for unit in victims:
            if not self._may_go(own, preemptor, unit, left):
                continue
            granted.append(unit)
            # Later units are judged by what their queues would hold without this one.
            for level in self._line(unit.job.queue) if unit.job.queue else ():
                left[level.name] = left.get(level.name, self._held(level)) - unit.request
        return granted

    def _may_go(
        self, own: QueueInfo, preemptor: Task, unit: EvictionUnit, left: dict[str, Vector]
    ) -> bool:
        queue, request = unit.job.queue, unit.request
        places = preemptor.shape.quota_places
        if queue is None or not (request[places] > 0).any():
            return False
        mine, theirs = self._of[own.name], self._of[queue.name]
        # Siblings that both deserve nothing do not evict each other.
        if own.parent == queue.parent and not (mine.has_any or theirs.has_any):
            return False
        # What is guaranteed to the queue is never taken from it.
        if not less_equal(theirs.guarantee, left.get(queue.name, self._held(queue)) - request):
            return False
        # Ancestors that both queues share gain as much as they lose.
        shared = set(self._line(own))
        return all(
            _is_above(
                left.get(level.name, self._held(level)), self._of[level.name], request, places
            )
            for level in self._line(queue)[: self._levels + 1]
            if level not in shared
        )

    def _is_entitled(self, queue: QueueInfo, asked: Vector, places: Places) -> bool:
        return any(
            less_equal_on_some(self._held(level) + asked, self._of[level.name].deserved, places)
            for level in self._line(queue)[: self._levels + 1]
            if level.name != ROOT  # what the whole cluster deserves entitles no single queue
        )

    def _reclaimable_below(self, level: QueueInfo, job: JobInfo) -> Vector:
        """Returns what other queues below an ancestor would have to give back to the job's queue.

        Queues that hold no more than they deserve give nothing. What jobs hold beyond their minimum
        is left out, because admission does not count it anyway.
        """
        own, asked, found = job.queue, job.asks_for_admission(), self._nothing
        if own is None or asked is None or level is own or not self._claimable.reclaims:
            return found
        places = quota_places(asked)
        if not self._is_entitled(own, asked, places):
            return found
        for other in self._queues.values():
            if other is own or not other.reclaimable or level not in self._line(other):
                continue
            theirs = self._of[other.name]
            if not (self._of[own.name].has_any or theirs.has_any):
                continue
            if _is_above(self._held(other), theirs, other.allocated, places):
                found = found + excess(other.allocated - other.elastic, theirs.guarantee)
        return found

    # --- inside

    def _line(self, queue: QueueInfo) -> tuple[QueueInfo, ...]:
        return queue.lineage if self.is_tree else (queue,)

    def _exceeded(self, queue: QueueInfo, asked: Vector, held: Vector) -> tuple[QueueLimit, ...]:
        limit = self._of[queue.name].limit
        return self._limits.exceeded(queue.name, asked, held, limit)

    def _held(self, queue: QueueInfo) -> Vector:
        return queue.subtree if self.is_tree else queue.allocated


def share_of(held: Vector, entitlement: Entitlement) -> float:
    """Returns the largest share of a deserved resource that is held; 1 if nothing is deserved."""
    if not entitlement.has_any:
        return 1.0
    counts = entitlement.given & (entitlement.deserved > 0)
    return float((held[counts] / entitlement.deserved[counts]).max())


def _is_above(held: Vector, entitlement: Entitlement, victim: Vector, claimed: Places) -> bool:
    """Whether a queue has to give up a victim.

    It has to if it deserves none of the victim's resources, or holds too much of a claimed one.
    """
    entitled = entitlement.given & (entitlement.deserved > 0)
    entitled[PODS] = False
    if not (entitled & (victim > 0)).any():
        return True
    return exceeds_on_relevant(held, entitlement.deserved, entitlement.given, claimed)


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The limit of a queue, what it deserves, and what it is guaranteed."""

    limit: Vector
    deserved: Vector
    given: Mask  # the resources that `deserved` names
    guarantee: Vector

    @property
    def has_any(self) -> bool:
        return bool((self.deserved[self.given] > 0).any())


def entitlements(
    queues: Mapping[str, QueueInfo], total: Vector, *, is_tree: bool
) -> dict[str, Entitlement]:
    """Returns the entitlement of every queue. In a tree, the root has only its own limits."""
    nothing = np.zeros_like(total)
    if not is_tree:
        guaranteed = sum((queue.guarantee for queue in queues.values()), nothing)
        free = excess(total, guaranteed)
        return {name: _entitlement(queue, free) for name, queue in queues.items()}
    found: dict[str, Entitlement] = {}
    for queue in sorted(queues.values(), key=lambda q: len(q.lineage)):
        if len(queue.lineage) == 1:
            found[queue.name] = _of_root(queue, queues)
            continue
        parent = queue.lineage[1]
        siblings = (q.guarantee for q in queues.values() if q.lineage[1:2] == (parent,))
        free = excess(found[parent.name].limit, sum(siblings, nothing))
        found[queue.name] = _entitlement(queue, free)
    return found


def tree_problem(queues: Mapping[str, QueueInfo]) -> str | None:
    """Returns what is wrong with the tree, or None."""
    if ROOT not in queues:
        return "there is no queue named root"
    parents: set[str] = set()
    for queue in queues.values():
        if queue.lineage[-1].name != ROOT:
            return f"queue {queue.name} does not descend from root"
        parents.update(ancestor.name for ancestor in queue.lineage[1:])
    for name in sorted(parents):
        if queues[name].jobs:
            return f"queue {name} has both jobs and child queues"
    return None


def _entitlement(queue: QueueInfo, free: Vector) -> Entitlement:
    limit = np.minimum(free + queue.guarantee, queue.capability)
    return Entitlement(
        limit=limit,
        deserved=np.maximum(np.minimum(queue.deserved, limit), queue.guarantee),
        given=queue.deserved_given | (queue.guarantee > 0),
        guarantee=queue.guarantee,
    )


def _of_root(root: QueueInfo, queues: Mapping[str, QueueInfo]) -> Entitlement:
    children = [queue for queue in queues.values() if queue.lineage[1:2] == (root,)]
    nothing = np.zeros_like(root.deserved)
    given = np.zeros_like(root.deserved_given)
    for child in children:
        given = given | child.deserved_given
    return Entitlement(
        limit=root.capability,
        deserved=sum((child.deserved for child in children), nothing),
        given=given,
        guarantee=sum((child.guarantee for child in children), nothing),
    )
