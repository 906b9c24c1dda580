"""Histories of jobs as files: what is written is read, and what is none is refused by its line."""

from __future__ import annotations

import pytest

from swell.api.jobhistory import HistoryFormatError, HistoryJob, read_history, write_history

JOB = HistoryJob(
    name="team-a/resnet",
    submitted=1767225600.5,
    program="sha256:9f2c",
    user="ann",
    started=1767225630.0,
    ended=1767229500.0,
    outcome="Succeeded",
    maximum=8,
    devices=2,
    sizes=((1767225630.0, 2), (1767226000.0, 8), (1767229500.0, 0)),
    samples=90,
    total_samples=90,
    rates={"2": 190.0, "8": 610.5},
    noise=12.5,
    pause_seconds=0.5,
    deadline=1767230000.0,
)
HEADER = b'{"format":"swell-history","version":1}\n'


def test_history_is_read_as_it_was_written() -> None:
    jobs = [JOB, HistoryJob(name="b", submitted=0.0)]

    assert list(read_history(write_history(jobs))) == jobs


def test_unknown_fields_of_later_releases_are_left_out() -> None:
    line = b'{"name":"a","submitted":5,"weather":"fine"}\n'

    assert list(read_history([HEADER, b"\n", line])) == [HistoryJob(name="a", submitted=5.0)]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "line 1: has no header"),
        ([b'{"name":"a","submitted":5}\n'], "line 1"),
        ([b'{"format":"other","version":1}\n'], "the format is 'other'"),
        ([b'{"format":"swell-history","version":2}\n'], "version 2 is not known"),
        ([HEADER, b"{\n"], "line 2"),
        ([HEADER, b'{"name":"a","submitted":-5}\n'], "line 2: a time is out of bounds"),
        ([HEADER, b'{"name":"a","submitted":5,"minimum":3}\n'], "minimum, maximum or devices"),
        ([HEADER, b'{"name":"a","submitted":5,"sizes":[[5,-1]]}\n'], "a size is out of bounds"),
        ([HEADER, b'{"name":"a","submitted":5,"sizes":[[5,1],[4,2]]}\n'], "not in the order"),
        ([HEADER, b'{"name":"a","submitted":5,"rates":{"2":-1}}\n'], "the rate at size '2'"),
        ([HEADER, b'{"name":"' + b"a" * (1 << 20) + b'"}\n'], "is longer than"),
    ],
)
def test_malformed_history_is_refused_with_its_line(lines: list[bytes], problem: str) -> None:
    with pytest.raises(HistoryFormatError, match=problem):
        list(read_history(lines))
