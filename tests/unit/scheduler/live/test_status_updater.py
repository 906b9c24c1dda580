"""What is written into the status of groups, and what is not."""

from __future__ import annotations

from swell.api.scheduling import PodGroupPhase, PodGroupStatus
from swell.scheduler.live.settings import SchedulerSettings
from swell.scheduler.live.status_updater import BUSY_S, LATE_S_MAX, has_changed, next_status
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.status import GroupStatus
from tests.unit.scheduler.live.stage import Stage, on_stage
from tests.unit.scheduler.live.test_bind_windows import a_gang

NO_ROOM = GroupStatus(
    PodGroupPhase.INQUEUE, Refusal(WaitReason.NOT_ENOUGH_RESOURCES, "0/1 nodes fit")
)


def test_refusal_becomes_a_condition_with_its_reason() -> None:
    """And stays the same word for word, time and session while nothing changes."""
    _, job = a_gang(n_bound=0)
    first = next_status(job, NO_ROOM, "s1", "t1")
    (condition,) = first.conditions
    assert (condition.type, condition.status) == ("Unschedulable", "True")
    assert (condition.reason, condition.message) == ("NotEnoughResources", "0/1 nodes fit")
    assert (condition.transition_id, condition.last_transition_time) == ("s1", "t1")
    job.group = type(job.group)(metadata=job.group.metadata, spec=job.group.spec, status=first)

    assert next_status(job, NO_ROOM, "s2", "t2") == first


def test_other_numbers_change_nothing() -> None:
    """They wait; another reason or phase does not."""
    _, job = a_gang(n_bound=0)
    old = next_status(job, NO_ROOM, "s", "t")
    terms = GroupStatus(PodGroupPhase.INQUEUE, Refusal(WaitReason.NOT_ENOUGH_RESOURCES, "other"))
    reason = GroupStatus(PodGroupPhase.INQUEUE, Refusal(WaitReason.QUEUE_QUOTA, "other"))
    phase = GroupStatus(PodGroupPhase.PENDING, NO_ROOM.refusal)

    assert not has_changed(old, next_status(job, terms, "s", "t"))
    assert has_changed(old, next_status(job, reason, "s", "t"))
    assert has_changed(old, next_status(job, phase, "s", "t"))
    assert has_changed(PodGroupStatus(), old)


def test_gang_that_runs_says_that_it_was_complete() -> None:
    """For schedulers to come: what is left of it is never given up."""
    _, job = a_gang(n_bound=3)
    found = next_status(job, GroupStatus(PodGroupPhase.RUNNING), "s", "t")

    assert [(c.type, c.status) for c in found.conditions] == [("Scheduled", "True")]


def test_gang_that_is_being_bound_no_longer_says_that_it_was_complete() -> None:
    """A scheduler that dies meanwhile must not leave a part of it behind for ever."""
    _, job = a_gang(n_bound=3)
    whole = next_status(job, GroupStatus(PodGroupPhase.RUNNING), "s", "t")
    _, job = a_gang(n_bound=1)
    job.group = type(job.group)(metadata=job.group.metadata, spec=job.group.spec, status=whole)
    lost = next_status(job, GroupStatus(PodGroupPhase.UNKNOWN), "s", "t")
    begun = next_status(job, GroupStatus(PodGroupPhase.INQUEUE), "s", "t", begins=True)

    assert [(c.type, c.status) for c in lost.conditions] == [("Scheduled", "True")]
    assert [(c.type, c.status) for c in begun.conditions] == [("Scheduled", "False")]


def test_groups_are_written_after_pods_are_bound_but_not_too_late() -> None:
    """Bindings come before statuses, for a limited time."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="100")
        stage.start()
        await stage.sleep(2)
        line = stage.lines[-1]
        line.delay_s = 0.25  # with two workers, 64 pods take 8 s
        for n in range(8):
            await stage.gang(f"g{n}", 8)
        begun = stage.clock.monotonic()
        while not any(call.startswith("patch podgroups") for call in line.calls):
            assert stage.clock.monotonic() < begun + 20
            await stage.sleep(0.1)
        n_bound = sum(call.startswith("create pods ") for call in line.calls)

        assert LATE_S_MAX < stage.clock.monotonic() - begun < LATE_S_MAX + 2 * BUSY_S
        assert 0 < n_bound < 64

    on_stage(play, SchedulerSettings(bind_workers=2))
