"""Pods that no Job will count lose their finalizer."""

from __future__ import annotations

from swell.api.meta import Body
from swell.api.workloads import Job
from swell.cluster.embedded.controllers.job.decide import TrackedPod, decide_release
from tests.unit.cluster.embedded.controllers.builders import NOW, a_job, a_job_pod, a_pod

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
TRACKED: Body = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
OF_JOB: Body = {
    "ownerReferences": [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": "owner",
            "controller": True,
        }
    ]
}


def is_let_go(job: Job | None, **metadata: object) -> bool:
    pod = a_job_pod("p", metadata={**OF_JOB, **metadata})
    return bool(decide_release(TrackedPod(pod, job), NOW).actions)


def test_pod_of_a_job_at_work_is_kept() -> None:
    """A pod of a running Job keeps its finalizer: the Job will count it."""
    assert not is_let_go(a_job())


def test_pod_of_a_finished_or_gone_job_is_let_go() -> None:
    """A pod whose Job was deleted is released; a new Job of that name is not its Job."""
    assert is_let_go(None)
    assert is_let_go(a_job(status=COMPLETE))
    assert is_let_go(a_job(metadata={"uid": "another"}))


def test_pod_of_a_job_of_another_controller_is_kept() -> None:
    """The pods of a Job that another controller manages are left to it."""
    assert not is_let_go(a_job(managedBy="example.com/other", status=COMPLETE))


def test_orphan_is_let_go_and_others_are_not() -> None:
    """A pod without a controller is released; one of another kind of owner is not."""
    assert is_let_go(None, ownerReferences=[])
    kept = a_pod("p", metadata=TRACKED)
    assert not decide_release(TrackedPod(kept, None), NOW).actions


def test_pod_without_the_finalizer_is_let_be() -> None:
    """A pod without the finalizer needs no write."""
    assert not is_let_go(None, finalizers=[])
