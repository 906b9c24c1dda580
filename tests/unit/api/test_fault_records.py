"""Fault marks of nodes: their weight, their bounds, and which nodes are suspects."""

from __future__ import annotations

import pytest

from swell.api.node_faults import (
    FAULTS_ANNOTATION,
    MARKS_MAX,
    FaultMark,
    FaultRecord,
    read_faults,
    with_marks,
    written_faults,
)
from swell.api.times import format_time

NOW = 1_800_000_000.0
HOUR_S = 3600.0


def mark(job: str, ago_s: float = 0.0) -> FaultMark:
    return FaultMark(job=f"team/{job}", time=format_time(NOW - ago_s), reason="NodeLost")


def record(*marks: FaultMark, **fields: object) -> FaultRecord:
    return FaultRecord(marks=marks, **fields)  # type: ignore[arg-type]


def test_weight_halves_with_every_half_life() -> None:
    """A mark is forgotten after three of them, and before that never weighs nothing."""
    held = record(mark("a"), mark("b", HOUR_S), mark("c", 2 * HOUR_S), mark("d", 3 * HOUR_S))

    assert held.weight(NOW) == pytest.approx(1.75)
    assert held.jobs(NOW) == ("team/a", "team/b", "team/c")
    assert record(mark("a", -60.0)).weight(NOW) == 1.0


def test_three_different_jobs_make_a_suspect() -> None:
    """One job that fails often is no witness but one."""
    often = record(mark("a"), mark("a", 10), mark("a", 20), mark("b"))

    assert not often.is_suspect(NOW)
    assert record(*often.marks, mark("c", 2 * HOUR_S)).is_suspect(NOW)
    assert not record(*often.marks, mark("c", 3 * HOUR_S)).is_suspect(NOW)
    assert not record(*often.marks, mark("c", 2 * HOUR_S), half_life_seconds=600).is_suspect(NOW)


def test_trust_forgets_what_was_before() -> None:
    """Only marks that are younger count."""
    held = record(mark("a", 20), mark("b", 10), mark("c"), trusted=format_time(NOW - 10))

    assert held.jobs(NOW) == ("team/c",)
    assert with_marks(record(trusted=held.trusted), held.marks[:2], NOW) is None


def test_marks_are_bounded_and_added_once() -> None:
    """The newest stay, at most three of a job; those that were dropped are not added anew."""
    marks = [mark(f"job-{n}", 100 + n) for n in range(30)]
    marks += [mark("job-0", n) for n in range(10)]
    first = with_marks(FaultRecord(), marks, NOW)

    assert first is not None
    assert len(first.marks) == MARKS_MAX
    assert sum(one.job == "team/job-0" for one in first.marks) == 3
    assert with_marks(first, marks, NOW) is None
    assert len(written_faults(first)[FAULTS_ANNOTATION]) < 8192
    assert read_faults(written_faults(first)) == first


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"marks": 3}', '{"marks": [{"job": 3}]}'])
def test_annotations_of_others_are_no_marks(text: str) -> None:
    """Anybody may write an annotation."""
    assert read_faults({FAULTS_ANNOTATION: text}) == FaultRecord()


def test_unreadable_times_are_no_marks() -> None:
    text = '{"trusted": "now", "marks": [{"job": "a/b", "time": "soon"}]}'

    assert read_faults({FAULTS_ANNOTATION: text}) == FaultRecord()
