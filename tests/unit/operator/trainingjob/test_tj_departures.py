"""Trainers that save are asked before their job shrinks, and go when they have, or in time."""

from __future__ import annotations

import json

import pytest

from swell.api.injection import RELEASE_ANNOTATION, REPORT_ANNOTATION, SAVED_ANNOTATION
from swell.api.kinds import PODS
from swell.api.saving import SAVE_SECONDS_ANNOTATION
from swell.api.times import format_time
from swell.api.trainingjob import TrainingJobPhase
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.pods import template
from swell.operator.trainingjob.settings import TrainingJobSettings
from tests.unit.operator.trainingjob.tj_scene import START, Scene, elastic, patched

SAVES = json.dumps({"generation": 1, "epoch": 1, "size": 3, "step": 1, "saves": True})


def note(scene: Scene, index: int, **notes: str) -> None:
    scene.change(PODS, f"fit-trainer-{index}", {"metadata": {"annotations": notes}})


def three_savers(seconds: str = "20") -> Scene:
    scene = Scene(elastic(1, 4)).targets(3).running()
    for index in range(3):
        note(scene, index, **{SAVE_SECONDS_ANNOTATION: seconds})
    return scene


def asked(scene: Scene) -> list[int]:
    return [
        int(pod.metadata.name.rpartition("-")[2])
        for pod in scene.pods("fit-trainer-")
        if RELEASE_ANNOTATION in pod.metadata.annotations
    ]


def size(scene: Scene) -> int:
    return scene.trainer.spec.parallelism


def test_surplus_trainers_are_asked_first() -> None:
    """The Job keeps its size until both have answered; nobody else is asked."""
    scene = three_savers().targets(1).settle()
    assert asked(scene) == [1, 2]
    assert size(scene) == 3
    pod = scene.pods("fit-trainer-2")[0]
    request = json.loads(pod.metadata.annotations[RELEASE_ANNOTATION])
    assert request["deadline"] == format_time(START + 20)
    note(scene, 1, **{SAVED_ANNOTATION: "saved"})
    assert size(scene.settle()) == 3
    note(scene, 2, **{SAVED_ANNOTATION: "saved"})

    assert size(scene.settle()) == 1


def test_deadline_is_kept_without_an_answer() -> None:
    """The plan wakes at the deadline, and shrinks then."""
    scene = three_savers().targets(2).settle()
    assert scene.look().wake_at == START + 20
    scene.now = START + 20

    assert size(scene.settle()) == 2


def test_trainer_that_exits_needs_no_answer() -> None:
    """Neither as a failure nor as the end of the job."""
    scene = three_savers().targets(2).settle().ends(2, "Failed")

    assert size(scene.settle()) == 2
    assert scene.status.phase is TrainingJobPhase.RUNNING


@pytest.mark.parametrize("text", ["", "0", "soon"])
def test_others_go_at_once(text: str) -> None:
    """As long as nobody says that it saves."""
    assert size(three_savers(text).targets(1).settle()) == 1


def test_report_is_enough() -> None:
    """A program that reports `saves` is asked, for the grace period."""
    scene = Scene(elastic(1, 4)).targets(3).running()
    note(scene, 2, **{REPORT_ANNOTATION: SAVES})

    assert asked(scene.targets(2).settle()) == [2]


def test_trainer_that_was_asked_leaves_before_the_job_grows() -> None:
    """Its program has begun to leave: the size goes down past it, and up again."""
    scene = three_savers().targets(2).settle().targets(3).settle()
    assert (asked(scene), size(scene)) == ([2], 3)
    note(scene, 2, **{SAVED_ANNOTATION: "saved"})
    for action in scene.look().each_action():
        scene.apply(action)
    assert size(scene) == 2
    scene.populate()

    assert size(scene.settle()) == 3


def test_limit_of_the_operator_counts() -> None:
    """A trainer that asks for an hour gets what the operator allows."""
    scene = three_savers("3600")
    scene.settings = TrainingJobSettings(save_seconds_max=5)
    assert scene.targets(2).settle().look().wake_at == START + 5


def test_clock_that_was_set_back_keeps_nobody() -> None:
    """A deadline farther ahead than any can be has passed."""
    scene = three_savers().targets(2).settle()
    scene.now = START - 3600

    assert size(scene.settle()) == 2


def test_save_seconds_reach_the_trainers() -> None:
    """The field of the job is the annotation of its trainers."""
    notes = template(Scene(elastic(1, 4, saveSeconds=25)).snapshot, Role.TRAINER)["metadata"]

    assert notes["annotations"][SAVE_SECONDS_ANNOTATION] == "25"
    assert not patched(three_savers().look())
