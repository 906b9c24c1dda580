"""`swell top` and completion, at a real terminal and a real shell."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time

from tests.e2e.up.machine import SWELL, WITHIN_S, Machine, hear_interrupts

CLEAR = "\x1b[H\x1b[2J"


def test_top_draws_itself_again(running: Machine) -> None:
    """On a terminal it goes on until Ctrl-C; each picture has sizes and load."""
    arguments = ("--min", "1", "--max", "3", "--cpu", "1", "--", "sleep", "1000")
    running.swell("run", "--detach", "--name", "wide", *arguments)
    running.until_phase("wide", "Running")
    ours, theirs = pty.openpty()
    top = subprocess.Popen(
        [*SWELL, "top"],
        env=running.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=hear_interrupts,  # noqa: PLW1509
    )
    os.close(theirs)
    try:
        drawn = read_until(ours, lambda text: text.count(CLEAR) == 3)
        top.send_signal(signal.SIGINT)
        code = top.wait(WITHIN_S)
    finally:
        top.kill()
        top.wait()
        os.close(ours)

    rows = [line.split() for line in drawn.split(CLEAR)[1].splitlines()]
    assert ["JOB", "ROLE", "PHASE", "MIN", "NOW", "TARGET", "MAX"] in rows
    assert any(row[:4] == ["wide", "trainer", "Running", "1"] and row[-1] == "3" for row in rows)
    assert any(row[:1] == ["cpu"] and row[2] == "16" for row in rows)
    assert code == 130
    once = running.swell("top").stdout
    assert CLEAR not in once
    assert "wide" in once
    running.swell("delete", "wide")


def read_until(terminal: int, holds: object) -> str:
    assert callable(holds)
    text, deadline = "", time.monotonic() + WITHIN_S
    while not holds(text):
        assert time.monotonic() < deadline, text
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65536).decode()
    return text


def test_shell_finishes_words(running: Machine) -> None:
    """With the printed script bash knows commands, and the names of jobs that are there."""
    running.swell("run", "--name", "fitted", "--", "true")
    script = f"""
    swell() {{ {" ".join(SWELL)} "$@"; }}
    source <(swell completion bash)
    COMP_WORDS=(swell expl); COMP_CWORD=1; _swell; echo "${{COMPREPLY[@]}}"
    COMP_WORDS=(swell logs fit); COMP_CWORD=2; _swell; echo "${{COMPREPLY[@]}}"
    """
    answered = subprocess.run(
        ["bash", "-c", script], env=running.environment, capture_output=True, text=True, check=True
    )

    assert answered.stdout == "explain\nfitted\n"
