"""How long a Job waits after failures before it creates the next pod.

The delays are those of Kubernetes: ten seconds after the first failure, twice as long after each
further one, up to ten minutes. A success resets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.api.backoff import Backoff
from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.api.times import SKEW_S
from swell.api.workloads import Job
from swell.cluster.embedded.controllers.job.pods import has_failed, is_tracked
from swell.cluster.embedded.controllers.pods import finished_at, is_deleted

# The delays of Kubernetes' Job controller.
RETRY = Backoff(base_s=10.0, cap_s=600.0)
# 10 s doubled six times is beyond the maximum: more failures than these change nothing.
FAILURES_MAX = 7


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """The latest failures with their times and pods, which may have been deleted since.

    Recording the same pods again changes nothing, so a pass may be repeated.
    """

    failures: tuple[tuple[float, Uid], ...] = ()
    succeeded_at: float | None = None

    def after_seeing(self, job: Job, pods: Sequence[Pod]) -> FailureRecord:
        """The record with the failures among these pods, less those before the last success."""
        if not self.failures and not any(_is_failure(job, pod) for pod in pods):
            return self
        known = (self.succeeded_at,) if self.succeeded_at is not None else ()
        successes = (finished_at(p) for p in pods if p.status.phase is PodPhase.SUCCEEDED)
        last_success = max((*known, *successes), default=None)
        failed = {p.metadata.uid: finished_at(p) for p in pods if _is_failure(job, p)}
        seen = [f for f in self.failures if f[1] not in failed]
        seen += [(moment, uid) for uid, moment in failed.items()]
        counting = sorted(f for f in seen if last_success is None or f[0] > last_success)
        return FailureRecord(tuple(counting[-FAILURES_MAX:]), last_success)

    @property
    def retry_at(self) -> float:
        """When the next pod may be created; 0 without failures."""
        return self.failures[-1][0] + RETRY.full_s(len(self.failures)) if self.failures else 0.0


NO_FAILURES = FailureRecord()


def must_wait(retry_at: float, now: float) -> bool:
    """Whether the time of a back-off has not come.

    One that lies further ahead than any back-off shows that the clock was set back since, and to
    wait for it could take any time.
    """
    return 0 < retry_at - now <= RETRY.cap_s + SKEW_S


def _is_failure(job: Job, pod: Pod) -> bool:
    """Whether the pod failed by itself.

    A surplus pod that the Job deletes loses its finalizer first, and does not count.
    """
    if is_tracked(pod):
        return has_failed(job, pod)
    return pod.status.phase is PodPhase.FAILED and not is_deleted(pod)
