"""What is written into the status of groups, and what is not."""

from __future__ import annotations

from swell.api.podgroup import PodGroupPhase, PodGroupStatus
from swell.scheduler.live.status_updater import is_news, next_status
from swell.scheduler.reasons import Reason, Refusal
from swell.scheduler.status import GroupStatus
from tests.unit.scheduler.live.test_windows import a_gang

NO_ROOM = GroupStatus(PodGroupPhase.INQUEUE, Refusal(Reason.NOT_ENOUGH_RESOURCES, "0/1 nodes fit"))


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


def test_other_numbers_are_no_news() -> None:
    """They wait; another reason or phase does not."""
    _, job = a_gang(n_bound=0)
    old = next_status(job, NO_ROOM, "s", "t")
    words = GroupStatus(PodGroupPhase.INQUEUE, Refusal(Reason.NOT_ENOUGH_RESOURCES, "other"))
    reason = GroupStatus(PodGroupPhase.INQUEUE, Refusal(Reason.QUEUE_QUOTA, "other"))
    phase = GroupStatus(PodGroupPhase.PENDING, NO_ROOM.refusal)

    assert not is_news(old, next_status(job, words, "s", "t"))
    assert is_news(old, next_status(job, reason, "s", "t"))
    assert is_news(old, next_status(job, phase, "s", "t"))
    assert is_news(PodGroupStatus(), old)


def test_gang_that_runs_says_that_it_was_complete() -> None:
    """For schedulers to come: what is left of it is never given up."""
    _, job = a_gang(n_bound=3)
    found = next_status(job, GroupStatus(PodGroupPhase.RUNNING), "s", "t")

    assert [(c.type, c.status) for c in found.conditions] == [("Scheduled", "True")]
