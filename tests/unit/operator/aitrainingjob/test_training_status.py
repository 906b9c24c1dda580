"""How often reports are written into a job's status, and what puts them off."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.codec import encode
from swell.api.training import TrainingStatus
from swell.operator.framework.reports import ReceivedReport, read_report
from swell.runtime.plan import PatchStatus, Plan
from tests.unit.operator.scene import Scene, a_job, a_role, reported


def reporting() -> Scene:
    role = a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Manual")
    return Scene(a_job({"trainer": role}, reporting=True)).running()


def hears(scene: Scene, step: int) -> Plan:
    """The plan after the program has reported a step."""
    fields = {"generation": 1, "epoch": 1, "size": 2, "step": step}
    scene.report = ReceivedReport(read_report(encode(fields)), scene.now, "trainer", 0)
    return scene.look()


def writes(plan: Plan) -> list[PatchStatus]:
    return [one for one in plan.each_action() if isinstance(one, PatchStatus)]


def test_first_report_is_written_at_once() -> None:
    scene = reporting()
    (write,) = writes(hears(scene.after(30), 5))

    assert write.status["training"]["step"] == 5
    scene.settle()
    assert scene.status.training is not None
    assert writes(scene.look()) == []


def test_reports_alone_are_written_six_times_a_minute() -> None:
    scene = reporting()
    n_writes = 0
    for second in range(300):
        plan = hears(scene.after(1), second)
        n_writes += len(writes(plan))
        for action in plan.each_action():
            scene.apply(action)

    assert 28 <= n_writes <= 30


def test_report_that_waits_is_looked_at_again() -> None:
    scene = reporting()
    hears(scene.after(30), 5)
    scene.settle()
    plan = hears(scene.after(3), 6)

    assert writes(plan) == []
    assert plan.wake_at == scene.now + 7


def test_report_goes_with_any_other_write() -> None:
    scene = reporting()
    hears(scene.after(30), 5)
    scene.settle()
    scene.edit_role("trainer", replicas=3)
    (write,) = writes(hears(scene.after(1), 6))

    assert write.status["training"]["step"] == 6
    assert write.status["targetReplicas"] == {"trainer": 3}


def test_last_report_stays_after_the_end() -> None:
    scene = reporting()
    hears(scene.after(30), 5)
    scene.settle()
    scene.report = None
    scene.succeeds(*scene.pods).settle()

    assert scene.status.phase.value == "Succeed"
    assert scene.status.training is not None


@pytest.mark.parametrize("text", ["", "soon", "9999-99-99"])
def test_time_that_no_operator_wrote_is_dropped(text: str) -> None:
    """Users can write into a status."""
    scene = reporting()
    scene.job = replace(
        scene.job, status=replace(scene.status, training=TrainingStatus(reported_at=text, step=1))
    )
    scene.settle()

    assert scene.status.training is None
    assert reported(scene.look()) == []
