"""The step after which all members of a sharded model save: parts of different steps make nothing.

Each member's clock began when its process did, so that none of them may go by its own. The leader
tells how long it is to its next save, at every exchange, and all find the same step from that.
"""

from __future__ import annotations

import math

import msgspec

from swell.train.bus.plan import GroupPlan
from swell.train.collectives import Collectives
from swell.train.reports.measures import EXCHANGE_STEPS


class SaveWish(msgspec.Struct, frozen=True, array_like=True):
    """The seconds to a member's next save, and those that its last steps have taken on average."""

    due_in_s: float
    step_s: float | None


def step_to_save_after(step: int, wish: SaveWish) -> int | None:
    """The step after which to save, as seen after a step; None where a later exchange will tell."""
    if wish.due_in_s <= 0.0:
        return step + 1
    if not wish.step_s:
        return None
    n_steps = math.ceil(wish.due_in_s / wish.step_s)
    return step + n_steps if n_steps <= EXCHANGE_STEPS else None


class SaveSchedule:
    """One member's knowledge of the next step to save after."""

    def __init__(self, collectives: Collectives) -> None:
        self._collectives = collectives
        self._save_after: int | None = None
        self._agreed = (-1, -1)  # generation and step: every member of a group agrees on both
        self._last: tuple[float, int] | None = None  # time and step of the last exchange

    def agree(self, step: int, plan: GroupPlan, due_in_s: float, now: float) -> None:
        """Hear of the leader's wish in every new group, and every `EXCHANGE_STEPS` steps."""
        is_new = self._agreed[0] != plan.generation
        if self._agreed == (plan.generation, step) or (step % EXCHANGE_STEPS and not is_new):
            return
        step_s = None
        if not is_new and self._last is not None and step > self._last[1]:
            step_s = (now - self._last[0]) / (step - self._last[1])
        mine = msgspec.msgpack.encode(SaveWish(due_in_s, step_s))
        leaders = self._collectives.gather(mine)[0]
        self._agreed, self._last = (plan.generation, step), (now, step)
        self._save_after = step_to_save_after(step, msgspec.msgpack.decode(leaders, type=SaveWish))

    def is_due(self, step: int) -> bool:
        """Whether to save after this step. All members answer alike, and once."""
        if self._save_after is None or step < self._save_after:
            return False
        self._save_after = None
        return True
