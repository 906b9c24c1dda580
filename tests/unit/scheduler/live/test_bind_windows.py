"""Windows of gangs that are being bound."""

from __future__ import annotations

import msgspec

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase, PodStatus
from swell.api.scheduling import PodGroup
from swell.scheduler.live.bind_windows import BindWindows
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.snapshot import SchedulerSnapshot


def a_gang(
    n_bound: int, minimum: int = 3, phase: str = "Inqueue"
) -> tuple[SchedulerSnapshot, JobInfo]:
    """A gang of which some pods are bound and none is missing."""
    snapshot = SchedulerSnapshot()
    snapshot.put_node(convert({"metadata": {"name": "n"}}, Node))
    metadata = {"name": "g", "namespace": "ns", "uid": "g-uid"}
    group: Body = {"metadata": metadata, "spec": {"minMember": minimum}, "status": {"phase": phase}}
    snapshot.put_group(convert(group, PodGroup))
    for number in range(minimum):
        annotations = {"scheduling.k8s.io/group-name": "g"}
        meta = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"}
        spec = {"schedulerName": "swell", "nodeName": "n" if number < n_bound else ""}
        body = {"metadata": {**meta, "annotations": annotations}, "spec": spec}
        snapshot.put_pod(convert(body, Pod))
    return snapshot, snapshot.jobs["ns/g"]


def test_gang_found_bound_in_part_has_until_the_window_closes() -> None:
    """It does not matter which process bound it, and when."""
    _, job = a_gang(n_bound=2)
    windows = BindWindows(30.0)
    windows.observe(job, now=100.0)

    assert windows.next_deadline() == 130.0
    assert not windows.overdue(129.0)
    (window,) = windows.overdue(130.0).values()
    assert sorted(window.pods) == ["u0", "u1"]
    assert windows.next_deadline() is None
    windows.close(job.key)
    assert not windows.overdue(131.0)


def test_complete_gang_has_no_window_any_more() -> None:
    """Nor has it one later, when it has lost pods."""
    snapshot, job = a_gang(n_bound=3)
    windows = BindWindows(30.0)
    windows.begin(job, job.evictable(), now=0.0)
    windows.observe(job, now=1.0)
    assert "ns/g" not in windows
    snapshot.remove_pod("ns/p0")
    windows.observe(job, now=2.0)

    assert windows.was_complete(job)
    assert not windows.overdue(1000.0)


def test_gang_that_ran_before_is_known_by_its_phase() -> None:
    """A scheduler that has just begun takes the group's word."""
    _, job = a_gang(n_bound=1, phase="Running")
    windows = BindWindows(30.0)
    windows.observe(job, now=0.0)

    assert not windows.overdue(1000.0)


def test_gang_of_which_one_pod_runs_was_not_complete_for_that() -> None:
    """A gang that is bound in part is Unknown, too: the next process releases it."""
    _, job = a_gang(n_bound=1, phase="Unknown")
    windows = BindWindows(30.0)
    windows.observe(job, now=0.0)

    assert list(windows.overdue(30.0)) == ["ns/g"]


def test_single_pods_and_jobs_that_are_gone_have_no_window() -> None:
    """There is nothing to complete."""
    _, single = a_gang(n_bound=0, minimum=1)
    windows = BindWindows(30.0)
    windows.begin(single, single.tasks.values(), now=0.0)
    assert windows.next_deadline() is None
    _, job = a_gang(n_bound=2)
    windows.observe(job, now=0.0)
    windows.forget_missing({})

    assert windows.next_deadline() is None


def test_gang_of_which_only_ended_pods_are_left_begins_anew() -> None:
    """What comes again holds room alone otherwise, for as long as the rest does not come."""
    snapshot, job = a_gang(n_bound=3, phase="Running")
    windows = BindWindows(30.0)
    windows.observe(job, now=0.0)
    assert windows.was_complete(job)
    ended = msgspec.structs.replace(
        job.tasks["ns/p0"].pod, status=PodStatus(phase=PodPhase.SUCCEEDED)
    )
    snapshot.put_pod(ended)
    again = job.tasks["ns/p1"].pod
    snapshot.remove_pod("ns/p1")
    snapshot.remove_pod("ns/p2")
    windows.observe(job, now=10.0)
    assert not windows.was_complete(job)
    snapshot.put_pod(again)
    windows.observe(job, now=20.0)

    assert list(windows.overdue(50.0)) == ["ns/g"]
