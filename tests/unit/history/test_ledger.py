"""Every second of a life has one cause, and the parts add up to the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.history.ledger import LedgerCause, ledger_of
from swell.history.life import (
    ENDING,
    PAUSED,
    RESUMED,
    STARTED,
    SUSPENDED,
    JobLife,
    Mark,
    PhaseChange,
    TargetChange,
    pack,
    unpack,
)

T0 = 1_700_000_000.0


def a_life(
    *phases: tuple[float, str] | tuple[float, str, str],
    ended: float | None = None,
    marks: tuple[Mark, ...] = (),
    phase: str = "",
) -> JobLife:
    changes = tuple(PhaseChange(T0 + one[0], *one[1:]) for one in phases)
    return JobLife(
        uid="u",
        kind="AITrainingJob",
        namespace="default",
        name="fit",
        created=T0,
        ended=None if ended is None else T0 + ended,
        phase=phase,
        phases=changes,
        marks=tuple(Mark(T0 + mark.at, mark.name, mark.seconds) for mark in marks),
    )


def parts(life: JobLife, now: float = T0) -> dict[str, float]:
    return {cause.value: length for cause, length in ledger_of(life, now).seconds.items() if length}


def test_a_plain_life_waits_starts_runs_and_ends() -> None:
    life = a_life(
        (0, "Pending"),
        (10, "Creating"),
        (15, "Running"),
        (100, "Terminating", "RolesCompleted"),
        (103, "Succeed"),
        marks=(Mark(100, ENDING),),
        ended=103,
    )

    assert parts(life) == {"queued": 10, "starting": 5, "running": 85, "ending": 3}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("NodeLost", "node"),
        ("GPUFault", "node"),
        ("Preempted", "preemption"),
        ("Reclaimed", "preemption"),
        ("PodFailed", "restart"),
        ("Shrunk", "resize"),
        ("", "restart"),
    ],
)
def test_all_time_until_the_job_runs_again_has_the_cause_of_its_loss(
    reason: str, cause: str
) -> None:
    life = a_life(
        (5, "Running"),
        (50, "Terminating", reason),
        (60, "Restarting", reason),
        (70, "Pending", "WaitingForRoom"),
        (90, "Creating", "ContainersStarting"),
        (95, "Running"),
        ended=100,
    )

    assert parts(life) == {"queued": 5, "running": 50, cause: 45}


def test_a_loss_that_is_explained_late_counts_from_then_on() -> None:
    life = a_life((0, "Running"), (10, "Terminating", "PodGone"), (12, "Pending", "Preempted"))

    assert parts(life, T0 + 30) == {"running": 10, "restart": 2, "preemption": 18}


def test_suspension_is_by_the_users_wish_and_so_is_the_wait_after_it() -> None:
    life = a_life(
        (0, "Running"),
        (10, "Terminating", "Suspended"),
        (20, "Pending", "Suspended"),
        (60, "Running"),
        marks=(Mark(10, SUSPENDED), Mark(40, RESUMED)),
        ended=70,
    )

    assert parts(life) == {"running": 20, "suspended": 30, "queued": 20}


def test_waiting_for_other_jobs_is_no_queueing() -> None:
    life = a_life(
        (0, "Pending", "WaitingForJobs"), (50, "Running"), marks=(Mark(30, STARTED),), ended=60
    )

    assert parts(life) == {"blocked": 30, "queued": 20, "running": 10}


def test_pauses_that_the_program_reported_are_taken_out_of_running() -> None:
    life = a_life((0, "Running"), marks=(Mark(50, PAUSED, 4), Mark(52, PAUSED, 4)), ended=100)

    assert parts(life) == {"running": 94, "resize": 6}


def test_a_living_job_is_explained_up_to_now() -> None:
    assert parts(a_life((3, "Running")), T0 + 10) == {"queued": 3, "running": 7}
    assert parts(a_life(), T0 + 10) == {"queued": 10}


def test_a_life_without_length_has_an_entry_all_the_same() -> None:
    ledger = ledger_of(a_life(ended=0), T0)

    assert (ledger.wall_s, len(ledger.entries)) == (0.0, 1)


_PHASES = st.sampled_from(
    ["Pending", "Creating", "Running", "Terminating", "Restarting", "Scaling", "Failed", "?"]
)
_REASONS = st.sampled_from(
    ["", "NodeLost", "Preempted", "PodGone", "Suspended", "WaitingForJobs", "Shrunk", "x" * 50]
)
_TIMES = st.floats(-1e4, 1e5, allow_nan=False).map(round)
_CHANGES = st.lists(st.tuples(_TIMES, _PHASES, _REASONS), max_size=30)
_MARKS = st.lists(
    st.builds(
        Mark,
        _TIMES,
        st.sampled_from([SUSPENDED, RESUMED, STARTED, PAUSED, ENDING]),
        st.floats(0, 1e4).map(round),
    ),
    max_size=8,
)


@given(_CHANGES, _MARKS, st.one_of(st.none(), _TIMES), _TIMES)
def test_entries_leave_no_gap_and_sum_up_to_the_wall_time(
    changes: list[tuple[float, str, str]],
    marks: list[Mark],
    ended: float | None,
    now: float,
) -> None:
    """Whatever a record says, in any order: no second is lost or counted twice."""
    life = a_life(*changes, marks=tuple(marks), ended=ended)
    ledger = ledger_of(life, T0 + now)
    until = max(T0, T0 + (now if ended is None else ended))

    assert ledger.entries[0].start == T0
    assert ledger.entries[-1].end == until
    for before, after in zip(ledger.entries, ledger.entries[1:], strict=False):
        assert before.end == after.start
    assert all(entry.seconds >= 0 for entry in ledger.entries)
    assert sum(ledger.seconds.values()) == pytest.approx(until - T0, abs=1e-6)
    assert set(ledger.seconds) <= set(LedgerCause)


def test_a_record_is_read_back_as_it_was_written() -> None:
    life = a_life((0, "Pending"), (3, "Running", "\u2028<b>"), ended=9, phase="Failed")

    assert unpack(pack(life)) == life


def test_sizes_survive_packing() -> None:
    life = JobLife(
        uid="u",
        kind="TrainingJob",
        namespace="a",
        name="b",
        created=T0,
        sizes=(TargetChange(T0, "trainer", 4, "user", "why"),),
    )

    assert unpack(pack(life)).sizes == life.sizes
