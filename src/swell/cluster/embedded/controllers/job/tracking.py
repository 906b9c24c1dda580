"""Moves finished pods into a Job's status, each exactly once. Pure.

First the status names a pod as uncounted, then its finalizer is taken off, and when that has gone
the number grows and the name goes. Whatever write is lost, the next pass goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.api.job import Job, UncountedPods
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.controllers.job.ending import Ending
from swell.cluster.embedded.controllers.job.failurepolicy import judge
from swell.cluster.embedded.controllers.job.jobpods import (
    completion_index,
    has_failed,
    is_indexed,
    is_tracked,
    valid_index,
)
from swell.cluster.embedded.controllers.job.tally import Tally, counted_indexes

# Keeps a status with as many UIDs below 20 KB.
UNCOUNTED_MAX = 500


@dataclass(frozen=True, slots=True)
class Tracking:
    """The counts a status shall hold, and the pods whose finalizer goes once it holds them."""

    n_succeeded: int
    n_failed: int
    uncounted: UncountedPods
    released: tuple[Pod, ...]

    @property
    def is_settled(self) -> bool:
        """Whether every pod is counted, and free."""
        return not self.released and self.uncounted == UncountedPods()


def track(job: Job, pods: Sequence[Pod], counted: Tally, ending: Ending | None) -> Tracking:
    """Count what has been freed, name what has ended. `pods` are without those given up."""
    held = job.status.uncounted_terminated_pods or UncountedPods()
    tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
    succeeded = [uid for uid in held.succeeded if uid in tracked]
    failed = [uid for uid in held.failed if uid in tracked]
    n_succeeded = job.status.succeeded + len(held.succeeded) - len(succeeded)
    n_failed = job.status.failed + len(held.failed) - len(failed)
    released: list[Pod] = []
    known, new_indexes = counted_indexes(job), set[int]()
    for pod in sorted(pods, key=lambda pod: completion_index(pod) or -1):
        if not is_tracked(pod) or not _is_releasable(job, pod, counted, ending):
            continue
        released.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase is PodPhase.SUCCEEDED and uid not in failed:
            if is_indexed(job):
                # The index itself keeps it from counting twice; only the number is bounded.
                index = valid_index(job, pod)
                if index is not None and index not in known:
                    new_indexes.add(index)
            elif uid not in succeeded:
                succeeded.append(uid)
        elif uid not in failed and _counts_as_failed(job, pod, ending):
            failed.append(uid)
        if len(new_indexes) + len(succeeded) + len(failed) >= UNCOUNTED_MAX:
            break
    if counted.succeeded_indexes is not None:
        n_succeeded = len(counted.succeeded_indexes)
    uncounted = UncountedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return Tracking(n_succeeded, n_failed, uncounted, tuple(released))


def _is_releasable(job: Job, pod: Pod, counted: Tally, ending: Ending | None) -> bool:
    if job.metadata.deletion_timestamp is not None or ending is not None:
        return True
    if pod.status.phase is PodPhase.SUCCEEDED:
        return True
    index = completion_index(pod)
    awaited = counted.replaceable.get(index) if index is not None else None
    return has_failed(job, pod) and (awaited is None or awaited.metadata.uid != pod.metadata.uid)


def _counts_as_failed(job: Job, pod: Pod, ending: Ending | None) -> bool:
    """Whether its end counts; when a Job fails, so do the pods that were still at work."""
    if not has_failed(job, pod) and (ending is None or ending.is_success):
        return False
    if is_indexed(job) and valid_index(job, pod) is None:
        return False
    return judge(job.spec.pod_failure_policy, pod).is_counted
