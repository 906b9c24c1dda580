"""What may change in a job that is under way."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.api.validation import change_problems
from tests.property.broken_manifests import manifest, with_field, without_field

WORKER = "spec.replicaSpecs.Worker"


def job(phase: str = "Running") -> Body:
    return {**manifest("aitrainingjob-full"), "status": {"phase": phase}}


def frozen_in(old: Body, new: Body) -> list[str]:
    return [problem.path for problem in change_problems(old, new)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{WORKER}.minReplicas", 1),
        (f"{WORKER}.maxReplicas", 9),
        (f"{WORKER}.edlPolicy", "Never"),
        (f"{WORKER}.restartLimit", 0),
        ("spec.timeLimit", 1),
        ("spec.cleanPodPolicy", "None"),
        ("metadata.labels.team", "other"),
    ],
)
def test_changes_that_are_always_allowed(path: str, value: object) -> None:
    """Bounds, policies of size, limits and cleaning may change at any time."""
    assert frozen_in(job(), with_field(job(), path, value)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.queue", "other"),
        ("spec.priority", "low"),
        ("spec.restartingExitCode", "137,1"),
        ("spec.faultTolerant", True),
        (f"{WORKER}.restartPolicy", "Always"),
        (f"{WORKER}.restartScope", "All"),
        (f"{WORKER}.failPolicy", "Any"),
        (f"{WORKER}.completePolicy", "All"),
        (f"{WORKER}.template", {"spec": {"containers": []}}),
        (f"{WORKER}.replicas", 5),
    ],
)
def test_changes_that_are_refused_once_under_way(path: str, value: object) -> None:
    """All else is fixed when the phase has left the empty one, and free before."""
    changed = with_field(job(), path, value)

    assert frozen_in(job(), changed) == [path]
    assert frozen_in(job(phase=""), changed) == []
    assert frozen_in(manifest("aitrainingjob-full"), changed) == []


def test_size_is_chosen_by_hand_only_in_manual_roles() -> None:
    """The hint says how to be allowed to choose a size."""
    auto = with_field(job(), f"{WORKER}.replicas", 5)
    (problem,) = change_problems(job(), auto)
    assert "edlPolicy: Manual" in problem.hint

    manual = with_field(auto, f"{WORKER}.edlPolicy", "Manual")
    assert frozen_in(job(), manual) == []
    assert frozen_in(job(), without_field(job(), f"{WORKER}.replicas")) == [f"{WORKER}.replicas"]


def test_roles_are_neither_added_nor_removed() -> None:
    """The set of roles is fixed, too."""
    fewer = without_field(job(), "spec.replicaSpecs.ps")

    assert frozen_in(job(), fewer) == ["spec.replicaSpecs.ps"]
    assert frozen_in(fewer, job()) == ["spec.replicaSpecs.ps"]


def test_a_default_written_out_is_no_change() -> None:
    """What the server fills in by itself may be written or left out."""
    old = without_field(job(), "spec.queue")
    new = with_field(job(), "spec.queue", "default")

    assert frozen_in(old, new) == []
    assert frozen_in(new, old) == []


def test_true_and_one_are_different() -> None:
    """Equality is that of JSON, not that of Python."""
    old = with_field(job(), "spec.faultTolerant", True)
    new = with_field(job(), "spec.faultTolerant", 1)

    assert frozen_in(old, new) == ["spec.faultTolerant"]


@pytest.mark.parametrize(("before", "after"), [(False, True), (True, True), (True, False)])
def test_template_may_change_while_suspended(before: bool, after: bool) -> None:
    """Also in the write that suspends or resumes the job: its pods are all made anew after it."""
    old = with_field(job(), "spec.suspend", before)
    template = {"spec": {"nodeSelector": {"pool": "spot"}, "containers": []}}
    new = with_field(with_field(old, f"{WORKER}.template", template), "spec.suspend", after)

    assert frozen_in(old, new) == []
    assert frozen_in(job(), with_field(job(), f"{WORKER}.template", template)) != []
