"""Victims that may save before they go: how long that takes, and when patience with them ends.

A pod of an AITrainingJob may save if its job says how long that takes, or if its program reports
that it saves when it is asked. The operator asks and deletes it; all other pods go at once. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import decode
from swell.api.injection import EVICTION_ANNOTATION, EvictionRecord
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.times import parse_time

# An operator that has not deleted a victim so long after its deadline is not there.
OPERATOR_S: Final = 10.0
_GRACE_S: Final = 30  # Kubernetes' default grace period


def save_seconds(pod: Pod, job_of: Callable[[Key], AITrainingJob | None]) -> int | None:
    """Returns how long the pod may take to save; None if it is deleted at once."""
    owner = pod.metadata.controller
    if owner is None or owner.kind != AI_TRAINING_JOBS.kind:
        return None
    job = job_of(Key(pod.metadata.namespace, owner.name))
    if job is None or job.metadata.uid != owner.uid:
        return None
    if job.spec.save_seconds is not None:
        return job.spec.save_seconds
    if job.status.training is None or not job.status.training.saves:
        return None
    grace_s = pod.spec.termination_grace_period_seconds
    return _GRACE_S if grace_s is None else grace_s


def patience_s(pod: Pod, now: float) -> float:
    """Returns how long a victim is left to the operator from now on; 0 if it is not."""
    text = pod.metadata.annotations.get(EVICTION_ANNOTATION)
    if text is None:
        return 0.0
    try:
        found = decode(text.encode(), EvictionRecord)
        until = parse_time(found.deadline)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return 0.0
    return max(0.0, until + OPERATOR_S - now) if found.uid == pod.metadata.uid else 0.0
