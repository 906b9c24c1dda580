"""What the toy controller must never do, and what it must bring about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.storage import Commit
from swell.runtime.informer import Informer
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.world import World
from tests.sim.toy.kind import FAILED, FINAL, FINALIZER, SUCCEEDED, TOY_JOBS, ToyJob, index_of

JOBS = str(TOY_JOBS)
ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def safety(world: World) -> list[SafetyCheck]:
    history = History(world)
    world.storage.on_commit.append(history.on_commit)
    return [
        OneLivePod(),
        CreatedForOwner(world, history),
        DeletedForReason(world, history),
        StatusMoves(),
        StatusIsTrue(),
        NothingLeftBehind(world),
    ]


def liveness(world: World) -> list[LivenessCheck]:
    return [JobsEnd(world), DeletedGo(world), Tidied(world), CachesAreTrue(world)]


def end_state(world: World) -> object:
    """What became of the jobs. Pods are not in it: others may delete those of a finished job."""
    return {
        str(job.metadata.key): (job.status.phase, job.status.restarts) for job in jobs_in(world)
    }


def jobs_in(world: World) -> list[ToyJob]:
    return [stored.typed(ToyJob) for _, stored in world.storage.list(JOBS).items]


def pods_in(world: World) -> list[Pod]:
    return [stored.typed(Pod) for _, stored in world.storage.list(str(PODS)).items]


def owner_of(pod: Pod) -> Uid:
    owner = pod.metadata.controller
    return owner.uid if owner else Uid("")


class History:
    """Every job's states by version: what was true when a write was sent.

    A job that others tore away (finalizer and all) counts as it last was: nobody can see at once
    what others do, only what it did itself.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._states: dict[Uid, list[tuple[int, ToyJob | None]]] = {}

    def on_commit(self, commit: Commit) -> None:
        before, after = job_states(commit)
        job = after or before
        if job is None or (after is None and not self._world.is_subject(commit.actor)):
            return
        self._states.setdefault(job.metadata.uid, []).append((commit.version, after))

    def at(self, uid: Uid, version: int) -> ToyJob | None:
        found = None
        for at, state in self._states.get(uid, []):
            if at > version:
                break
            found = state
        return found


def pod_states(commit: Commit) -> tuple[Pod | None, Pod | None]:
    """The pod before and after; nothing if the commit is about something else."""
    if commit.collection != str(PODS):
        return None, None
    return (
        commit.before.typed(Pod) if commit.before else None,
        commit.after.typed(Pod) if commit.after else None,
    )


def job_states(commit: Commit) -> tuple[ToyJob | None, ToyJob | None]:
    if commit.collection != JOBS:
        return None, None
    return (
        commit.before.typed(ToyJob) if commit.before else None,
        commit.after.typed(ToyJob) if commit.after else None,
    )


@dataclass
class OneLivePod:
    """At most one live pod for each index of a job; one that is ending still counts."""

    name: str = "one live pod"
    _live: dict[tuple[Uid, int], set[Uid]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        pod = after or before
        if pod is None or not owner_of(pod):
            return
        live = self._live.setdefault((owner_of(pod), index_of(pod)), set())
        if after is not None and after.status.phase not in ENDED:
            live.add(pod.metadata.uid)
        else:
            live.discard(pod.metadata.uid)
        if before is None and len(live) > 1:
            yield f"{len(live)} pods for index {index_of(pod)}: {commit.key} is one too many"


@dataclass
class CreatedForOwner:
    """A pod is created only for a job that existed, unfinished, when the create was sent."""

    world: World
    history: History
    name: str = "created for its owner"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before or not after or not self.world.is_subject(commit.actor):
            return
        sent = self.world.issued_version(f"{commit.actor} create {PODS} {commit.key}")
        job = self.history.at(owner_of(after), sent)
        if job is None:
            yield f"{commit.key} created for no job"
        elif job.status.phase in FINAL:
            yield f"{commit.key} created for a job that has {job.status.phase}"


@dataclass
class DeletedForReason:
    """A pod is deleted only for a reason that was on record when the delete was sent."""

    world: World
    history: History
    name: str = "deleted for a reason"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if after is not None and not after.metadata.deletion_timestamp:
            return
        sent = self.world.issued_version(f"{commit.actor} delete {PODS} {commit.key}")
        job = self.history.at(owner_of(before), sent)
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
    """Status tells what happened to pods of this very job: restarts, failure and success."""

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
class NothingLeftBehind:
    """When the finalizer is taken off, no pod of the job exists.

    Except one that another replica made meanwhile: it may not be known yet, and is collected.
    """

    world: World
    name: str = "nothing left behind"
    _makers: dict[Uid, str] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        if pod is not None:
            self._makers.setdefault(pod.metadata.uid, commit.actor)
        before, after = job_states(commit)
        if before is None or FINALIZER not in before.metadata.finalizers:
            return
        if not self.world.is_subject(commit.actor):
            return
        if after is not None and FINALIZER in after.metadata.finalizers:
            return
        left = [
            pod.metadata.name
            for pod in pods_in(self.world)
            if owner_of(pod) == before.metadata.uid
            and self._makers[pod.metadata.uid] == commit.actor
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
            if not job.metadata.deletion_timestamp and job.status.phase not in FINAL:
                yield f"{job.metadata.key} is {job.status.phase or 'untouched'}"


@dataclass
class DeletedGo:
    """Deleted jobs disappear, and their pods with them."""

    world: World
    name: str = "deleted jobs go"

    def missing(self) -> Iterator[str]:
        jobs = jobs_in(self.world)
        for job in jobs:
            if job.metadata.deletion_timestamp:
                yield f"{job.metadata.key} is still there"
        known = {job.metadata.uid for job in jobs}
        for pod in pods_in(self.world):
            if owner_of(pod) not in known:
                yield f"{pod.metadata.key} outlives its job"


@dataclass
class Tidied:
    """Finished jobs that ask for it have no pods; status speaks of the current generation."""

    world: World
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
                stored = self.world.storage.list(str(informer.resource)).items
                if held != {key: str(state.version) for key, state in stored}:
                    yield f"{process.name} has other {name} than there are"


def job_at(world: World, name: str) -> ToyJob | None:
    stored = world.storage.get(JOBS, Key("default", name))
    return stored.typed(ToyJob) if stored else None
