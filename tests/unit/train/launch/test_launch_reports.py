"""Reports of programs without the library, from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swell.api.report import REPORT_BYTES_MAX, TrainingReport
from swell.train.bus.plan import NOTHING, GroupPlan, Member
from swell.train.launch.reports import ReportFile

MEMBERS = tuple(Member(i, 1, i, "h", 1, NOTHING) for i in range(3))
PLAN = GroupPlan(generation=7, epoch=5, members=MEMBERS, prefix="p", source=0, behind=())


@pytest.fixture
def file(tmp_path: Path) -> ReportFile:
    return ReportFile(tmp_path / "report.json")


def test_report_is_completed_with_what_the_launcher_knows(file: ReportFile) -> None:
    """A program knows its step, and need not know its generation."""
    assert file.read(PLAN, 0.0) is None
    file.path.write_text(json.dumps({"step": 12, "loss": 0.5, "rates": {"3": 10.5}}))

    assert file.read(PLAN, 1.0) == TrainingReport(7, 5, 3, 12, loss=0.5, rates={"3": 10.5})


def test_report_is_read_once_a_second_and_once_a_version(file: ReportFile) -> None:
    """Looking costs nothing."""
    file.path.write_text('{"step": 1}')
    assert file.read(PLAN, 10.0) is not None
    file.path.write_text('{"step": 22}')

    assert file.read(PLAN, 10.5) is None
    assert (again := file.read(PLAN, 11.0)) is not None
    assert again.step == 22
    assert file.read(PLAN, 12.0) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"step": "x"}', "not understood"),
        ("{", "not understood"),
        ("[1]", "not understood"),
        ("\udcff", "not understood"),
        ('{"loss": 1.0}', "step"),
        ('{"step": 1, "x": "' + "y" * REPORT_BYTES_MAX + '"}', f"more than {REPORT_BYTES_MAX}"),
    ],
)
def test_unreadable_reports_are_said(file: ReportFile, text: str, words: str) -> None:
    """Nothing is published then."""
    file.path.write_bytes(text.encode(errors="surrogateescape"))

    assert file.read(PLAN, 0.0) is None
    assert words in file.complaint


def test_empty_file_is_being_written(file: ReportFile) -> None:
    """No reason to complain."""
    file.path.write_text("")

    assert file.read(PLAN, 0.0) is None
    assert file.complaint == ""
