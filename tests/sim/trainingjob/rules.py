"""What the TrainingJob operator must never do, and what it must bring about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import STOPPED_ANNOTATION
from swell.api.injection import RELEASE_ANNOTATION
from swell.api.kinds import CONFIG_MAPS, JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.trainingjob import FINAL_PHASES, TrainingJob, TrainingJobPhase
from swell.api.workloads import Job
from swell.cluster.embedded.storage import Commit, Stored
from swell.operator.framework.managers import is_foreign
from swell.operator.framework.orphans import OnlyMetadata
from swell.operator.trainingjob.labels import ENDING, FINALIZER, JOB_UID, Role, index_label
from swell.operator.trainingjob.phases import TRANSITIONS
from swell.operator.trainingjob.snapshot import completed_indexes, completion_index, is_over
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.observation import ENDED, all_of, pod_states, pods_in, states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.field_rules import ForeignUntouched
from tests.sim.rules import (
    CachesAreTrue,
    DeletedGo,
    JobsEnd,
    NothingLeftBehind,
    ObservedJob,
    OneLivePod,
)
from tests.sim.trainingjob.field_rules import (
    ExpiredGo,
    ExpiredJobsOnly,
    SuspendedRest,
    TrainersSave,
)
from tests.sim.trainingjob.originals import OriginalsCollected, OriginalsKept
from tests.sim.trainingjob.training_rules import MembershipGrows, PartsBeforeTrainers
from tests.sim.trainingjob.wish_rules import AfterOthers, ScaledAsAsked
from tests.sim.wiping import SoundHistory

OWNED = (str(REPLICA_SETS), str(JOBS), str(POD_GROUPS), str(CONFIG_MAPS))


def safety(world: SimulatedWorld) -> list[SafetyCheck]:
    history = SoundHistory(world, TRAINING_JOBS)
    return [
        OneLivePod(_index_of, "one live trainer"),
        CreatedForOwner(world, history),
        DeletedForReason(world, history),
        SizedForReason(world, history),
        StatusMoves(world, history),
        StatusIsTrue(world, history),
        UniqueIndexes(),
        QueuedAsAsked(),
        AddressesAreWhole(),
        PartsBeforeTrainers(),
        MembershipGrows(),
        OriginalsKept(world, is_adopting(world)),
        TrainersSave(world, history),
        AfterOthers(world, history),
        ScaledAsAsked(world),
        ExpiredJobsOnly(world),
        ForeignUntouched(world, TRAINING_JOBS),
        NothingLeftBehind(
            world,
            TRAINING_JOBS,
            FINALIZER,
            lambda uid: owned_in(world, uid),
            lambda made, commit: made.version <= history.version_when_sent(commit, "patch"),
        ),
    ]


def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    def seen() -> list[ObservedJob]:
        return [
            ObservedJob(job.metadata, job.status.phase.value, job.status.phase in FINAL_PHASES)
            for job in jobs_in(world)
            if not is_foreign(job.spec.managed_by)
        ]

    return [
        JobsEnd(seen),
        DeletedGo(world, seen, (*OWNED, str(PODS))),
        CleanedUp(world),
        SuspendedRest(world),
        ExpiredGo(world),
        CachesAreTrue(world, _is_followed),
        OriginalsCollected(world, is_adopting(world)),
    ]


def is_adopting(world: SimulatedWorld) -> bool:
    """Whether the operator is told to collect what the original controller left."""
    return world.subject.name != "trainingjob kept"


def _index_of(pod: Pod) -> tuple[Uid, int] | None:
    index = completion_index(pod)
    owner = pod.metadata.controller
    return None if index is None or owner is None else (owner.uid, index)


def _is_followed(name: str, stored: Stored) -> bool:
    return name == "jobs" or bool(owner_uid(stored.typed(OnlyMetadata).metadata))


def end_state(world: SimulatedWorld) -> object:
    """What became of the jobs; reasons name pods, and those have other names every time."""
    return {str(job.metadata.key): job.status.phase.value for job in jobs_in(world)}


def jobs_in(world: SimulatedWorld) -> list[TrainingJob]:
    return all_of(world, TRAINING_JOBS)


def owned_in(world: SimulatedWorld, uid: Uid) -> Iterator[tuple[str, Stored]]:
    """Everything that carries a job's UID, with what it is."""
    for collection in (*OWNED, str(PODS)):
        for key, stored in world.storage.list(collection).items:
            if stored.typed(OnlyMetadata).metadata.labels.get(JOB_UID) == uid:
                yield f"{collection} {key}", stored


def live_pods(world: SimulatedWorld, uid: Uid) -> list[str]:
    """The pods of a job, but for records of deleted ones that have ended."""
    return [
        pod.metadata.name
        for pod in pods_in(world)
        if owner_uid(pod.metadata) == uid
        and not (pod.status.phase in ENDED and pod.metadata.deletion_timestamp)
    ]


def owner_uid(meta: ObjectMeta) -> Uid:
    return Uid(meta.labels.get(JOB_UID, ""))


def is_ending(job: TrainingJob) -> bool:
    return job.metadata.deletion_timestamp is not None


@dataclass
class CreatedForOwner:
    """A workload is created only for a job that existed, unfinished, when that was sent."""

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
    name: str = "created for its owner"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.collection not in OWNED or commit.before or not commit.after:
            return
        if not self.world.is_subject(commit.actor):
            return
        meta = commit.after.typed(OnlyMetadata).metadata
        owner = meta.controller
        job = self.history.when_sent(commit, "create", owner.uid if owner else Uid(""))
        if job is None:
            yield f"{commit.collection} {commit.key} created for no job"
        elif job.status.phase in FINAL_PHASES:
            yield f"{commit.collection} {commit.key} created for a job that is over"
        elif job.status.phase is TrainingJobPhase.EMPTY:
            yield f"{commit.collection} {commit.key} created before its job began"
        elif job.status.suspension is not None:
            yield f"{commit.collection} {commit.key} created for a job that is suspended"


@dataclass
class DeletedForReason:
    """What is deleted belongs to a job that is deleted, suspended, or over and cleans up."""

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
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
        job = self.history.when_sent(commit, "delete", uid)
        is_group = commit.collection == str(POD_GROUPS)
        if job is None or is_ending(job) or (is_group and job.status.phase in FINAL_PHASES):
            return
        if job.status.suspension is not None:
            return
        if commit.collection != str(PODS) or job.status.phase not in FINAL_PHASES:
            yield f"{commit.collection} {commit.key} deleted though its job is {job.status.phase}"


# A process that was paused, and hears of pods late, may take one for there that has gone since.
NEWS_S = 30.0


@dataclass
class SizedForReason:
    """A workload's size is what is on record, or nothing for a job that is over."""

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
    # When the last trainer with an index that was asked to leave has gone, by job.
    left_at_s: dict[tuple[Uid, int | None], float] = field(default_factory=dict)
    name: str = "sized for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        pod, left = pod_states(commit)
        if pod is not None and left is None and RELEASE_ANNOTATION in pod.metadata.annotations:
            place = owner_uid(pod.metadata), completion_index(pod)
            self.left_at_s[place] = self.world.clock.monotonic()
        if not self.world.is_subject(commit.actor):
            return
        before, after = states(commit, JOBS)
        if before is not None and after is not None and before.spec != after.spec:
            job = self.history.when_sent(commit, "patch", owner_uid(after.metadata))
            sizes = (after.spec.parallelism, after.spec.completions)
            if job is not None and not self._goes_first(job, sizes[0]):
                yield from _wrong_size(f"{commit.key}", job, sizes)
        set_before, set_after = states(commit, REPLICA_SETS)
        if set_before and set_after and set_before.spec.replicas != set_after.spec.replicas:
            job = self.history.when_sent(commit, "patch", owner_uid(set_after.metadata))
            if job is not None and not _may_be_sized(job, is_released=not set_after.spec.replicas):
                yield f"{commit.key} sized to {set_after.spec.replicas}"

    def _goes_first(self, job: TrainingJob, size: int) -> bool:
        """Whether the Job shrinks for a trainer that was asked to leave, before it grows again."""
        if size > 0 and any(
            completion_index(pod) == size and RELEASE_ANNOTATION in pod.metadata.annotations
            for pod in pods_in(self.world)
            if owner_uid(pod.metadata) == job.metadata.uid
        ):
            return True
        left_at_s = self.left_at_s.get((job.metadata.uid, size))
        return left_at_s is not None and self.world.clock.monotonic() < left_at_s + NEWS_S


def _may_be_sized(job: TrainingJob, *, is_released: bool) -> bool:
    """Released only at an end; anything else only before. That others have deleted the job just
    now, the operator may not know yet."""
    if is_released:
        return is_ending(job) or job.status.phase in FINAL_PHASES
    return job.status.phase not in FINAL_PHASES


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

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
    name: str = "status moves forward"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = self.history.judged(commit)
        if before is None or after is None:
            return
        if self.history.is_repair(commit):
            yield from self._judge_repair(commit, before, after)
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
            is_ours = (
                old.trainer_target is None or new.trainer_target == before.spec.scaled_trainers
            )
            if not is_ours and new.trainer_target != old.trainer_target:
                yield f"{commit.key} had its target written by the operator"

    def _judge_repair(
        self, commit: Commit, before: TrainingJob, after: TrainingJob
    ) -> Iterator[str]:
        """A status that was lost is as it was, as far as the objects prove it."""
        old, new = before.status, after.status
        if old.phase in FINAL_PHASES and ENDING in before.metadata.annotations:
            if new.phase is not old.phase:
                yield f"{commit.key} ended as {old.phase}, and is {new.phase} now"
        elif new.phase is not old.phase and new.phase in FINAL_PHASES - TRANSITIONS[old.phase]:
            yield f"{commit.key} went from {old.phase} to {new.phase}"
        key = Key(after.metadata.namespace, f"{after.metadata.name}-trainer")
        stored = self.world.storage.get(str(JOBS), key)
        size = stored.typed(Job).spec.completions if stored else None
        written, _ = states(commit, TRAINING_JOBS)
        asked = written.status.trainer_target if written else None  # by the autoscaler since
        known = {old.trainer_target, size, asked, after.spec.scaled_trainers}
        if not old.start_time and size is None:
            return  # it had not begun: nothing of it could be lost
        if new.phase not in FINAL_PHASES and new.trainer_target not in known:
            yield f"{commit.key} has {size} trainers, and a target of {new.trainer_target}"


@dataclass
class StatusIsTrue:
    """Success is of trainers of this very job; released is a job without pods."""

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
    name: str = "status is true"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, job = self.history.judged(commit)
        if before is None or job is None or before.status == job.status:
            return
        if (
            job.status.phase is TrainingJobPhase.SUCCEED
            and before.status.phase is not TrainingJobPhase.SUCCEED
        ):
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
        before, after = pod_states(commit)
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
class QueuedAsAsked:
    """The group is in the queue of its job: by the spec, by the annotation, or the default."""

    name: str = "queued as asked"
    _queues: dict[Uid, str] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = states(commit, TRAINING_JOBS)
        if job is not None:
            asked = job.metadata.annotations.get("scheduling.volcano.sh/queue-name")
            self._queues[job.metadata.uid] = job.spec.queue or asked or "default"
        before, group = states(commit, POD_GROUPS)
        owner = group.metadata.controller if group is not None and before is None else None
        if group is not None and owner is not None and owner.uid in self._queues:
            wanted = self._queues[owner.uid]
            if group.spec.queue != wanted:
                yield f"{commit.key} is in queue {group.spec.queue}, not in {wanted}"


@dataclass
class AddressesAreWhole:
    """A list of pservers has each of them once; it is of this job's own pods."""

    name: str = "addresses are whole"
    _addresses: dict[str, Uid] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        if pod is not None and pod.status.pod_ip:
            self._addresses[pod.status.pod_ip] = owner_uid(pod.metadata)
        _, after = states(commit, CONFIG_MAPS)
        owner = after.metadata.controller if after is not None else None
        listed = after.data.get("PADDLE_PSERVERS_IP_PORT_LIST") if after is not None else None
        if owner is None or listed is None:
            return
        hosts = [one.partition(":")[0] for one in listed.split(",")]
        if len(set(hosts)) != len(hosts):
            yield f"{commit.key} lists a pserver twice: {listed}"
        if any(self._addresses.get(host) != owner.uid for host in hosts):
            yield f"{commit.key} lists a pod of another job: {listed}"


@dataclass
class CleanedUp:
    """A job that is over has no group; with autoclean, or stopped, no pods, and says so."""

    world: SimulatedWorld
    name: str = "cleaned up"

    def missing(self) -> Iterator[str]:
        for job in jobs_in(self.world):
            if job.status.phase not in FINAL_PHASES:
                continue
            is_stopped = STOPPED_ANNOTATION in job.metadata.annotations
            cleans = self.world.subject.name != "trainingjob kept" or is_stopped
            for what, _ in owned_in(self.world, job.metadata.uid):
                if what.startswith(str(POD_GROUPS)):
                    yield f"{what} is still there"
            for pod in live_pods(self.world, job.metadata.uid) if cleans else ():
                yield f"{pod} is still there"
            if job.status.released != cleans:
                yield f"{job.metadata.key} is {'not ' * cleans}released"
