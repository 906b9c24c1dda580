"""How trainers leave a job that shrinks: those that save are asked first, then the Job shrinks.

    running --release published--> asked --answered, exited, or at the deadline--> the Job shrinks

A trainer says that it saves by `spec.saveSeconds` of its job or by its program's report. The
request is an annotation of the pod, and the only record: its deadline outlives every operator. A
trainer that was asked leaves, also if the job is to grow again meanwhile. Pure.
"""

from __future__ import annotations

from swell.api.injection import EVICTION_ANNOTATION
from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.saving import has_answered, release_deadline, release_note, save_seconds_of
from swell.api.times import SKEW_S
from swell.api.trainingjob import TrainingJobStatus
from swell.operator.framework.fencing import soonest
from swell.operator.trainingjob import sizes
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    completion_index,
    is_finished,
    is_leaving,
    is_running,
)
from swell.runtime.plan import Step, patch_object


def resize(snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float) -> list[Step]:
    """The steps to the target: ask the surplus trainers that save, or set the size of the Job."""
    job = snapshot.trainer
    if job is None:
        return []
    asked = [pod for pod in snapshot.trainers if was_asked(pod)]
    target = sizes.target(snapshot, status)
    # Trainers that were asked have begun to leave: they go before the job may grow again.
    wanted = min([target, *(_index(pod) for pod in asked)])
    surplus = [
        pod for pod in snapshot.trainers if _index(pod) >= wanted and not is_leaving(pod.metadata)
    ]
    savers = [pod for pod in surplus if is_running(pod) and save_seconds_of(pod)]
    new = [pod for pod in savers if release_deadline(pod) is None]
    if new:
        return [_ask(snapshot, pod, now, "its job shrinks") for pod in new]
    if any(_is_open(snapshot, pod, now) for pod in savers):
        return []
    return sizes.scale(snapshot, wanted)


def ask_all(snapshot: TrainingJobSnapshot, now: float) -> list[Step] | None:
    """Ask every trainer that saves; None while one has time left, [] when all of them may go."""
    savers = [pod for pod in snapshot.trainers if is_running(pod) and save_seconds_of(pod)]
    new = [pod for pod in savers if release_deadline(pod) is None]
    if new:
        return [_ask(snapshot, pod, now, "its job is suspended") for pod in new]
    return None if any(_is_open(snapshot, pod, now) for pod in savers) else []


def next_deadline(snapshot: TrainingJobSnapshot, now: float) -> float | None:
    """When the time of the next trainer that was asked is up: the time to look again."""
    return soonest((release_deadline(pod) for pod in snapshot.trainers if was_asked(pod)), now)


def was_asked(pod: Pod) -> bool:
    """Whether this operator has asked the pod; one that the scheduler evicts comes again."""
    if is_leaving(pod.metadata) or is_finished(pod):
        return False
    if EVICTION_ANNOTATION in pod.metadata.annotations:
        return False
    return release_deadline(pod) is not None


def _is_open(snapshot: TrainingJobSnapshot, pod: Pod, now: float) -> bool:
    until = release_deadline(pod)
    if until is None or has_answered(pod):
        return False
    # A deadline that is too far away is of another clock, or of a clock that was set back.
    return now < until <= now + snapshot.settings.save_seconds_max + SKEW_S


def _ask(snapshot: TrainingJobSnapshot, pod: Pod, now: float, why: str) -> Step:
    save_s = min(save_seconds_of(pod) or 0, snapshot.settings.save_seconds_max)
    note: Body = {"metadata": {"annotations": release_note(why, now + save_s)}}
    return patch_object(PODS, pod.metadata.key, pod.metadata.uid, note)


def _index(pod: Pod) -> int:
    return completion_index(pod) or 0
