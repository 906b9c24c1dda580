"""S1 to S3 for TrainingJobs: suspended ones rest, trainers save, only ended ones are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.pod import Pod
from swell.api.times import has_passed, parse_time
from swell.api.trainingjob import FINAL_PHASES, TrainingJob
from swell.cluster.embedded.storage import Commit
from swell.operator.framework.managers import is_foreign
from swell.operator.framework.orphans import OnlyMetadata
from swell.operator.trainingjob.cleanup import COMPLETED
from swell.operator.trainingjob.labels import JOB_UID
from swell.operator.trainingjob.snapshot import completion_index
from swell.sim.observation import all_of, pod_states, pods_in, states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.departure_rules import OpenDeadlines
from tests.sim.operator.field_rules import ROUNDED_S
from tests.sim.wiping import SoundHistory

_OWNED = (str(REPLICA_SETS), str(JOBS), str(POD_GROUPS), str(PODS))


@dataclass
class SuspendedRest:
    """S1: a suspended job has neither pods nor workloads, and asks for no room."""

    world: SimulatedWorld
    name: str = "S1 suspended jobs rest"

    def missing(self) -> Iterator[str]:
        for job in all_of(self.world, TRAINING_JOBS):
            is_over = job.status.phase in FINAL_PHASES
            if not job.wants_suspension or is_over or is_foreign(job.spec.managed_by):
                continue
            if job.status.suspension is None:
                yield f"{job.metadata.key} is not suspended"
            for collection in _OWNED:
                for key, stored in self.world.storage.list(collection).items:
                    labels = stored.typed(OnlyMetadata).metadata.labels
                    if labels.get(JOB_UID) == job.metadata.uid:
                        yield f"{job.metadata.key} is suspended and has {collection} {key}"


@dataclass
class TrainersSave:
    """S2: the trainers' Job neither goes nor shrinks while one that leaves has time to save."""

    world: SimulatedWorld
    history: SoundHistory[TrainingJob]
    name: str = "S2 saved before deleted"
    _deadlines: OpenDeadlines = field(init=False)

    def __post_init__(self) -> None:
        self._deadlines = OpenDeadlines(self.world)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        self._deadlines.note(pod)
        before, after = states(commit, JOBS)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if before.metadata.deletion_timestamp:
            return
        goes = after is None or bool(after.metadata.deletion_timestamp)
        left = 0 if after is None or goes else after.spec.parallelism
        verb = "delete" if goes else "patch"
        owner = before.metadata.controller
        job = self.history.when_sent(commit, verb, owner.uid) if owner else None
        if job is None or job.metadata.deletion_timestamp or job.status.phase in FINAL_PHASES:
            return
        for one in self._trainers_of(before.metadata.uid):
            if (completion_index(one) or 0) >= left and self._deadlines.is_open(one):
                yield f"{commit.key} let {one.metadata.name} go before it had saved"

    def _trainers_of(self, uid: str) -> Iterator[Pod]:
        for pod in pods_in(self.world):
            owner = pod.metadata.controller
            if owner is not None and owner.uid == uid and not pod.metadata.deletion_timestamp:
                yield pod


@dataclass
class ExpiredJobsOnly:
    """S3: the operator deletes a job only if its end is on record, and its time is up."""

    world: SimulatedWorld
    name: str = "S3 expired jobs only"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = states(commit, TRAINING_JOBS)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if before.metadata.deletion_timestamp or (after and not after.metadata.deletion_timestamp):
            return
        status, ttl_s = before.status, before.spec.ttl_seconds_after_finished
        times = (one.last_transition_time for one in status.conditions if one.type == COMPLETED)
        ended = next(times, None)
        if status.phase not in FINAL_PHASES or ended is None:
            yield f"{commit.key} deleted, though it is {status.phase.value} and has not ended"
        elif ttl_s is None:
            yield f"{commit.key} deleted, though it does not expire"
        elif not has_passed(parse_time(ended), ttl_s - ROUNDED_S, self.world.clock.now()):
            yield f"{commit.key} deleted before {ttl_s} s were over"


@dataclass
class ExpiredGo:
    """S3: a job that is to be deleted some time after its end is deleted then."""

    world: SimulatedWorld
    name: str = "S3 expired jobs go"

    def missing(self) -> Iterator[str]:
        for job in all_of(self.world, TRAINING_JOBS):
            ttl_s, is_over = job.spec.ttl_seconds_after_finished, job.status.phase in FINAL_PHASES
            if is_over and ttl_s is not None and not is_foreign(job.spec.managed_by):
                yield f"{job.metadata.key} is there, which ended to be deleted {ttl_s} s later"
