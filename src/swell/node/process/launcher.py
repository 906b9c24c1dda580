"""Starts supervisors, by way of a warm process that has nothing to do but to fork them."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

from swell.node import supervisor
from swell.node.process.setup.spec import HOSTS

ANSWER_S = 10.0
# Without the rest of Swell, which would take many times as long to load.
PLACE = Path(supervisor.__file__).parents[1]
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from supervisor.launching import main; main()"
# Held back from a supervisor until it can deal with them.
_HELD_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class Launcher:
    """One launcher process, begun when it is first needed, and again should it have ended.

    It ends when this process does, however that happens; the supervisors go on.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._pid = 0
        self._line: socket.socket | None = None

    def launch(self, folder: Path, report: int) -> int:
        """The pid of a new supervisor for a folder, which reports to the descriptor; OSError."""
        line = self._line or self._begin()
        try:
            _send(line, folder, report)
        except OSError:  # it has ended, and nothing was asked of it
            self.close()
            line = self._begin()
            _send(line, folder, report)
        try:
            return _answer(line)
        except OSError:
            # It may have done it: whoever asks again finds out from the folder.
            self.close()
            raise

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
            os.waitpid(self._pid, 0)

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(ANSWER_S)
        arguments = [sys.executable, "-I", "-S", "-c", PROGRAM, str(PLACE), str(self._home)]
        with theirs:
            self._pid = os.posix_spawn(
                sys.executable,
                arguments,
                {},
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
                setsigmask=_HELD_BACK,
            )
        self._line = ours
        return ours


def _send(line: socket.socket, folder: Path, report: int) -> None:
    socket.send_fds(line, [str(folder).encode()], [report])


def _answer(line: socket.socket) -> int:
    answer = line.recv(64)
    if not answer:
        raise ConnectionResetError("the launcher has ended")
    return int(answer)


def find_namespace() -> str:
    """ "root" or "user" where a container can have private mounts, else nothing."""
    if not supervisor.LINUX:
        return ""
    kinds = ("root", "user") if os.geteuid() == 0 else ("user",)
    with tempfile.TemporaryDirectory(prefix="swell-try-") as folder:
        return next((kind for kind in kinds if _works(kind, Path(folder) / kind)), "")


def _works(kind: str, folder: Path) -> bool:
    """Whether a process can see a hosts file of its own, and a folder the machine has not."""
    stage, hosts = folder / "stage", folder / "hosts"
    stage.mkdir(parents=True)
    hosts.write_text("127.0.0.1 swell-try\n")
    order = {
        "argv": ("grep", "-q", "swell-try", HOSTS, "/swell-try/hosts"),
        "env": {"PATH": os.environ.get("PATH", os.defpath)},
        "cwd": "/",
        "log": str(folder / "log"),
        "namespace": kind,
        "mounts": ((str(hosts), HOSTS, True), (str(folder), "/swell-try", False)),
        "stage": str(stage),
    }
    (folder / supervisor.ORDER).write_bytes(marshal.dumps(order))
    launcher = Launcher(folder)
    told, tell = os.pipe()
    try:
        launcher.launch(folder, tell)
        os.close(tell)
        with os.fdopen(told, "rb") as report:
            return b"\nexit 0 " in report.read()
    except OSError:
        return False
    finally:
        launcher.close()
