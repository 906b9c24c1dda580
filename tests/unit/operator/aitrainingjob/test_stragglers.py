"""The straggler rule: who is named, whose node is blamed, and who is moved."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from swell.api.report import StragglerReport, TrainingReport
from swell.operator.aitrainingjob.decide import decide
from swell.operator.framework.reports import ReceivedReport
from swell.runtime.plan import EmitEvent, PatchStatus
from tests.unit.operator.scene import Scene, a_job, a_role

NODE = "node-of-fit-trainer-2"
TEXT = (
    f"pod fit-trainer-2 on node {NODE}: its steps take 1.80 times the median of all, over 60 steps"
)


def scene(policy: str = "Report", **role: object) -> Scene:
    trainer = a_role(replicas=4, **role)
    return Scene(a_job({"trainer": trainer}, stragglerPolicy=policy)).running().after(1000)


def says(held: Scene, ratio: float = 1.8, steps: int = 60, index: int | None = 2) -> Scene:
    slowest = StragglerReport(index, ratio, steps) if index is not None else None
    report = TrainingReport(generation=1, epoch=1, size=4, step=200, slowest=slowest)
    held.report = ReceivedReport(report, held.now, "trainer", 0)
    return held.settle()


def state(held: Scene) -> tuple[str, str]:
    found = next((one for one in held.status.conditions if one.type == "Straggler"), None)
    return (found.status, found.message) if found is not None else ("", "")


def test_straggler_is_named_and_its_node_blamed_once() -> None:
    """An event and a condition say who and how slow; new numbers of the same pod write nothing."""
    held = scene()
    held.report = says(scene()).report
    told = [one for one in held.look().each_action() if isinstance(one, EmitEvent)]
    says(held)

    assert [(one.reason, one.message) for one in told] == [("Straggler", TEXT)]
    assert state(held) == ("True", TEXT)
    assert [(one.node, one.reason, one.blamed) for one in held.status.node_faults] == [
        (NODE, "Straggler", True)
    ]
    says(held.after(60), 2.5, 90)
    assert state(held) == ("True", TEXT)
    assert len(held.status.node_faults) == 1


@pytest.mark.parametrize(("ratio", "steps"), [(1.5, 60), (1.8, 49), (1.2, 1000), (1.8, 0)])
def test_slow_for_a_moment_or_a_little_is_no_straggler(ratio: float, steps: int) -> None:
    """More than 1.5 times the median, over 50 steps or more."""
    held = says(scene(), ratio, steps)

    assert state(held) == ("", "")
    assert held.status.node_faults == ()


def test_condition_ends_when_none_or_another_is_the_slowest() -> None:
    """A ratio near the limit does not turn it to and fro."""
    held = says(scene())
    says(held.after(20), 1.3, 80)
    assert state(held)[0] == "True"
    says(held.after(20), index=None)
    assert state(held)[0] == "False"
    says(held.after(20), index=1)
    assert state(held)[0] == "True"
    assert [one.node for one in held.status.node_faults] == [NODE, "node-of-fit-trainer-1"]


def test_limits_can_be_set() -> None:
    held = scene()
    held.settings = changed(held.settings, straggler_ratio=3.0, straggler_steps=10)

    assert state(says(held))[0] == ""
    assert state(says(held.after(20), 3.5, 10))[0] == "True"


def test_report_of_before_the_pod_is_of_another() -> None:
    """What was slow is gone."""
    held = scene()
    at = held.now
    meta = replace(held.pods["fit-trainer-2"].metadata, creation_timestamp="2100-01-01T00:00:00Z")
    held.pods["fit-trainer-2"] = replace(held.pods["fit-trainer-2"], metadata=meta)

    assert state(says(held)) == ("", "")
    assert held.now == at


def moved(held: Scene, *roles: str) -> tuple[int, ...] | None:
    """The indexes of the restart that begins, if the role has somewhere to go to."""
    held.report = says(scene()).report
    if held.report is not None:
        held.report = changed(held.report, at=held.now)
    plan = decide(changed(held.snapshot, has_alternative=frozenset(roles)), held.now)
    for action in plan.each_action():
        if isinstance(action, PatchStatus) and "restart" in action.status:
            held.apply(action)
            assert held.status.uncharged == {"trainer": 1}
            assert [one.name for one in held.status.avoid_nodes] == [NODE]
            return held.status.restart.indexes if held.status.restart else None
    return None


def test_straggler_is_moved_only_on_request_and_if_there_is_room_elsewhere() -> None:
    """Alone in an elastic role, with its peers in a rigid one, and not soon after a restart."""
    elastic = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 4}

    assert moved(scene("Report", **elastic), "trainer") is None
    assert moved(scene("Replace", **elastic)) is None
    assert moved(scene("Replace", **elastic), "trainer") == (2,)
    again = {"restartPolicy": "Always"}
    assert moved(scene("Replace", **again), "trainer") == ()
    young = scene("Replace", **elastic)
    recent = {"trainer": "2027-01-15T08:10:00Z"}
    status = replace(young.status, last_restart_time=recent)
    young.job = replace(young.job, status=status)
    assert moved(young, "trainer") is None
