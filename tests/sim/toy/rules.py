"""What the toy controller must never do, and what it must bring about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.kinds import PODS
from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.storage import Commit
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.observation import (
    ENDED,
    ObjectHistory,
    all_of,
    owner_of,
    pod_states,
    pods_in,
    states,
)
from swell.sim.world import SimulatedWorld
from tests.sim.rules import (
    CachesAreTrue,
    DeletedGo,
    JobsEnd,
    NothingLeftBehind,
    ObservedJob,
    OneLivePod,
    owned_by,
)
from tests.sim.toy.kind import FAILED, FINAL, FINALIZER, SUCCEEDED, TOY_JOBS, ToyJob, index_of


def safety(world: SimulatedWorld) -> list[SafetyCheck]:
    history = ObjectHistory(world, TOY_JOBS)
    return [
        OneLivePod(lambda pod: (owner_of(pod), index_of(pod)) if owner_of(pod) else None),
        CreatedForOwner(world, history),
        DeletedForReason(world, history),
        StatusMoves(),
        StatusIsTrue(),
        NothingLeftBehind(
            world, TOY_JOBS, FINALIZER, lambda uid: owned_by(world, (str(PODS),), uid)
        ),
    ]


def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    def seen() -> list[ObservedJob]:
        return [
            ObservedJob(job.metadata, job.status.phase, job.status.phase in FINAL)
            for job in jobs_in(world)
        ]

    return [
        JobsEnd(seen),
        DeletedGo(world, seen, (str(PODS),)),
        Tidied(world),
        CachesAreTrue(world),
    ]


def jobs_in(world: SimulatedWorld) -> list[ToyJob]:
    return all_of(world, TOY_JOBS)


def job_states(commit: Commit) -> tuple[ToyJob | None, ToyJob | None]:
    return states(commit, TOY_JOBS)


def end_state(world: SimulatedWorld) -> object:
    """What became of the jobs. Pods are not in it: others may delete those of a finished job."""
    return {
        str(job.metadata.key): (job.status.phase, job.status.restarts) for job in jobs_in(world)
    }


@dataclass
class CreatedForOwner:
    """A pod is created only for a job that existed, unfinished, when the create was sent."""

    world: SimulatedWorld
    history: ObjectHistory[ToyJob]
    name: str = "created for its owner"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before or not after or not self.world.is_subject(commit.actor):
            return
        job = self.history.when_sent(commit, "create", owner_of(after))
        if job is None:
            yield f"{commit.key} created for no job"
        elif job.status.phase in FINAL:
            yield f"{commit.key} created for a job that has {job.status.phase}"


@dataclass
class DeletedForReason:
    """A pod is deleted only for a reason that was on record when the delete was sent."""

    world: SimulatedWorld
    history: ObjectHistory[ToyJob]
    name: str = "deleted for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if after is not None and not after.metadata.deletion_timestamp:
            return
        job = self.history.when_sent(commit, "delete", owner_of(before))
        if job is None:
            yield f"{commit.key} deleted, though it was none of ours"
        elif not _may_go(job, before):
            yield f"{commit.key} deleted without a recorded reason"


def _may_go(job: ToyJob, pod: Pod) -> bool:
    return (
        job.metadata.deletion_timestamp is not None
        or (job.status.phase in FINAL and job.spec.clean)
        or pod.metadata.uid in job.status.restarting
        or index_of(pod) >= job.status.target
    )


@dataclass
class StatusMoves:
    """Final is final, counts only grow and stay within the limit, generations are not undone."""

    name: str = "status moves forward"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or after is None:
            return
        old, new = before.status, after.status
        if old.phase in FINAL and new.phase != old.phase:
            yield f"{commit.key} went from {old.phase} to {new.phase or 'nothing'}"
        for index, count in old.restarts.items():
            if new.restarts.get(index, 0) < count:
                yield f"{commit.key} forgot restarts of index {index}"
        if any(count > after.spec.restart_limit for count in new.restarts.values()):
            yield f"{commit.key} exceeds its restart limit: {new.restarts}"
        if new.observed_generation < old.observed_generation:
            yield f"{commit.key} observed an older generation"


@dataclass
class StatusIsTrue:
    """Status says what happened to the pods of this job: restarts, failure and success."""

    name: str = "status is true"
    _done: set[tuple[Uid, int]] = field(default_factory=set)
    _failures: dict[tuple[Uid, int], set[Uid]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        if pod is not None and pod.status.phase is PodPhase.SUCCEEDED:
            self._done.add((owner_of(pod), index_of(pod)))
        if pod is not None and pod.status.phase is PodPhase.FAILED:
            failed = self._failures.setdefault((owner_of(pod), index_of(pod)), set())
            failed.add(pod.metadata.uid)
        before, job = job_states(commit)
        if before is None or job is None:
            return
        for index, count in job.status.restarts.items():
            n_failed = len(self._failures.get((job.metadata.uid, int(index)), ()))
            if count > n_failed:
                yield f"{commit.key} charged {count} restarts for {n_failed} failures"
        if before.status.phase == job.status.phase:
            return
        indexes = [(job.metadata.uid, index) for index in range(job.status.target)]
        if job.status.phase == SUCCEEDED and any(place not in self._done for place in indexes):
            yield f"{commit.key} called a success before all its pods succeeded"
        n_most = max((len(self._failures.get(place, ())) for place in indexes), default=0)
        if job.status.phase == FAILED and n_most <= job.spec.restart_limit:
            yield f"{commit.key} called a failure after {n_most} failures"


@dataclass
class Tidied:
    """Finished jobs that ask for it have no pods; status speaks of the current generation."""

    world: SimulatedWorld
    name: str = "tidied up"

    def missing(self) -> Iterator[str]:
        pods = pods_in(self.world)
        for job in jobs_in(self.world):
            if job.status.observed_generation != job.metadata.generation:
                yield f"{job.metadata.key} is behind its spec"
            own = [pod for pod in pods if owner_of(pod) == job.metadata.uid]
            if job.spec.clean and own:
                yield f"{job.metadata.key} still has {len(own)} pods"
            for pod in own:
                if pod.status.phase not in ENDED:
                    yield f"{pod.metadata.key} still runs"
