"""Four members through deaths, growth and shrinking, with the seconds that each has cost.

A pause is the time from the event until every worker of the new group has done a step. For a new
member the others train on until it has loaded: the pause is from their last step then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.train.launch.members import LaunchedMembers

# Frameworks load in seconds, on a busy machine in many.
WITHIN_S = 200.0
SIZE = 4


@contextmanager
def training(
    folder: Path, command: list[str], environ: dict[str, str] | None = None
) -> Iterator[LaunchedMembers]:
    """Four members that train."""
    members = LaunchedMembers(folder, command, environ or {})
    try:
        members.resize(SIZE)
        members.start(*range(SIZE))
        members.trains(SIZE, within_s=WITHIN_S)
        yield members
    finally:
        members.close()


def kill(members: LaunchedMembers, index: int) -> float:
    """The survivors' pause after a death; the member is replaced afterwards."""
    time.sleep(0.5)
    pause_s = members.pause_s(members.kill(index), SIZE - 1, WITHIN_S)
    members.launchers[index].wait()
    members.start(index)
    members.trains(SIZE, members.resize(SIZE), WITHIN_S)
    return pause_s


def shrink(members: LaunchedMembers) -> float:
    """The pause of those who stay when two of four leave."""
    time.sleep(0.5)
    at = members.resize(2)
    members.terminate(2, 3)
    pause_s = members.pause_s(at, 2, WITHIN_S)
    for index in (2, 3):
        members.launchers[index].wait(WITHIN_S)
    return pause_s


def grow(members: LaunchedMembers) -> float:
    """The pause of two who train when two come."""
    members.start(2, 3)
    began = members.trains(SIZE, members.resize(SIZE), WITHIN_S)
    return began - float(max(fact["at"] for fact in members.facts(size=2)))


def pauses(members: LaunchedMembers) -> dict[str, float]:
    """All of it once."""
    return {
        "kill one": kill(members, 2),
        "kill the leader": kill(members, 0),
        "4 to 2": shrink(members),
        "2 to 4": grow(members),
    }
