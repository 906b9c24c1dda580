"""A program without a step for too long prints its stacks and ends; any other goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from swell.api.injection import HANG_EXIT_CODE, HANG_VARIABLE
from swell.train.hang import hang_watch_of

# Far more than it takes, on a machine that is busy with something else.
WITHIN_S = 60.0
HANGS = """
import time
from swell.train.hang import HangWatch

def stuck_in_a_collective():
    time.sleep(600)

watch = HangWatch(1)
watch.beat()
stuck_in_a_collective()
"""
# Time that passes while it saves counts for nothing, and a late step takes the alarm back.
GOES_ON = """
import threading, time
from swell.train.hang import HangWatch

now, left = [0.0], threading.Event()
watch = HangWatch(4000, lambda code: left.set(), lambda: now[0])
watch.beat()
for _ in range(3):
    now[0] += 3000
    watch.beat()
watch.pause()
now[0] += 100_000
assert not left.wait(1.0)
watch.beat()
now[0] += 3900
assert not left.wait(1.0)
now[0] += 200
assert left.wait(60)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=WITHIN_S * 2,
        check=False,
    )


def test_program_that_hangs_prints_its_stacks_and_ends() -> None:
    """By its own code, with the place where it is stuck."""
    ended = run(HANGS)

    assert ended.returncode == HANG_EXIT_CODE, ended.stderr
    assert "no step for 1 s (hangSeconds)" in ended.stderr
    assert "in stuck_in_a_collective" in ended.stderr


def test_pauses_are_no_hang() -> None:
    """Only the time between two steps counts."""
    ended = run(GOES_ON)

    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("text", ["", "0", "-3", "soon", "1e3", "9" * 30])
def test_what_is_no_time_asks_for_no_watch(text: str) -> None:
    """A variable that a user has set to anything else is left alone."""
    assert hang_watch_of({HANG_VARIABLE: text}) is None
    assert hang_watch_of({}) is None
