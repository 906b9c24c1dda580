"""Members of a sharded model save after the same step, whatever their clocks say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.train.bus.plan import NOTHING, GroupPlan, Member
from swell.train.checkpoints.schedule import SaveSchedule, SaveWish, step_to_save_after
from swell.train.reports.measures import EXCHANGE_STEPS


class LeadersMessages:
    """Collectives of one member, in which rank 0 says what the leader has said before."""

    def __init__(self, said: list[bytes], *, leads: bool) -> None:
        self.said, self.leads, self._n = said, leads, 0

    def gather(self, message: bytes) -> list[bytes]:
        if self.leads:
            self.said.append(message)
        self._n += 1
        return [self.said[self._n - 1], message]


def a_plan(generation: int) -> GroupPlan:
    members = tuple(Member(i, 1, i, "127.0.0.1", 1, NOTHING) for i in range(2))
    return GroupPlan(generation, 1, members, f"g{generation}", source=0, behind=())


def saved_steps(
    schedule: SaveSchedule, *, every_s: float, late_s: float, step_s: float, n_steps: int
) -> list[int]:
    """The steps after which a member saves, whose clock began some seconds after the leader's."""
    saved: list[int] = []
    due = late_s + every_s
    for step in range(n_steps):
        now = step * step_s
        schedule.agree(step, a_plan(1 + step // 100), due - now, now)
        if schedule.is_due(step + 1):
            saved.append(step + 1)
            due = now + step_s + every_s
    return saved


@settings(deadline=None, max_examples=50)
@given(st.floats(0.0, 30.0), st.floats(0.5, 60.0), st.floats(0.01, 5.0))
def test_members_save_after_the_same_steps(late_s: float, every_s: float, step_s: float) -> None:
    """Those of the leader's clock, though the other process began seconds later."""
    said: list[bytes] = []
    leader = SaveSchedule(LeadersMessages(said, leads=True))  # type: ignore[arg-type]
    follower = SaveSchedule(LeadersMessages(said, leads=False))  # type: ignore[arg-type]

    mine = saved_steps(leader, every_s=every_s, late_s=0.0, step_s=step_s, n_steps=300)
    theirs = saved_steps(follower, every_s=every_s, late_s=late_s, step_s=step_s, n_steps=300)

    assert mine == theirs
    if every_s < 250 * step_s:
        assert mine, "somebody has to save"


@pytest.mark.parametrize(
    ("wish", "after"),
    [
        (SaveWish(0.0, None), 11),
        (SaveWish(-5.0, 0.1), 11),
        (SaveWish(1.0, None), None),
        (SaveWish(1.0, 0.3), 14),
        (SaveWish(2.0, 0.1), 10 + EXCHANGE_STEPS),
        (SaveWish(2.05, 0.1), None),
    ],
)
def test_step_follows_from_the_leaders_wish(wish: SaveWish, after: int | None) -> None:
    """At once where it is due, before the next exchange where it is near, else not yet."""
    assert step_to_save_after(10, wish) == after
