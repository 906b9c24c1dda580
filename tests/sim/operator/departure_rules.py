"""S2: a pod that was asked to save is left alone until it has, or until its deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.aitrainingjob import AITrainingJob
from swell.api.injection import EVICTION_ANNOTATION, RELEASE_ANNOTATION, SAVED_ANNOTATION
from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.api.saving import release_deadline
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob.phases import JobReason
from swell.sim.observation import owner_of, pod_states
from swell.sim.world import SimulatedWorld
from tests.sim.wiping import SoundHistory

# Deadlines are written in whole seconds.
ROUNDED_S = 1.0


class OpenDeadlines:
    """Tells whether a pod that was asked to save still has time to."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._offsets: dict[Uid, float] = {}

    def note(self, pod: Pod | None) -> None:
        """Remember by which wall clock a pod was asked."""
        if pod is not None and RELEASE_ANNOTATION in pod.metadata.annotations:
            self._offsets.setdefault(pod.metadata.uid, self._offset())

    def is_open(self, pod: Pod) -> bool:
        deadline = release_deadline(pod)
        if deadline is None or pod.status.phase is not PodPhase.RUNNING:
            return False
        # A wall clock that was set meanwhile makes every deadline an earlier or a later one.
        if abs(self._offsets.get(pod.metadata.uid, 0.0) - self._offset()) > ROUNDED_S:
            return False
        is_answered = SAVED_ANNOTATION in pod.metadata.annotations
        return not is_answered and self._world.clock.now() < deadline - ROUNDED_S

    def _offset(self) -> float:
        return self._world.clock.now() - self._world.clock.monotonic()


@dataclass
class SavedBeforeDeleted:
    """S2: no pod with an open save deadline is deleted, unless its job goes, or ends by itself."""

    world: SimulatedWorld
    history: SoundHistory[AITrainingJob]
    name: str = "S2 saved before deleted"
    _deadlines: OpenDeadlines = field(init=False)

    def __post_init__(self) -> None:
        self._deadlines = OpenDeadlines(self.world)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        self._deadlines.note(after)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if before.metadata.deletion_timestamp or (after and not after.metadata.deletion_timestamp):
            return
        job = self.history.when_sent(commit, "delete", owner_of(before))
        end = job.status.ending if job is not None else None
        # A job that ends because it was preempted loses no work by it.
        has_ended = end is not None and end.reason != JobReason.PREEMPTED.value
        is_over = job is None or job.metadata.deletion_timestamp or has_ended
        if not is_over and self._deadlines.is_open(before):
            yield f"{commit.key} deleted before it had saved"


def was_asked(pod: Pod) -> bool:
    """Whether it is on record, on the pod itself, that it has to go."""
    notes = pod.metadata.annotations
    return RELEASE_ANNOTATION in notes or EVICTION_ANNOTATION in notes
