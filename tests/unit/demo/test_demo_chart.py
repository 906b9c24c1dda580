"""The chart of the demo: its size, its colours, and the truth of its figures."""

from __future__ import annotations

import pytest

from swell.demo.chart import WIDTH, draw
from swell.demo.training import changes_of, length_of_weights, steps_of

LOG = """\
a line of something else
step 1: loss 1.0000, 2 members, at 100.000
step 2: loss 0.8000, 2 members, at 100.100
step 3: loss 0.6000, 4 members, at 100.350
step 4: loss 0.4000, 4 members, at 100.400
step 5: loss 0.3"""


def test_steps_are_read_and_a_torn_line_is_none() -> None:
    steps = steps_of(LOG)

    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert (steps[2].loss, steps[2].size, steps[2].at) == (0.6, 4, 100.35)


def test_changes_have_the_time_without_a_step() -> None:
    [change] = changes_of(steps_of(LOG))

    assert (change.at, change.old, change.new) == (100.35, 2, 4)
    assert change.pause_s == pytest.approx(0.25)


def test_end_is_read_when_it_was_told() -> None:
    assert length_of_weights(LOG) is None
    assert length_of_weights("trained: the length of all weights is 1.25\n") == 1.25


@pytest.mark.parametrize("n_steps", [1, 2, 10, 1000])
@pytest.mark.parametrize("is_unicode", [True, False])
def test_chart_fits_a_terminal(n_steps: int, is_unicode: bool) -> None:
    """No line is longer than 80 columns, and every column has a size."""
    lines = [
        f"step {n}: loss {1 / n:.4f}, {n % 3 + 1} members, at {n / 50}"
        for n in range(1, n_steps + 1)
    ]
    drawn = draw(steps_of("\n".join(lines)), is_coloured=False, is_unicode=is_unicode)

    assert max(map(len, drawn)) <= WIDTH < 80
    assert is_unicode or all(line.isascii() for line in drawn)
    [sizes] = [line for line in drawn if line.startswith("members")]
    assert set(sizes.removeprefix("members").strip()) <= set("123")
    assert len(sizes.split()[1]) == WIDTH - 9


def test_chart_falls_as_the_loss_does() -> None:
    """The top row is reached by the greatest loss only."""
    drawn = draw(steps_of(LOG), is_coloured=False, is_unicode=True)

    assert drawn[0].strip() == "loss"
    assert drawn[1].split()[0] == "1.00"
    assert drawn[1].count("█") < drawn[5].count("█") < drawn[10].count("█")


def test_colours_are_only_where_they_are_wanted() -> None:
    steps = steps_of(LOG)

    assert not any("\x1b" in line for line in draw(steps, is_coloured=False, is_unicode=True))
    assert any("\x1b" in line for line in draw(steps, is_coloured=True, is_unicode=True))


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw([], is_coloured=True, is_unicode=True) == []
