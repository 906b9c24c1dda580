"""Advice: what would let a waiting group start. Each statement is tried out before it is made.

A trial is a session over the same objects with one thing changed: a job gone, nodes added, a
higher priority. The number of trials is bounded, because each costs as much as the session itself.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import msgspec
import numpy as np

from swell.api.core import Node
from swell.api.meta import ObjectMeta
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.wording import count_of
from swell.scheduler.config import Config
from swell.scheduler.cycle import run_session
from swell.scheduler.explain.explanation import Advice, Remedy, ResourceHolder
from swell.scheduler.explain.queue_limits import (
    advise_higher_capability,
    advise_higher_weight,
    advise_opening,
    amount,
    missing_below_limits,
)
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.native_groups import native_group_of, native_job_name
from swell.scheduler.model.nodes import slots
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.queue_rules import BUILT_IN
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.resources import PODS, TOLERANCE, Vector, amount_line, amount_text
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.session import Session

# The bound on the work: all trials together put at most _PODS_MAX pods into snapshots, but at least
# _TRIALS_MIN and at most _TRIALS_MAX trials are made.
_PODS_MAX = 60_000
_TRIALS_MIN, _TRIALS_MAX = 4, 12
# How many holders are considered, how many of them are tried one by one, and how many other waiting
# groups are tried.
_HOLDERS_MAX = 8
_ALONE_MAX = 4
_RIVALS_MAX = 2
# How many nodes are named that take no pods because of what cannot be read.
_CLOSED_MAX = 3
_EVICTING_ACTIONS = frozenset({"preempt", "reclaim", "shuffle"})
_TRIED_NAME = "what-if"


class WhatIf:
    """Runs sessions over the same objects with one thing changed, as many as are affordable.

    Once the number of trials is used up, every answer is False.
    """

    def __init__(
        self, objects: SchedulerObjects, group: str, config: Config, scheduler_names: Sequence[str]
    ) -> None:
        self._objects = objects
        self._group = group
        self._config = config
        self._names = scheduler_names
        n_affordable = _PODS_MAX // max(len(objects.pods), 1)
        self._n_left = max(_TRIALS_MIN, min(_TRIALS_MAX, n_affordable))

    def starts_without(self, groups: Collection[str]) -> bool:
        """Whether the group starts if these groups have ended."""
        # The pods leave with the group: their room is what would be freed.
        objects = self._objects
        pods = [pod for pod in objects.pods if _group_of(pod) not in groups]
        kept = [group for group in objects.groups if str(group.metadata.key) not in groups]
        return self._starts(replace(objects, pods=pods, groups=kept))

    def starts_with(self, node: Node, n: int) -> bool:
        """Whether the group starts with n more nodes like this one."""
        more = [
            msgspec.structs.replace(
                node, metadata=msgspec.structs.replace(node.metadata, name=f"{_TRIED_NAME}-{i}")
            )
            for i in range(n)
        ]
        return self._starts(replace(self._objects, nodes=[*self._objects.nodes, *more]))

    def starts_at_weight(self, queue: str, weight: int) -> bool:
        """Whether the group starts if its queue has another weight."""
        queues = [
            msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, weight=weight))
            if one.metadata.name == queue
            else one
            for one in self._objects.queues
        ]
        return self._starts(replace(self._objects, queues=queues))

    def preempts_at(self, priority: int) -> bool:
        """Whether the group, with this priority, gets nodes by evicting others."""
        groups = [
            msgspec.structs.replace(
                group,
                spec=msgspec.structs.replace(group.spec, priority_class_name=_TRIED_NAME),
            )
            if str(group.metadata.key) == self._group
            else group
            for group in self._objects.groups
        ]
        tried = PriorityClass(metadata=ObjectMeta(name=_TRIED_NAME), value=priority)
        classes = [*self._objects.priority_classes, tried]
        objects = replace(self._objects, groups=groups, priority_classes=classes)
        job = self._job_after(objects, self._config)
        return job is not None and job.counts.waiting > 0

    def _starts(self, objects: SchedulerObjects) -> bool:
        # Without evictions: the advice is about what lets it start as things are.
        actions = tuple(name for name in self._config.actions if name not in _EVICTING_ACTIONS)
        job = self._job_after(objects, replace(self._config, actions=actions))
        return job is not None and job.counts[TaskStatus.BINDING] > 0

    def _job_after(self, objects: SchedulerObjects, config: Config) -> JobInfo | None:
        if not self._n_left:
            return None
        self._n_left -= 1
        snapshot = objects.snapshot(self._names)
        run_session(snapshot, config)
        return snapshot.jobs[self._group]


def advice_for(
    session: Session,
    job: JobInfo,
    left: Sequence[Task],
    *,
    refusal: Refusal | None,
    holders: Sequence[ResourceHolder],
    what_if: WhatIf,
) -> tuple[Advice, ...]:
    """Returns the advice for a group that waits, the most direct first."""
    found = [] if refusal is None else list(_by_reason(session, job, refusal))
    classes = list({task.shape: task for task in left}.values())
    found += [advice for task in classes for advice in _never(session, task)]
    if not left or found:
        # These must change first: until then, it does not help that others leave.
        return tuple(found)
    if refusal is not None:
        found += advise_higher_capability(session, refusal)
        found += advise_higher_weight(session, refusal, what_if)
    missing = _missing(session, job, left[0], refusal)
    found += _if_others_gone(session, job, holders, missing, what_if)
    found += _if_more_important(job, holders, what_if)
    # With pods of several kinds a smaller minimum does not say which of them are left out.
    if len(classes) == 1:
        found += _if_smaller(session, job, classes[0])
    found += _if_nodes_added(session, job, left, missing, what_if)
    return tuple(found)


def _by_reason(session: Session, job: JobInfo, refusal: Refusal) -> Iterator[Advice]:
    found = _BY_REASON.get(refusal.reason)
    if found is not None:
        yield from found(session, job)


def _create_queue(session: Session, job: JobInfo) -> Iterator[Advice]:
    name = job.queue_name
    if name in BUILT_IN:
        yield Advice(text=f"the scheduler creates queue {name} when it starts: does one run?")
        return
    near = difflib.get_close_matches(name, session.snapshot.queues, 1)
    if near:
        yield Advice(text=f"name the queue {near[0]} instead, if that was meant")
    yield Advice(text=f"create queue {name}", command=f"swell queue create {name}")


def _await_pods(session: Session, job: JobInfo) -> Iterator[Advice]:
    del session
    n_missing = max(job.min_member - job.counts.live, 1)
    namespace, name = job.group.metadata.namespace, job.group.metadata.name
    owner = job.group.metadata.controller
    what = f"{owner.kind.lower()}/{owner.name}" if owner else f"podgroup/{name}"
    yield Advice(
        text=f"{n_missing} of its pods have not been created; what made the group says why",
        command=f"swell describe {what} -n {namespace}",
    )


_BY_REASON: dict[WaitReason, Callable[[Session, JobInfo], Iterator[Advice]]] = {
    WaitReason.QUEUE_NOT_FOUND: _create_queue,
    WaitReason.QUEUE_CLOSED: lambda _, job: advise_opening(job),
    WaitReason.NOT_ENOUGH_TASKS: _await_pods,
    WaitReason.NOT_ENOUGH_PODS_OF_TASK: _await_pods,
}


def _closed_nodes(session: Session) -> Iterator[Advice]:
    """Advises to correct the objects because of which nodes take no pods."""
    for node, causes in islice(session.snapshot.nodes.closed.items(), _CLOSED_MAX):
        why = "; ".join(causes.values())
        yield Advice(text=f"node {node} takes no pods until this is corrected: {why}")


def _never(session: Session, task: Task) -> Iterator[Advice]:
    """Advises on what no job's end changes: no node suits the pod, or none is large enough."""
    if task.unreadable:
        yield Advice(text=f"its pod must be corrected, it cannot be read: {task.unreadable}")
        return
    if task.is_gated:
        gates = ", ".join(gate.name for gate in task.pod.spec.scheduling_gates)
        yield Advice(text=f"the scheduling gates of its pods must be removed: {gates}")
        return
    allowed = session.placer.allowed_to(task)
    if not allowed.any():
        _, n_nodes, counts = session.placer.refusals(task)
        why = ", ".join(str(count) for count in counts if count.n_nodes) or "there are none"
        yield Advice(text=f"none of {count_of(n_nodes, 'node')} may take its pods: {why}")
        yield from _closed_nodes(session)
        return
    largest: Vector = session.snapshot.nodes.allocatable[:, allowed].max(axis=1)
    for place in task.shape.fit_places:
        if task.request[place] > largest[place] + TOLERANCE:
            name = session.snapshot.dimensions.names[place]
            has, asks = (
                amount_text(name, float(largest[place])),
                amount_text(name, float(task.request[place])),
            )
            yield Advice(
                text=f"a pod asks for {name} {asks}, and no node it may use has more than {has}"
            )


def _if_others_gone(
    session: Session,
    job: JobInfo,
    holders: Sequence[ResourceHolder],
    missing: Mapping[str, float],
    what_if: WhatIf,
) -> Iterator[Advice]:
    """Tries which holders, or groups that wait for the same room, would have to be gone."""
    movable = [h for h in holders if h.priority is not None and h.remedy is not Remedy.LEAVING]
    movable = movable[:_HOLDERS_MAX]
    held = {holder.name for holder in holders}
    rivals = [
        other.key
        for other in session.jobs
        if other is not job and other.key not in held and other.counts[TaskStatus.PENDING]
    ][:_RIVALS_MAX]
    # Each trial is dear: a holder of less than is missing is not tried alone.
    alone = [h.name for h in movable if _frees([h], missing)][:_ALONE_MAX]
    alone = [name for name in (*alone, *rivals) if what_if.starts_without({name})]
    if alone:
        any_of = "any one of these is gone" if len(alone) > 1 else "this is gone"
        yield Advice(text=f"it starts when {any_of}: {', '.join(alone)}")
        return
    # Holders come sorted by what they hold, so the first n are the fewest that may be enough.
    names = [*(holder.name for holder in movable), *rivals]
    for n in range(2, len(names) + 1):
        if _frees(movable[:n], missing) and what_if.starts_without(set(names[:n])):
            yield Advice(text=f"it starts when all of these are gone: {', '.join(names[:n])}")
            return


def _missing(
    session: Session, job: JobInfo, task: Task, refusal: Refusal | None
) -> dict[str, float]:
    """Returns how much more of each resource would have to be free, at the least.

    Resources that this session gave to other jobs count as free: with a job gone, it might give
    them to this one.
    """
    dimensions = session.snapshot.dimensions
    if (
        refusal is not None
        and refusal.limits
        and refusal.reason is not WaitReason.NOT_ENOUGH_RESOURCES
    ):
        short = missing_below_limits(refusal)
    else:
        n_missing = max(job.min_member - job.counts.ready, 1)
        n_short = max(n_missing - session.placer.n_slots(task), 1)
        places = task.shape.quota_places
        short = {dimensions.names[p]: n_short * float(task.request[p]) for p in places}
    given = sum((bound.request for bound in session.binds), 0 * session.total)
    return {name: amount - float(given[dimensions.place(name)]) for name, amount in short.items()}


def _frees(holders: Sequence[ResourceHolder], missing: Mapping[str, float]) -> bool:
    """Whether these hold as much as is missing, of each resource that they hold at all."""
    scarce = {name for holder in holders for name in holder.holds if name in missing}
    return all(
        sum(amount(name, holder.holds.get(name, "0")) for holder in holders) >= missing[name]
        for name in scarce
    )


def _if_more_important(
    job: JobInfo, holders: Sequence[ResourceHolder], what_if: WhatIf
) -> Iterator[Advice]:
    own = job.queue.name if job.queue else ""
    above = [
        holder.priority
        for holder in holders
        if holder.priority is not None and holder.queue == own and holder.priority >= job.priority
    ]
    if above and what_if.preempts_at(max(above) + 1):
        yield Advice(text=f"with a priority above {max(above)} it would be given their room")


def _if_smaller(session: Session, job: JobInfo, task: Task) -> Iterator[Advice]:
    n_slots, queue = session.placer.n_slots(task), job.queue
    n_missing = job.min_member - job.counts.ready
    if queue is None or not 0 < n_slots < n_missing:
        return
    n = min(n_slots, session.votes.allowance(queue, task.shape, n_slots))
    if n:
        enough = count_of(job.counts.ready + n, "pod")
        yield Advice(text=f"with a minimum of {enough} it could start now")


def _if_nodes_added(
    session: Session,
    job: JobInfo,
    left: Sequence[Task],
    missing: Mapping[str, float],
    what_if: WhatIf,
) -> Iterator[Advice]:
    """Tries the fewest more nodes, of the kind that takes the most of the pods."""
    nodes, first = session.snapshot.nodes, left[0]
    allowed = np.flatnonzero(session.placer.allowed_to(first))
    asked = [place for place in first.shape.fit_places if first.request[place] > 0]
    per_node = slots(first.shape, nodes.allocatable[:, allowed])
    best = int(per_node.argmax())
    node, n_slots = nodes.objects[int(allowed[best])], int(per_node[best])
    if node is None or not n_slots:
        return
    has = nodes.allocatable[:, allowed[best]].copy()
    n_missing = max(job.min_member - job.counts.ready, 1)
    n_short = max(n_missing - session.placer.n_slots(first), 1)
    names = {session.snapshot.dimensions.names[place]: place for place in asked}
    least = max((missing[n] / has[p] for n, p in names.items() if n in missing), default=1.0)
    # Two candidates: enough for the missing amounts, and enough for the missing pods.
    for n_nodes in sorted({max(math.ceil(least), 1), math.ceil(n_short / n_slots)}):
        if what_if.starts_with(node, n_nodes):
            has[PODS] = 0  # not shown
            like = f"{node.metadata.name} ({amount_line(session.snapshot.dimensions, has)})"
            yield Advice(text=f"{n_nodes} more {'node' if n_nodes == 1 else 'nodes'} like {like}")
            return


def _group_of(pod: Pod) -> str:
    native = native_group_of(pod)
    group = native_job_name(native) if native else ""
    return f"{pod.metadata.namespace}/{pod.metadata.annotations.get(GROUP_ANNOTATION) or group}"
