"""While many nodes are silent at once, no job restarts for what it seems to have lost."""

from __future__ import annotations

import pytest

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.mass_failure import HOLD_S, MassFailure, MassFailureWatch
from tests.unit.operator.scene import Scene, a_job, a_node, a_role

NODE0 = "node-of-fit-w-0"


def struck() -> Scene:
    """A job that runs, one of whose nodes has been unready for long."""
    scene = Scene(a_job({"w": a_role(replicas=2, restartPolicy="Always")})).running()
    scene.nodes[NODE0] = NodeState(a_node(NODE0, ready=False), scene.now - 3600)
    return scene


def held(scene: Scene) -> str:
    found = [c for c in scene.status.conditions if c.type == "RestartsHeld"]
    return found[0].status if found else ""


def test_restart_is_held_and_then_decided() -> None:
    """The condition says so; the plan wakes when the time is up."""
    scene = struck()
    scene.mass_failure = MassFailure(3, 9, scene.now + 45)
    until = scene.mass_failure.until
    scene.settle()
    assert scene.status.restart_counts.get("w", 0) == 0
    assert held(scene) == "True"
    assert scene.look().wake_at == until
    scene.mass_failure = None
    scene.settle()

    assert scene.status.restart_counts["w"] == 1
    assert held(scene) == "False"


def test_job_does_not_fail_meanwhile() -> None:
    """Neither does a job end whose pods may not restart."""
    scene = Scene(a_job({"w": a_role(replicas=2, restartPolicy="Never")})).running()
    scene.fails("fit-w-1")
    scene.mass_failure = MassFailure(3, 9, scene.now + 45)

    assert scene.settle().status.phase is AITrainingJobPhase.RUNNING
    scene.mass_failure = None
    assert scene.settle().status.phase is not AITrainingJobPhase.RUNNING


def test_jobs_that_lost_nothing_are_not_written() -> None:
    """Thousands of jobs need no condition about nodes of others."""
    scene = Scene(a_job({"w": a_role(replicas=2)})).running()
    scene.mass_failure = MassFailure(3, 9, scene.now + 45)

    assert held(scene.settle()) == ""


@pytest.mark.parametrize(
    ("n_nodes", "n_unready", "is_mass"),
    [(1, 1, False), (4, 2, False), (4, 3, True), (10, 2, False), (10, 3, True), (100, 20, False)],
)
def test_share_counts(n_nodes: int, n_unready: int, is_mass: bool) -> None:
    """More than a fifth of the nodes, and at least three."""
    watch = MassFailureWatch()
    for n in range(n_nodes):
        watch.note(f"n{n}", is_there=True, is_ready=n >= n_unready, now_s=0.0)

    assert (watch.current(1.0, 1000.0) is not None) is is_mass


def test_hold_ends_after_a_minute() -> None:
    """What is still lost then counts; a new mass failure holds again."""
    watch = MassFailureWatch()
    for n in range(4):
        watch.note(f"n{n}", is_there=True, is_ready=n > 2, now_s=10.0)
    found = watch.current(30.0, 1000.0)
    assert found == MassFailure(3, 4, 1000.0 - 20 + HOLD_S)
    assert watch.current(10.0 + HOLD_S, 1040.0) is None
    watch.note("n0", is_there=True, is_ready=True, now_s=100.0)
    watch.note("n0", is_there=True, is_ready=False, now_s=200.0)

    assert watch.current(201.0, 1200.0) is not None


def test_hold_goes_on_while_nodes_come_back() -> None:
    """The first one to be back must not let jobs restart for those that follow it."""
    watch = MassFailureWatch()
    for n in range(4):
        watch.note(f"n{n}", is_there=True, is_ready=n > 2, now_s=0.0)
    watch.note("n0", is_there=True, is_ready=True, now_s=40.0)
    assert watch.current(41.0, 1000.0) is not None
    for n in (1, 2):
        watch.note(f"n{n}", is_there=True, is_ready=True, now_s=42.0)

    assert watch.current(43.0, 1000.0) is None


def test_nodes_that_vanish_count_for_a_minute() -> None:
    """A list that suddenly lacks many of them is not acted upon at once; one node less is."""
    watch = MassFailureWatch()
    for n in range(10):
        watch.note(f"n{n}", is_there=True, is_ready=True, now_s=0.0)
    for n in range(2):
        watch.note(f"n{n}", is_there=False, is_ready=False, now_s=5.0)
    assert watch.current(6.0, 1000.0) is None
    watch.note("n2", is_there=False, is_ready=False, now_s=10.0)
    assert watch.current(20.0, 1000.0) == MassFailure(3, 10, 1000.0 - 10 + HOLD_S)

    assert watch.current(10.0 + HOLD_S, 1050.0) is None


def test_nodes_taken_away_one_by_one_are_no_failure() -> None:
    """An administrator may take them all away, and nodes that come back are there."""
    watch = MassFailureWatch()
    for n in range(8):
        watch.note(f"n{n}", is_there=True, is_ready=True, now_s=0.0)
    for n in range(6):
        watch.note(f"n{n}", is_there=False, is_ready=False, now_s=n * (HOLD_S + 1))
        assert watch.current(n * (HOLD_S + 1), 1000.0) is None
    watch = MassFailureWatch()
    for is_there in (True, False, True):
        for n in range(4):
            watch.note(f"n{n}", is_there=is_there, is_ready=is_there, now_s=1.0)

    assert watch.current(2.0, 1000.0) is None
