"""What the scheduler must bring about once nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.kinds import POD_GROUPS, PODS
from swell.api.scheduling import PodGroup, PodGroupPhase
from swell.runtime.plan import NOTHING
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.queue_controller import decide
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.plan import plan_schedule
from swell.sim.invariants import LivenessCheck
from swell.sim.observation import all_of, pods_in
from swell.sim.world import SimulatedWorld
from tests.sim.operator.fleets import fleet_of
from tests.sim.operator.observation import jobs_in, seen_jobs
from tests.sim.rules import CachesAreTrue, DeletedGo, JobsEnd, ObservedJob
from tests.sim.scheduler.gangs import GANG
from tests.sim.scheduler.observation import (
    cpu_of,
    cpus_of,
    group_at,
    group_key,
    is_live,
    is_ready,
    nodes_in,
    schedulers,
)
from tests.sim.scheduler.rules import objects_in

HOPELESS = "hopeless"  # what users call gangs that can never start
_ASSUMED = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.PIPELINED)
_WAITING = frozenset({PodGroupPhase.EMPTY, PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})


def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    def seen() -> list[ObservedJob]:
        return [job for job in seen_jobs(world) if not is_hopeless(job.metadata.name)]

    def every() -> list[ObservedJob]:
        return seen_jobs(world)

    return [
        JobsEnd(seen, "L4 jobs are placed and end"),
        DeletedGo(world, every, (str(PODS), str(POD_GROUPS)), "L3 deleted jobs go"),
        NodesAreBack(world),
        GangsEnd(world),
        NothingFits(world),
        ReasonsGiven(world),
        NothingAssumed(world),
        QueuesAreTold(world),
        SnapshotsAreWhole(world),
        RoomIsTrue(world),
        CachesAreTrue(world, name="L5 caches are true"),
    ]


def is_hopeless(name: str) -> bool:
    return name.startswith(HOPELESS)


def end_state(world: SimulatedWorld) -> object:
    """Jobs and gangs as users care for them."""
    jobs = {str(job.metadata.key): job.status.phase.value for job in jobs_in(world)}
    gangs = {
        str(pod.metadata.key): bool(pod.spec.node_name)
        for pod in pods_in(world)
        if GANG in pod.metadata.labels
    }
    return jobs, gangs


def next_admission_change_s(world: SimulatedWorld) -> float | None:
    """When the next admission that is not used is taken back, or granted again."""
    times = [scheduler.loop._admissions.next_deadline() for scheduler in schedulers(world)]
    return min((at for at in times if at is not None), default=None)


@dataclass
class NodesAreBack:
    """The scheduler does not do this, but it cannot come to rest before."""

    world: SimulatedWorld
    name: str = "nodes are back"

    def missing(self) -> Iterator[str]:
        fleet, nodes = fleet_of(self.world), nodes_in(self.world)
        for name, machine in fleet.machines.items():
            node = nodes.get(name) if machine.is_up else None
            if node is None or not is_ready(node) or cpus_of(node) < fleet.n_cpus:
                yield f"{name} is not back"


@dataclass
class GangsEnd:
    """L4: every pod that is kept is placed, and ends, unless its gang cannot be."""

    world: SimulatedWorld
    name: str = "L4 gangs are placed"

    def missing(self) -> Iterator[str]:
        for pod in pods_in(self.world):
            name = pod.metadata.labels.get(GANG, "")
            if name and not is_hopeless(name) and is_live(pod):
                group = group_at(self.world, group_key(pod))
                why = f"{group.status.phase.value} {_reason(group)}" if group else "without a group"
                yield f"{pod.metadata.key} is {pod.status.phase.value}, its gang {why}"


@dataclass
class NothingFits:
    """L4: a new decision over all objects would place no pod and evict none."""

    world: SimulatedWorld
    name: str = "L4 nothing is left to do"

    def missing(self) -> Iterator[str]:
        plan = plan_schedule(objects_in(self.world))
        for task, node in plan.binds.items():
            yield f"{task.key} could be on {node}"


@dataclass
class ReasonsGiven:
    """G5: every gang that waits says why."""

    world: SimulatedWorld
    name: str = "G5 reasons"

    def missing(self) -> Iterator[str]:
        for group in all_of(self.world, POD_GROUPS):
            asks = any(
                group_key(pod) == str(group.metadata.key)
                and not pod.spec.node_name
                and is_live(pod)
                and not pod.metadata.deletion_timestamp
                for pod in pods_in(self.world)
            )
            if asks and group.status.phase in _WAITING and not _reason(group):
                yield f"{group.metadata.key} is {group.status.phase.value!r} and does not say why"


def _reason(group: PodGroup) -> str:
    return next(
        (
            c.reason
            for c in group.status.conditions
            if c.type == "Unschedulable" and c.status == "True"
        ),
        "",
    )


@dataclass
class NothingAssumed:
    """G4, L5: at rest nothing is reserved, no write is under way, no window is open."""

    world: SimulatedWorld
    name: str = "G4 nothing reserved"

    def missing(self) -> Iterator[str]:
        for scheduler in schedulers(self.world):
            snapshot, binder = scheduler.cache.snapshot, scheduler.binder
            for job in snapshot.jobs.values():
                for status in _ASSUMED:
                    if job.counts[status]:
                        yield f"{job.key} has {job.counts[status]} {status.name}"
            if binder.n_waiting or binder._sent or binder._uncertain or binder._backing_off:
                yield "bindings are under way"
            if scheduler.preparer.n_batches or snapshot.volumes.reservations.choices:
                held = ", ".join(snapshot.volumes.reservations.choices)
                yield f"{scheduler.preparer.n_batches} batches, volumes reserved for {held}"
            if scheduler.evictor._batches:
                yield "evictions are under way"
            if scheduler.windows._open:
                yield f"windows are open: {', '.join(scheduler.windows._open)}"
            if scheduler.cache.targets.lowered:
                yield f"targets are lowered: {', '.join(scheduler.cache.targets.lowered)}"


@dataclass
class QueuesAreTold:
    """L5: the status of every queue is that of its groups, after any back-off."""

    world: SimulatedWorld
    name: str = "L5 queues are told"

    def missing(self) -> Iterator[str]:
        now = self.world.clock.now()
        for scheduler in schedulers(self.world):
            for queue in scheduler.informers.queues.all() if scheduler.is_synced else ():
                view = scheduler.queues._take(queue.metadata.key)
                if view is not None and decide(view, now) != NOTHING:
                    yield f"the status of queue {queue.metadata.name} is to be written"


@dataclass
class SnapshotsAreWhole:
    """L5: a snapshot that a failed handler left half-changed is built anew, after any back-off."""

    world: SimulatedWorld
    name: str = "L5 snapshots are whole"

    def missing(self) -> Iterator[str]:
        for scheduler in schedulers(self.world):
            if scheduler.cache._was_filled and not scheduler.cache.is_filled:
                yield "a snapshot waits to be rebuilt"
            if scheduler.cache._feed.n_aside:
                yield f"{scheduler.cache._feed.n_aside} objects are set aside"


@dataclass
class RoomIsTrue:
    """L5: what schedulers take for free on each node is what is free."""

    world: SimulatedWorld
    name: str = "L5 room is true"

    def missing(self) -> Iterator[str]:
        free = {
            name: cpus_of(node)
            - sum(cpu_of(p) for p in pods_in(self.world) if p.spec.node_name == name and is_live(p))
            for name, node in nodes_in(self.world).items()
        }
        for scheduler in schedulers(self.world):
            if not scheduler.is_synced:
                continue
            held = _idle(scheduler)
            if held != free:
                yield f"takes {held} for free, where {free} is"


def _idle(scheduler: Scheduler) -> dict[str, int]:
    snapshot = scheduler.cache.snapshot
    cpu = snapshot.dimensions.place("cpu")
    return {
        name: round(snapshot.nodes.idle[cpu, place] / 1000)
        for place, name in enumerate(snapshot.nodes.names)
        if snapshot.nodes.objects[place] is not None
    }
