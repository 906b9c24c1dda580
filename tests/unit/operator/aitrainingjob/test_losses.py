"""A job says why it waits, and by whom it lost pods: in its status, conditions and events."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobPhase, ResizeAuthor, ScaleRecord
from swell.api.meta import Condition
from swell.api.scheduling import (
    LOSS_ANNOTATION,
    LossRecord,
    PodGroupCondition,
    PodGroupStatus,
)
from swell.api.times import format_time
from swell.api.training import TrainingSave, TrainingStatus
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.waiting import SHRUNK, Disruption, with_disruption
from swell.runtime.plan import EmitEvent
from tests.unit.operator.scene import START, Scene, a_job, a_role

T0, T1 = "fit-trainer-0", "fit-trainer-1"
PREEMPTED = (
    "preempted by the scheduler for team/big (queue prod, priority 100): 2 pods leave;"
    " its own priority is 0"
)


def says(scene: Scene, reason: str, message: str, kind: str = "Unschedulable") -> Scene:
    assert scene.group is not None
    said = PodGroupCondition(type=kind, status="True", reason=reason, message=message)
    held = scene.group.status.conditions
    scene.group = replace(scene.group, status=PodGroupStatus(conditions=(*held, said)))
    return scene


def evicted(scene: Scene, text: str = PREEMPTED) -> Scene:
    assert scene.group is not None
    record = LossRecord("Preempted", text, format_time(scene.now))
    notes = {LOSS_ANNOTATION: msgspec.json.encode(record).decode()}
    meta = replace(scene.group.metadata, annotations=notes)
    scene.group = replace(scene.group, metadata=meta)
    return scene


def of_type(scene: Scene, kind: str) -> Condition:
    return next(one for one in scene.status.conditions if one.type == kind)


def events(scene: Scene) -> list[tuple[str, str]]:
    actions = scene.look().each_action()
    return [(one.reason, one.message) for one in actions if isinstance(one, EmitEvent)]


def test_waiting_job_has_the_reason_of_the_scheduler() -> None:
    """In its status and its condition Scheduled, and as an event; without Volcano's prefix."""
    scene = Scene(a_job()).settle()
    says(scene, "ClusterFull", "1/1 tasks in gang unschedulable: the cluster has 4 cpu in all")

    assert events(scene) == [("ClusterFull", "the cluster has 4 cpu in all")]
    scene.settle()
    assert (scene.status.phase, scene.status.reason) == (AITrainingJobPhase.PENDING, "ClusterFull")
    assert scene.status.message == "the cluster has 4 cpu in all"
    scheduled = of_type(scene, "Scheduled")
    assert (scheduled.status, scheduled.reason) == ("False", "ClusterFull")
    assert scheduled.message == "the cluster has 4 cpu in all"
    assert events(scene) == []


def test_never_comes_before_not_now() -> None:
    """A job that cannot ever fit says so, whatever it waits for at the moment."""
    scene = says(Scene(a_job()).settle(), "ClusterFull", "full")
    says(scene, "CannotEverFit", "a pod of trainer asks for 100 cpu", "CannotEverFit").settle()

    assert scene.status.reason == "CannotEverFit"
    assert scene.status.message == "a pod of trainer asks for 100 cpu"
    assert of_type(scene, "Scheduled").reason == "CannotEverFit"


def test_changed_numbers_of_a_reason_are_written_late() -> None:
    """Else each job that starts would have all that wait written."""
    scene = says(Scene(a_job()).settle(), "ClusterFull", "3 in use").settle()
    assert scene.group is not None
    said = replace(scene.group.status.conditions[0], message="2 in use")
    scene.group = replace(scene.group, status=PodGroupStatus(conditions=(said,)))

    assert scene.settle().status.message == "3 in use"
    assert scene.after(60).settle().status.message == "2 in use"
    assert of_type(scene, "Pending").message == "2 in use"


def test_victim_says_who_took_its_pods_and_for_whom() -> None:
    """While they leave, when they are gone, and until it runs again."""
    scene = evicted(Scene(a_job()).running())

    assert events(scene) == [("Preempted", PREEMPTED)]
    scene.settle()
    scene.leaves(T0)
    scene.leaves(T1)
    scene.settle()
    assert (scene.status.reason, scene.status.message) == ("Preempted", PREEMPTED)
    scene.goes(T0, T1)
    assert ("PodGone", f"pod {T0} is gone: {PREEMPTED}") in events(scene)
    scene.settle().after(10).settle()
    says(scene, "ClusterFull", "full").after(10).settle()
    assert scene.status.reason == "Preempted"
    assert scene.status.message == f"{PREEMPTED}; it waits: full"
    disrupted = of_type(scene, "Disrupted")
    assert (disrupted.status, disrupted.reason) == ("True", "Preempted")
    assert disrupted.message == PREEMPTED


def test_loss_is_over_when_the_job_runs_again() -> None:
    """The condition turns False and keeps its text; the same record does not raise it again."""
    scene = evicted(Scene(a_job()).running()).settle()
    scene.goes(T0, T1).settle().after(10).settle()
    scene.starts(T0)
    scene.starts(T1)
    scene.settle()

    # The new pods are of the same second as the loss, so that they might be the old ones.
    wakes_at = scene.look().wake_at
    assert wakes_at is not None
    scene.after(wakes_at - scene.now).settle()
    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert of_type(scene, "Disrupted").status == "False"
    assert scene.status.message == ""
    assert events(scene.after(100)) == []
    evicted(scene, "again").settle()
    assert of_type(scene, "Disrupted").status == "True"


def test_record_comes_before_the_pods_go() -> None:
    """A job that is still complete has not made its loss good."""
    scene = evicted(Scene(a_job()).running().after(30)).settle().settle()

    assert of_type(scene, "Disrupted").status == "True"
    assert scene.status.message == PREEMPTED


@pytest.mark.parametrize(
    ("save", "text"),
    [
        (TrainingSave(step=120), "; it was at step 180, last saved at step 120"),
        (None, "; it was at step 180 and has saved nothing"),
    ],
)
def test_loss_says_what_was_saved(save: TrainingSave | None, text: str) -> None:
    """As far as the program reports it."""
    scene = Scene(a_job()).running()
    training = TrainingStatus(step=180, last_save=save, reported_at=format_time(scene.now))
    scene.job = replace(scene.job, status=replace(scene.status, training=training))
    evicted(scene).settle()

    assert of_type(scene, "Disrupted").message == PREEMPTED + text


def test_lost_node_is_a_loss() -> None:
    """The pod that restarts for it, and the node."""
    role = a_role(replicas=2, restartPolicy="OnNodeFail")
    scene = Scene(a_job({"trainer": role})).running()
    node = next(one.spec.node_name for one in scene.snapshot.pods if one.metadata.name == T0)
    scene.nodes[node] = NodeState(None)
    scene.settle()

    disrupted = of_type(scene, "Disrupted")
    assert (disrupted.status, disrupted.reason) == ("True", "NodeLost")
    assert f"pod {T0}: node" in disrupted.message
    assert disrupted.message.endswith("is lost")


def test_shrunk_job_says_for_whom_until_it_has_grown_again() -> None:
    """It runs on, with the reason of the resize as its message."""
    role = a_role(replicas=3, minReplicas=1, maxReplicas=4, edlPolicy="Auto")
    scene = Scene(a_job({"trainer": role})).running()
    record = ScaleRecord(
        time=format_time(scene.now),
        role="trainer",
        from_=3,
        to=2,
        by=ResizeAuthor.SCHEDULER,
        reason="makes room for team/big (queue prod, priority 100)",
        for_="team/big",
    )
    status = replace(scene.status, target_replicas={"trainer": 2}, scale_records=(record,))
    scene.job = replace(scene.job, status=status)
    scene.settle()

    text = "trainer shrunk from 3 to 2 by the scheduler: "
    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.message == text + record.reason
    assert of_type(scene, "Disrupted").reason == "Shrunk"
    grown = replace(scene.status, target_replicas={"trainer": 3})
    scene.job = replace(scene.job, status=grown)
    assert of_type(scene.after(1).settle(), "Disrupted").status == "False"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"time": "soon"}', '{"reason": 7}'])
def test_record_that_cannot_be_read_says_nothing(text: str) -> None:
    """Anyone may write annotations."""
    scene = Scene(a_job()).running()
    assert scene.group is not None
    meta = replace(scene.group.metadata, annotations={LOSS_ANNOTATION: text})
    scene.group = replace(scene.group, metadata=meta)

    assert all(one.type != "Disrupted" for one in scene.settle().status.conditions)


def test_elastic_job_that_restarts_one_pod_keeps_running() -> None:
    """As long as its minimum is held; its back-off grows all the same."""
    role = a_role(
        replicas=3,
        minReplicas=2,
        maxReplicas=4,
        edlPolicy="Manual",
        restartPolicy="OnFailure",
        restartScope="Pod",
    )
    scene = Scene(a_job({"trainer": role})).running().after(700)
    for _ in range(3):
        scene.fails("fit-trainer-2").settle()
        assert scene.status.phase is AITrainingJobPhase.RUNNING
        scene.after(10).settle().starts("fit-trainer-2")
        scene.settle()

    assert scene.status.backoff == {"trainer": 3}


def test_elastic_job_that_makes_room_queues_anew_at_once() -> None:
    """Its preemptions are not counted, but the record on its group tells of them."""
    sizes = {"minReplicas": 2, "maxReplicas": 4, "edlPolicy": "Manual"}
    scene = Scene(a_job({"trainer": a_role(replicas=2, **sizes)})).running()
    for _ in range(4):
        evicted(scene).settle()
        scene.goes(T0, T1).settle()

        assert {T0, T1} <= scene.pods.keys()
        for name in (T0, T1):
            scene.starts(name)
        scene.settle().after(60).settle().after(60)

    assert not any(scene.status.backoff.values())


def test_losses_do_not_replace_each_other_for_ever() -> None:
    """Two records of about the same time, one by a clock that is ahead, end in one condition."""
    ahead = format_time(START + 3600)
    losses = [
        Disruption("Preempted", "preempted for default/high", ahead),
        Disruption(SHRUNK, "shrunk for default/high", format_time(START)),
    ]
    held: Condition | None = None
    seen = []
    for _ in range(6):
        held = with_disruption(held, losses, is_over=held is not None, now=START)
        seen.append(held)

    assert seen[1:] == [seen[1]] * 5
    assert held is not None
    assert (held.status, held.reason, held.last_transition_time) == ("False", "Preempted", ahead)
