"""Lets go of pods whose Job will never count them: it is gone, or has ended. Pure.

A pod with the tracking finalizer and nobody to take it off could never be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.job import Job
from swell.api.kinds import JOBS
from swell.api.pod import Pod
from swell.cluster.embedded.controllers.claiming import finalizer_removal
from swell.cluster.embedded.controllers.job.decision import OWN_NAME
from swell.cluster.embedded.controllers.job.ending import is_finished
from swell.cluster.embedded.controllers.job.jobpods import TRACKING, is_tracked
from swell.runtime.plan import NOTHING, Plan


@dataclass(frozen=True, slots=True)
class TrackedPod:
    """A pod and the Job of the name it says controls it, whatever its UID."""

    pod: Pod
    job: Job | None


def decide_release(view: TrackedPod, now: float) -> Plan:
    """Take the finalizer off, unless a Job is there to do it. The time does not matter."""
    del now
    if not is_tracked(view.pod) or _is_awaited(view):
        return NOTHING
    return Plan((finalizer_removal(view.pod, TRACKING),), reasons=("nobody counts it",))


def _is_awaited(view: TrackedPod) -> bool:
    controller, job = view.pod.metadata.controller, view.job
    if controller is None:
        return False
    if (controller.api_version, controller.kind) != (JOBS.api_version, JOBS.kind):
        return True  # somebody else's pod: what its finalizers mean is theirs to know
    if job is None or job.metadata.uid != controller.uid:
        return False
    return job.spec.managed_by not in {"", OWN_NAME} or not is_finished(job)
