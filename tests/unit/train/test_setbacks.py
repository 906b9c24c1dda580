"""A group that fails again and again, though all its members live, ends with the error."""

from __future__ import annotations

import pytest

from swell.train.setbacks import N_TRIES, TRY_S, Setbacks

MEMBERS, OTHERS = frozenset({1, 2}), frozenset({1, 3})
ERROR = RuntimeError("NCCL error: Duplicate GPU detected")


def failed(*groups: tuple[int, frozenset[int]], every_s: float) -> tuple[bool, list[str]]:
    """Whether it is too much after these failures, by step and members; and what the log has."""
    log: list[str] = []
    setbacks = Setbacks(log.append)
    now = 0.0
    for step, members in groups:
        setbacks.add(step, members, ERROR, now)
        now += every_s
    return setbacks.is_too_much(now - every_s), log


def test_the_same_members_in_the_same_step_give_up() -> None:
    """After many times and a minute; the log has the first and the tenth."""
    is_too_much, log = failed(*[(7, MEMBERS)] * N_TRIES, every_s=TRY_S)

    assert is_too_much
    assert log == [
        f"the group of 2 broke up after step 7, and forms anew: RuntimeError: {ERROR}",
        "the group of 2 broke up after step 7, for the 10th time, and forms anew:"
        f" RuntimeError: {ERROR}",
    ]


@pytest.mark.parametrize(
    ("groups", "every_s"),
    [
        ([(7, MEMBERS)] * (N_TRIES - 1), TRY_S),  # not often enough
        ([(7, MEMBERS)] * 5 * N_TRIES, 1.0),  # not for long enough
        ([(7, MEMBERS), (7, OTHERS)] * N_TRIES, TRY_S),  # somebody has died
        ([(step, MEMBERS) for step in range(2 * N_TRIES)], TRY_S),  # it goes on
    ],
)
def test_all_else_is_taken_for_a_death(
    groups: list[tuple[int, frozenset[int]]], every_s: float
) -> None:
    """Networks that are disturbed for a while, deaths in a row, and progress."""
    assert not failed(*groups, every_s=every_s)[0]


def test_log_has_one_line_for_an_error() -> None:
    """Torch adds the places in its code, and gloo its advice."""
    log: list[str] = []
    error = RuntimeError(
        "Read error: Connection reset by peer. " + "Look there. " * 99 + "\n\nAt:\n"
    )
    Setbacks(log.append).add(3, MEMBERS, error, 0.0)

    assert "Connection reset by peer" in log[0]
    assert "\n" not in log[0]
    assert len(log[0]) < 400
