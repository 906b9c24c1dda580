"""Safety rules of the scheduler, one class each, checked on commits and on writes sent.

A scheduler is blamed for what it knew when it sent a write; what it did itself it always knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from swell.api.kinds import (
    DEVICE_CLASSES,
    HYPER_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.quantity import units
from swell.cluster.embedded.storage import Commit
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from swell.sim.actors.pod_lifecycle import bound_by
from swell.sim.faults.plan import Fault, FaultKind
from swell.sim.invariants import SafetyCheck
from swell.sim.observation import all_of, one_of, pod_states, pods_in, states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import jobs_in
from tests.sim.scheduler.domain_rules import DomainsKept
from tests.sim.scheduler.eviction_rules import EndedKept, SaversSpared, VictimsMarked
from tests.sim.scheduler.observation import (
    BINDING,
    Sent,
    all_groups,
    cpu_of,
    cpus_of,
    group_at,
    group_key,
    is_bound,
    is_live,
    is_ready,
    is_surplus,
    mark_of,
    members,
    nodes_in,
    pod_key,
    scheduler_of,
)
from tests.sim.scheduler.volume_rules import GangsVolumesFirst, VolumesFirst
from tests.sim.undecodable import UNDECODABLE

BIND_WINDOW_S = 30.0
SLACK_S = 20.0  # to see, to decide and to write
# How long what befell a scheduler, or kept things from it, may go on at the most.
EFFECT_S = 65.0
LONG_EFFECTS_S: Mapping[str, float] = {
    FaultKind.OUT_OF_STEP: 125.0,
    FaultKind.PAUSED: 95.0,
    FaultKind.ALL_PAUSED: 125.0,
    UNDECODABLE: 125.0,
}


def safety(world: SimulatedWorld) -> list[SafetyCheck]:
    sends = Sends(world)
    return [
        sends,
        WholeGangs(world),
        NodesHold(world, sends),
        BoundOnce(world, sends),
        VictimsMarked(world),
        EndedKept(world),
        SaversSpared(world),
        QuotaKept(world),
        SamePlacement(world),
        DomainsKept(world),
        VolumesFirst(world),
        GangsVolumesFirst(world),
    ]


@dataclass
class Sends:
    """G1, G3: a binding is sent only for a gang that has its minimum, to a node that takes pods."""

    world: SimulatedWorld
    name: str = "G1 binds with a reservation"
    sent: dict[str, Sent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, _: Commit) -> Iterator[str]:
        yield from ()

    def of(self, commit: Commit) -> Sent | None:
        """What was known when this commit's binding was sent."""
        return self.sent.get(f"{commit.actor} {BINDING} {commit.key}")

    def _on_call(self, actor: str, site: str) -> None:
        scheduler = scheduler_of(self.world, actor)
        if scheduler is None or not site.startswith(f"{actor} {BINDING} "):
            return
        key = pod_key(site)
        task = scheduler.cache.snapshot.task(str(key))
        if task is None:
            self.world.checker.report(self.name, f"{key} is bound, though nobody knows it")
            return
        node = scheduler.cache.snapshot.nodes.names[task.node]
        known = scheduler.informers.nodes.get(Key("", node))
        if known is None or not is_ready(known) or known.spec.unschedulable:
            self.world.checker.report("G3 bound where it may", f"{key} is bound to {node}")
            return
        uid, version = task.pod.metadata.uid, self.world.storage.version
        self.sent[site] = Sent(uid, node, cpus_of(known), version)
        self._judge_gang(scheduler, task)
        unknown = [str(one.resource) for one in scheduler.informers.required if not one.synced]
        if unknown:
            what = f"{key} is bound before anything is known of {', '.join(unknown)}"
            self.world.checker.report("decides when it knows", what)

    def _judge_gang(self, scheduler: Scheduler, task: Task) -> None:
        job = task.job
        group = scheduler.informers.groups.get(job.group.metadata.key) if job else None
        if job is None or group is None:
            return
        n_bound = sum(is_bound(pod) for pod in members(self.world, job.key))
        if job.counts.ready < group.spec.min_member and not n_bound:
            what = f"{job.key} begins with {job.counts.ready} of {group.spec.min_member}"
            self.world.checker.report(self.name, what)


@dataclass
class WholeGangs:
    """G1: a gang has none or its minimum of bound pods, but for the time it takes to bind it.

    A gang does not count that was complete and has lost pods, or whose minimum was raised.
    """

    world: SimulatedWorld
    name: str = "G1 whole gangs"
    _complete: dict[Uid, None] = field(default_factory=dict)
    _emptied: dict[Uid, None] = field(default_factory=dict)
    _partial_since: dict[Uid, float] = field(default_factory=dict)
    _disturbed_until: float = 0.0

    def __post_init__(self) -> None:
        self.world.injector.on_fault_taken.append(self._on_fault)
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        pods, groups = pod_states(commit), states(commit, POD_GROUPS)
        for pod in pods:
            if pod is not None and group_key(pod):
                self._look(group_key(pod))
        for group in groups:
            if group is not None:
                self._look(str(group.metadata.key))
        yield from self._overdue()

    def _look(self, key: str) -> None:
        group = group_at(self.world, key)
        if group is None:
            return
        uid = group.metadata.uid
        bound = [pod for pod in members(self.world, key) if is_bound(pod)]
        n_bound = len(bound) if any(map(is_live, bound)) else 0  # what has ended holds nothing
        if n_bound >= group.spec.min_member:
            self._complete[uid] = None
        elif not n_bound and uid in self._complete:
            del self._complete[uid]
            self._emptied[uid] = None
        if 0 < n_bound < group.spec.min_member and uid not in self._complete:
            self._partial_since.setdefault(uid, self.world.clock.monotonic())
        else:
            self._partial_since.pop(uid, None)

    def _on_call(self, actor: str, site: str) -> None:
        """A gang is repaired, for a scheduler that has not heard yet that its last pod is gone."""
        if not self._emptied or not site.startswith(f"{actor} {BINDING} "):
            return
        scheduler = scheduler_of(self.world, actor)
        task = scheduler.cache.snapshot.task(str(pod_key(site))) if scheduler else None
        job = task.job if task is not None else None
        if job is None or job.group.metadata.uid not in self._emptied:
            return
        held = {p.metadata.uid for p in members(self.world, job.key) if is_bound(p) and is_live(p)}
        if any(one.pod.metadata.uid not in held for one in job.tasks.values() if _holds(one)):
            self._emptied.pop(job.group.metadata.uid)
            self._complete[job.group.metadata.uid] = None

    def _overdue(self) -> Iterator[str]:
        now = self.world.clock.monotonic()
        for group in all_groups(self.world) if self._partial_since else ():
            since = self._partial_since.get(group.metadata.uid, now)
            if now > max(since, self._disturbed_until) + BIND_WINDOW_S + SLACK_S:
                yield f"{group.metadata.key} has been bound in part since {since:.1f} s"

    def _on_fault(self, fault: Fault) -> None:
        is_common = not fault.site.startswith(("operator", "nemesis F2"))
        if is_common:
            effect_s = LONG_EFFECTS_S.get(fault.kind, EFFECT_S)
            until = self.world.clock.monotonic() + effect_s
            self._disturbed_until = max(self._disturbed_until, until)


def _holds(task: Task) -> bool:
    return task.status in (TaskStatus.BOUND, TaskStatus.RUNNING)


@dataclass
class NodesHold:
    """G2: what is bound to a node never asks for more than the node has.

    A binding of another replica that was in flight does not count.
    """

    world: SimulatedWorld
    sends: Sends
    name: str = "G2 nodes hold"
    _bound: dict[Uid, tuple[str, int]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        pod = bound_by(commit)
        sent = self.sends.of(commit)
        if pod is None or sent is None:
            return
        self._bound[pod.metadata.uid] = (commit.actor, commit.version)
        here = [
            other
            for other in pods_in(self.world)
            if other.spec.node_name == pod.spec.node_name
            and is_live(other)
            and self._was_known(other, commit, sent)
        ]
        # The last decision about the node was taken with the others on their way: what it knew of
        # the node counts for all of them, whichever arrives last.
        last = max((self._sent(other, commit) or sent for other in here), key=lambda s: s.version)
        asked = sum(map(cpu_of, here))
        if asked > last.n_cpus:
            names = ", ".join(other.metadata.name for other in here)
            yield f"{pod.spec.node_name} has {last.n_cpus} cpus, {asked} are asked by {names}"

    def _sent(self, pod: Pod, commit: Commit) -> Sent | None:
        """What the sender of this commit knew when it sent the binding of a pod, if it did."""
        sent = self.sends.sent.get(f"{commit.actor} {BINDING} {pod.metadata.key}")
        return sent if sent is not None and sent.uid == pod.metadata.uid else None

    def _was_known(self, other: Pod, commit: Commit, sent: Sent) -> bool:
        actor, version = self._bound.get(other.metadata.uid, ("", 0))
        return actor == commit.actor or version <= sent.version


@dataclass
class BoundOnce:
    """G3: a pod gets a node once, and it is the pod that was meant, on the node that was meant."""

    world: SimulatedWorld
    sends: Sends
    name: str = "G3 bound once"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or after is None:
            return
        if before.spec.node_name and before.spec.node_name != after.spec.node_name:
            yield f"{commit.key} moved from {before.spec.node_name} to {after.spec.node_name}"
        sent = self.sends.of(commit)
        if bound_by(commit) is None or sent is None:
            return
        if sent.uid != after.metadata.uid:
            yield f"{commit.key} was bound for an earlier pod of its name"


@dataclass
class QuotaKept:
    """G7: what the pods of a queue and of those below it hold stays within its capability."""

    world: SimulatedWorld
    name: str = "G7 quota kept"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        pod = bound_by(commit)
        group = group_at(self.world, group_key(pod)) if pod and group_key(pod) else None
        queue = one_of(self.world, QUEUES, group.spec.queue or "default") if group else None
        while queue is not None:
            limit = queue.spec.capability.get("cpu")
            asked = sum(cpu_of(held) for held in self._held(queue.metadata.name))
            if limit is not None and asked > units(limit):
                yield f"queue {queue.metadata.name} holds {asked} of {limit} cpus"
            queue = one_of(self.world, QUEUES, queue.spec.parent)

    def _line(self, name: str) -> Iterator[str]:
        """Yields a queue and those above it."""
        queue = one_of(self.world, QUEUES, name)
        while queue is not None:
            yield queue.metadata.name
            queue = one_of(self.world, QUEUES, queue.spec.parent)

    def _held(self, queue: str) -> Iterator[Pod]:
        for pod in pods_in(self.world):
            group = group_at(self.world, group_key(pod)) if group_key(pod) else None
            if group is None or queue not in self._line(group.spec.queue or "default"):
                continue
            if (
                is_bound(pod)
                and is_live(pod)
                and not mark_of(pod)
                and not is_surplus(self.world, pod)
            ):
                yield pod


@dataclass
class SamePlacement:
    """G8: the same objects give the same plan, in whatever order they are learnt of."""

    world: SimulatedWorld
    name: str = "G8 same placement"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if bound_by(commit) is None or commit.version % 5:
            return  # every bind would cost more than it shows
        objects = objects_in(self.world)
        shuffled = objects_in(self.world)
        random = Random(commit.version)
        for held in (shuffled.nodes, shuffled.pods, shuffled.groups, shuffled.queues):
            random.shuffle(held)
        if answer(plan_schedule(objects)) != answer(plan_schedule(shuffled)):
            yield f"at version {commit.version} the order of objects decides"


def objects_in(world: SimulatedWorld) -> SchedulerObjects:
    """The whole cluster as it is."""
    return SchedulerObjects(
        nodes=list(nodes_in(world).values()),
        pods=pods_in(world),
        groups=all_of(world, POD_GROUPS),
        queues=all_of(world, QUEUES),
        priority_classes=all_of(world, PRIORITY_CLASSES),
        training_jobs=jobs_in(world),
        hyper_nodes=all_of(world, HYPER_NODES),
        claims=all_of(world, PERSISTENT_VOLUME_CLAIMS),
        volumes=all_of(world, PERSISTENT_VOLUMES),
        storage_classes=all_of(world, STORAGE_CLASSES),
        # Nothing where the server does not have these kinds.
        resource_slices=all_of(world, RESOURCE_SLICES),
        device_classes=all_of(world, DEVICE_CLASSES),
        resource_claims=all_of(world, RESOURCE_CLAIMS),
        are_whole=True,
    )
