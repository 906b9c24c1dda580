"""How often a pod whose container cannot be created is replaced."""

from __future__ import annotations

import pytest

from swell.api.aitrainingjob import AITrainingJobPhase
from tests.unit.operator.aitrainingjob.test_causes import ended
from tests.unit.operator.scene import Scene, a_job, a_role, deleted, recorded

T0, T1 = "fit-trainer-0", "fit-trainer-1"


def stuck_scene(**settings: object) -> Scene:
    """A job of two pods, neither of which can be created, both at the end of their patience."""
    scene = Scene(a_job(), creating_restart_period_s=1e6, **settings).settle()
    for name in (T0, T1):
        scene.binds(name)
        scene.waits(name, "ErrImagePull")
    return scene.settle().after(900)


def stuck_again(scene: Scene) -> Scene:
    """The replacements cannot be created either."""
    scene.settle().leavers_go().settle().after(400).settle()
    for name in (T0, T1):
        if not scene.pods[name].spec.node_name:
            scene.binds(name)
            scene.waits(name, "ErrImagePull")
    return scene.settle().after(900)


@pytest.mark.parametrize(("limit", "replaced"), [(None, [T0, T1]), (1, [T0]), (0, [])])
def test_replacements_of_stuck_pods_are_limited_by_number(
    limit: int | None, replaced: list[str]
) -> None:
    """Beside the time; each pod of a role counts, as for the restart limit."""
    scene = stuck_scene(creating_restart_limit=limit)

    assert deleted(scene.look()) == replaced
    assert recorded(scene.look()).get("creationRestarts", {}) == (
        {"trainer": len(replaced)} if replaced else {}
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_number_of_replacements_is_counted_across_them(enabled: bool) -> None:
    """When it is used up the job fails with --enable-creating-failed, else it waits on."""
    scene = stuck_scene(creating_restart_limit=2, enable_creating_failed=enabled)
    assert ended(scene) == ""
    stuck_again(scene)

    assert ended(scene) == ("Failed" if enabled else "")
    if enabled:
        assert "replaced 2 times" in recorded(scene.look())["message"]


def test_number_of_replacements_begins_anew_when_the_job_has_run() -> None:
    """As the time does."""
    scene = stuck_scene(creating_restart_limit=2).settle().leavers_go().settle().after(400).settle()
    assert scene.status.creation_restarts == {"trainer": 2}
    for name in (T0, T1):
        scene.binds(name)
        scene.starts(name)
    scene.settle()

    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.creation_restarts == {}


def test_job_that_runs_is_not_given_up_for_a_pod_that_it_grows_by() -> None:
    """It goes on with the pods that it has, also when no more replacements are allowed."""
    role = a_role(replicas=2, edlPolicy="Auto", minReplicas=2, maxReplicas=3)
    scene = Scene(a_job({"trainer": role}), creating_restart_limit=0, enable_creating_failed=True)
    scene.running().target("trainer", 3).settle()
    scene.binds("fit-trainer-2")
    scene.waits("fit-trainer-2", "ErrImagePull")
    scene.settle().after(900)

    assert ended(scene) == ""
    assert deleted(scene.settle().look()) == []
    assert scene.status.phase is AITrainingJobPhase.RUNNING


def test_pod_that_is_gone_is_no_replacement_of_a_stuck_one() -> None:
    """Both are made anew in one restart, of which one counts against the limit."""
    scene = Scene(a_job(), creating_restart_limit=9).settle()
    for name in (T0, T1):
        scene.binds(name)
    scene.waits(T0, "ErrImagePull")
    scene.settle().after(900).goes(T1)
    scene.settle()

    assert scene.status.restart_counts == {"trainer": 2}
    assert scene.status.creation_restarts == {"trainer": 1}


def test_stuck_pod_of_a_restart_for_another_cause_does_not_count() -> None:
    """All pods are made anew as one has failed: no replacement is used up by that."""
    role = a_role(replicas=2, restartPolicy="Always", restartScope="All")
    scene = Scene(a_job({"trainer": role}), creating_restart_limit=1).settle()
    for name in (T0, T1):
        scene.binds(name)
    scene.waits(T0, "ErrImagePull")
    scene.settle().after(900)
    scene.fails(T1)
    scene.settle()

    assert scene.status.restart_counts == {"trainer": 1}
    assert scene.status.creation_restarts == {}
