"""What the history must say, judged by the commit log: each life once, and all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob
from swell.api.core import ConfigMap
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS
from swell.api.meta import Uid
from swell.api.pod import PodPhase
from swell.api.times import parse_time
from swell.cluster.embedded.storage import Commit
from swell.history.ledger import ledger_of
from swell.history.life import JobLife
from swell.history.observing import DELETED
from swell.history.reading import ended_lives
from swell.history.shards import HISTORY_LABEL, ShelfName, split_key
from swell.operator.aitrainingjob import labels
from swell.operator.framework.managers import is_foreign
from swell.sim.observation import all_of, pods_in, states
from swell.sim.world import SimulatedWorld
from tests.sim.wiping import RESTORER

_ENDED_BY_PODS = frozenset({"RolesFailed", "RolesCompleted"})
_ENDED_PODS = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


@dataclass
class TrueLife:
    """A job's life by the commit log."""

    job: AITrainingJob
    phases: list[tuple[str, str]] = field(default_factory=list)  # phase and time of its record
    was_ours: bool = False  # it had our finalizer, and nobody else took it away
    is_damaged: bool = False  # somebody changed its status, or made it unreadable


class RecordedOnce:
    """H1: no job is in the history twice, and a record that was written never changes its end."""

    name = "H1 recorded once"

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self.truth: dict[Uid, TrueLife] = {}

    def on_commit(self, commit: Commit) -> Iterator[str]:
        self._follow(commit)
        before, after = states(commit, CONFIG_MAPS)
        if after is None or after.metadata.labels.get(HISTORY_LABEL) != ShelfName.ENDED:
            return
        others = [one for one in shards_in(self._world) if one.metadata.name != after.metadata.name]
        keys = [split_key(key)[1] for one in (*others, after) for key in one.binary_data]
        for uid in sorted({uid for uid in keys if keys.count(uid) > 1}):
            yield f"{uid} is recorded {keys.count(uid)} times"
        if before is not None and not set(before.binary_data) <= set(after.binary_data):
            yield "a record has gone"

    def _follow(self, commit: Commit) -> None:
        before, after = states(commit, AI_TRAINING_JOBS)
        job = after or before
        if job is None:
            return
        life = self.truth.setdefault(job.metadata.uid, TrueLife(job))
        if after is None:
            return
        life.job = after
        is_held = labels.FINALIZER in after.metadata.finalizers
        if before is not None and not is_held and not self._world.is_subject(commit.actor):
            life.was_ours = life.was_ours and labels.FINALIZER not in before.metadata.finalizers
        life.was_ours = life.was_ours or is_held
        life.is_damaged = life.is_damaged or commit.actor == RESTORER
        listed = [(one.phase.value, one.time) for one in after.status.phase_history]
        if listed and listed[-1:] != life.phases[-1:]:
            life.phases.append(listed[-1])


@dataclass
class LivesRecorded:
    """H2: every job that ended or was deleted is in the history, as it was, and adds up."""

    world: SimulatedWorld
    truth: RecordedOnce
    name: str = "H2 lives are recorded"

    def missing(self) -> Iterator[str]:
        lives = {life.uid: life for life in ended_lives(shards_in(self.world))}
        there = {job.metadata.uid for job in all_of(self.world, AI_TRAINING_JOBS)}
        for uid, true in self.truth.truth.items():
            if is_foreign(true.job.spec.managed_by) or not true.was_ours or true.is_damaged:
                continue
            is_final = true.job.status.phase in FINAL_PHASES
            if uid in there and not is_final:
                continue
            name = true.job.metadata.name
            if uid not in lives:
                yield f"{name} ({uid}) is not recorded"
            else:
                yield from (f"{name}: {what}" for what in wrongs(lives[uid], true, is_final))
                yield from self._pods_left_out(lives[uid], true.job)

    def _pods_left_out(self, life: JobLife, job: AITrainingJob) -> Iterator[str]:
        """A job that ended by its pods is recorded with pods: whoever saw the end has seen them."""
        if job.status.reason not in _ENDED_BY_PODS or life.pods or life.n_folded:
            return
        ended = [
            pod.metadata.name
            for pod in pods_in(self.world)
            if (owner := pod.metadata.controller) is not None
            and owner.uid == life.uid
            and pod.status.phase in _ENDED_PODS
            and pod.status.start_time is not None
            and pod.spec.node_name
        ]
        if ended:
            yield f"{life.name} is recorded without its pods {', '.join(sorted(ended))}"


def wrongs(life: JobLife, true: TrueLife, is_final: bool) -> Iterator[str]:
    """What a record says that the commit log does not, or the other way round."""
    status = true.job.status
    if life.phase != (status.phase.value if is_final else DELETED) and life.phase != DELETED:
        yield f"recorded as {life.phase}, but it was {status.phase.value}"
    told = [(one.phase, one.at) for one in life.phases]
    truth = [(phase, parse_time(time)) for phase, time in true.phases]
    if life.phase == DELETED:
        truth = truth[: len(told)]  # the record ends with the deletion
    if told != truth:
        yield f"phases {told} should be {truth}"
    ledger = ledger_of(life, 0.0)
    if life.ended is None or abs(sum(ledger.seconds.values()) - (life.ended - life.created)) > 1:
        yield "the parts do not add up"
    is_dated = is_final and life.phase != DELETED and status.end_time is not None
    # A wall clock that is set back may date the end before the creation; no record does.
    if is_dated and life.ended != max(life.created, parse_time(status.end_time or "")):
        yield f"ended at {life.ended}, not {status.end_time}"


def shards_in(world: SimulatedWorld) -> list[ConfigMap]:
    found = all_of(world, CONFIG_MAPS)
    return [one for one in found if one.metadata.labels.get(HISTORY_LABEL) == ShelfName.ENDED.value]
