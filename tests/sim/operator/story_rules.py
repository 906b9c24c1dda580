"""N5, D1 to D4: what restarts, begins, ends, waits and grows only for what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import (
    AITrainingJob,
    AITrainingJobPhase,
    RequeuePolicy,
    Restart,
    RestartScope,
)
from swell.api.core import Node
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.api.saving import eviction_of
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob.labels import pod_name
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.framework.fencing import is_ready
from swell.operator.framework.mass_failure import HOLD_S, N_MIN
from swell.runtime.informer import Informer
from swell.sim.observation import owner_of, pod_states, pods_in
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import job_states, replica_of
from tests.sim.wiping import SoundHistory

# The names under which the operator shows its cache of nodes, and what tells the pods it knows.
NODES, KNOWN_PODS = "nodes", "pods"
_STATUS_WRITE = f"patch {AI_TRAINING_JOBS}/status"
# What was known that long before a write was sent, or longer, was known when it was decided on; and
# how long after the hold has ended a write may still be said to belong to it.
KNOWN_S, NOTICED_S = 20.0, 10.0

# Restarts that are not charged either, and not because pods are gone.
_OTHER_UNCHARGED = frozenset({JobReason.GANG_INCOMPLETE.value, JobReason.STRAGGLER.value})


@dataclass
class RestartsHeld:
    """N5: while most nodes have been silent for less than the hold, no lost node restarts a job."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "N5 restarts held in a mass failure"
    _cache: Informer[Node] | None = None
    _ready: dict[Key, bool] = field(default_factory=dict)
    _since_s: float | None = None
    _vanished_s: float = -HOLD_S
    _is_unclear: bool = False
    _sent_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = self.history.judged(commit)
        if before is None or after is None or self.history.is_repair(commit):
            return
        old, new = before.status.restart, after.status.restart
        if new is None or (old is not None and old.counts == new.counts):
            return
        if after.status.reason != JobReason.NODE_LOST.value or self._since_s is None:
            return
        if _explains_earlier(after, old, new):
            return
        site = f"{commit.actor} {_STATUS_WRITE} {commit.key}"
        held_s = self._sent_s[site] - self._since_s
        if KNOWN_S <= held_s < HOLD_S - NOTICED_S:
            yield f"{commit.key} restarts {held_s:.0f} s after most nodes fell silent"

    def _on_call(self, _: str, site: str) -> None:
        """Note when it was sent, and look into the cache of an operator that has just started.

        An operator that starts again begins to hold when it sees it.
        """
        self._sent_s[site] = self.world.clock.monotonic()
        caches = (process.exposed.get(NODES) for process in self.world.processes)
        cache = next((one for one in caches if isinstance(one, Informer)), None)
        if cache is not self._cache:
            self._cache, self._since_s = cache, None
            self._ready.clear()
            if cache is not None:
                cache.add_handler(lambda key: self._look(cache, key))

    def _look(self, cache: Informer[Node], key: Key) -> None:
        """Note since when most nodes have been silent, at the moment at which the operator does.

        Between two calls or commits much time may pass. A node that cannot be decoded is as it was.
        """
        if cache is not self._cache or cache.malformed(key) is not None:
            return
        node, now_s = cache.get(key), self.world.clock.monotonic()
        if node is not None:
            self._ready[key] = is_ready(node)
        elif self._ready.pop(key, None) is not None:
            self._vanished_s = now_s
        n_silent = sum(not ready for ready in self._ready.values())
        # Nodes that vanished count as well, and may have begun an earlier hold.
        self._is_unclear = now_s - self._vanished_s < HOLD_S or (self._is_unclear and n_silent > 0)
        if not n_silent or self._is_unclear:
            self._since_s = None
        elif n_silent >= N_MIN and self._since_s is None:
            self._since_s = now_s


def _explains_earlier(job: AITrainingJob, old: Restart | None, new: Restart) -> bool:
    """Whether the status names no pod that restarts now, but one that was lost before.

    A job that still waits for room names what it has lost first, and pods that are merely gone not.
    """
    if new.scope is not RestartScope.POD:
        return False
    added = set(new.indexes) - set(old.indexes if old is not None else ())
    names = (pod_name(job.metadata.name, new.role, index) for index in added)
    return not any(f"pod {name}{end}" in job.status.message for name in names for end in ": ")


@dataclass
class AfterOthers:
    """D1: a job has no pods before all jobs that it comes after have succeeded."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "D1 begun after others"
    _succeeded: set[Key] = field(default_factory=set)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = job_states(commit)
        if job is not None and job.status.phase is AITrainingJobPhase.SUCCEED:
            self._succeeded.add(job.metadata.key)
        before, pod = pod_states(commit)
        if before is not None or pod is None or not self.world.is_subject(commit.actor):
            return
        owner = self.history.when_sent(commit, "create", owner_of(pod))
        for name in owner.spec.after if owner is not None else ():
            if Key(commit.key.namespace, name) not in self._succeeded:
                yield f"{commit.key} created before {name} had succeeded"


@dataclass
class PreemptionsCounted:
    """D2: a preemption counts once, and none starts a job anew that has had as many as it may."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "D2 preemptions counted"
    # By job: the victims that the operator knew when it counted last, and how many that made.
    _counted: dict[Uid, tuple[frozenset[Uid], int]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = self.history.judged(commit)
        if before is not None and after is not None and not self.history.is_repair(commit):
            old, new = before.status, after.status
            grown = new.preemptions - old.preemptions
            if grown > 1 or (grown and new.preempted_epoch <= old.preempted_epoch):
                yield f"{commit.key} counted {grown} preemptions of epoch {new.preempted_epoch}"
            if grown > 0 and self._are_counted(after.metadata.uid, old.preemptions):
                yield f"{commit.key} counted the victims of one preemption again"
            if grown > 0:
                victims = self._victims(after.metadata.uid)
                self._counted[after.metadata.uid] = victims, new.preemptions
        was, pod = pod_states(commit)
        if was is not None or pod is None or not self.world.is_subject(commit.actor):
            return
        job = self.history.when_sent(commit, "create", owner_of(pod))
        if job is None:
            return
        is_last = job.spec.requeue_policy is RequeuePolicy.END
        limit = 0 if is_last else job.spec.max_retries_on_preemption
        if limit is not None and job.status.preemptions > limit:
            yield f"{commit.key} created after {job.status.preemptions} preemptions of {limit}"

    def _are_counted(self, job: Uid, n_before: int) -> bool:
        """Whether every victim is of an earlier count, which the status has not lost since."""
        known, n_counted = self._counted.get(job, (frozenset(), 0))
        victims = self._victims(job)
        return bool(victims) and victims <= known and n_before >= n_counted

    def _victims(self, job: Uid) -> frozenset[Uid]:
        """The pods of the job that have to make room, as far as the operator knows."""
        found: set[Uid] = set()
        for process in self.world.processes:
            known = process.exposed.get(KNOWN_PODS)
            pods: Iterable[Pod] = known() if callable(known) else ()
            found |= {
                pod.metadata.uid
                for pod in pods
                if eviction_of(pod) is not None
                and pod.metadata.controller is not None
                and pod.metadata.controller.uid == job
            }
        return frozenset(found)


@dataclass
class PreemptedQueueAtOnce:
    """D4: a job whose pods made room for others queues anew without a back-off."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "D4 preempted jobs queue at once"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = self.history.judged(commit)
        if before is None or after is None or self.history.is_repair(commit):
            return
        old, new = before.status, after.status
        record = new.restart
        if record is None or record == old.restart or new.preempted_epoch != old.epoch:
            return
        is_uncharged = new.uncharged != old.uncharged
        is_gone = is_uncharged and new.creation_restarts == old.creation_restarts
        if is_gone and new.reason not in _OTHER_UNCHARGED and record.not_before is not None:
            yield f"{commit.key} was preempted and waits until {record.not_before}"


@dataclass
class ScaledAsAsked:
    """D3: a status about the newest spec has the size that `scale` asks for.

    A role of which a pod has succeeded keeps its size, also while the operator does not know yet
    that the pod is gone.
    """

    world: SimulatedWorld
    name: str = "D3 scaled as asked"
    _kept: dict[str, frozenset[tuple[Uid, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, job = job_states(commit)
        role = job.spec.scaled_role if job is not None else None
        if job is None or role is None or not self.world.is_subject(commit.actor):
            return
        asked = job.spec.scale.replicas if job.spec.scale is not None else None
        status, target = job.status, job.status.target_replicas.get(role)
        if asked is None or target is None or status.ending is not None:
            return
        if status.observed_generation != job.metadata.generation or target == asked:
            return
        place = (job.metadata.uid, role)
        kept = self._kept.get(f"{commit.actor} {_STATUS_WRITE} {commit.key}", frozenset())
        if place not in kept and place not in _succeeded(pods_in(self.world)):
            yield f"{commit.key} has a target of {target}, and {asked} is asked for"

    def _on_call(self, actor: str, site: str) -> None:
        """Note what the operator knows as it sends a status."""
        if _STATUS_WRITE not in site:
            return
        process = next(one for one in self.world.processes if one.name == actor)
        known = process.exposed.get(KNOWN_PODS)
        self._kept[site] = _succeeded(known()) if callable(known) else frozenset()


def _succeeded(pods: Iterable[Pod]) -> frozenset[tuple[Uid, str]]:
    """The jobs and roles of which one of these pods has succeeded."""
    done = (pod for pod in pods if pod.status.phase is PodPhase.SUCCEEDED)
    return frozenset((owner_of(pod), replica_of(pod)[0]) for pod in done)
