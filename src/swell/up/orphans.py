"""Ends processes that a node agent has left behind, when no agent runs to look after them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.node import supervisor
from swell.node.process.folders import Folders
from swell.up.containers import living

PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Leftover:
    """One container's supervisor, and the process it has started; a pid of 0 is none."""

    supervisor: int
    process: int


def leftovers(home: Path) -> list[Leftover]:
    """What runs in a state folder, by what is written there."""
    found = (
        Leftover(living(run / supervisor.IDENTITY), living(run / supervisor.STARTED))
        for run in _runs(home)
    )
    return [one for one in found if one.supervisor or one.process]


def end_leftovers(home: Path, grace_s: float) -> int:
    """Have them end, by force after the grace; says how many there were."""
    _withdraw_orders(home)
    found = leftovers(home)
    _signal_all(found, signal.SIGTERM)
    if not _wait(lambda: not leftovers(home), grace_s):
        _signal_all(leftovers(home), signal.SIGUSR1)
        if not _wait(lambda: not leftovers(home), grace_s):
            _signal_all(leftovers(home), signal.SIGKILL)
    return len(found)


def _withdraw_orders(home: Path) -> None:
    """Keep supervisors that are about to begin from beginning; see `supervisor`."""
    for run in _runs(home):
        if not (run / supervisor.IDENTITY).exists():
            (run / supervisor.ORDER).unlink(missing_ok=True)


def _runs(home: Path) -> list[Path]:
    return sorted(Folders(home).pods.glob("*/containers/*/*"))


def _signal_all(found: list[Leftover], number: signal.Signals) -> None:
    """A supervisor passes signals on; a process without one is killed."""
    for one in found:
        if one.supervisor:
            _send(os.kill, one.supervisor, number)
        if one.process and (not one.supervisor or number is signal.SIGKILL):
            _send(os.killpg, one.process, signal.SIGKILL)


def _send(send: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    try:
        send(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself


def _wait(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True
