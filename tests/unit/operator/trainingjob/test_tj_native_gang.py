"""TrainingJobs whose pods are in a PodGroup of Kubernetes itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.kinds import NATIVE_GROUPS, POD_GROUPS, PODS, REPLICA_SETS
from swell.api.meta import Body, Condition
from swell.api.native_groups import NativeGroupStatus
from swell.api.trainingjob import TrainingJob
from swell.operator.framework.children import GANG_ANNOTATION
from swell.operator.trainingjob.settings import TrainingJobSettings
from tests.unit.operator.trainingjob.tj_scene import (
    Scene,
    a_job,
    created,
    elastic,
    patched,
    recorded,
    reported,
)

SETTINGS = TrainingJobSettings(gang_api="native")
GROUP, VOLCANOS = (str(NATIVE_GROUPS), "fit"), (str(POD_GROUPS), "fit")
REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def native(job: TrainingJob, *, autoclean: bool = False) -> Scene:
    settings = TrainingJobSettings(gang_api="native", autoclean=autoclean)
    return Scene(job, settings, native_served=True)


def templates(scene: Scene) -> list[Body]:
    specs = [body.get("spec", {}) for body in created(scene.look()).values()]
    return [spec["template"] for spec in specs if "template" in spec]


def test_group_has_the_minimum_of_all_roles_and_every_pod_names_it() -> None:
    scene = native(elastic(2, 4, queue="night", annotations={"priority": "high"}))

    body = created(scene.look())["PodGroup fit"]

    assert body["apiVersion"] == "scheduling.k8s.io/v1alpha2"
    assert body["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 4}},  # master, pserver and two trainers
        "disruptionMode": "Pod",
        "priorityClassName": "high",
    }
    assert body["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "night"
    for template in templates(scene):
        assert template["spec"]["schedulingGroup"] == {"podGroupName": "fit"}
        assert GANG_ANNOTATION not in template["metadata"]["annotations"]


def test_group_of_a_rigid_job_leaves_whole() -> None:
    body = created(native(a_job()).look())["PodGroup fit"]

    assert body["spec"]["disruptionMode"] == "PodGroup"


def test_named_group_is_left_to_its_owner() -> None:
    scene = native(a_job(podGroupName="ours"))

    assert "PodGroup fit" not in created(scene.look())
    groups = [one["spec"]["schedulingGroup"]["podGroupName"] for one in templates(scene)]
    assert set(groups) == {"ours"}


def test_annotations_of_the_job_are_on_its_pods_and_the_label_in_its_group() -> None:
    """A TrainingJob has no templates to annotate."""
    job = a_job()
    meta = replace(job.metadata, annotations={REQUIRED: "rack", "team": "x"})
    scene = native(replace(job, metadata=meta))

    group = created(scene.look())["PodGroup fit"]

    assert group["spec"]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
    for template in templates(scene):
        assert template["metadata"]["annotations"][REQUIRED] == "rack"
        assert "team" not in template["metadata"]["annotations"]


def test_without_the_kind_there_is_no_gang_and_the_job_says_so() -> None:
    scene = Scene(a_job(), SETTINGS)
    plan = scene.look()

    assert "PodGroup fit" not in created(plan)
    assert "GangNotServed" in reported(plan)
    assert not any("schedulingGroup" in template["spec"] for template in templates(scene))


@pytest.mark.parametrize("kind", ["native", "volcano"])
def test_job_keeps_the_kind_of_group_that_it_has(kind: str) -> None:
    """Also when the flag has changed and somebody has deleted the group."""
    scene = Scene(a_job(), TrainingJobSettings(gang_api=kind), native_served=True).running()
    other = "volcano" if kind == "native" else "native"
    scene.settings = TrainingJobSettings(gang_api=other)
    held = GROUP if kind == "native" else VOLCANOS
    assert created(scene.look()) == {}

    del scene.held[held]

    body = created(scene.look())["PodGroup fit"]
    assert body["apiVersion"].startswith("scheduling.k8s.io") is (kind == "native")


def test_job_that_began_without_a_gang_gets_none_later() -> None:
    """A group that no pod names would wait for ever."""
    scene = Scene(a_job(), SETTINGS).running()
    scene.native_served = True

    assert created(scene.look()) == {}


def test_trainers_beyond_the_minimum_come_when_it_has_nodes() -> None:
    """The group counts pods of any role; a pod that is lost afterwards takes nothing back."""
    scene = native(elastic(2, 4, scale={"replicas": 4})).settle()
    assert scene.trainer.spec.parallelism == 2
    scene.populate().settle()
    for pod in scene.pods():
        scene.change(PODS, pod.metadata.name, {"spec": {"nodeName": "n"}})

    scene.settle()
    assert scene.trainer.spec.parallelism == 4

    scene.remove(PODS, "fit-pserver-0")
    scene.change(REPLICA_SETS, "fit-pserver", {"status": {"readyReplicas": 0}})
    scene.settle()
    assert scene.trainer.spec.parallelism == 4


def test_reason_of_the_group_is_that_of_the_job() -> None:
    scene = native(a_job()).settle()
    refusal = Condition("PodGroupScheduled", "False", reason="Unschedulable", message="no room")
    group = scene.held[GROUP]
    scene.held[GROUP] = replace(group, status=NativeGroupStatus((refusal,)))

    assert scene.settle().status.reason == "no room"


def test_group_goes_with_the_job_and_at_its_end() -> None:
    scene = native(a_job(), autoclean=True).running()
    scene.job_says("Failed").ends(0, "Failed")
    for _ in range(6):
        scene.settle().populate()
    assert GROUP not in scene.held
    assert scene.status.released

    scene = native(a_job()).settle().deleted()
    for _ in range(6):
        scene.settle().populate()
    assert GROUP not in scene.held


def test_suspended_job_gives_its_group_back_and_gets_one_again() -> None:
    scene = native(a_job()).running()
    scene.job = replace(scene.job, spec=replace(scene.job.spec, suspend=True))
    scene.settle()
    for pod in scene.pods():
        scene.remove(PODS, pod.metadata.name)
    scene.settle()
    assert GROUP not in scene.held

    scene.job = replace(scene.job, spec=replace(scene.job.spec, suspend=False))

    scene.settle()
    assert GROUP in scene.held


def test_growth_in_the_pass_in_which_the_job_begins_to_run_is_on_record() -> None:
    """A trainer that has failed for good has no node, so that only the new phase lets it grow."""
    scene = native(elastic(2, 4, scale={"replicas": 4})).settle().populate()
    scene.remove(PODS, "fit-trainer-1").job_says(failed_indexes="1")

    plan = scene.look()

    assert recorded(plan)["phase"] == "Running"
    (record,) = recorded(plan)["scale_records"]
    assert (record["to"], record["reason"]) == (4, "trainer_target is 4")
    assert patched(plan)["Job fit-trainer"]["spec"]["parallelism"] == 4
