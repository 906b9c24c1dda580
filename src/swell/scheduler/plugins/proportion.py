"""The plugin proportion shares the cluster by weight; what a queue does not ask for, others get.

A queue deserves its weighted part of the cluster, at most what it asks for and its capability, at
least its guarantee. It gets nothing beyond that, and gives back when queues below theirs reclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks, SortKey, Vote
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo, QueueShare
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.resources import TOLERANCE, Matrix, Shares, Vector, excess, less_equal
from swell.scheduler.model.tasks import Shape, Task
from swell.scheduler.plugins.quota import (
    Claimable,
    LimitCheck,
    copies_below,
    frees_some,
    quota_refusal,
)
from swell.scheduler.session import Session

# A guard against an endless loop: each round hands out a part of what remains, so far fewer rounds
# are needed.
_ROUNDS_MAX = 1000


def open_proportion(session: Session, option: PluginOption) -> Hooks:
    del option
    rules = _ProportionRules(session)
    return Hooks(
        queue_key=rules.queue_key,
        queue_share=rules.queue_share,
        overused=lambda queue: less_equal(rules.deserved_by(queue), queue.allocated),
        allowance=rules.allowance,
        quota_refusal=rules.quota_refusal,
        frees_quota=lambda queue, shape, victim, amount: (
            victim is queue
            and queue.is_open
            and frees_some(queue.allocated, shape, rules.deserved_by(queue), amount)
        ),
        preemptive=lambda queue, task: rules.allowance(queue, task.shape, 1) == 1,
        reclaimable=rules.reclaimable,
        reclaimable_queue=rules.is_above,
        enqueueable=rules.enqueueable,
        admitted=rules.admitted,
    )


class _ProportionRules:
    """The hooks of the plugin in one session, over what every queue deserves."""

    def __init__(self, session: Session) -> None:
        self._limits = LimitCheck(session.snapshot.dimensions, session.total)
        self._claimable = Claimable(session)
        self._nothing = np.zeros_like(session.total)
        queues = [session.snapshot.queues[name] for name in sorted(session.snapshot.queues)]
        guaranteed = sum((queue.guarantee for queue in queues), np.zeros_like(session.total))
        free = excess(session.total, guaranteed)
        # What a queue may have at most ("realCapability" in Volcano).
        self._real = {
            queue.name: np.minimum(free + queue.guarantee, queue.capability) for queue in queues
        }
        self._deserved = deserved_shares(
            session.total, [queue for queue in queues if queue.jobs], self._real
        )
        self._shares = {queue.name: Shares(self.deserved_by(queue)) for queue in queues}
        self._admitted: dict[str, Vector] = {}

    def deserved_by(self, queue: QueueInfo) -> Vector:
        return self._deserved.get(queue.name, self._nothing)

    def queue_key(self, queue: QueueInfo) -> SortKey:
        return (-queue.priority, self._shares[queue.name].dominant(queue.allocated))

    def queue_share(self, queue: QueueInfo) -> QueueShare | None:
        if queue.name not in self._real:
            return None
        deserved, held = self.deserved_by(queue), queue.allocated
        share = self._shares[queue.name].dominant(held)
        return QueueShare(held, deserved, self._real[queue.name], share, less_equal(deserved, held))

    def is_above(self, queue: QueueInfo) -> bool:
        return not less_equal(queue.allocated, self.deserved_by(queue))

    def allowance(self, queue: QueueInfo, shape: Shape, n: int) -> int:
        if not queue.is_open:
            return 0
        return copies_below(queue.allocated, shape, self.deserved_by(queue), n)

    def quota_refusal(self, queue: QueueInfo, shape: Shape, n: int) -> Refusal | None:
        if not queue.is_open:
            return Refusal(WaitReason.QUEUE_CLOSED, f"queue {queue.name} is not open")
        return quota_refusal(
            "would get more than it deserves",
            self._limits.exceeded(
                queue.name, n * shape.request, queue.allocated, self.deserved_by(queue)
            ),
        )

    def reclaimable(self, preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        """Returns units of queues that hold more than they deserve, until they no longer do."""
        del preemptor
        left: dict[str, Vector] = {}
        granted: list[EvictionUnit] = []
        for unit in victims:
            queue = unit.job.queue
            if queue is None:
                continue
            # A queue is asked before each unit: the last one may take it below what it deserves,
            # as one large pod may (ADR 11).
            allocated = left.get(queue.name, queue.allocated)
            if not less_equal(allocated, self.deserved_by(queue)):
                left[queue.name] = allocated - unit.request
                granted.append(unit)
        return granted

    def enqueueable(self, job: JobInfo) -> Vote | Refusal:
        queue = job.queue
        if queue is None or not queue.is_open:
            return Refusal(WaitReason.QUEUE_CLOSED, f"queue {queue and queue.name} is not open")
        asked = job.asks_for_admission()
        if asked is None:
            return Vote.PERMIT
        # `reserved` is as of the beginning of the session; what it admitted itself is added.
        reserved = queue.reserved + self._admitted.get(queue.name, self._nothing)
        held = queue.allocated + reserved - queue.elastic
        limits = self._limits.exceeded(queue.name, asked, held, self._real[queue.name])
        if limits:
            held = held - self._claimable.in_queue(job)
            limits = self._limits.exceeded(queue.name, asked, held, self._real[queue.name])
        return quota_refusal("holds or reserves too much", limits) or Vote.PERMIT

    def admitted(self, job: JobInfo) -> None:
        asked = job.asks_for_admission()
        if job.queue is not None and asked is not None:
            name = job.queue.name
            self._admitted[name] = self._admitted.get(name, self._nothing) + asked


def deserved_shares(
    total: Vector, queues: Iterable[QueueInfo], limits: dict[str, Vector]
) -> dict[str, Vector]:
    """Hands out the cluster in rounds, by weight, to queues that still ask for something."""
    queues = list(queues)
    if not queues:
        return {}
    weight = np.array([queue.weight for queue in queues], dtype=np.float64)
    limit = np.array([limits[queue.name] for queue in queues])
    request = np.array([queue.allocated + queue.pending for queue in queues])
    guarantee = np.array([queue.guarantee for queue in queues])
    deserved: Matrix = np.zeros_like(request)
    wanting = np.ones(len(queues), dtype=np.bool_)
    remaining = total.copy()
    for _ in range(_ROUNDS_MAX):
        if not wanting.any():
            break
        part = remaining * (weight * wanting / weight[wanting].sum())[:, None]
        raised = np.minimum(np.minimum(deserved + part, limit), request)
        raised = np.where(wanting[:, None], np.maximum(raised, guarantee), deserved)
        met = np.array([less_equal(r, d) for r, d in zip(request, raised, strict=True)])
        wanting &= ~met & (raised != deserved).any(axis=1)
        handed_out = (raised - deserved).sum(axis=0)
        deserved = raised
        remaining = remaining - handed_out
        if (remaining < TOLERANCE).all() or not handed_out.any():
            break
    # Undo rounding errors of the divisions: two GPUs do not fit into 1.9999999.
    whole = np.round(deserved)
    deserved = np.where(np.abs(deserved - whole) <= TOLERANCE, whole, deserved)
    return {queue.name: row for queue, row in zip(queues, deserved, strict=True)}
