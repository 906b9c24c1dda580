"""A log file stays small: repeated lines are counted, full files are rotated."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from swell.runtime import logs
from swell.runtime.clock import SystemClock
from swell.runtime.logfile import FOLD_S, N_FORMER_MAX, FoldingHandler, rotate


class Folded:
    """A program with a folding log, at a time of the test's choice."""

    def __init__(self) -> None:
        self.now = 0.0
        self.out = io.StringIO()
        self.handler = FoldingHandler(self.out, lambda: self.now)
        logs.configure(clock=SystemClock(), handler=self.handler)
        self.log = logs.get_logger("tests.logfile")

    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


@pytest.fixture
def folded() -> Folded:
    return Folded()


def test_repeated_line_is_counted(folded: Folded) -> None:
    """232 times the same is one line and a count."""
    for _ in range(232):
        folded.log.info("could not connect", server="a")
    folded.now += FOLD_S
    folded.log.info("connected", server="a")

    first, more, last = folded.lines()
    assert "could not connect" in first
    assert "… 231 times more: could not connect" in more
    assert "connected" in last


def test_lines_that_alternate_are_folded_too(folded: Folded) -> None:
    """Two loops that fail in turn do not fill the log."""
    for _ in range(100):
        folded.log.info("one")
        folded.log.info("two")
    folded.handler.close()

    assert len(folded.lines()) == 4
    assert sum("99 times more" in line for line in folded.lines()) == 2


def test_different_fields_are_different_lines(folded: Folded) -> None:
    """Nothing is folded that says something new."""
    for n in range(5):
        folded.log.info("job done", job=f"j{n}")

    assert len(folded.lines()) == 5


def test_library_lines_are_folded(folded: Folded) -> None:
    """Lines of the standard library's loggers go the same way."""
    for n in range(3):
        logging.getLogger("library").info("hello %s", n // 3)
    folded.handler.close()

    assert len(folded.lines()) == 2
    assert "… 2 times more: hello 0" in folded.lines()[1]


def test_rotation_keeps_a_few_files(tmp_path: Path) -> None:
    """The newest is number one, the oldest is dropped."""
    log = tmp_path / "up.log"
    for n in range(6):
        log.write_text(f"{n}" * 100)
        assert rotate(log, 100)
        assert not rotate(log, 100)

    found = {file.name: file.read_text()[0] for file in tmp_path.iterdir()}
    assert found == {f"up.log.{n}": str(6 - n) for n in range(1, N_FORMER_MAX + 1)}


PROGRAM = """
import logging, os, sys
from pathlib import Path
from swell.runtime import logfile, logs
from swell.runtime.clock import SystemClock
logfile.LOG_BYTES_MAX = 2000
path = Path(sys.argv[1])
handler = logfile.handler_for(path)
handler._bytes_max = 2000
logs.configure(clock=SystemClock(), handler=handler)
for n in range(200):
    logs.get_logger("x").info("line", n=n)
os.write(1, b"raw end\\n")
"""


def test_program_rotates_its_own_standard_error(tmp_path: Path) -> None:
    """What is written past the logger goes into the newest file; no file grows beyond its bound."""
    log = tmp_path / "up.log"
    with log.open("ab") as out:
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(log)], stdout=out, stderr=out, check=True
        )

    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 1 + N_FORMER_MAX
    assert max(sizes) < 2500
    assert "raw end" in log.read_text()
    assert all(file.stat().st_mode & 0o77 == 0 for file in [log])
    assert Path(log).stat().st_size < 2500
