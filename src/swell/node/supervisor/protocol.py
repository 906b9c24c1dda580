"""What supervisors and agents leave for each other in a run's folder, and how they report."""

from __future__ import annotations

import marshal
import os

from .identity import start_mark

ORDER, IDENTITY, STARTED, EXIT = "order", "identity", "started", "exit"
REPORT_FD = 1
LAUNCHER_NAME, SUPERVISOR_NAME = "swell-launcher", "swell-supervise"  # 15 letters at most


class Order:
    """What to run. Mounts are (source, target, read only); a namespace is "", "root" or "user"."""

    def __init__(
        self,
        *,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str,
        log: str,
        namespace: str = "",
        mounts: tuple[tuple[str, str, bool], ...] = (),
        message: tuple[str, ...] = (),
        cgroups: tuple[str, ...] = (),
        stage: str = "",
        dies_with_parent: bool = False,
    ) -> None:
        self.argv, self.env, self.cwd, self.log = argv, env, cwd, log
        self.namespace, self.mounts, self.cgroups = namespace, mounts, cgroups
        self.message = message  # (source, target) of one more, if that can be had
        self.stage = stage  # an empty folder that mounts are prepared on
        self.dies_with_parent = dies_with_parent


def read_order(paper: int) -> Order:
    with open(paper, "rb", closefd=False) as file:
        return Order(**marshal.load(file))  # noqa: S302 (written by the agent, for its owner alone)


def announce(folder: str, paper: int) -> bool:
    """Leave word who we are; False when the order has been withdrawn, OSError from the disk.

    An agent that finds an order without an identity withdraws the order and then looks for the
    identity again. Either it sees ours, or we see that the order is gone. Without that word
    nothing is begun: nobody would ever find it.
    """
    if _is_withdrawn(folder, paper):
        return False
    leave(folder, IDENTITY, f"{os.getpid()} {start_mark(os.getpid())}")
    return not _is_withdrawn(folder, paper)


def leave(folder: str, name: str, text: str) -> None:
    """Write a file in one step; OSError when the disk does not take it.

    Nothing is synced: what the disk forgets with the machine's power, no process outlives.
    """
    draft = f"{folder}/.{name}"
    with open(draft, "w") as file:
        file.write(text)
    os.replace(draft, f"{folder}/{name}")


def report(line: str) -> bool:
    """Tell the agent; False when it does not listen any more."""
    try:
        os.write(REPORT_FD, line.encode() + b"\n")
    except OSError:
        return False
    return True


def _is_withdrawn(folder: str, paper: int) -> bool:
    try:
        there = os.stat(f"{folder}/{ORDER}")
    except FileNotFoundError:
        return True
    return not os.path.samestat(there, os.fstat(paper))
