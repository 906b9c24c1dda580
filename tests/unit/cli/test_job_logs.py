"""Reading the logs of a job from its files, and following one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.meta import Uid
from swell.cli.jobs.log_options import TailedLogs
from swell.cli.jobs.logs import ContainerFilter, FileJobLogs, LogLine, LogTail
from swell.cli.sweeps.actions import SweepLogs
from swell.node.supervisor import LOG_FILES_MAX

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


def rotate(path: Path) -> None:
    """As the supervisor does."""
    for number in range(LOG_FILES_MAX - 1, 0, -1):
        newer = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        if newer.exists():
            newer.replace(path.with_name(f"{path.name}.{number}"))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_new_lines_are_whole_lines(tmp_path: Path) -> None:
    """A line is handed out when its end has come, and once."""
    path = tmp_path / "a.log"
    tail = LogTail(path)
    assert list(tail.new_lines()) == []
    append(path, "one\ntw")
    assert list(tail.new_lines()) == [b"one"]
    append(path, "o\n")

    assert list(tail.new_lines()) == [b"two"]
    assert list(tail.new_lines()) == []
    assert list(tail.last_line()) == []


def test_last_line_is_the_line_without_an_end(tmp_path: Path) -> None:
    """What a process printed last may have no end of line."""
    path = tmp_path / "a.log"
    append(path, "one\ntwo")
    tail = LogTail(path)

    assert list(tail.new_lines()) == [b"one"]
    assert list(tail.last_line()) == [b"two"]
    assert list(tail.last_line()) == []


def test_new_lines_follow_rotations(tmp_path: Path) -> None:
    """Nothing is lost or told twice, however often the log was rotated between two looks."""
    path = tmp_path / "a.log"
    append(path, "one\n")
    tail = LogTail(path)
    assert list(tail.new_lines()) == [b"one"]
    append(path, "two\nthr")
    rotate(path)
    append(path, "ee\n")
    rotate(path)
    append(path, "four\n")

    assert list(tail.new_lines()) == [b"two", b"three", b"four"]
    assert list(tail.last_line()) == []


def test_new_lines_begin_with_the_oldest_file(tmp_path: Path) -> None:
    """A log that was rotated before it was first looked at is read from its beginning."""
    path = tmp_path / "a.log"
    append(path, "one\n")
    rotate(path)
    append(path, "two\n")
    tail = LogTail(path)

    assert list(tail.new_lines()) == [b"one", b"two"]
    assert list(tail.last_line()) == []


def test_new_lines_survive_the_removal(tmp_path: Path) -> None:
    """What was written before the file was removed is still read."""
    path = tmp_path / "a.log"
    append(path, "one\n")
    tail = LogTail(path)
    assert list(tail.new_lines()) == [b"one"]
    append(path, "two\n")
    path.unlink()

    assert list(tail.new_lines()) == [b"two"]
    assert list(tail.last_line()) == []


def test_tail_of_a_sweep_is_of_each_pod(folder: Path) -> None:
    """The last lines of every pod of every job, after the job's name."""
    logs = TailedLogs(FileJobLogs(folder, OWN, ContainerFilter("trainer", 2)), 1)
    others = TailedLogs(FileJobLogs(folder, OWN, ContainerFilter("pserver", 0)), 1)

    assert list(SweepLogs({"s-0": logs, "s-1": others}).current_lines()) == [
        LogLine("s-0-trainer-2", b"two again"),
        LogLine("s-1-pserver-0", b"aside"),
    ]
