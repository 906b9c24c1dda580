"""Whether a Job has ended, and how.

An end that is recorded in the status stands, whatever happens to pods afterwards. When several ends
apply, failures come before success, in Kubernetes' order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swell.api.meta import Condition
from swell.api.pod import Pod, PodPhase
from swell.api.times import parse_time
from swell.api.workloads import Job, SuccessPolicy
from swell.cluster.embedded.builtin.jobs import BACKOFF_LIMIT
from swell.cluster.embedded.controllers.job.counts import JobCounts
from swell.cluster.embedded.controllers.job.failurepolicy import FailureAction, failure_outcome
from swell.cluster.embedded.controllers.job.indexes import Indexes
from swell.cluster.embedded.controllers.job.pods import has_failed

SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
FAILURE_TARGET = "FailureTarget"
COMPLETE = "Complete"
FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a Job ends. The end takes two steps, each a condition in the status:

        running --recorded--> SuccessCriteriaMet --no pod left--> Complete
        running --recorded--> FailureTarget      --no pod left--> Failed

    The interim condition is recorded before any pod is deleted, so that a crash in between does
    not lose the decision.
    """

    is_success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        return SUCCESS_CRITERIA_MET if self.is_success else FAILURE_TARGET

    @property
    def final(self) -> str:
        return COMPLETE if self.is_success else FAILED


COMPLETIONS_REACHED = JobEnd(True, "CompletionsReached", "as many pods succeeded as were asked for")
_BACKOFF_LIMIT = JobEnd(False, "BackoffLimitExceeded", "more failures than backoffLimit allows")
_DEADLINE = JobEnd(False, "DeadlineExceeded", "ran longer than activeDeadlineSeconds")
_MAX_FAILED_INDEXES = JobEnd(
    False,
    "MaxFailedIndexesExceeded",
    "more indexes failed than maxFailedIndexes allows",
)
_FAILED_INDEXES = JobEnd(False, "FailedIndexes", "every index has ended, some of them failed")


def is_finished(job: Job) -> bool:
    return any(is_true(job.status.conditions, type_) for type_ in (COMPLETE, FAILED))


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    return any(c.type == type_ and c.status == "True" for c in conditions)


def find_end(job: Job, pods: Sequence[Pod], counts: JobCounts, now: float) -> JobEnd | None:
    """The end that a Job has reached; None when it has not ended. Completions are checked later,
    by `reaches_completions`, when it is known which pods stay.
    """
    return (
        _recorded(job)
        or _failed_by_policy(job, pods)
        or _failed_by_limits(job, pods, counts, now)
        or _failed_by_indexes(job, counts)
        or _succeeded_by_policy(job, counts)
    )


def reaches_completions(job: Job, counts: JobCounts, n_active: int) -> bool:
    """Whether enough pods have succeeded and none is active. Without completions one is enough."""
    if n_active:
        return False
    if job.spec.completions is None:
        return counts.n_succeeded > 0
    return counts.n_succeeded >= job.spec.completions


def deadline_at(job: Job, started_at: float | None) -> float | None:
    """When a Job that started then exceeds activeDeadlineSeconds; None without a deadline."""
    limit_s = job.spec.active_deadline_seconds
    if limit_s is None or started_at is None or job.spec.suspend:
        return None
    return started_at + limit_s


def _recorded(job: Job) -> JobEnd | None:
    for type_, is_success in ((SUCCESS_CRITERIA_MET, True), (FAILURE_TARGET, False)):
        for condition in job.status.conditions:
            if condition.type == type_ and condition.status == "True":
                return JobEnd(is_success, condition.reason, condition.message)
    return None


def _failed_by_policy(job: Job, pods: Iterable[Pod]) -> JobEnd | None:
    policy = job.spec.pod_failure_policy
    for pod in pods if policy is not None else ():
        outcome = failure_outcome(policy, pod)
        if outcome.action is FailureAction.FAIL_JOB and has_failed(job, pod):
            return JobEnd(False, "PodFailurePolicy", outcome.message)
    return None


def _failed_by_limits(
    job: Job, pods: Iterable[Pod], counts: JobCounts, now: float
) -> JobEnd | None:
    limit = job.spec.backoff_limit
    limit = BACKOFF_LIMIT if limit is None else limit
    if counts.n_failed > limit or _restarted_too_often(job, pods, limit):
        return _BACKOFF_LIMIT
    started = job.status.start_time
    deadline = deadline_at(job, parse_time(started) if started else None)
    return _DEADLINE if deadline is not None and deadline <= now else None


def _restarted_too_often(job: Job, pods: Iterable[Pod], limit: int) -> bool:
    """Whether restarts in place exceed the limit: with OnFailure, pods never become failed."""
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    n_restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in {PodPhase.RUNNING, PodPhase.PENDING}
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return n_restarts >= max(limit, 1)  # a limit of 0 is exceeded by the first restart


def _failed_by_indexes(job: Job, counts: JobCounts) -> JobEnd | None:
    failed, succeeded = counts.failed_indexes, counts.succeeded_indexes
    if not failed or succeeded is None:
        return None
    allowed = job.spec.max_failed_indexes
    if allowed is not None and len(failed) > allowed:
        return _MAX_FAILED_INDEXES
    if len(failed) + len(succeeded) >= (job.spec.completions or 0):
        return _FAILED_INDEXES
    return None


def _succeeded_by_policy(job: Job, counts: JobCounts) -> JobEnd | None:
    succeeded, policy = counts.succeeded_indexes, job.spec.success_policy
    if not succeeded or policy is None:
        return None
    matched = _matched_rule(policy, succeeded, job.spec.completions or 0)
    if matched is None:
        return None
    return JobEnd(True, "SuccessPolicy", f"rule {matched} of successPolicy is met")


def _matched_rule(policy: SuccessPolicy, succeeded: Indexes, completions: int) -> int | None:
    for number, rule in enumerate(policy.rules):
        if rule.succeeded_indexes is None:
            n_found, n_all = len(succeeded), None
        else:
            required = Indexes.parse(rule.succeeded_indexes, completions)
            n_found, n_all = required.overlap(succeeded), len(required) or None
        enough = rule.succeeded_count
        if n_found == n_all or (enough is not None and n_found >= enough):
            return number
    return None
