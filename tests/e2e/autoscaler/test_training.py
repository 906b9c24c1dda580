"""A real framework trains a real model while its job is grown and shrunk by the autoscaler."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.autoscaler.pictures import draw_training
from tests.e2e.autoscaler.training import JAX, MOST, Training, train
from tests.e2e.up.machine import Machine

BATCH = 64  # samples of a step, as in the example


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    machine = Machine(tmp_path_factory.mktemp("train"))
    try:
        yield train(machine, JAX, is_leader_lost=True)
    finally:
        machine.swell("down")
    assert machine.processes() == []


def test_training_ends_well_at_every_size(trained: Training) -> None:
    """The job succeeds, and its steps were made by few and by all trainers."""
    status = trained.record.looks[-1].jobs[JAX].status
    resizes = [(one.by.value, one.to) for one in status.scale_records]
    sizes = [line.size for line in trained.lines if line.what == "step"]
    turns = [size for n, size in enumerate(sizes) if n == 0 or size != sizes[n - 1]]

    assert status.phase.value == "Succeed", status.message
    assert resizes[0] == ("autoscaler", MOST)
    assert ("autoscaler", 2) in resizes
    assert resizes[-1] == ("autoscaler", MOST)
    assert {MOST, 2} <= set(turns)
    assert status.restart_counts.get("trainer", 0) == status.uncharged.get("trainer", 0)


def test_top_shows_sizes_and_load(trained: Training) -> None:
    """Least, now, target and most of the role; and four trainers of 0.8 cpus on four."""
    assert [JAX, "trainer", "Running", "1", "4", "4", "4"] in trained.top
    assert ["cpu", "3.2", "4", "80%"] in trained.top


def test_loss_goes_on_where_it_was(trained: Training) -> None:
    """No resize loses anything that was learned: trainer 0 has the same loss before and after."""
    lines = trained.lines
    for before, after in pairwise(lines):
        if after.what == "begin" and before.what == "step":
            assert (after.seen, after.loss) == (before.seen, before.loss)
        if after.what == "step":
            assert after.seen == before.seen + BATCH
    assert [line.what for line in lines].count("begin") >= 5
    assert lines[-1].what == "done"
    assert lines[-1].loss < 0.5 * lines[0].loss


def test_new_trainer_gets_the_state_from_the_others(trained: Training) -> None:
    """Trainer 0 was deleted: its successor begins with all that the others have learned since."""
    lines = trained.lines
    second = [n for n, line in enumerate(lines) if line.what == "start"][1]
    left, begun = lines[second - 1], lines[second + 1]

    assert begun.what == "begin"
    assert begun.seen >= left.seen > 0
    assert abs(begun.loss - left.loss) < 0.2 * lines[0].loss


def test_picture_of_it_can_be_drawn(trained: Training) -> None:
    """The curves of loss and sizes, as they are kept with the documentation."""
    picture = ET.fromstring(draw_training(trained))
    names = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}

    assert {"loss", "in a step", "pods", "pods of a guest"} <= names
