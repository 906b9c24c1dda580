"""The processes of a pod's containers, as a state folder tells of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from swell.api.meta import Uid
from swell.node import supervisor
from swell.node.process.folders import Folders


def living(note: Path) -> int:
    """The pid that a note tells of, if that is still the same process; else 0."""
    try:
        words = note.read_text().split(" ")
    except OSError:
        return 0
    if len(words) < 2 or supervisor.start_mark(int(words[0])) != words[1]:
        return 0
    return int(words[0])


def kill_pod(home: Path, uid: Uid) -> int:
    """Kill every process of a pod, as the kernel would; says how many containers it were."""
    n_killed = 0
    for _, _, run in Folders(home).runs(uid):
        pid = living(run / supervisor.STARTED)
        if not pid:
            continue
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        n_killed += 1
    return n_killed
