"""What the TrainingJob operator must never do, and what it must bring about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from swell.api.job import Job
from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.pod import Pod, PodPhase
from swell.api.replicaset import ReplicaSet
from swell.api.trainingjob import FINAL, Phase, TrainingJob
from swell.cluster.embedded.storage import Commit, Stored
from swell.operator.trainingjob.labels import FINALIZER, JOB_UID, Role, index_label
from swell.operator.trainingjob.orphans import OnlyMetadata
from swell.operator.trainingjob.updater.phases import TRANSITIONS
from swell.operator.trainingjob.updater.world import completed_indexes, completion_index, is_over
from swell.runtime.informer import Informer
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.world import World

T = TypeVar("T")
OWNERS = str(TRAINING_JOBS)
OWNED = (str(REPLICA_SETS), str(JOBS), str(POD_GROUPS))
ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def safety(world: World) -> list[SafetyCheck]:
    history = History(world)
    world.storage.on_commit.append(history.on_commit)
    return [
        OneLiveTrainer(),
        CreatedForOwner(world, history),
        DeletedForReason(world, history),
        SizedForReason(world, history),
        StatusMoves(world),
        StatusIsTrue(world, history),
        UniqueIndexes(),
        NothingLeftBehind(world),
    ]


def liveness(world: World) -> list[LivenessCheck]:
    return [JobsEnd(world), DeletedGo(world), CleanedUp(world), CachesAreTrue(world)]


def end_state(world: World) -> object:
    """What became of the jobs; reasons name pods, and those have other names every time."""
    return {str(job.metadata.key): job.status.phase.value for job in jobs_in(world)}


def jobs_in(world: World) -> list[TrainingJob]:
    return [stored.typed(TrainingJob) for _, stored in world.storage.list(OWNERS).items]


def job_at(world: World, name: str) -> TrainingJob | None:
    stored = world.storage.get(OWNERS, Key("default", name))
    return stored.typed(TrainingJob) if stored else None


def pods_in(world: World) -> list[Pod]:
    return [stored.typed(Pod) for _, stored in world.storage.list(str(PODS)).items]


def owned_in(world: World, uid: Uid) -> Iterator[tuple[str, Stored]]:
    """Everything that carries a job's UID, with what it is."""
    for collection in (*OWNED, str(PODS)):
        for key, stored in world.storage.list(collection).items:
            if stored.typed(OnlyMetadata).metadata.labels.get(JOB_UID) == uid:
                yield f"{collection} {key}", stored


def live_pods(world: World, uid: Uid) -> list[str]:
    """The pods of a job, but for records of deleted ones that have ended."""
    return [
        pod.metadata.name
        for pod in pods_in(world)
        if owner_uid(pod.metadata) == uid
        and not (pod.status.phase in ENDED and pod.metadata.deletion_timestamp)
    ]


class History:
    """Every job's states by version: what was true when a write was sent."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[Uid, list[tuple[int, TrainingJob | None]]] = {}

    def on_commit(self, commit: Commit) -> None:
        before, after = typed(commit, OWNERS, TrainingJob)
        job = after or before
        # One torn away by others counts as it last was: nobody can see at once what others do.
        if job is None or (after is None and not self._world.is_subject(commit.actor)):
            return
        self._states.setdefault(job.metadata.uid, []).append((commit.version, after))

    def at(self, uid: Uid, version: int) -> TrainingJob | None:
        found = None
        for at, state in self._states.get(uid, []):
            if at > version:
                break
            found = state
        return found

    def sent(self, commit: Commit, verb: str, uid: Uid) -> TrainingJob | None:
        """The job as it was when a write was sent."""
        site = f"{commit.actor} {verb} {commit.collection} {commit.key}"
        return self.at(uid, self._world.issued_version(site))


def typed(commit: Commit, collection: str, kind: type[T]) -> tuple[T | None, T | None]:
    """The object before and after; nothing if the commit is about another kind."""
    if commit.collection != collection:
        return None, None
    return (
        commit.before.typed(kind) if commit.before else None,
        commit.after.typed(kind) if commit.after else None,
    )


def owner_uid(meta: ObjectMeta) -> Uid:
    return Uid(meta.labels.get(JOB_UID, ""))


def is_ending(job: TrainingJob) -> bool:
    return job.metadata.deletion_timestamp is not None


@dataclass
class OneLiveTrainer:
    """At most one live pod for each index of a trainer Job; one that is ending still counts."""

    name: str = "one live trainer"
    _live: dict[tuple[Uid, int], set[Uid]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = typed(commit, str(PODS), Pod)
        pod = after or before
        index = completion_index(pod) if pod is not None else None
        if pod is None or index is None or pod.metadata.controller is None:
            return
        live = self._live.setdefault((pod.metadata.controller.uid, index), set())
        if after is not None and after.status.phase not in ENDED:
            live.add(pod.metadata.uid)
        else:
            live.discard(pod.metadata.uid)
        if before is None and len(live) > 1:
            yield f"{len(live)} pods for index {index}: {commit.key} is one too many"


@dataclass
class CreatedForOwner:
    """A workload is created only for a job that existed, unfinished, when that was sent."""

    world: World
    history: History
    name: str = "created for its owner"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.collection not in OWNED or commit.before or not commit.after:
            return
        if not self.world.is_subject(commit.actor):
            return
        meta = commit.after.typed(OnlyMetadata).metadata
        owner = meta.controller
        job = self.history.sent(commit, "create", owner.uid if owner else Uid(""))
        if job is None:
            yield f"{commit.collection} {commit.key} created for no job"
        elif job.status.phase in FINAL:
            yield f"{commit.collection} {commit.key} created for a job that is over"
        elif job.status.phase is Phase.EMPTY:
            yield f"{commit.collection} {commit.key} created before its job began"


@dataclass
class DeletedForReason:
    """What is deleted belongs to a job that is being deleted, or that is over and cleans up."""

    world: World
    history: History
    name: str = "deleted for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.before is None or not self.world.is_subject(commit.actor):
            return
        if commit.collection not in (*OWNED, str(PODS)):
            return
        before = commit.before.typed(OnlyMetadata).metadata
        after = commit.after.typed(OnlyMetadata).metadata if commit.after else None
        if before.deletion_timestamp or (after is not None and not after.deletion_timestamp):
            return
        uid = owner_uid(before)
        if all(job.metadata.uid != uid for job in jobs_in(self.world)):
            return  # an orphan, which is nobody's
        job = self.history.sent(commit, "delete", uid)
        is_group = commit.collection == str(POD_GROUPS)
        if job is None or is_ending(job) or (is_group and job.status.phase in FINAL):
            return
        if commit.collection != str(PODS) or job.status.phase not in FINAL:
            yield f"{commit.collection} {commit.key} deleted though its job is {job.status.phase}"


@dataclass
class SizedForReason:
    """A workload's size is what is on record, or nothing for a job that is over."""

    world: World
    history: History
    name: str = "sized for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if not self.world.is_subject(commit.actor):
            return
        before, after = typed(commit, str(JOBS), Job)
        if before is not None and after is not None and before.spec != after.spec:
            job = self.history.sent(commit, "patch", owner_uid(after.metadata))
            sizes = (after.spec.parallelism, after.spec.completions)
            if job is not None:
                yield from _wrong_size(f"{commit.key}", job, sizes)
        set_before, set_after = typed(commit, str(REPLICA_SETS), ReplicaSet)
        if set_before and set_after and set_before.spec.replicas != set_after.spec.replicas:
            job = self.history.sent(commit, "patch", owner_uid(set_after.metadata))
            if job is not None and not _may_be_sized(job, is_released=not set_after.spec.replicas):
                yield f"{commit.key} sized to {set_after.spec.replicas}"


def _may_be_sized(job: TrainingJob, *, is_released: bool) -> bool:
    """Released only at an end; anything else only before. That others have deleted the job just
    now, the operator may not know yet."""
    if is_released:
        return is_ending(job) or job.status.phase in FINAL
    return job.status.phase not in FINAL


def _wrong_size(key: str, job: TrainingJob, sizes: tuple[int, int | None]) -> Iterator[str]:
    if not _may_be_sized(job, is_released=not sizes[0]):
        yield f"{key} sized to {sizes[0]} though its job is {job.status.phase}"
    if not sizes[0]:
        return
    records = job.status.scale_records
    if not records or sizes != (records[-1].to, records[-1].to):
        yield f"{key} sized to {sizes}, on record is {records[-1:]}"


@dataclass
class StatusMoves:
    """Phases follow the table, final is final, and what is set once stays."""

    world: World
    name: str = "status moves forward"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = typed(commit, OWNERS, TrainingJob)
        if before is None or after is None:
            return
        old, new = before.status, after.status
        if new.phase is not old.phase and new.phase not in TRANSITIONS[old.phase]:
            yield f"{commit.key} went from {old.phase} to {new.phase}"
        if new.observed_generation < old.observed_generation:
            yield f"{commit.key} observed an older generation"
        if old.start_time and new.start_time != old.start_time:
            yield f"{commit.key} began twice"
        if old.released and not new.released:
            yield f"{commit.key} is released no more"
        if self.world.is_subject(commit.actor):
            if before.spec != after.spec:
                yield f"{commit.key} had its spec written by the operator"
            if old.trainer_target is not None and new.trainer_target != old.trainer_target:
                yield f"{commit.key} had its target written by the operator"


@dataclass
class StatusIsTrue:
    """Success is of trainers of this very job; released is a job without pods."""

    world: World
    history: History
    name: str = "status is true"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, job = typed(commit, OWNERS, TrainingJob)
        if before is None or job is None or before.status == job.status:
            return
        if job.status.phase is Phase.SUCCEED and before.status.phase is not Phase.SUCCEED:
            yield from self._untrue_success(job)
        if job.status.released and not before.status.released:
            left = live_pods(self.world, job.metadata.uid)
            if left:
                yield f"{commit.key} released with {', '.join(left)}"

    def _untrue_success(self, job: TrainingJob) -> Iterator[str]:
        key = Key(job.metadata.namespace, f"{job.metadata.name}-trainer")
        stored = self.world.storage.get(str(JOBS), key)
        trainer = stored.typed(Job) if stored else None
        if trainer is None or owner_uid(trainer.metadata) != job.metadata.uid:
            yield f"{job.metadata.key} succeeded without trainers of its own"
        elif not is_over(trainer) or not completed_indexes(trainer):
            yield f"{job.metadata.key} succeeded though no trainer had"
        elif not job.spec.fault_tolerant and trainer.status.failed_indexes:
            yield f"{job.metadata.key} succeeded though trainers had failed"


@dataclass
class UniqueIndexes:
    """No two pservers at work show the same index."""

    name: str = "unique indexes"
    _holders: dict[tuple[Uid, str], dict[Uid, str]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = typed(commit, str(PODS), Pod)
        pod = after or before
        job = pod.metadata.labels.get("paddle-job-pserver") if pod else None
        owner = pod.metadata.controller if pod else None
        if pod is None or job is None or owner is None:
            return
        label = index_label(job, Role.PSERVER)
        if before is not None and (shown := before.metadata.labels.get(label)) is not None:
            self._holders.get((owner.uid, shown), {}).pop(pod.metadata.uid, None)
        shown = after.metadata.labels.get(label) if after else None
        if after is None or shown is None or after.status.phase in ENDED:
            return
        holders = self._holders.setdefault((owner.uid, shown), {})
        holders[pod.metadata.uid] = pod.metadata.name
        if len(holders) > 1:
            yield f"index {shown} of {job} is shown by {', '.join(holders.values())}"


@dataclass
class NothingLeftBehind:
    """When the finalizer is taken off, nothing the job owns exists, but for what came later."""

    world: World
    name: str = "nothing left behind"
    _made: dict[Uid, int] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.after is not None and commit.before is None:
            self._made[commit.after.typed(OnlyMetadata).metadata.uid] = commit.version
        before, after = typed(commit, OWNERS, TrainingJob)
        if before is None or FINALIZER not in before.metadata.finalizers:
            return
        if not self.world.is_subject(commit.actor):
            return
        if after is not None and FINALIZER in after.metadata.finalizers:
            return
        sent = self.world.issued_version(f"{commit.actor} patch {OWNERS} {commit.key}")
        left = [
            what
            for what, stored in owned_in(self.world, before.metadata.uid)
            if self._made[stored.typed(OnlyMetadata).metadata.uid] <= sent
        ]
        if left:
            yield f"{commit.key} let go with {', '.join(left)} still there"


@dataclass
class JobsEnd:
    """Every job that nobody deletes ends."""

    world: World
    name: str = "jobs end"

    def missing(self) -> Iterator[str]:
        for job in jobs_in(self.world):
            if not is_ending(job) and job.status.phase not in FINAL:
                yield f"{job.metadata.key} is {job.status.phase}"


@dataclass
class DeletedGo:
    """Deleted jobs disappear, and everything they own with them."""

    world: World
    name: str = "deleted jobs go"

    def missing(self) -> Iterator[str]:
        jobs = jobs_in(self.world)
        for job in jobs:
            if is_ending(job):
                yield f"{job.metadata.key} is still there"
        known = {job.metadata.uid for job in jobs}
        for collection in (*OWNED, str(PODS)):
            for key, stored in self.world.storage.list(collection).items:
                uid = owner_uid(stored.typed(OnlyMetadata).metadata)
                if uid and uid not in known:
                    yield f"{collection} {key} outlives its job"


@dataclass
class CleanedUp:
    """A job that is over has no group; with autoclean it has no pods, and says so."""

    world: World
    name: str = "cleaned up"

    def missing(self) -> Iterator[str]:
        cleans = self.world.subject.name == "trainingjob"
        for job in jobs_in(self.world):
            if job.status.phase not in FINAL:
                continue
            for what, _ in owned_in(self.world, job.metadata.uid):
                if what.startswith(str(POD_GROUPS)):
                    yield f"{what} is still there"
            for pod in live_pods(self.world, job.metadata.uid) if cleans else ():
                yield f"{pod} is still there"
            if job.status.released != cleans:
                yield f"{job.metadata.key} is {'not ' * cleans}released"


@dataclass
class CachesAreTrue:
    """Informers hold what the store holds, in the same versions."""

    world: World
    name: str = "caches are true"

    def missing(self) -> Iterator[str]:
        for process in self.world.processes:
            for name, informer in process.exposed.items():
                assert isinstance(informer, Informer)
                held = {o.metadata.key: o.metadata.resource_version for o in informer.all()}
                stored = {
                    key: str(state.version)
                    for key, state in self.world.storage.list(str(informer.resource)).items
                    if name == "jobs" or owner_uid(state.typed(OnlyMetadata).metadata)
                }
                if held != stored:
                    yield f"{process.name} has other {name} than there are"
