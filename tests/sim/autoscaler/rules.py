"""Safety rules of the autoscaler, checked on every commit, and its liveness rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob, EdlPolicy, ScaleRecord
from swell.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from swell.api.meta import Uid
from swell.api.pod import PodPhase
from swell.api.scheduling import Queue, QueueState
from swell.api.times import parse_time
from swell.autoscaler.goodput.turns import TURN_S
from swell.autoscaler.plan import AutoscalerObjects, inquiry_resource
from swell.autoscaler.policies.room import NOWHERE, Room
from swell.autoscaler.settings import AutoscalerSettings
from swell.cluster.embedded.storage import Commit
from swell.runtime.informer import Informer
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.observation import all_of, owner_of, pod_states, pods_in
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import job_states, jobs_in, replica_of, seen_jobs
from tests.sim.rules import DeletedGo, JobsEnd, ObservedJob

AUTOSCALER, OPERATOR = "autoscaler", "operator"
HOPELESS = "hopeless"  # what users call a job that can never start
# From then on what the autoscaler sees is what there is.
OBSERVATION_S = 60.0
UNMET = "unmet"  # on a job that did not get in time what it must get, and why


def safety(world: SimulatedWorld, settings: AutoscalerSettings) -> list[SafetyCheck]:
    return [
        WithinBounds(world),
        OnlyElastic(world),
        OnlyIntoRoom(world, settings),
        NoFlapping(world, settings),
        HighestGo(world),
        NoRestart(world),
        NotInVain(world),
        StopsInTurn(world, settings),
        Unmet(world),
    ]


def resizes(world: SimulatedWorld, commit: Commit) -> Iterator[tuple[AITrainingJob, str, int, int]]:
    """Roles whose target the autoscaler changed: the job before, role, old and new size."""
    before, after = job_states(commit)
    if before is None or after is None or not commit.actor.startswith(AUTOSCALER):
        return
    for role, target in after.status.target_replicas.items():
        held = before.status.target_replicas.get(role)
        if held is not None and held != target:
            yield before, role, held, target


@dataclass
class WithinBounds:
    """A1: every written target is within the bounds of the generation it was computed from."""

    world: SimulatedWorld
    name: str = "within bounds"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        for job, role, _, target in resizes(self.world, commit):
            spec = job.spec.replica_specs[role]
            if not spec.minimum <= target <= spec.maximum:
                yield f"{commit.key} {role} to {target}, not in {spec.minimum}…{spec.maximum}"


@dataclass
class OnlyElastic:
    """A2: only elastic Auto roles of jobs that neither have ended nor are about to."""

    world: SimulatedWorld
    name: str = "only elastic"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        for job, role, _, _ in resizes(self.world, commit):
            spec = job.spec.replica_specs[role]
            if not spec.is_elastic or spec.edl_policy is not EdlPolicy.AUTO:
                yield f"{commit.key} {role} is not the autoscaler's"
            if (
                job.status.phase in FINAL_PHASES
                or job.status.ending
                or job.metadata.deletion_timestamp
            ):
                yield f"{commit.key} {role} resized though the job is over"


@dataclass
class Visibility:
    """Whether faults are over for a while: before, the autoscaler may see a past cluster."""

    world: SimulatedWorld

    def is_clear(self) -> bool:
        ended_s = self.world.faults_ended_s
        return ended_s is not None and self.world.clock.monotonic() - ended_s > OBSERVATION_S


@dataclass
class OnlyIntoRoom:
    """A3: a raise only if a replica fits a node, and neither load nor queues are above their limit.

    Of queues the role's own and all above it count, each with the jobs of all queues below.
    Checked while the autoscaler's caches are not behind.
    """

    world: SimulatedWorld
    settings: AutoscalerSettings
    name: str = "only into room"

    def __post_init__(self) -> None:
        self._visibility = Visibility(self.world)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        is_quiet = self._visibility.is_clear()
        for job, role, held, target in resizes(self.world, commit):
            if not is_quiet or target < held or held < job.spec.replica_specs[role].minimum:
                continue
            snapshot = inquiry_resource(objects_in(self.world))
            room = Room(snapshot.cluster, self.settings.parameters.max_load)
            state = next(j for j in snapshot.jobs if j.view.id.key == commit.key)
            view = next(r.view for r in state.roles if r.view.name == role)
            if room.is_over:
                yield f"{commit.key} {role} from {held} to {target} over-commits the cluster"
            if room.find(view.needs) == NOWHERE:
                yield f"{commit.key} {role} from {held} to {target}, and no node has room for one"
            for queue, n_cpus in exceeded_queues(self.world, job.spec.queue):
                yield f"{commit.key} {role} from {held} to {target}: {queue} would have {n_cpus}"


def exceeded_queues(world: SimulatedWorld, name: str) -> Iterator[tuple[str, int]]:
    """The queue and those above it whose live jobs are to have more cpus than it may have."""
    queues = {queue.metadata.name: queue for queue in all_of(world, QUEUES)}
    # The pods of a job that ends are finished or about to go.
    jobs = [
        job
        for job in jobs_in(world)
        if job.status.phase not in FINAL_PHASES
        and job.status.ending is None
        and not job.metadata.deletion_timestamp
    ]
    for queue in _line(queues, name):
        below = {other for other in queues if queue in _line(queues, other)}
        own = {job.metadata.uid for job in jobs if job.spec.queue in below}
        n_done = sum(
            pod.status.phase is PodPhase.SUCCEEDED and owner_of(pod) in own
            for pod in pods_in(world)
        )
        targets = (sum(j.status.target_replicas.values()) for j in jobs if j.metadata.uid in own)
        n_cpus = sum(targets) - n_done
        limit = queues[queue].spec.capability.get("cpu")
        if limit is not None and n_cpus > int(limit):
            yield queue, n_cpus


def _line(queues: Mapping[str, Queue], name: str) -> list[str]:
    line: list[str] = []
    while name in queues and name not in line:
        line.append(name)
        name = queues[name].spec.parent
    return line


@dataclass
class NoFlapping:
    """A4: no change of direction within the cool-down, except to let a pending job start."""

    world: SimulatedWorld
    settings: AutoscalerSettings
    name: str = "calm direction"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, after = job_states(commit)
        for _, role, _, _ in resizes(self.world, commit):
            records = [r for r in (after.status.scale_records if after else ()) if r.role == role]
            if len(records) < 2 or records[-1].for_:
                continue
            last = records[-1]
            for earlier in records[:-1]:
                apart_s = abs(parse_time(last.time) - parse_time(earlier.time))
                if is_up(earlier) != is_up(last) and apart_s < self.settings.scale_cooldown_s:
                    yield f"{commit.key} {role} turned {apart_s:.0f} s after {earlier.to}"


def is_up(record: ScaleRecord) -> bool:
    return record.to > record.from_


@dataclass
class HighestGo:
    """A5: shrinking removes the highest indexes, never index 0, never below the minimum."""

    world: SimulatedWorld
    name: str = "highest go"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        was_reported = before is not None and not before.metadata.deletion_timestamp
        if not was_reported or before is None or not commit.actor.startswith(OPERATOR):
            return
        if after is not None and not after.metadata.deletion_timestamp:
            return
        job = next((j for j in jobs_in(self.world) if j.metadata.uid == owner_of(before)), None)
        if (
            job is None
            or job.status.ending
            or job.status.restart
            or job.status.suspension
            or job.metadata.deletion_timestamp
        ):
            return
        role, index = replica_of(before)
        if job.status.phase not in FINAL_PHASES and index < job.spec.replica_specs[role].minimum:
            yield f"{commit.key} deleted, which is below the minimum"


@dataclass
class NoRestart:
    """A6: no resize is counted as a restart: here no pod fails and no user deletes one.

    An operator whose view lags may still take a pod that a resize removed for one that got lost,
    and number its successor; that is not charged.
    """

    world: SimulatedWorld
    name: str = "no restart"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, after = job_states(commit)
        for role, count in after.status.restart_counts.items() if after is not None else ():
            charged = count - (after.status.uncharged.get(role, 0) if after is not None else 0)
            if charged:
                yield f"{commit.key} {role} is charged {charged} restarts"


@dataclass
class NotInVain:
    """No role makes room for a job that can never start, as far as the autoscaler can know.

    While its pods lag behind, those that hold the room may look as if they had none yet.
    """

    world: SimulatedWorld
    name: str = "not in vain"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or after is None or not commit.actor.startswith(AUTOSCALER):
            return
        for record in after.status.scale_records:
            is_new = record not in before.status.scale_records
            if is_new and record.for_.endswith(f"/{HOPELESS}") and self._sees_all_nodes(commit):
                yield f"{commit.key} shrank for {record.for_}"

    def _sees_all_nodes(self, commit: Commit) -> bool:
        """Whether the autoscaler knows of every bound pod on which node it is."""
        bound = {
            (pod.metadata.key, pod.spec.node_name)
            for pod in pods_in(self.world)
            if pod.spec.node_name
        }
        caches = (
            process.exposed.get(str(PODS))
            for process in self.world.processes
            if process.name == commit.actor
        )
        return all(
            bound <= {(pod.metadata.key, pod.spec.node_name) for pod in cache.all()}
            for cache in caches
            if isinstance(cache, Informer)
        )


@dataclass
class StopsInTurn:
    """A job is stopped for others only if it saves and nobody forbids it, after a turn of its own,
    and until a time that is at most as far away as any job may have to wait."""

    world: SimulatedWorld
    settings: AutoscalerSettings
    name: str = "stops in turn"

    def __post_init__(self) -> None:
        self._visibility = Visibility(self.world)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or after is None or not commit.actor.startswith(AUTOSCALER):
            return
        record = after.status.yielded
        if record is None or before.status.yielded is not None:
            return
        training = before.status.training
        if before.spec.save_seconds is None and not (training is not None and training.saves):
            yield f"{commit.key} is stopped and saves nothing"
        if before.spec.suspend is not None or self.settings.policy != "goodput":
            yield f"{commit.key} is stopped against the user's word"
        since, until = parse_time(record.since), parse_time(record.until)
        if until - since > self.settings.parameters.starve_after_s:
            yield f"{commit.key} is stopped for {until - since:.0f} s"
        own = [pod for pod in pods_in(self.world) if owner_of(pod) == before.metadata.uid]
        began = max((parse_time(pod.metadata.creation_timestamp or "") for pod in own), default=0.0)
        if self._visibility.is_clear() and since - began < TURN_S:
            yield f"{commit.key} is stopped {since - began:.0f} s after it began"


@dataclass
class Unmet:
    """No job waits in vain for a size that its user knows it must get."""

    world: SimulatedWorld
    name: str = "as expected"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        told = after.metadata.annotations.get(UNMET) if after is not None else None
        if told and (before is None or UNMET not in before.metadata.annotations):
            yield f"{commit.key} {told}"


def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    def seen() -> list[ObservedJob]:
        return seen_jobs(world)

    gone = (str(PODS), str(POD_GROUPS))
    return [JobsEnd(seen), DeletedGo(world, seen, gone), QueuesAreCounted(world)]


@dataclass
class QueuesAreCounted:
    """The numbers of a queue are told late (ADR 41): nothing is at rest before."""

    world: SimulatedWorld
    name: str = "queues are counted"

    def missing(self) -> Iterator[str]:
        groups = all_of(self.world, POD_GROUPS)
        for queue in all_of(self.world, QUEUES):
            held, name = queue.status, queue.metadata.name
            told = held.pending + held.inqueue + held.running + held.completed + held.unknown
            n_groups = sum((group.spec.queue or "default") == name for group in groups)
            if held.state is not QueueState.EMPTY and told != n_groups:
                yield f"{name} has {n_groups} groups and reports {told}"


def end_state(world: SimulatedWorld) -> object:
    return {str(job.metadata.key): job.status.phase.value for job in jobs_in(world)}


def objects_in(world: SimulatedWorld) -> AutoscalerObjects:
    """The whole cluster as it is."""
    return AutoscalerObjects(
        nodes=all_of(world, NODES),
        pods=pods_in(world),
        groups=all_of(world, POD_GROUPS),
        queues=all_of(world, QUEUES),
        training_jobs=jobs_in(world),
    )


@dataclass
class Turns:
    """Counts how often each role changed direction, and how often it was resized at all."""

    world: SimulatedWorld
    name: str = "turns"
    n_resizes: int = 0
    turned_at: dict[tuple[Uid, str], list[float]] = field(default_factory=dict)
    _last: dict[tuple[Uid, str], bool] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        for job, role, held, target in resizes(self.world, commit):
            place = (job.metadata.uid, role)
            self.n_resizes += 1
            up = target > held
            if self._last.get(place, up) != up:
                self.turned_at.setdefault(place, []).append(self.world.clock.monotonic())
            self._last[place] = up
        yield from ()
