"""Victims that may save before they go: how long that takes, and when patience with them ends.

A pod of an AITrainingJob may save if its job says how long that takes, or if its program reports
that it saves when it is asked; the operator asks and deletes it. Any other pod says it itself
(`api.saving`), and is asked and deleted by the scheduler. All others go at once. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swell.api.aitrainingjob import AITrainingJob
from swell.api.injection import EvictionRecord
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key
from swell.api.pod import Pod, PodPhase
from swell.api.saving import (
    eviction_note,
    eviction_of,
    grace_seconds,
    has_answered,
    release_deadline,
    release_note,
    save_seconds_of,
)
from swell.api.times import SKEW_S, format_time, parse_time

# An operator that has not deleted a victim so long after its deadline is not there.
OPERATOR_S: Final = 10.0


def save_seconds(pod: Pod, job_of: Callable[[Key], AITrainingJob | None]) -> int | None:
    """Returns how long the pod may take to save; None if it is deleted at once."""
    owner = pod.metadata.controller
    if owner is None or not is_asked_by_operator(pod):
        # A program that does not run cannot answer.
        return save_seconds_of(pod) if pod.status.phase is PodPhase.RUNNING else None
    job = job_of(Key(pod.metadata.namespace, owner.name))
    if job is None or job.metadata.uid != owner.uid:
        return None
    if job.spec.save_seconds is not None:
        return job.spec.save_seconds
    if job.status.training is None or not job.status.training.saves:
        return None
    return grace_seconds(pod)


def is_asked_by_operator(pod: Pod) -> bool:
    """Whether a job's operator asks this pod to save, and deletes it."""
    owner = pod.metadata.controller
    return owner is not None and owner.kind == AI_TRAINING_JOBS.kind


def departure_notes(pod: Pod, for_: str, deadline: float, by: str = "") -> dict[str, str]:
    """Returns the annotations that record a departure; for a pod without an operator, also ask."""
    record = EvictionRecord(pod.metadata.uid, for_, format_time(deadline), by)
    if is_asked_by_operator(pod):
        return eviction_note(record)
    return {**eviction_note(record), **release_note(record.why, deadline)}


def patience_s(pod: Pod, now: float, save_s_max: float) -> float:
    """Returns how long a victim is left alone from now on; 0 if it is to be deleted.

    A deadline farther ahead than any can be is of a clock that was set back since: it says nothing.
    An operator that asks late, or for a reason of its own, gives the program its time: that
    deadline counts as well.
    """
    latest = now + save_s_max + SKEW_S
    found = eviction_of(pod)
    recorded = parse_time(found.deadline) if found is not None else 0.0
    if recorded > latest:
        recorded = 0.0
    if is_asked_by_operator(pod):
        asked = release_deadline(pod) or 0.0
        until = max(recorded, asked) if asked <= latest else recorded
        return max(0.0, until + OPERATOR_S - now)
    return 0.0 if has_answered(pod) else max(0.0, recorded - now)
