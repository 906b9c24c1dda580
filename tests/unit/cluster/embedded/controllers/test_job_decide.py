"""One pass over a Job."""

from __future__ import annotations

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.workloads import Job
from swell.cluster.embedded.controllers.job.backoff import NO_FAILURES
from swell.cluster.embedded.controllers.job.decide import BatchJobSnapshot, decide_job
from swell.cluster.embedded.controllers.job.status import UNCOUNTED_MAX
from swell.runtime.controller import RejectedWrite
from swell.runtime.plan import (
    NOTHING,
    CreateObject,
    DeleteObject,
    EmitEvent,
    PatchObject,
    PatchStatus,
    Plan,
)
from tests.unit.cluster.embedded.controllers.builders import (
    FAILURES,
    INDEX,
    NOW,
    TEMPLATE,
    TRACKING,
    a_job,
    a_job_pod,
    ago,
    exited,
)

RUNNING: Body = {
    "active": 1,
    "ready": 0,
    "terminating": 0,
    "uncountedTerminatedPods": {},
    "startTime": ago(60),
}


def decide(job: Job, *pods: Pod, refusal: RejectedWrite | None = None) -> Plan:
    record = NO_FAILURES.after_seeing(job, pods)
    return decide_job(BatchJobSnapshot(job, pods, record, refusal, seed=1), NOW)


def kinds(plan: Plan) -> list[str]:
    """The writes of a plan, by what they do."""
    return [type(a).__name__ for a in plan.each_action() if not isinstance(a, EmitEvent)]


def status_of(plan: Plan) -> Body:
    return next((a.status for a in plan.each_action() if isinstance(a, PatchStatus)), {})


def creates(plan: Plan) -> list[Body]:
    return [a.body for a in plan.each_action() if isinstance(a, CreateObject)]


def deleted(plan: Plan) -> list[str]:
    return [a.key.name for a in plan.each_action() if isinstance(a, DeleteObject)]


def released(plan: Plan) -> list[str]:
    return [a.key.name for a in plan.each_action() if isinstance(a, PatchObject)]


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    conditions = status_of(plan).get("conditions") or []
    return {c["type"]: (c["status"], c["reason"]) for c in conditions}


def events(plan: Plan) -> list[str]:
    return [a.reason for a in plan.each_action() if isinstance(a, EmitEvent)]


def long_failed(name: str, index: int | None = None, **more: object) -> Pod:
    return a_job_pod(name, "Failed", index, status={"containerStatuses": [exited(1)]}, **more)


def test_settled_job_needs_nothing() -> None:
    """A running pod that the status counts leaves nothing to write."""
    assert decide(a_job(status=RUNNING), a_job_pod("p")) == Plan()


def test_new_job_starts_its_clock_before_its_pods() -> None:
    """The start is on record even if no pod can be made."""
    plan = decide(a_job(parallelism=3, completions=3))

    assert kinds(plan) == ["PatchStatus", *["CreateObject"] * 3]
    assert status_of(plan)["startTime"] == ago(0)


def test_pods_are_counted_in_three_steps() -> None:
    """A finished pod is listed in the status, loses its finalizer, and only then is a number."""
    done = a_job_pod("p", "Succeeded")
    first = decide(a_job(completions=2, status=RUNNING), done)
    named: Body = {**RUNNING, "uncountedTerminatedPods": {"succeeded": ["uid-p"]}}
    again = decide(a_job(completions=2, status=named), done)
    free = a_job_pod("p", "Succeeded", metadata={"finalizers": []})
    last = decide(a_job(completions=2, status=named), free)

    assert status_of(first)["uncountedTerminatedPods"] == {"succeeded": ["uid-p"]}
    assert "succeeded" not in status_of(first)
    assert released(first) == released(again) == ["p"]
    assert "succeeded" not in status_of(again)
    assert status_of(last)["succeeded"] == 1
    assert status_of(last)["uncountedTerminatedPods"] == {"succeeded": None}
    assert released(last) == []


def test_counted_pods_that_are_gone_count_once() -> None:
    """A listed pod that no longer exists had lost its finalizer: the number grows."""
    named: Body = {**RUNNING, "failed": 1, "uncountedTerminatedPods": {"failed": ["a", "b"]}}

    assert status_of(decide(a_job(status=named)))["failed"] == 3


def test_status_names_a_bounded_number_of_pods() -> None:
    """Pods beyond the limit are listed in a later pass."""
    pods = [a_job_pod(f"p{number}", "Succeeded") for number in range(UNCOUNTED_MAX + 20)]
    plan = decide(a_job(completions=1000, parallelism=1000), *pods)

    assert len(status_of(plan)["uncountedTerminatedPods"]["succeeded"]) == UNCOUNTED_MAX
    assert len(released(plan)) == UNCOUNTED_MAX


def test_end_is_recorded_then_final() -> None:
    """SuccessCriteriaMet first; Complete when it is recorded and every pod is counted."""
    first = decide(a_job(status=RUNNING), a_job_pod("p", "Succeeded"))
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    named: Body = {"uncountedTerminatedPods": {"succeeded": ["uid-p"]}, "conditions": [met]}
    second = decide(a_job(status={**RUNNING, **named}), a_job_pod("p", "Succeeded"))
    free = a_job_pod("p", "Succeeded", metadata={"finalizers": []})
    third = decide(a_job(status={**RUNNING, **named}), free)

    assert conditions(first) == {"SuccessCriteriaMet": ("True", "CompletionsReached")}
    assert "Complete" not in conditions(second)
    assert conditions(third)["Complete"] == ("True", "CompletionsReached")
    assert status_of(third)["completionTime"] == ago(0)
    assert events(third) == ["Completed"]


def test_end_waits_for_terminating_pods() -> None:
    """The end is not final while a pod runs, not even one that no longer counts."""
    target = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}
    gone: Body = {"deletionTimestamp": ago(0), "finalizers": ["x"]}
    ended = a_job(status={**RUNNING, "conditions": [target]})

    assert "Failed" not in conditions(decide(ended, a_job_pod("p", metadata=gone)))
    assert conditions(decide(ended))["Failed"] == ("True", "BackoffLimitExceeded")


def test_finished_job_is_left_alone() -> None:
    """A final condition is final."""
    complete = {"type": "Complete", "status": "True"}

    assert decide(a_job(status={"conditions": [complete]}), a_job_pod("p")) == NOTHING


def test_failure_is_recorded_before_pods_are_deleted() -> None:
    """The order is: the status with all pods that count as failed, the deletes, the finalizers."""
    job = a_job(parallelism=2, completions=2, backoffLimit=0, status={**RUNNING, "active": 2})
    plan = decide(job, a_job_pod("a", "Failed"), a_job_pod("b"))

    assert kinds(plan) == ["PatchStatus", "DeleteObject", "PatchObject", "PatchObject"]
    assert conditions(plan) == {"FailureTarget": ("True", "BackoffLimitExceeded")}
    assert status_of(plan)["uncountedTerminatedPods"] == {"failed": ["uid-a", "uid-b"]}
    assert status_of(plan)["active"] is None
    assert deleted(plan) == ["b"]


def test_failed_pod_is_replaced_after_its_wait() -> None:
    """Ten seconds after the end of the first failed pod."""
    just = a_job_pod("a", "Failed", status={"containerStatuses": [exited(1, ago(4))]})
    early = decide(a_job(status=RUNNING), just)
    late = decide(a_job(status=RUNNING), long_failed("a"))

    assert creates(early) == []
    assert early.wake_at == NOW + 6
    assert len(creates(late)) == 1


def test_clock_that_was_set_back_lengthens_no_wait() -> None:
    """Pods that seem to fail in an hour are replaced as if that were long ago."""
    ended = {"containerStatuses": [exited(1, ago(-3600))]}
    plain = a_job_pod("p", "Failed", status=ended)
    spec: Body = {"completionMode": "Indexed", "backoffLimitPerIndex": 3}
    ours = a_job(**spec, status={**RUNNING, "failedIndexes": ""})

    assert len(creates(decide(a_job(status=RUNNING), plain))) == 1
    assert len(creates(decide(ours, a_job_pod("a", "Failed", 0, status=ended)))) == 1


def test_given_up_pods_are_let_go_before_they_are_deleted() -> None:
    """Surplus pods lose their finalizer before the delete, so they never count as failed."""
    job = a_job(parallelism=0, completions=5, status=RUNNING)
    plan = decide(job, a_job_pod("p"))

    assert kinds(plan) == ["PatchStatus", "PatchObject", "DeleteObject"]
    assert status_of(plan) == {"active": None, "terminating": 1}


def test_pods_are_never_made_and_given_up_at_once() -> None:
    """A repeated index goes before a missing one is filled."""
    job = a_job(completionMode="Indexed", parallelism=3, completions=3, status=RUNNING)
    plan = decide(job, a_job_pod("a", index=0), a_job_pod("b", index=0), a_job_pod("c"))

    assert sorted(deleted(plan)) == ["a", "c"]
    assert creates(plan) == []


def test_indexed_pods_know_their_index() -> None:
    """The lowest free indexes are filled, each pod knows its own; the template is not changed."""
    before = repr(TEMPLATE)
    job = a_job(completionMode="Indexed", parallelism=2, completions=4, status=RUNNING)
    plan = decide(job, a_job_pod("a", index=1))
    (body,) = creates(plan)

    assert body["metadata"]["annotations"] == {INDEX: "0"}
    assert body["metadata"]["labels"] == {"app": "a", INDEX: "0"}
    assert body["metadata"]["finalizers"] == [TRACKING]
    assert body["metadata"]["name"].startswith("j-0-")
    assert body["spec"]["hostname"] == "j-0"
    assert body["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert repr(TEMPLATE) == before


def test_long_job_names_keep_their_index() -> None:
    """A prefix too long is cut before the index."""
    name = "n" * 63
    job = a_job(metadata={"name": name}, completionMode="Indexed", parallelism=1, completions=1)
    (body,) = creates(decide(job))

    assert body["metadata"]["generateName"] == "n" * 55 + "-0-"
    assert len(body["metadata"]["name"]) == 63


def test_failed_index_keeps_its_last_pod_until_it_is_replaced() -> None:
    """A failed pod keeps its finalizer until its successor has taken over its count."""
    spec: Body = {"completionMode": "Indexed", "backoffLimitPerIndex": 3}
    job = a_job(**spec, status={**RUNNING, "failedIndexes": ""})
    plan = decide(job, long_failed("a", 0, failures=1))
    (body,) = creates(plan)
    later = decide(job, long_failed("a", 0, failures=1), a_job_pod("b", index=0, failures=2))

    assert body["metadata"]["annotations"][FAILURES] == "2"
    assert released(plan) == []
    assert released(later) == ["a"]


def test_ignored_failures_of_an_index_are_counted_apart() -> None:
    """Ignored failures prolong the back-off but do not count against the limit."""
    ignore = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}
    spec: Body = {"completionMode": "Indexed", "backoffLimitPerIndex": 3}
    job = a_job(**spec, podFailurePolicy={"rules": [ignore]}, status=RUNNING)
    (body,) = creates(decide(job, long_failed("a", 0, failures=1)))
    annotations = body["metadata"]["annotations"]

    assert annotations[FAILURES] == "1"
    assert annotations["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"


def test_suspended_job_forgets_its_start() -> None:
    """Suspending deletes the pods and clears the start time; the condition is set once."""
    plan = decide(a_job(suspend=True, status=RUNNING), a_job_pod("p"))

    assert conditions(plan) == {"Suspended": ("True", "JobSuspended")}
    assert status_of(plan)["startTime"] is None
    assert deleted(plan) == ["p"]
    assert "Suspended" in events(plan)


def test_resumed_job_starts_anew() -> None:
    """The deadline is measured from the resumption."""
    suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended"}
    job = a_job(activeDeadlineSeconds=60, status={"conditions": [suspended]})
    plan = decide(job)

    assert conditions(plan) == {"Suspended": ("False", "JobResumed")}
    assert plan.wake_at == NOW + 60


def test_deleted_job_lets_its_pods_go() -> None:
    """A deleted Job creates and deletes nothing; the garbage collector deletes its pods."""
    job = a_job(metadata={"deletionTimestamp": ago(0)}, parallelism=2, status=RUNNING)
    plan = decide(job, a_job_pod("p"))

    assert kinds(plan) == ["PatchObject"]
    assert released(plan) == ["p"]


def test_refused_creates_wait() -> None:
    """A refused create is not repeated before its retry time."""
    body = {"metadata": {"name": "j-x", "namespace": "default"}}
    refusal = RejectedWrite(CreateObject(PODS, body), "Forbidden", "over quota", 1, NOW + 30)
    plan = decide(a_job(status={**RUNNING, "active": 0}), refusal=refusal)

    assert creates(plan) == []
    assert plan.wake_at == NOW + 30


def test_terminating_pods_hold_their_place_when_their_end_is_awaited() -> None:
    """With podReplacementPolicy Failed no pod is made beside one that still ends."""
    gone: Body = {"deletionTimestamp": ago(-30), "deletionGracePeriodSeconds": 30}
    pod = a_job_pod("p", metadata=gone)
    awaited = decide(a_job(podReplacementPolicy="Failed", status=RUNNING), pod)

    assert creates(awaited) == []
    assert released(awaited) == []
    assert released(decide(a_job(status=RUNNING), pod)) == ["p"]


def test_order_of_ends_failure_before_success() -> None:
    """A Job that meets both at once has failed."""
    fail = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    job = a_job(completions=1, parallelism=2, podFailurePolicy={"rules": [fail]}, status=RUNNING)
    plan = decide(job, a_job_pod("a", "Succeeded"), long_failed("b"))

    assert conditions(plan) == {"FailureTarget": ("True", "PodFailurePolicy")}
