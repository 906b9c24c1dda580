"""Following a log on disk."""

from __future__ import annotations

from pathlib import Path

from swell.cli.jobs.logs import LogTail
from swell.node.supervisor import LOG_FILES_MAX


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
