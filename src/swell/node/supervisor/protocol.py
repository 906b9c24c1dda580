"""The files and lines by which a supervisor and the agents communicate.

Files in the folder of a run:

    order       the spec; written by the agent, which withdraws it by removing it
    identity    pid and start mark of the supervisor
    started     pid, start mark and start time of the container's process
    exit        exit code, signal, start and end time, and a reason

While the agent that started it lives, the supervisor also reports over a pipe, in lines:
`started PID MARK TIME`, `exit CODE SIGNAL START END REASON`, `refused WHY`.
"""

from __future__ import annotations

import marshal
import os

from .kernel import start_mark

# The names on disk do not change: an agent of a newer version finds the runs of an older one.
SPEC_FILE, IDENTITY_FILE, STARTED_FILE, EXIT_FILE = "order", "identity", "started", "exit"
REPORT_FD = 1
# Linux cuts the name of a process to 15 letters.
LAUNCHER_NAME, SUPERVISOR_NAME = "swell-launcher", "swell-supervise"


class RunSpec:
    """The run of one container. Mounts are (source, target, read only).

    The namespace is "" for no private mounts, "root" where this process may make them itself, or
    "user" for a user namespace. A plain class: dataclasses would be loaded for it alone.
    """

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
        processes_max: int = 0,
        user: tuple[int, ...] = (),
        hidden: tuple[str, ...] = (),
        read_only: bool = False,
        stdio: tuple[str, ...] = (),
        roots: tuple[str, ...] = (),
    ) -> None:
        self.argv, self.env, self.cwd, self.log = argv, env, cwd, log
        self.namespace, self.mounts, self.cgroups = namespace, mounts, cgroups
        self.message = message  # (source, target) of the termination message, mounted if possible
        self.stage = stage  # an empty folder on which mounts are prepared
        self.dies_with_parent = dies_with_parent  # for exec probes, which end with the agent
        self.processes_max = processes_max  # 0 for no limit, or where a cgroup limits them
        self.user = user  # user, group and further groups to run as; empty: those of the supervisor
        self.hidden = hidden  # folders that are covered by empty ones, in which `mounts` are kept
        self.read_only = read_only  # whether only `mounts`, and what covers folders, can be changed
        # Files to open as stdin, stdout and stderr, in place of the log; one file is a terminal.
        self.stdio = stdio
        # Volumes whose parts are sources of mounts. What leads to a part may be exchanged for a
        # link at any time by a container that has the volume, so that no link is followed there.
        self.roots = roots


def read_spec(descriptor: int) -> RunSpec:
    """Returns the spec in an open spec file."""
    with open(descriptor, "rb", closefd=False) as file:
        # Written by the agent, readable by its owner alone.
        return RunSpec(**marshal.load(file))  # noqa: S302


def write_identity(folder: str, spec_descriptor: int) -> bool:
    """Write the identity file; False when the spec has been withdrawn.

    An agent that finds a spec without an identity removes the spec and then looks for the identity
    again. The supervisor writes its identity and then looks for the spec again. So either the
    agent sees the supervisor, or the supervisor sees that it must not start. Without an identity
    file nothing is started, because no later agent could find it: OSError from the disk.
    """
    if _is_withdrawn(folder, spec_descriptor):
        return False
    write_file(folder, IDENTITY_FILE, f"{os.getpid()} {start_mark(os.getpid())}")
    return not _is_withdrawn(folder, spec_descriptor)


def write_file(folder: str, name: str, text: str) -> None:
    """Write a file in one step; OSError when the disk does not take it.

    It is not synced: a power failure ends the process that it describes as well.
    """
    draft = f"{folder}/.{name}"
    with open(open_private(draft, os.O_WRONLY | os.O_TRUNC), "w") as file:
        file.write(text)
    os.replace(draft, f"{folder}/{name}")


def open_private(path: str, flags: int) -> int:
    """Returns a descriptor of a file that only its owner can read, whatever the umask."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_mode & 0o777 != 0o600:
        os.fchmod(descriptor, 0o600)
    return descriptor


def send_report(line: str) -> bool:
    """Send a line to the agent; False when the agent does not listen any more."""
    try:
        os.write(REPORT_FD, line.encode() + b"\n")
    except OSError:
        return False
    return True


def _is_withdrawn(folder: str, spec_descriptor: int) -> bool:
    """Whether the spec file is gone, or is another one that was written since."""
    try:
        found = os.stat(f"{folder}/{SPEC_FILE}")
    except FileNotFoundError:
        return True
    return not os.path.samestat(found, os.fstat(spec_descriptor))
