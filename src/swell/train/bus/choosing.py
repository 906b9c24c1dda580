"""Which plan follows: who is in it, in which order, and whose state the others take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.train.bus.messages import MemberPhase, MemberStatus, Roster
from swell.train.bus.plan import NOTHING, GroupPlan, Held

# Numbers that survivors skip: a plan of theirs gets no number that the dead may have used.
SKIPPED = 1024
# A cold start takes its number from the epoch, and a few random bits from the incarnation, so that
# two cold starts of one epoch differ. Numbers fit in a report (2**53) for half a million epochs.
NUMBERS_PER_EPOCH, NUMBERS_PER_CHANCE, CHANCES = 0x4_0000_0000, 0x4_0000, 0x1_0000


@dataclass(frozen=True, slots=True)
class Attendance:
    """The processes that follow a leader, as they are now."""

    statuses: tuple[MemberStatus, ...]
    roster: Roster

    def stays(self, status: MemberStatus) -> bool:
        """Whether a process has a place in the next plan: listed, not leaving, not a ghost."""
        is_going = status.leaving or status.phase in (MemberPhase.DONE, MemberPhase.GONE)
        is_ghost = self.roster.instance_of(status.index) > status.instance
        return self.roster.lists(status.index) and not is_going and not is_ghost

    @property
    def ready(self) -> list[MemberStatus]:
        return [status for status in self.statuses if status.phase is MemberPhase.READY]

    @property
    def candidates(self) -> list[MemberStatus]:
        return [status for status in self.ready if self.stays(status)]

    @property
    def newest(self) -> Held | None:
        """The newest state that anybody holds who is ready, whether it stays or not."""
        return max((status.held for status in self.ready if status.trained), default=None)

    @property
    def holders(self) -> list[MemberStatus]:
        """Those who are ready and hold the newest state."""
        newest = self.newest
        return [status for status in self.ready if status.trained and status.held == newest]


def base_of(plan: GroupPlan | None) -> Held:
    """The state that a plan began with: whoever holds an older one lacks steps of the group."""
    return plan.members[plan.source].held if plan is not None else NOTHING


def choose_members(attendance: Attendance) -> list[MemberStatus]:
    """Those who stay; with one that leaves, if it alone holds the newest state.

    That one hands its state over, and leaves with the plan after this one.
    """
    chosen = attendance.candidates
    holders = attendance.holders
    if chosen and holders and not any(status in chosen for status in holders):
        chosen = [*chosen, min(holders, key=lambda status: status.index)]
    return chosen


def next_generation(
    last: int, roster: Roster, *, newest: Held | None, survivors: bool, cold: int | None
) -> int:
    """The number of the next plan, which no plan has had. `cold` is the incarnation's chance."""
    newest_known = max(last, newest.generation if newest is not None else 0)
    if cold is not None:
        drawn = cold % CHANCES * NUMBERS_PER_CHANCE
        # Two cold starts from one checkpoint differ, too.
        after_newest = newest_known + NUMBERS_PER_CHANCE + drawn
        return max(roster.epoch * NUMBERS_PER_EPOCH + drawn, after_newest if newest_known else 0)
    return newest_known + (SKIPPED if survivors else 1)


def make_plan(
    chosen: Sequence[MemberStatus],
    *,
    generation: int,
    epoch: int,
    last: GroupPlan | None,
    proposer: int,
) -> GroupPlan:
    """The plan: its proposer leads if it is in; the others keep their order, newcomers come last.

    `proposer` is an incarnation.
    """
    ranks = {m.incarnation: rank for rank, m in enumerate(last.members)} if last else {}

    def order(status: MemberStatus) -> tuple[bool, bool, int, int]:
        rank = ranks.get(status.incarnation, len(ranks))
        # One that stays only to hand over its state would be gone as a leader soon.
        return status.incarnation != proposer, status.leaving, rank, status.index

    ordered = sorted(chosen, key=order)
    trained = [status.held for status in ordered if status.trained]
    newest = max(trained, default=None)
    is_newest = [s.trained and s.held == newest for s in ordered]
    source = is_newest.index(True) if newest is not None else 0
    behind = tuple(
        rank
        for rank in range(len(ordered))
        if rank != source and not (newest is not None and is_newest[rank])
    )
    return GroupPlan(
        generation=generation,
        epoch=epoch,
        members=tuple(status.as_member() for status in ordered),
        prefix=f"{generation:x}-{proposer:x}",
        source=source,
        behind=behind,
    )
