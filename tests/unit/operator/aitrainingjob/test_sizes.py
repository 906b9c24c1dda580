"""Resizing: who writes the target, which pods come and go, what holds a size fast."""

from __future__ import annotations

import pytest

from swell.api.aitrainingjob import AITrainingJobPhase
from tests.unit.operator.scene import Scene, a_job, a_role, created, deleted, recorded, reported

T = [f"fit-trainer-{index}" for index in range(8)]


def a_scene(policy: str, size: int = 3, **fields: object) -> Scene:
    role = a_role(replicas=size, minReplicas=2, maxReplicas=6, edlPolicy=policy, **fields)
    return Scene(a_job({"trainer": role})).running()


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({}, 1),
        ({"minReplicas": 3, "maxReplicas": 5}, 3),
        ({"replicas": 4, "minReplicas": 3, "maxReplicas": 5}, 4),
    ],
)
def test_initial_target_is_replicas(fields: dict[str, object], target: int) -> None:
    """replicas defaults to minReplicas, else 1; the operator writes it."""
    scene = Scene(a_job({"trainer": a_role(**fields)})).settle()

    assert scene.status.target_replicas == {"trainer": target}
    assert list(scene.pods) == T[:target]


def test_manual_role_follows_replicas_up() -> None:
    """Growing creates the next indexes with their services; the job stays Running."""
    scene = a_scene("Manual").edit_role("trainer", replicas=5)

    plan = scene.look()

    assert created(plan) == T[3:5]
    assert created(plan, "services") == T[3:5]
    assert deleted(plan) == []
    record = recorded(plan)["scaleRecords"][-1]
    assert (record["from"], record["to"], record["by"]) == (3, 5, "user")
    assert reported(plan) == ["Resized"]
    scene.settle()
    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.restart_counts == {}


def test_manual_role_follows_replicas_down() -> None:
    """Shrinking deletes the highest indexes, gracefully, with their services; never index 0."""
    scene = a_scene("Manual").edit_role("trainer", replicas=2)

    plan = scene.look()

    assert deleted(plan) == [T[2]]
    assert deleted(plan, "services") == [T[2]]
    assert scene.settle().leavers_go().settle().status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.restart_counts == {}


@pytest.mark.parametrize("target", [2, 5])
def test_auto_role_follows_the_target(target: int) -> None:
    """The autoscaler writes the target; the operator carries it out."""
    scene = a_scene("Auto").target("trainer", target).settle().leavers_go().settle()

    assert list(scene.pods) == T[:target]
    assert scene.status.target_replicas == {"trainer": target}
    assert scene.status.scale_records == ()


def test_auto_role_does_not_follow_replicas() -> None:
    """replicas of an Auto role is only where it began."""
    scene = a_scene("Auto").edit_role("trainer", replicas=5)

    assert created(scene.look()) == []


def test_never_role_stays() -> None:
    """A target somebody wrote for a Never role is set back from replicas."""
    scene = Scene(a_job({"trainer": a_role(replicas=2)})).running().target("trainer", 4)

    assert created(scene.look()) == []
    assert recorded(scene.look())["targetReplicas"] == {"trainer": 2}


@pytest.mark.parametrize(("target", "bounded"), [(0, 2), (1, 2), (7, 6)])
def test_target_is_kept_within_its_bounds(target: int, bounded: int) -> None:
    """A target outside of [min, max], also after an edit of these, is brought back."""
    scene = a_scene("Auto").target("trainer", target)

    status = recorded(scene.look())

    assert status["targetReplicas"] == {"trainer": bounded}
    assert status["scaleRecords"][-1]["by"] == "operator"
    assert T[0] not in deleted(scene.look())


def test_resize_makes_a_new_epoch_and_tells_the_members() -> None:
    """Environment variables cannot change in a running pod; the ConfigMap can."""
    scene = a_scene("Manual").edit_role("trainer", replicas=4).settle()

    assert scene.status.epoch == 2
    assert scene.members is not None
    assert scene.members.data["epoch"] == "2"
    assert len(scene.members.data["trainer"].splitlines()) == 4


def test_reached_size_is_reported_at_once() -> None:
    """Numbers of an old job are written seldom, but not the one that a resize waits for."""
    scene = a_scene("Manual").after(600).edit_role("trainer", replicas=4).settle()
    scene.starts(T[3])

    assert recorded(scene.look())["ready"] == "4/4"


def test_members_are_written_before_pods_are_created() -> None:
    """A new pod finds itself in the list."""
    plan = a_scene("Manual").edit_role("trainer", replicas=4).look()
    order = [a.resource.plural for a in plan.each_action()]

    assert order.index("aitrainingjobs") < order.index("configmaps") < order.index("pods")


@pytest.mark.parametrize("policy", ["Auto", "Manual"])
def test_role_is_frozen_once_a_pod_has_succeeded(policy: str) -> None:
    """A differing target is set back to the size in the members ConfigMap, by the operator."""
    scene = a_scene(policy).succeeds(T[1]).settle()
    scene.target("trainer", 5)

    plan = scene.look()

    assert created(plan) == []
    assert recorded(plan)["targetReplicas"] == {"trainer": 3}
    assert recorded(plan)["scaleRecords"][-1]["by"] == "operator"


def test_frozen_manual_role_does_not_follow_replicas() -> None:
    """Its work is being finished, not shared out anew; and nothing is written about it."""
    scene = a_scene("Manual").succeeds(T[1]).settle().edit_role("trainer", replicas=5).settle()

    assert scene.status.target_replicas == {"trainer": 3}
    assert scene.look().actions == ()


def test_restart_in_scope_thaws() -> None:
    """The succeeded pod goes with the others, and the size may change again."""
    scene = a_scene("Manual", restartPolicy="OnFailure", restartScope="Replica")
    scene.succeeds(T[1]).settle().edit_role("trainer", replicas=5).settle()

    scene.fails(T[0]).settle().leavers_go().settle()

    assert scene.status.target_replicas == {"trainer": 5}
    assert list(scene.pods) == T[:5]


def test_pod_of_a_former_shrink_is_replaced_not_restarted() -> None:
    """Shrinking and growing again at once is no restart of the pod that is still on its way."""
    scene = a_scene("Manual").edit_role("trainer", replicas=2).settle()
    scene.edit_role("trainer", replicas=3).settle()
    assert scene.pods[T[2]].metadata.deletion_timestamp

    scene.leavers_go().settle()

    assert scene.status.restart_counts == {}
    assert T[2] in scene.pods
    assert scene.pods[T[2]].metadata.labels["RestartCount"] == "0"


def test_service_left_behind_by_a_shrink_goes() -> None:
    """A plan that stopped half-way leaves nothing."""
    scene = a_scene("Manual").edit_role("trainer", replicas=2)
    service = scene.services[T[2]]
    scene.settle().leavers_go().settle()
    scene.services[T[2]] = service

    assert deleted(scene.look(), "services") == [T[2]]


def test_scale_records_are_the_last_twenty() -> None:
    """History is bounded."""
    scene = a_scene("Manual")
    for n in range(25):
        scene.edit_role("trainer", replicas=2 + n % 2).settle().leavers_go().settle()

    assert len(scene.status.scale_records) == 20


def test_members_that_vanish_make_a_new_epoch() -> None:
    """Nobody knows then what pods have been told, so they are told anew under a new number."""
    scene = a_scene("Manual")
    scene.members = None

    assert created(scene.look(), "configmaps") == ["fit-members"]
    assert scene.settle().status.epoch == 2
    assert scene.look().actions == ()


def test_scale_is_the_source_of_its_role() -> None:
    """`scale.replicas` counts instead of the role's own field, and the answer is in the status."""
    sizes = {"minReplicas": 1, "maxReplicas": 5, "edlPolicy": "Manual"}
    roles = {"ps": a_role(replicas=1), "Trainer": a_role(replicas=2, **sizes)}
    scene = Scene(a_job(roles)).running()
    assert not scene.status.scale
    scene.edit(scale={"replicas": 4}).settle()

    assert scene.status.target_replicas == {"ps": 1, "trainer": 4}
    assert scene.status.scale is not None
    assert scene.status.scale.replicas == 4
    assert scene.status.scale.selector == "TrainingJobName=fit,TrainingJobReplicaName=trainer"
    labels = scene.pods["fit-trainer-3"].metadata.labels
    assert (
        ",".join(f"{name}={labels[name]}" for name in ("TrainingJobName", "TrainingJobReplicaName"))
        == "TrainingJobName=fit,TrainingJobReplicaName=trainer"
    )
