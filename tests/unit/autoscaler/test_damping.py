"""What is held back, for how long, and what is not."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJob
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.autoscaler import damping
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.damping import TAKEN_BACK, DampingInput, DampingMemory
from swell.autoscaler.policies.interface import RoleId, RoleTarget, SizeReason
from swell.autoscaler.views import JobId
from tests.autoscaler_cases import (
    a_group,
    a_job,
    a_node,
    a_pod,
    a_role,
    a_trainer,
    a_training_job,
    look,
)

NOW = 1_800_000_000.0
COOLDOWN_S = 60.0
ID = RoleId(JobId("ns", "a"), "t")
NODE = a_node("n", cpu=100, memory="100Gi")


def record(ago_s: float, before: int, after: int, **more: object) -> Body:
    return {
        "time": format_time(NOW - ago_s),
        "role": "t",
        "from": before,
        "to": after,
        "by": "autoscaler",
        **more,
    }


def job(
    target: int, *records: Body, phase: str = "Running", minimum: int = 1, maximum: int = 9
) -> AITrainingJob:
    role = a_role(minimum, maximum)
    return a_job("a", phase=phase, targets={"t": target}, records=list(records), t=role)


def bound(n: int) -> list[Pod]:
    return at(*range(n))


def at(*indexes: int) -> list[Pod]:
    return [a_pod("a", "t", index, "n") for index in indexes]


def unbound(index: int, created: float = 0.0) -> Pod:
    return a_pod("a", "t", index, created=format_time(created))


def damp(
    snapshot: AutoscalerSnapshot,
    to: int,
    reason: SizeReason = SizeReason.ROOM,
    given: DampingInput | None = None,
) -> tuple[int, SizeReason]:
    job, role = snapshot.jobs[0].view, snapshot.jobs[0].roles[0].view
    id_ = RoleId(job.id, role.name)
    wanted = {id_: RoleTarget(role.target, to, reason, "")}
    actual = given or DampingInput(now=NOW, cooldown_s=COOLDOWN_S, waiting=snapshot.waiting_groups)
    done = damping.damp(wanted, snapshot.jobs, actual)[id_]
    return done.target, done.reason


def test_without_history_what_is_wanted_is_done() -> None:
    """A role that was never resized follows the policy."""
    assert damp(look(NODE, job(2), *bound(2)), 4) == (4, SizeReason.ROOM)


def test_resize_in_progress_holds_the_next() -> None:
    """Pods of the last raise are unbound, or those of the last shrink still there."""
    raised = look(NODE, job(3, record(10, 2, 3)), *bound(2), unbound(2))
    shrunk = look(NODE, job(2, record(10, 3, 2)), *bound(3))

    assert damp(raised, 5) == (3, SizeReason.IN_PROGRESS)
    assert damp(raised, 2, SizeReason.OVER_COMMITTED) == (3, SizeReason.IN_PROGRESS)
    assert damp(shrunk, 1, SizeReason.OVER_COMMITTED) == (2, SizeReason.IN_PROGRESS)


def test_finished_resize_may_go_on_in_its_direction() -> None:
    """Once its pods are bound a role may be raised again at once."""
    assert damp(look(NODE, job(3, record(10, 2, 3)), *bound(3)), 5) == (5, SizeReason.ROOM)


def test_direction_is_not_changed_within_the_cooldown() -> None:
    """After a raise no shrink, after a shrink no raise, until the cool-down is over."""
    raised = look(NODE, job(3, record(59, 2, 3)), *bound(3))
    shrunk = look(NODE, job(2, record(59, 3, 2, by="scheduler")), *bound(2))
    later = look(NODE, job(2, record(61, 3, 2)), *bound(2))

    assert damp(raised, 1, SizeReason.OVER_COMMITTED) == (3, SizeReason.COOLING_DOWN)
    assert damp(shrunk, 4) == (2, SizeReason.COOLING_DOWN)
    assert damp(later, 4) == (4, SizeReason.ROOM)


def test_shrinking_for_a_pending_job_is_exempt() -> None:
    """Who makes room for a job that waits does so at once."""
    raised = look(NODE, job(4, record(5, 2, 4)), *bound(3), unbound(3))

    assert damp(raised, 1, SizeReason.PENDING_JOB) == (1, SizeReason.PENDING_JOB)


def test_room_given_away_is_not_taken_while_its_group_waits() -> None:
    """While the group named in `for` is pending, and for the cool-down after."""
    shrunk = job(2, record(500, 3, 2, by="scheduler", **{"for": "ns/big"}))
    waiting = look(NODE, shrunk, *bound(2), a_group("big", phase="Inqueue"))
    started = look(NODE, shrunk, *bound(2), a_group("big", phase="Running"))
    just_started = DampingInput(now=NOW, waited={Key("ns", "big"): NOW - 59})
    long_started = DampingInput(now=NOW, waited={Key("ns", "big"): NOW - 61})

    assert damp(waiting, 4) == (2, SizeReason.HELD_FOR_GROUP)
    assert damp(waiting, 4, given=DampingInput(waiting=waiting.waiting_groups)) == (
        2,
        SizeReason.HELD_FOR_GROUP,
    )
    assert damp(started, 4, given=just_started) == (2, SizeReason.HELD_FOR_GROUP)
    assert damp(started, 4, given=long_started) == (4, SizeReason.ROOM)
    assert damp(started, 4) == (4, SizeReason.ROOM)


def test_raise_without_room_is_taken_back_to_the_bound_size() -> None:
    """Not before the cool-down; to what is bound, and never below the minimum."""
    early = look(NODE, job(6, record(59, 2, 6)), *bound(4), unbound(4))
    late = look(NODE, job(6, record(60, 2, 6)), *bound(4), unbound(4))

    assert damp(early, 6, SizeReason.AT_MAXIMUM) == (6, SizeReason.AT_MAXIMUM)
    assert damp(late, 6, SizeReason.AT_MAXIMUM) == (4, SizeReason.NOT_BOUND)
    assert damp(late, 9) == (4, SizeReason.NOT_BOUND)
    assert damp(late, 3, SizeReason.PENDING_JOB) == (3, SizeReason.PENDING_JOB)


def test_raise_is_not_taken_back_to_more_than_the_maximum() -> None:
    """A maximum that was lowered since the raise counts, whatever is bound."""
    late = look(NODE, job(6, record(60, 2, 6), maximum=3), *bound(4), unbound(4))

    assert damp(late, 6, SizeReason.AT_MAXIMUM) == (3, SizeReason.NOT_BOUND)


def test_raise_is_taken_back_to_its_highest_bound_pod() -> None:
    """Shrinking removes the highest indexes: what is bound stays, whatever is missing below it."""
    holes = look(NODE, job(8, record(60, 2, 8)), *at(0, 1, 4), unbound(2), unbound(3))
    at_the_end = look(NODE, job(6, record(60, 2, 6)), *at(0, 1, 5), unbound(2))

    assert damp(holes, 8, SizeReason.AT_MAXIMUM) == (5, SizeReason.NOT_BOUND)
    assert damp(at_the_end, 6, SizeReason.AT_MAXIMUM) == (6, SizeReason.AT_MAXIMUM)


def test_raise_is_taken_back_though_a_policy_wants_even_less() -> None:
    """What never came true is no resize in progress: the rest follows in the same direction."""
    late = look(NODE, job(6, record(60, 2, 6)), *bound(4), unbound(4))

    assert damp(late, 3, SizeReason.OVER_COMMITTED) == (4, SizeReason.NOT_BOUND)


def test_shrink_leaves_the_minimum_at_work() -> None:
    """Who is missing below the new size does not stand in for those who would go above it."""
    pods = (a_trainer("a", index, "n" if index >= 4 else "") for index in range(6))
    evicted = look(NODE, a_training_job("a", 2, 9, target=6), *pods)
    one_left = look(NODE, job(6, minimum=2), *at(0, 4, 5))
    starting = a_pod("a", "t", 0, "n", phase="Pending")
    one_starts = look(NODE, job(6, minimum=2), starting, *at(1, 4))
    whole = look(NODE, job(6, minimum=2), *bound(6))

    assert damp(evicted, 2, SizeReason.PENDING_JOB) == (6, SizeReason.PODS_MISSING)
    assert damp(evicted, 2, SizeReason.OVER_COMMITTED) == (6, SizeReason.PODS_MISSING)
    assert damp(one_left, 2, SizeReason.PENDING_JOB) == (5, SizeReason.PENDING_JOB)
    assert damp(one_starts, 2, SizeReason.PENDING_JOB) == (5, SizeReason.PENDING_JOB)
    assert damp(whole, 2, SizeReason.PENDING_JOB) == (2, SizeReason.PENDING_JOB)


def test_shrink_spares_nobody_where_the_minimum_is_not_at_work() -> None:
    """A job that is not whole has nothing to lose; nor is a maximum exceeded, nor a plan bent."""
    torn = look(NODE, job(6, minimum=3), *at(4, 5))
    lowered = look(NODE, job(9, minimum=2, maximum=5), *at(6, 7, 8))
    missing = look(NODE, job(6, minimum=2), *at(4, 5))

    assert damp(torn, 3, SizeReason.PENDING_JOB) == (3, SizeReason.PENDING_JOB)
    assert damp(lowered, 5, SizeReason.ABOVE_MAXIMUM) == (5, SizeReason.ABOVE_MAXIMUM)
    assert damp(missing, 2, SizeReason.PENDING_JOB, given=DampingInput()) == (
        2,
        SizeReason.PENDING_JOB,
    )


def test_raise_is_not_taken_back_near_any_other_raise() -> None:
    """Where the clock was set back, an earlier raise may be nearer than the last one."""
    jumped = look(NODE, job(6, record(-10, 2, 4), record(70, 4, 6)), *bound(4), unbound(4))

    assert damp(jumped, 6, SizeReason.AT_MAXIMUM) == (6, SizeReason.AT_MAXIMUM)


def test_lost_pod_is_no_failed_raise() -> None:
    """A replacement that waits for room, long after the raise came true, takes nothing back."""
    young = unbound(3, created=NOW - 20)
    replaced = look(NODE, job(4, record(500, 2, 4)), *bound(3), young)
    restarting = look(NODE, job(4, record(500, 2, 4), phase="Restarting"), *bound(2))
    missing = look(NODE, job(4, record(500, 2, 4)), *bound(3))
    seen = DampingInput(now=NOW, settled={ID: NOW - 500})

    assert damp(replaced, 4, SizeReason.AT_MAXIMUM) == (4, SizeReason.AT_MAXIMUM)
    assert damp(restarting, 4, SizeReason.AT_MAXIMUM) == (4, SizeReason.AT_MAXIMUM)
    assert damp(missing, 4, SizeReason.AT_MAXIMUM, given=seen) == (4, SizeReason.AT_MAXIMUM)
    assert damp(missing, 4, SizeReason.AT_MAXIMUM) == (3, SizeReason.NOT_BOUND)


def failures(n: int, last_ago_s: float) -> AutoscalerSnapshot:
    records: list[Body] = []
    for nth in range(n):
        ago_s = last_ago_s + (n - 1 - nth) * 1000
        records.append(record(ago_s + 60, 2, 4))
        records.append(record(ago_s, 4, 2, reason=TAKEN_BACK))
    return look(NODE, job(2, *records), *bound(2))


def test_each_failed_raise_doubles_the_wait() -> None:
    """60 s after the first failure, 120 s after the second, 240 s after the third."""
    held = (2, SizeReason.RAISE_FAILED)

    assert damp(failures(1, 61), 4) == (4, SizeReason.ROOM)
    assert damp(failures(2, 119), 4) == held
    assert damp(failures(2, 121), 4) == (4, SizeReason.ROOM)
    assert damp(failures(3, 239), 4) == held
    assert damp(failures(3, 241), 4) == (4, SizeReason.ROOM)


def test_failed_raise_is_not_repeated_until_something_changes() -> None:
    """However long ago it was: the same raise into the same cluster would fail again."""
    memory = DampingMemory(COOLDOWN_S)
    snapshot = failures(1, 61)
    first = memory.observe(snapshot, NOW, changes=7)
    second = memory.observe(snapshot, NOW + 900, changes=7)
    third = memory.observe(snapshot, NOW + 901, changes=8)

    assert damp(snapshot, 4, given=first) == (2, SizeReason.RAISE_FAILED)
    assert damp(snapshot, 4, given=second) == (2, SizeReason.RAISE_FAILED)
    assert damp(snapshot, 4, given=third) == (4, SizeReason.ROOM)


def test_memory_knows_which_raises_came_true_and_who_waited() -> None:
    """What was seen once is not doubted when a pod is lost later."""
    memory = DampingMemory(COOLDOWN_S)
    raised = job(3, record(100, 2, 3))
    memory.observe(look(NODE, raised, *bound(3), a_group("big")), NOW, changes=0)
    given = memory.observe(look(NODE, raised, *bound(2)), NOW + 30, changes=0)
    later = memory.observe(look(NODE, raised, *bound(2)), NOW + 61, changes=0)

    assert given.settled == {ID: NOW - 100}
    assert given.waited == {Key("ns", "big"): NOW}
    assert later.waited == {}


def test_clock_set_back_does_not_hold_for_ever() -> None:
    """A record from a far future says nothing about now."""
    assert damp(look(NODE, job(2, record(-3600, 3, 2)), *bound(2)), 4) == (4, SizeReason.ROOM)


def test_without_time_only_what_is_under_way_holds() -> None:
    """A plan over files knows no cool-down, but sees a resize that is not finished."""
    shrunk = look(NODE, job(2, record(1, 3, 2)), *bound(2))
    raised = look(NODE, job(3, record(999, 2, 3)), *bound(2), unbound(2))

    assert damp(shrunk, 4, given=DampingInput()) == (4, SizeReason.ROOM)
    assert damp(raised, 4, given=DampingInput()) == (3, SizeReason.IN_PROGRESS)
