"""How long a Job waits after failures."""

from __future__ import annotations

import pytest

from swell.cluster.embedded.controllers.job.backoff import NO_FAILURES, RETRY
from tests.unit.cluster.embedded.controllers.builders import (
    NOW,
    a_job,
    a_job_pod,
    ago,
    exited,
)


@pytest.mark.parametrize(
    ("n_failures", "seconds"), [(0, 0), (1, 10), (2, 20), (6, 320), (7, 600), (10_000, 600)]
)
def test_delay_doubles_up_to_ten_minutes(n_failures: int, seconds: float) -> None:
    """Ten seconds, doubled by every failure, ten minutes at most."""
    assert RETRY.full_s(n_failures) == seconds


def failed(name: str, seconds_ago: float) -> object:
    return a_job_pod(name, "Failed", status={"containerStatuses": [exited(1, ago(seconds_ago))]})


def test_waits_from_the_last_failure() -> None:
    """The wait begins when the last failed pod ended."""
    pods = [failed("a", 100), failed("b", 5)]
    record = NO_FAILURES.after_seeing(a_job(), pods)  # type: ignore[arg-type]

    assert record.retry_at == NOW - 5 + 20


def test_success_makes_it_forget() -> None:
    """Only failures after the last success count."""
    good = a_job_pod("g", "Succeeded", status={"containerStatuses": [exited(0, ago(50))]})
    pods = [failed("a", 100), failed("b", 5), good]
    record = NO_FAILURES.after_seeing(a_job(), pods)  # type: ignore[arg-type]

    assert record.retry_at == NOW - 5 + 10


def test_seeing_a_pod_twice_changes_nothing() -> None:
    """A repeated pass counts no failure twice."""
    pods = [failed("a", 100), failed("b", 5)]
    record = NO_FAILURES.after_seeing(a_job(), pods)  # type: ignore[arg-type]

    assert record.after_seeing(a_job(), pods) == record  # type: ignore[arg-type]


def test_remembers_pods_that_are_gone() -> None:
    """A failure counts also when its pod was deleted since."""
    record = NO_FAILURES.after_seeing(a_job(), [failed("a", 5)])  # type: ignore[list-item]

    assert record.after_seeing(a_job(), []).retry_at == NOW - 5 + 10


def test_pods_given_up_are_no_failures() -> None:
    """A pod that lost its finalizer before it was deleted did not fail."""
    gone = {"finalizers": [], "deletionTimestamp": ago(1)}

    assert not NO_FAILURES.after_seeing(a_job(), [a_job_pod("p", metadata=gone)]).failures


def test_deleted_pods_are_failures_from_the_delete_on() -> None:
    """The deletion timestamp lies a grace period after the delete itself."""
    deleted = {"deletionTimestamp": ago(-20), "deletionGracePeriodSeconds": 30}
    record = NO_FAILURES.after_seeing(a_job(), [a_job_pod("p", metadata=deleted)])

    assert record.retry_at == NOW - 10 + 10


def test_ten_thousand_failures_are_waited_for_no_longer() -> None:
    """The record stays small, and the wait at ten minutes."""
    record = NO_FAILURES
    for n in range(10_000):
        pod = failed(f"p{n}", 20_000 - n)
        record = record.after_seeing(a_job(), [pod])  # type: ignore[list-item]

    assert record.retry_at == NOW - 10_001 + 600
    assert len(record.failures) <= 10
