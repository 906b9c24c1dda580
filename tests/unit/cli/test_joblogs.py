"""Reading the logs of a job from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.meta import Uid
from swell.cli.jobs.logs import FileLogs, Line, Wanted

OWN = Uid("own")


def write(folder: Path, pod: str, container: str, text: str) -> None:
    (folder / pod).mkdir(parents=True, exist_ok=True)
    (folder / pod / f"{container}.log").write_text(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".owner").write_text(OWN)
    write(tmp_path, "trainer-10.0", "main", "ten\n")
    write(tmp_path, "trainer-2.1", "main", "two again\n")
    write(tmp_path, "trainer-2.0", "main", "two\n")
    write(tmp_path, "pserver-0.0", "side", "aside\n")
    return tmp_path


def test_files_are_read_by_role_index_and_restart(folder: Path) -> None:
    """Order is by number, not by letter, and earlier lives of a pod come first."""
    assert list(FileLogs(folder, OWN, Wanted()).rest()) == [
        Line("pserver-0", b"aside"),
        Line("trainer-2", b"two"),
        Line("trainer-2", b"two again"),
        Line("trainer-10", b"ten"),
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(role="Trainer"), [b"two", b"two again", b"ten"]),
        (Wanted(role="trainer", index=10), [b"ten"]),
        (Wanted(index=0), [b"aside"]),
        (Wanted(container="side"), [b"aside"]),
        (Wanted(role="master"), []),
    ],
)
def test_files_are_chosen_by_what_is_wanted(
    folder: Path, wanted: Wanted, expected: list[bytes]
) -> None:
    """Role, index and container narrow what is shown; roles are the same in capitals."""
    assert [line.text for line in FileLogs(folder, OWN, wanted).rest()] == expected


def test_files_of_a_namesake_are_left_alone(folder: Path) -> None:
    """A job that was created again never shows what the former one printed."""
    assert list(FileLogs(folder, Uid("other"), Wanted()).rest()) == []


def test_files_that_come_later_are_found(folder: Path) -> None:
    """Pods that a job grows by are read as well."""
    logs = FileLogs(folder, OWN, Wanted(role="trainer"))
    list(logs.news())
    write(folder, "trainer-3.0", "main", "three\n")

    assert list(logs.rest()) == [Line("trainer-3", b"three")]
