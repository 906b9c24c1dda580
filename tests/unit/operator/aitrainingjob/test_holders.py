"""A shrink waits until one who stays holds the state, and never for long."""

from __future__ import annotations

import pytest

from swell.api.codec import encode
from swell.operator.framework.reports import ReceivedReport, read_report
from tests.unit.operator.scene import Scene, a_job, a_role, deleted


def shrinking(leader: int, size: int, *, state: str = "training", grace_s: int = 20) -> Scene:
    """Four members are to become two; the leader has reported a group of a size."""
    role = a_role(replicas=4, minReplicas=1, maxReplicas=4, edlPolicy="Manual")
    role["template"]["spec"]["terminationGracePeriodSeconds"] = grace_s
    scene = Scene(a_job({"trainer": role}, reporting=True)).running()
    reports(scene, leader, size, state)
    scene.edit_role("trainer", replicas=2)
    return scene


def reports(scene: Scene, leader: int, size: int, state: str = "training") -> None:
    fields = {"generation": 1, "epoch": 1, "size": size, "step": 9, "state": state}
    scene.report = ReceivedReport(read_report(encode(fields)), scene.now, "trainer", leader)


def hosts(scene: Scene) -> int:
    assert scene.members is not None
    return len(scene.members.data["trainer"].splitlines())


def test_shrink_waits_for_one_who_stays() -> None:
    """Pods and membership stay; the target is on record, and the status says why."""
    scene = shrinking(leader=3, size=2).settle()

    assert [name for name in scene.pods if scene.pods[name].metadata.deletion_timestamp] == []
    assert (hosts(scene), scene.status.epoch) == (4, 1)
    assert scene.status.target_replicas == {"trainer": 2}
    assert "until one that stays holds the state" in scene.status.message
    assert scene.look().wake_at == scene.now + 20
    reports(scene.after(5), leader=3, size=3)
    scene.settle()
    assert (hosts(scene), scene.status.epoch) == (2, 2)
    assert sorted(n for n, p in scene.pods.items() if p.metadata.deletion_timestamp) == [
        "fit-trainer-2",
        "fit-trainer-3",
    ]


@pytest.mark.parametrize(("grace_s", "wait_s"), [(20, 20), (600, 120), (0, 0)])
def test_wait_ends_with_the_time_to_save(grace_s: int, wait_s: int) -> None:
    scene = shrinking(leader=3, size=1, grace_s=grace_s).settle()
    assert hosts(scene) == (4 if wait_s else 2)
    scene.after(wait_s).settle()

    assert hosts(scene) == 2


@pytest.mark.parametrize(
    ("leader", "size", "state"),
    [(0, 1, "training"), (1, 4, "training"), (3, 3, "training"), (3, 1, "loading")],
)
def test_shrink_that_loses_nothing_is_carried_out(leader: int, size: int, state: str) -> None:
    """The leader stays, or somebody of the group does, or nobody holds anything."""
    plan = shrinking(leader, size, state=state).look()

    assert deleted(plan) == ["fit-trainer-2", "fit-trainer-3"]


def test_without_a_recent_report_nothing_waits() -> None:
    scene = shrinking(leader=3, size=1)
    scene.report = None
    assert deleted(scene.look()) == ["fit-trainer-2", "fit-trainer-3"]
    scene = shrinking(leader=3, size=1)
    scene.after(301)
    assert deleted(scene.look()) == ["fit-trainer-2", "fit-trainer-3"]


def test_holder_that_is_gone_is_not_waited_for() -> None:
    scene = shrinking(leader=3, size=2).settle()
    scene.goes("fit-trainer-3").settle()

    assert hosts(scene) == 2
    assert "fit-trainer-3" not in scene.pods


def test_shrink_that_is_taken_back_changes_nothing() -> None:
    scene = shrinking(leader=3, size=2).settle()
    scene.edit_role("trainer", replicas=4)
    scene.after(60).settle()

    assert (hosts(scene), scene.status.epoch, len(scene.pods)) == (4, 1, 4)
