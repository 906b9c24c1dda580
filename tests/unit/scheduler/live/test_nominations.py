"""How long admissions last; nominations are tested in test_loop."""

from __future__ import annotations

from swell.api.scheduling import PodGroupPhase
from swell.scheduler.live.nominations import Admissions, Nominations
from swell.scheduler.model.reasons import WaitReason
from tests.unit.scheduler.live.test_bind_windows import a_gang


def test_admission_that_is_of_no_use_ends_and_the_wait_grows() -> None:
    """30 s, then twice as long."""
    snapshot, job = a_gang(n_bound=0)
    admissions = Admissions(snapshot, timeout_s=600.0)
    admissions.observe(job, now=0.0)
    assert admissions.next_deadline() == 600.0
    assert not admissions.expire(599.0)
    assert admissions.expire(600.0) == [job]
    assert job.phase is PodGroupPhase.PENDING
    assert snapshot.backed_off[job.key].reason is WaitReason.BACK_OFF
    assert admissions.next_deadline() == 630.0
    admissions.expire(630.0)
    assert job.key not in snapshot.backed_off

    snapshot.set_phase(job, PodGroupPhase.INQUEUE)
    admissions.observe(job, now=631.0)
    admissions.expire(1231.0)
    assert admissions.next_deadline() == 1291.0


def test_gang_that_has_its_minimum_keeps_its_admission() -> None:
    """Its time stops."""
    snapshot, job = a_gang(n_bound=3)
    admissions = Admissions(snapshot, timeout_s=600.0)
    admissions.observe(job, now=0.0)

    assert not admissions.expire(10_000.0)
    assert admissions.next_deadline() is None


def test_without_promises_nothing_breaks() -> None:
    """Those that are kept are forgotten."""
    snapshot, _ = a_gang(n_bound=0)
    nominations = Nominations(snapshot, slack_s=60.0)
    nominations.observe((), now=0.0)

    assert nominations.expired(1000.0) == []
    assert nominations.next_deadline() is None
