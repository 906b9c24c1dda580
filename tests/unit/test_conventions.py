"""The page on conventions: every point answered, every file and test there, the sums right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conventions.md").read_text()
LISTS = {"Kubernetes operators": "", "Python projects": "P"}
FULL = 2
_ROW = re.compile(r"^\| (P?\d+) \| ([012-]) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_NAMED = re.compile(r"`([\w.-]+/[\w./-]+|[A-Z]+\.md|pyproject\.toml)(?:::(\w+))?`")


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of the page."""

    number: str
    points: int | None  # None of those that are left out of the count
    evidence: str


ANSWERS = [
    Answer(number, int(points) if points.isdecimal() else None, evidence)
    for number, points, _, evidence in _ROW.findall(PAGE)
]


def _of(prefix: str) -> list[Answer]:
    return [answer for answer in ANSWERS if re.fullmatch(rf"{prefix}\d+", answer.number)]


@pytest.mark.parametrize(("prefix", "n_points"), [("", 50), ("P", 22)])
def test_every_point_is_answered_once(prefix: str, n_points: int) -> None:
    """In the order of the list, and none twice."""
    expected = [f"{prefix}{number}" for number in range(1, n_points + 1)]

    assert [answer.number for answer in _of(prefix)] == expected


def test_what_is_named_exists() -> None:
    """Every file is there, and every test is in its file."""
    missing = [
        f"{answer.number}: {file} {name}"
        for answer in ANSWERS
        for file, name in _NAMED.findall(answer.evidence)
        if not (ROOT / file).exists() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]

    assert missing == []


def test_points_have_evidence() -> None:
    """A point is given for a file or a test, not for a promise."""
    assert [a.number for a in ANSWERS if a.points and not _NAMED.search(a.evidence)] == []


def test_sums_are_right() -> None:
    """The table at the top counts what stands below."""
    n_counted = n_reached = 0
    rows = []
    for name, prefix in LISTS.items():
        points = [answer.points for answer in _of(prefix) if answer.points is not None]
        rows.append(_sum_row(name, FULL * len(points), sum(points)))
        n_counted += FULL * len(points)
        n_reached += sum(points)
    rows.append(_sum_row("together", n_counted, n_reached))

    assert "\n".join(rows) in PAGE, "it should say:\n" + "\n".join(rows)


def _sum_row(name: str, n_counted: int, n_reached: int) -> str:
    return f"| {name} | {n_counted} | {n_reached} | {100 * n_reached // n_counted} % |"
