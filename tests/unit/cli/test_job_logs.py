"""Reading the logs of a job from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.meta import Uid
from swell.cli.jobs.logs import ContainerFilter, FileJobLogs, LogLine

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
    assert list(FileJobLogs(folder, OWN, ContainerFilter()).last_lines()) == [
        LogLine("pserver-0", b"aside"),
        LogLine("trainer-2", b"two"),
        LogLine("trainer-2", b"two again"),
        LogLine("trainer-10", b"ten"),
    ]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (ContainerFilter(role="Trainer"), [b"two", b"two again", b"ten"]),
        (ContainerFilter(role="trainer", index=10), [b"ten"]),
        (ContainerFilter(index=0), [b"aside"]),
        (ContainerFilter(container="side"), [b"aside"]),
        (ContainerFilter(role="master"), []),
    ],
)
def test_files_are_chosen_by_a_filter(
    folder: Path, filter_: ContainerFilter, expected: list[bytes]
) -> None:
    """Role, index and container narrow what is shown; roles are the same in capitals."""
    assert [line.text for line in FileJobLogs(folder, OWN, filter_).last_lines()] == expected


def test_files_of_a_namesake_are_left_alone(folder: Path) -> None:
    """A job that was created again never shows what the former one printed."""
    assert list(FileJobLogs(folder, Uid("other"), ContainerFilter()).last_lines()) == []


def test_files_that_come_later_are_found(folder: Path) -> None:
    """Pods that a job grows by are read as well."""
    logs = FileJobLogs(folder, OWN, ContainerFilter(role="trainer"))
    list(logs.new_lines())
    write(folder, "trainer-3.0", "main", "three\n")

    assert list(logs.last_lines()) == [LogLine("trainer-3", b"three")]
