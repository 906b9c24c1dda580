"""The bugs that can be planted in the bus, as replacements of parts of it while a run lasts.

Some are a flaw together with the guard that is usually missing where it is made: alone, the guards
that are left hide them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from unittest import mock

from swell.train.bus import choosing, leading
from swell.train.bus.ballots import Acceptor, Candidacy, Quorum
from swell.train.bus.choosing import Attendance
from swell.train.bus.ending import Attendees
from swell.train.bus.events import LineId, Received
from swell.train.bus.following import Following
from swell.train.bus.knowledge import Knowledge
from swell.train.bus.leading import Leadership
from swell.train.bus.lines import Address, Lines
from swell.train.bus.liveness import Deaths
from swell.train.bus.member import BusMember
from swell.train.bus.messages import (
    BegunAnswer,
    Depart,
    Hello,
    MemberPhase,
    MemberStatus,
    PlanAccepted,
    PlanCommitted,
    Prepare,
    Promise,
    ProposePlan,
    Roster,
    SwitchAfter,
)
from swell.train.bus.plan import GroupPlan, Held
from swell.train.bus.switching import Switch
from tests.sim.train.story import Story
from tests.sim.train.world import RunResult, run_story

# An owner, the name of its part, and the part that replaces it.
Replacement = tuple[Any, str, Any]


def _accept_any(acceptor: Acceptor, message: ProposePlan) -> PlanAccepted:
    acceptor.plan, acceptor.accepted = message.plan, message.ballot
    return PlanAccepted(message.after, message.ballot)


def _vote_for_any(
    following: Following, line: LineId, message: Prepare | ProposePlan, now: float
) -> None:
    if following.up is None:
        following.up, following._up_since = line, now
    following.is_led = True
    if isinstance(message, Prepare):
        following._lines.send(line, Promise(message.after, message.ballot))
    elif message.after == following._know.generation:
        following._lines.send(line, PlanAccepted(message.after, message.ballot))


def _count_blindly(leader: Leadership, plan: GroupPlan, _: float) -> None:
    for line in sorted(leader._statuses, reverse=True):
        leader._send(line, PlanCommitted(plan, forms=True))


def _any_quorum(
    plan: GroupPlan | None,
    agreeing: Collection[int],
    _: Callable[..., bool],
    *,
    is_settled: Callable[[], bool],
) -> Quorum:
    voters = plan.members if plan is not None else ()
    if any(voter.incarnation in agreeing for voter in voters):
        return Quorum.MOST
    return Quorum.SURVIVORS if not voters and is_settled() else Quorum.NONE


def _learn_any_plan(real: Callable[..., None]) -> Callable[..., None]:
    def learn(member: BusMember, plan: GroupPlan, *, forms: bool, now: float) -> None:
        if member.know.plan is not None and plan.generation < member.know.generation:
            member.know.plan, member.know.broken = None, 0
            forms = True
        real(member, plan, forms=forms, now=now)

    return learn


def _tell_old_plans(real: Callable[..., None]) -> Callable[..., None]:
    def hear(member: BusMember, line: LineId, hello: Hello, now: float) -> None:
        plan = member.know.plan
        real(member, line, hello, now)
        if plan is not None and hello.generation > plan.generation:
            member.lines.send(line, PlanCommitted(plan, forms=False))

    return hear


def _leaders_state(real: Callable[..., GroupPlan]) -> Callable[..., GroupPlan]:
    def make(*given: Any, **named: Any) -> GroupPlan:
        plan = real(*given, **named)
        ranks = tuple(range(1, plan.size))
        return GroupPlan(plan.generation, plan.epoch, plan.members, plan.prefix, 0, ranks)

    return make


def _newcomers_state(real: Callable[..., GroupPlan]) -> Callable[..., GroupPlan]:
    def make(*given: Any, **named: Any) -> GroupPlan:
        plan = real(*given, **named)
        last = plan.size - 1
        ranks = tuple(range(last))
        return GroupPlan(plan.generation, plan.epoch, plan.members, plan.prefix, last, ranks)

    return make


def _behind_by_generation(real: Callable[..., GroupPlan]) -> Callable[..., GroupPlan]:
    """Members that have applied the last step, and those that have not, go on together."""

    def make(*given: Any, **named: Any) -> GroupPlan:
        plan = real(*given, **named)
        newest = plan.members[plan.source].held
        behind = tuple(
            rank for rank in plan.behind if plan.members[rank].held.generation != newest.generation
        )
        return GroupPlan(
            plan.generation, plan.epoch, plan.members, plan.prefix, plan.source, behind
        )

    return make


def _obey_at_once(real: Callable[..., None]) -> Callable[..., None]:
    def obey(member: BusMember, message: Any, now: float) -> None:
        if isinstance(message, Depart):
            member._depart(message.departure)
        else:
            real(member, message, now)

    return obey


def _trained_by_one(know: Knowledge, status_of: Attendees, *_: float) -> bool:
    statuses = [status_of(m.incarnation) for m in (know.plan.members if know.plan else ())]
    return any(status is not None and status.done for status in statuses)


def _stays_though_leaving(attendance: Attendance, status: MemberStatus) -> bool:
    is_over = status.phase in (MemberPhase.DONE, MemberPhase.GONE)
    return attendance.roster.lists(status.index) and not is_over


def _promise_only(candidacy: Candidacy, voter: int, promise: Promise) -> None:
    if (promise.after, promise.ballot) == (candidacy.after, candidacy.ballot):
        candidacy.promised.add(voter)


def _accepts_gaps(lines: Lines, event: Received, now: float) -> bool:
    line = lines.get(event.line)
    if line is not None:
        line.received, line.heard = event.number, now
    return line is not None


def _silence_is_death(deaths: Deaths, address: Address, now: float) -> None:
    deaths._silent[address] = deaths._empty[address] = now
    deaths._dead |= _INCARNATIONS.get(address, set())


# By address, all incarnations that were ever in a plan: for the flaw above.
_INCARNATIONS: dict[Address, set[int]] = {}


def _remembering(real: Callable[..., None]) -> Callable[..., None]:
    def learn(member: BusMember, plan: GroupPlan, *, forms: bool, now: float) -> None:
        for one in plan.members:
            _INCARNATIONS.setdefault((one.host, one.bus), set()).add(one.incarnation)
        real(member, plan, forms=forms, now=now)

    return learn


def _switch_at_least(
    switch: Switch, incarnation: int, answer: BegunAnswer
) -> Iterator[SwitchAfter]:
    switch._begun[incarnation] = answer.step
    if len(switch._begun) == switch.plan.size and switch.after is None:
        switch.after = min(switch._begun.values()) - 1
        yield SwitchAfter(switch.plan.generation, switch.number, switch.after)


def _same_numbers(*_: Any, newest: Held | None, **__: Any) -> int:
    return (newest.generation if newest is not None else 0) + 1


def _numbers_without_chance(
    last: int, roster: Roster, *, newest: Held | None, survivors: bool, cold: int | None
) -> int:
    known = max(last, newest.generation if newest is not None else 0)
    if cold is not None:
        return max(roster.epoch * choosing.NUMBERS_PER_EPOCH, known + choosing.SKIPPED)
    return known + (choosing.SKIPPED if survivors else 1)


def _silent_goodbye(real: Callable[..., None]) -> Callable[..., None]:
    return lambda member, *, done: real(member, done=done and not member._departing.departure)


def _finished_by_plan(real: Callable[..., bool]) -> Callable[..., bool]:
    return lambda leader, now: leader._know.plan is not None and real(leader, now)


def _are_candidates_only(leader: Leadership, attendance: Attendance) -> bool:
    """As it was: a leader waited for the successor of one that waited for the leader's plan."""
    ready = {status.index for status in attendance.candidates}
    return all(index in ready for index in range(len(leader._know.roster.hosts)))


def _has_no_member(leader: Leadership, here: set[int], _: Held | None) -> bool:
    """As it was: a member of the last plan counted as one that holds its state."""
    return not any(map(leader._know.is_in_plan, here))


def _take_silently(following: Following, line: LineId, now: float) -> None:
    following.up, following._up_since = line, now


PLANTED: Mapping[str, tuple[Replacement, ...]] = {
    "bus has two leaders": (
        (Acceptor, "_accept", _accept_any),
        (Following, "vote", _vote_for_any),
        (leading, "quorum_of", _any_quorum),
    ),
    "bus trains by an uncommitted plan": ((Leadership, "_count", _count_blindly),),
    "bus lets a minority go on": ((leading, "quorum_of", _any_quorum),),
    "bus accepts stale generations": (
        (BusMember, "_learn_plan", _learn_any_plan(BusMember._learn_plan)),
        (BusMember, "_hear_hello", _tell_old_plans(BusMember._hear_hello)),
    ),
    "bus applies a step by some": (
        (leading, "make_plan", _behind_by_generation(choosing.make_plan)),
    ),
    "bus takes the state of its leader": (
        (leading, "make_plan", _leaders_state(choosing.make_plan)),
    ),
    "bus lets a newcomer overwrite newer states": (
        (leading, "make_plan", _newcomers_state(choosing.make_plan)),
    ),
    "bus forgets pods that a shrink gave up": ((Knowledge, "read_former", lambda *_: None),),
    "bus leaves at the first word": ((BusMember, "_obey", _obey_at_once(BusMember._obey)),),
    "bus waits for those who have finished": (
        (Leadership, "_have_others_finished", lambda *_: False),
    ),
    "bus lets newcomers wait for those who have finished": (
        (
            Leadership,
            "_have_others_finished",
            _finished_by_plan(Leadership._have_others_finished),
        ),
    ),
    "bus keeps a change from the next leader": ((Following, "_take_for_leader", _take_silently),),
    "bus ends with the first who has finished": ((leading, "is_all_trained", _trained_by_one),),
    "bus forgets leavers": (
        (Attendance, "stays", _stays_though_leaving),
        (BusMember, "_check_departure", lambda *_: None),
    ),
    "bus does not finish accepted plans": ((Candidacy, "hear_promise", _promise_only),),
    "bus ignores gaps on lines": ((Lines, "accepts", _accepts_gaps),),
    "bus takes silence for death": (
        (Deaths, "hear_silence", _silence_is_death),
        (BusMember, "_learn_plan", _remembering(BusMember._learn_plan)),
    ),
    "bus switches too early": ((Switch, "hear", _switch_at_least),),
    "bus numbers generations by states": ((leading, "next_generation", _same_numbers),),
    "bus numbers cold starts alike": ((leading, "next_generation", _numbers_without_chance),),
    "bus ends without a word": (
        (BusMember, "_say_goodbye", _silent_goodbye(BusMember._say_goodbye)),
        (Leadership, "_have_others_finished", lambda *_: False),
    ),
    "bus keeps the lines of a dead leader": ((BusMember, "_lose", lambda *_: None),),
    "bus has two leaders wait for each other": ((Following, "_meet_rival", lambda *_: None),),
    "bus waits for the successor of one that waits": (
        (Leadership, "_are_all_here", _are_candidates_only),
    ),
    "bus begins anew by a member that was paused": ((Leadership, "_begins_anew", _has_no_member),),
    "bus begins anew beside one that loads": (
        (Leadership, "_may_load_state", lambda *_: False),
        (Leadership, "_are_all_here", _are_candidates_only),
    ),
}


def run_mutant(name: str, story: Story, *, keep: bool = False) -> RunResult:
    """Run a story with a planted bug; with none for the empty name."""
    _INCARNATIONS.clear()
    with contextlib.ExitStack() as stack:
        for owner, part, replacement in PLANTED.get(name, ()):
            stack.enter_context(mock.patch.object(owner, part, replacement))
        return run_story(story, keep=keep)
