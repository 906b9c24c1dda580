"""PodGroups of Kubernetes itself: who belongs to them, when they start, and how they leave."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swell.api.meta import Key
from swell.api.native_groups import NativeGroup
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.cli.explain.target import TargetName, target_in
from swell.outlook.explaining import report_on
from swell.outlook.reading import ExplainInput
from swell.outlook.target import ExplainTarget
from swell.scheduler.config import DEFAULT
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.plan import SchedulerObjects
from tests.native_clusters import RACK, member, members, native, node, planned

JOB = "ns/podgroup.k8s:g"


def reason(answer: dict[str, Any], job: str = JOB) -> str:
    found: str = answer["podGroups"][job]["reason"]
    return found


def evicted(answer: dict[str, Any]) -> list[str]:
    return [one["pod"].removeprefix("ns/") for one in answer["evictions"]]


def test_gang_starts_whole_or_not_at_all() -> None:
    """With room for 3 of 4 none starts, and the reason has the numbers."""
    short = planned([node("a", 3)], [native("g", 4)], members("g", 4))
    assert short["binds"] == {}
    assert "4 more asked for" in short["podGroups"][JOB]["message"]

    enough = planned([node("a", 4)], [native("g", 4)], members("g", 4))
    assert len(enough["binds"]) == 4


def test_surplus_starts_as_far_as_there_is_room() -> None:
    found = planned([node("a", 4)], [native("g", 3)], members("g", 5))
    assert len(found["binds"]) == 4


def test_pods_wait_for_their_group_and_for_each_other() -> None:
    missing = planned([node("a", 4)], [], members("g", 2))
    assert (missing["binds"], reason(missing)) == ({}, "PodGroupNotFound")

    too_few = planned([node("a", 4)], [native("g", 3)], members("g", 2))
    assert (too_few["binds"], reason(too_few)) == ({}, "NotEnoughTasks")


def test_pods_of_a_basic_group_start_one_by_one() -> None:
    found = planned([node("a", 2)], [native("g", 0)], members("g", 3))
    assert len(found["binds"]) == 2


def test_finished_pods_count_towards_the_minimum() -> None:
    """A lost pod starts again after another has succeeded."""
    pods = [
        member("g-0", "g", on="a", phase="Succeeded"),
        member("g-1", "g", on="a"),
        member("g-2", "g"),
    ]
    assert planned([node("a", 4)], [native("g", 3)], pods)["binds"] == {"ns/g-2": "a"}


def test_label_of_the_group_keeps_its_pods_on_one_value() -> None:
    nodes = [node("a", 2, rack="1"), node("b", 2, rack="2"), node("c", 1, rack="2"), node("d", 9)]
    one = planned(nodes, [native("g", 3, **RACK)], members("g", 3))
    assert one["domains"] == {JOB: "rack=2"}
    assert set(one["binds"].values()) == {"b", "c"}

    none = planned(nodes, [native("g", 4, **RACK)], members("g", 4))
    assert (none["binds"], reason(none)) == ({}, "TopologyNoDomain")
    assert (
        "0 of 2 domains of label rack hold 4 pods; the best, rack=2, holds 3"
        in (none["podGroups"][JOB]["message"])
    )


@pytest.mark.parametrize("places", [("a", "b"), ("a", "d")], ids=["two values", "no value"])
def test_group_that_is_on_two_values_gets_no_more(places: tuple[str, str]) -> None:
    nodes = [node("a", 9, rack="1"), node("b", 9, rack="2"), node("d", 9)]
    pods = [member(f"g-{n}", "g", on=place) for n, place in enumerate(places)]
    found = planned(nodes, [native("g", 3, **RACK)], [*pods, member("g-2", "g")])
    assert (found["binds"], reason(found)) == ({}, "TopologyHeld")
    assert found["evictions"] == []


def test_lost_pod_comes_back_to_the_value_of_the_others() -> None:
    nodes = [node("a", 1, rack="1"), node("b", 2, rack="2"), node("c", 2, rack="1")]
    pods = [member("g-0", "g", on="b"), member("g-1", "g")]
    assert planned(nodes, [native("g", 2, **RACK)], pods)["binds"] == {"ns/g-1": "b"}


def test_important_group_clears_the_nodes_of_one_value() -> None:
    nodes = [node("a", 2, rack="1"), node("b", 2, rack="2")]
    groups = [
        native("low", 1, priority=1),
        native("mid", 2, priority=5),
        native("g", 2, priority=9, **RACK),
    ]
    pods = [
        member("low-0", "low", on="a"), *members("mid", 2, on="b"), *members("g", 2),
    ]  # fmt: skip
    assert evicted(planned(nodes, groups, pods)) == ["low-0"]


@pytest.mark.parametrize(("mode", "gone"), [("PodGroup", 6), ("Pod", 4)])
def test_group_leaves_whole_if_it_says_so(mode: str, gone: int) -> None:
    """4 of 6 pods are needed; the minimum is 2."""
    nodes = [node("a", 6)]
    groups = [native("v", 2, disruptionMode=mode, priority=1), native("g", 4, priority=9)]
    found = planned(nodes, groups, [*members("v", 6, on="a"), *members("g", 4)])
    assert len(evicted(found)) == gone


def test_gang_below_its_minimum_leaves_whole() -> None:
    groups = [native("v", 4, priority=1), native("g", 3, priority=9)]
    found = planned([node("a", 6)], groups, [*members("v", 6, on="a"), *members("g", 3)])
    assert len(evicted(found)) == 6


def test_pods_of_a_basic_group_leave_one_by_one() -> None:
    groups = [native("v", 0, priority=1), native("g", 3, priority=9)]
    found = planned([node("a", 3)], groups, [*members("v", 3, on="a"), *members("g", 3)])
    assert len(evicted(found)) == 3


def test_one_pod_that_never_preempts_holds_the_group_back() -> None:
    groups = [native("v", 1, priority=1), native("g", 2, priority=9)]
    pods = [*members("v", 2, on="a"), member("g-0", "g"), member("g-1", "g")]
    assert evicted(planned([node("a", 2)], groups, pods)) == ["v-0", "v-1"]
    pods[-1] = member("g-1", "g", preemptionPolicy="Never")
    assert evicted(planned([node("a", 2)], groups, pods)) == []


def test_priority_is_the_number_then_the_class_then_the_lowest_of_the_pods() -> None:
    def priority(group: Any, *pods: Any) -> int:
        snapshot = SchedulerSnapshot()
        body = {"metadata": {"name": "high"}, "value": 70}
        snapshot.put_priority_class(msgspec.convert(body, PriorityClass))
        snapshot.put_native_group(Key("ns", "g"), group)
        for pod in pods:
            snapshot.put_pod(pod)
        snapshot.settle()
        return snapshot.jobs[JOB].priority

    pods = [member("g-0", "g", priority=5), member("g-1", "g", priority=3)]
    assert priority(native("g", 2, priority=9, priorityClassName="high"), *pods) == 9
    assert priority(native("g", 2, priorityClassName="high"), *pods) == 70
    assert priority(native("g", 2), *pods) == 3


def test_shared_devices_are_refused() -> None:
    claims = [{"name": "net", "resourceClaimName": "fabric"}]
    found = planned([node("a", 4)], [native("g", 1, resourceClaims=claims)], members("g", 1))
    assert (found["binds"], reason(found)) == ({}, "NotSupported")


def test_waiting_pods_of_another_scheduler_stop_the_group() -> None:
    other = member("g-1", "g", schedulerName="default-scheduler")
    found = planned([node("a", 4)], [native("g", 1)], [member("g-0", "g"), other])
    assert (found["binds"], reason(found)) == ({}, "MixedSchedulers")
    assert "default-scheduler" in found["podGroups"][JOB]["message"]


def test_bound_pods_count_whoever_bound_them() -> None:
    other = member("g-1", "g", on="a", schedulerName="default-scheduler")
    found = planned([node("a", 4)], [native("g", 2)], [member("g-0", "g"), other])
    assert found["binds"] == {"ns/g-0": "a"}


def test_pods_of_other_schedulers_are_charged_to_no_queue_and_never_evicted() -> None:
    groups = [native("v", 1, priority=1), native("g", 2, priority=9)]
    foreign = members("v", 2, on="a", schedulerName="default-scheduler")
    assert evicted(planned([node("a", 2)], groups, [*foreign, *members("g", 2)])) == []

    snapshot = SchedulerSnapshot()
    snapshot.put_native_group(Key("ns", "v"), groups[0])
    for pod in foreign:
        snapshot.put_pod(pod)
    assert not snapshot.jobs["ns/podgroup.k8s:v"].is_served
    assert not snapshot.jobs["ns/podgroup.k8s:v"].allocated.any()


def test_queue_is_that_of_the_group_then_that_of_its_pods() -> None:
    to_b = {"scheduling.volcano.sh/queue-name": "b"}
    pods = members("g", 1, notes=to_b)
    queues = ("default",)
    by_pods = planned([node("a", 4)], [native("g", 1)], pods, queues=queues)
    assert reason(by_pods) == "QueueNotFound"
    to_default = {"scheduling.volcano.sh/queue-name": "default"}
    by_group = planned([node("a", 4)], [native("g", 1, to_default)], pods, queues=queues)
    assert len(by_group["binds"]) == 1
    mixed = [*pods, member("g-1", "g")]
    disagreeing = planned([node("a", 4)], [native("g", 1)], mixed, queues=("default", "b"))
    assert (disagreeing["binds"], reason(disagreeing)) == ({}, "NotSupported")


def volcano(name: str, least: int) -> PodGroup:
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"volcano-{name}"},
        "spec": {"minMember": least, "queue": "default"},
    }
    return msgspec.convert(body, PodGroup)


def test_groups_of_both_kinds_with_one_name_are_two_jobs() -> None:
    """A pod that names both belongs to Volcano's where that exists."""
    both = member("x-0", "g", notes={GROUP_ANNOTATION: "g"})
    found = planned(
        [node("a", 9)], [native("g", 2)], [both, *members("g", 2)], volcano=[volcano("g", 1)]
    )
    assert set(found["podGroups"]) == {"ns/g", JOB}
    assert len(found["binds"]) == 3

    alone = planned([node("a", 9)], [native("g", 2)], [both, *members("g", 1)])
    assert set(alone["podGroups"]) == {JOB}
    assert len(alone["binds"]) == 2


def test_pod_of_two_groups_moves_when_the_one_of_volcano_comes_and_goes() -> None:
    snapshot = SchedulerSnapshot()
    snapshot.put_native_group(Key("ns", "g"), native("g", 1))
    task = snapshot.put_pod(member("x-0", "g", notes={GROUP_ANNOTATION: "g"}))
    assert (task.job and task.job.key) == JOB
    snapshot.put_group(volcano("g", 1))
    assert (task.job and task.job.key) == "ns/g"
    assert snapshot.jobs[JOB].tasks == {}
    snapshot.remove_group("ns/g")
    assert (task.job and task.job.key) == JOB
    assert snapshot.jobs[JOB].counts[TaskStatus.PENDING] == 1


def test_group_that_goes_leaves_its_pods_waiting_and_nothing_behind() -> None:
    snapshot = SchedulerSnapshot()
    snapshot.put_native_group(Key("ns", "g"), native("g", 1))
    snapshot.put_pod(member("g-0", "g"))
    snapshot.remove_native_group(Key("ns", "g"))
    terms = snapshot.jobs[JOB].native
    assert terms is not None
    assert terms.object is None
    snapshot.remove_pod("ns/g-0")
    assert snapshot.jobs == {}


def test_explain_finds_the_native_group_of_a_pod_and_of_a_job() -> None:
    """A job's group is the last that it owns, because its pods came last."""
    pods = [member("g-0", "g"), member("fit-trainer-0", "fit-1")]
    owner = {"kind": "AITrainingJob", "name": "fit", "controller": True, "uid": "u"}
    groups = [native("g", 2), native("fit", 1), native("fit-1", 2)]
    owned = [msgspec.to_builtins(group) for group in groups]
    for n, body in enumerate(owned[1:]):
        body["metadata"]["ownerReferences"] = [owner]
        body["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{n}Z"
    objects = SchedulerObjects(
        nodes=[node("a", 9)],
        pods=pods,
        native_groups=[msgspec.convert(body, NativeGroup) for body in owned],
        queues=[msgspec.convert({"metadata": {"name": "default"}}, Queue)],
    )
    of_pod = target_in(TargetName("g-0"), "ns", objects)
    assert str(of_pod.group) == JOB
    found = report_on(of_pod, ExplainInput(objects), DEFAULT, ())
    assert found.explanation is not None
    assert found.explanation.reason == "NotEnoughTasks"

    job = ExplainTarget("AITrainingJob", Key("ns", "fit"), Key("ns", "fit"))
    of_job = report_on(job, ExplainInput(objects), DEFAULT, ())
    assert of_job.explanation is not None
    assert of_job.explanation.group == "ns/podgroup.k8s:fit-1"
