"""Jobs with PodGroups of Kubernetes itself: the minimum first, and groups that are replaced."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body, Condition
from swell.api.native_groups import NativeGroupStatus
from swell.api.pod import PodPhase
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from tests.unit.operator.scene import Scene, a_job, a_role, body_of, created, deleted, reported


def elastic(**spec: object) -> Scene:
    """A job of 2 to 4 trainers that wants 4."""
    role = a_role(replicas=4, minReplicas=2, maxReplicas=4, edlPolicy="Manual")
    return native(Scene(a_job({"trainer": role}, **spec), gang_api="native"))


def rigid(n: int, **spec: object) -> Scene:
    return native(Scene(a_job({"trainer": a_role(replicas=n)}, **spec), gang_api="native"))


def tolerant() -> Scene:
    """Three trainers, each of which is restarted alone when it fails."""
    role = a_role(replicas=3, restartPolicy="OnFailure", restartScope="Pod")
    return native(Scene(a_job({"trainer": role}), gang_api="native")).running()


def native(scene: Scene) -> Scene:
    scene.native_served = True
    return scene


def groups_of(scene: Scene) -> dict[str, str]:
    """The native group that each pod names."""
    found = {name: pod.spec.scheduling_group for name, pod in scene.pods.items()}
    return {name: group.pod_group_name if group else "" for name, group in found.items()}


def test_group_is_there_before_the_first_pod_and_says_all_it_can() -> None:
    scene = rigid(2, queue="night", priority="high")
    plan = scene.look()
    body = body_of(plan, "podgroups", "fit")
    assert body["apiVersion"] == "scheduling.k8s.io/v1alpha2"
    assert body["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": "PodGroup",
        "priorityClassName": "high",
    }
    assert body["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "night"
    assert body["metadata"]["ownerReferences"][0]["name"] == "fit"
    pod = body_of(plan, "pods", "fit-trainer-0")
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "fit"}
    assert "scheduling.k8s.io/group-name" not in pod["metadata"]["annotations"]


def test_minimum_comes_first_and_the_rest_when_all_of_it_has_nodes() -> None:
    scene = elastic().settle()
    assert sorted(scene.pods) == ["fit-trainer-0", "fit-trainer-1"]
    scene.binds("fit-trainer-0")
    assert created(scene.look()) == []
    scene.binds("fit-trainer-1")
    assert created(scene.look()) == ["fit-trainer-2", "fit-trainer-3"]
    assert set(groups_of(scene.settle()).values()) == {"fit"}
    (group,) = scene.native_groups.values()
    assert group.spec.disruption_mode == "Pod"


def test_minimum_comes_first_again_after_the_whole_job_has_gone() -> None:
    scene = elastic().running().running()
    assert len(scene.pods) == 4
    scene.goes(*list(scene.pods))
    names = {*created(scene.look())} or {*scene.settle().pods}
    assert names <= {"fit-trainer-0", "fit-trainer-1"}


def test_changed_minimum_waits_until_no_pod_is_left() -> None:
    """The job says so once; the next group has a number, and the old one goes."""
    scene = elastic().running().running()
    scene.edit_role("trainer", minReplicas=3)
    assert reported(scene.look()).count("GangChangeWaits") == 1
    scene.settle()
    assert "GangChangeWaits" not in reported(scene.look())
    assert list(scene.native_groups) == ["fit"]
    scene.pods.clear()
    plan = scene.look()
    while not created(plan, "podgroups"):
        for action in plan.each_action():
            scene.apply(action)
        scene.leavers_go()
        plan = scene.look()
    assert created(plan, "podgroups") == ["fit-1"]
    assert deleted(plan, "podgroups") == ["fit"]
    assert body_of(plan, "podgroups")["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    scene.settle()
    assert list(scene.native_groups) == ["fit-1"]
    assert set(groups_of(scene).values()) == {"fit-1"}
    assert scene.status.gang_number == 1


def test_lost_status_has_its_numbers_from_the_names_of_the_groups() -> None:
    scene = elastic().running().running()
    scene.edit_role("trainer", minReplicas=3).settle()
    scene.pods.clear()
    scene.settle()
    kept = replace(scene.status, gang_number=0)
    scene.job = replace(scene.job, status=kept)
    assert deleted(scene.settle().look(), "podgroups") == []
    assert scene.status.gang_number == 1


def test_pod_that_comes_again_joins_the_group_while_enough_others_live() -> None:
    scene = tolerant()
    scene.fails("fit-trainer-1").settle()
    scene.leavers_go().after(3600).settle()
    assert groups_of(scene)["fit-trainer-1"] == "fit"


def test_pod_that_comes_again_after_others_have_finished_gets_a_group_of_its_own() -> None:
    """kube-scheduler counts no finished pod, and would never look at it in the first group."""
    scene = tolerant()
    scene.succeeds("fit-trainer-0").settle()
    scene.fails("fit-trainer-1").settle()
    scene.leavers_go().after(3600).settle()
    assert groups_of(scene)["fit-trainer-1"] == "fit-r1"
    assert scene.native_groups["fit-r1"].spec.scheduling_policy.gang is not None
    assert scene.native_groups["fit-r1"].spec.scheduling_policy.gang.min_count == 1
    assert scene.status.retry_gangs == 1
    # Nothing changes when it is looked at again.
    assert created(scene.look(), "podgroups") == []


def test_pod_that_comes_again_while_others_live_in_groups_of_their_own_gets_one_too() -> None:
    """The finished pod is gone, and the first group would never have its minimum again."""
    scene = tolerant()
    scene.succeeds("fit-trainer-0").settle()
    scene.fails("fit-trainer-1").settle()
    scene.leavers_go().after(3600).settle()
    scene.running()
    assert groups_of(scene)["fit-trainer-1"] == "fit-r1"
    del scene.pods["fit-trainer-0"]
    scene.settle().after(3600).settle()
    assert groups_of(scene).get("fit-trainer-0") == "fit-r2"


def lonely() -> Scene:
    """Three trainers of which the first succeeded while the second was gone and came again."""
    scene = tolerant()
    scene.succeeds("fit-trainer-0").settle()
    scene.fails("fit-trainer-1").settle()
    scene.leavers_go().after(3600).settle()
    assert groups_of(scene)["fit-trainer-1"] == "fit-r1"
    scene.starts("fit-trainer-1")
    return scene.settle()


def unbound(scene: Scene, *names: str) -> Scene:
    """The pods as if they had never had a node."""
    for name in names:
        pod = scene.pods[name]
        waits = replace(pod.status, phase=PodPhase.PENDING)
        scene.pods[name] = replace(pod, spec=replace(pod.spec, node_name=""), status=waits)
    return scene


def test_pods_that_wait_in_a_group_without_its_minimum_are_replaced_in_another() -> None:
    """The others have groups of their own: the first one can never have three pods again."""
    scene = lonely()
    unbound(scene, "fit-trainer-2")
    scene.fails("fit-trainer-1").settle()
    scene.leavers_go().after(3600).settle()
    scene.leavers_go().after(3600).settle()
    groups = groups_of(scene)
    assert groups["fit-trainer-2"] != "fit"
    least = {name: one.spec.scheduling_policy.gang for name, one in scene.native_groups.items()}
    for name in ("fit-trainer-1", "fit-trainer-2"):
        gang = least[groups[name]]
        assert gang is not None
        assert gang.min_count <= list(groups.values()).count(groups[name])
    # Neither pod that works was touched, nor was the restart charged.
    assert scene.status.uncharged["trainer"] == 1
    assert created(scene.look()) == []


def test_pods_wait_in_the_first_group_while_the_others_are_to_come() -> None:
    """One is leaving or has failed, and will be back: the group will have its minimum."""
    scene = tolerant()
    unbound(scene, "fit-trainer-1", "fit-trainer-2")
    scene.leaves("fit-trainer-0")
    assert deleted(scene.look()) == []
    scene.leavers_go().after(3600).settle()
    assert set(groups_of(scene).values()) == {"fit"}


def test_last_pod_that_waits_when_the_others_have_finished_is_replaced_alone() -> None:
    """It says why, and the limit of restarts does not count it."""
    scene = tolerant()
    unbound(scene, "fit-trainer-2")
    scene.succeeds("fit-trainer-0", "fit-trainer-1")
    plan = scene.look()
    assert deleted(plan) == ["fit-trainer-2"]
    assert "GangIncomplete" in str(plan)
    assert "needs 3 pods and can have 1 of them only" in str(plan)
    scene.settle().leavers_go().after(3600).settle()
    assert groups_of(scene)["fit-trainer-2"] == "fit-r1"
    assert groups_of(scene)["fit-trainer-0"] == "fit"
    assert scene.status.uncharged == {"trainer": 1}
    assert created(scene.look(), "podgroups") == []


def test_job_that_became_smaller_than_its_group_gets_lost_pods_back() -> None:
    """The group asks for four, and cannot be changed; the job has two."""
    role = a_role(replicas=4, minReplicas=3, maxReplicas=4, edlPolicy="Manual")
    scene = native(Scene(a_job({"trainer": role}), gang_api="native")).running().running()
    scene.edit_role("trainer", minReplicas=1, replicas=2).settle()
    scene.leavers_go().settle()
    assert sorted(scene.pods) == ["fit-trainer-0", "fit-trainer-1"]
    scene.goes("fit-trainer-1").settle().after(3600).settle()
    assert groups_of(scene) == {"fit-trainer-0": "fit", "fit-trainer-1": "fit-r1"}


def test_group_of_its_own_is_not_made_before_its_pods_may_come() -> None:
    """While a restart is held back, more pods may be lost; they would need another group."""
    scene = lonely()
    scene.fails("fit-trainer-1", "fit-trainer-2").settle()
    scene.leavers_go()
    before = sorted(scene.native_groups)
    assert "fit-trainer-1" not in scene.settle().pods
    assert sorted(scene.native_groups) == before
    scene.after(3600).settle()
    assert sorted(scene.native_groups) == [*before, "fit-r2"]


def test_server_that_drops_fields_is_no_reason_to_try_again() -> None:
    scene = rigid(2, priority="high").running()
    held = scene.native_groups["fit"]
    bare = replace(held, spec=replace(held.spec, priority_class_name="", disruption_mode="Pod"))
    scene.native_groups["fit"] = bare
    scene.pods.clear()
    scene.settle()
    assert list(scene.native_groups) == ["fit"]


def topology(key: str, **more: str) -> Body:
    role = a_role(replicas=1)
    notes = {"kueue.x-k8s.io/podset-required-topology": key} if key else {}
    role["template"]["metadata"] = {"annotations": {**notes, **more}}
    return role


def test_topology_that_all_roles_require_is_in_the_group_and_more_is_said() -> None:
    alike = native(Scene(a_job({"a": topology("rack"), "b": topology("rack")}), gang_api="native"))
    plan = alike.look()
    constraints = {"topology": [{"key": "rack"}]}
    assert body_of(plan, "podgroups")["spec"]["schedulingConstraints"] == constraints
    assert "TopologyNotInGroup" not in reported(plan)

    mixed = native(Scene(a_job({"a": topology("rack"), "b": topology("")}), gang_api="native"))
    plan = mixed.look()
    assert "schedulingConstraints" not in body_of(plan, "podgroups")["spec"]
    assert "TopologyNotInGroup" in reported(plan)


def test_without_the_kind_pods_come_one_by_one_with_a_warning() -> None:
    scene = Scene(a_job(), gang_api="native")
    plan = scene.look()
    assert created(plan, "podgroups") == []
    assert len(created(plan)) == 2
    assert "GangNotServed" in reported(plan)


def test_job_keeps_the_kind_of_group_that_it_has() -> None:
    scene = native(Scene(a_job())).settle()
    assert scene.group is not None
    scene.settings = replace_gang_api(scene, "native")
    assert created(scene.look(), "podgroups") == []

    other = rigid(2).settle()
    other.settings = replace_gang_api(other, "volcano")
    assert created(other.look(), "podgroups") == []


def replace_gang_api(scene: Scene, api: str) -> AITrainingJobSettings:
    return dataclasses.replace(scene.settings, gang_api=api)


def test_waiting_job_says_what_the_scheduler_wrote_on_the_group() -> None:
    scene = rigid(2).settle()
    held = scene.native_groups["fit"]
    refused = Condition(
        type="PodGroupScheduled", status="False", reason="Unschedulable", message="no room"
    )
    scene.native_groups["fit"] = replace(held, status=NativeGroupStatus(conditions=(refused,)))
    assert "no room" in scene.after(3600).settle().status.message


def test_groups_go_with_the_job_and_a_terminating_one_holds_nothing_up() -> None:
    scene = rigid(2).running().delete()
    plan = scene.look()
    assert deleted(plan, "podgroups") == ["fit"]


def test_status_of_the_release_before_is_read() -> None:
    assert AITrainingJobStatus().gang_number == 0
