"""Starts supervisors through a warm launcher process, and finds out which namespaces work here."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from swell.node import supervisor
from swell.node.process.setup.spec import HOSTS

ANSWER_S = 10.0
# The launcher imports `supervisor` as a top-level package: without the rest of Swell, which would
# take many times as long to load.
PLACE = Path(supervisor.__file__).parents[1]
PROGRAM = "import sys; sys.path.append(sys.argv[1]); from supervisor.launching import main; main()"
# Blocked in a supervisor until it has installed its handlers.
_BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class Launcher:
    """One launcher process, started when it is first needed, and again when it has ended.

    It ends when this process does, however that happens; the supervisors go on.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._pid = 0
        self._socket: socket.socket | None = None

    def launch(self, folder: Path, report: int) -> int:
        """Returns the pid of a new supervisor for a folder, which reports to the descriptor.

        Raises OSError. The supervisor may have been started all the same: the files in the folder
        show it.
        """
        connection = self._socket or self._start()
        try:
            _send(connection, folder, report)
        except OSError:  # it has ended and has not seen the request, so it is safe to repeat
            self.close()
            connection = self._start()
            _send(connection, folder, report)
        try:
            return _answer(connection)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            os.waitpid(self._pid, 0)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(ANSWER_S)
        arguments = [sys.executable, "-I", "-S", "-c", PROGRAM, str(PLACE), str(self._home)]
        with theirs:
            self._pid = os.posix_spawn(
                sys.executable,
                arguments,
                {},
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
                setsigmask=_BLOCKED,
            )
        self._socket = ours
        return ours


def find_namespace() -> str:
    """Returns how containers can have private mounts: "root" or "user"; "" when they cannot.

    It is found out by trying, because kernels and container runtimes forbid it in many ways.
    """
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
    spec = {
        "argv": ("grep", "-q", "swell-try", HOSTS, "/swell-try/hosts"),
        "env": {"PATH": os.environ.get("PATH", os.defpath)},
        "cwd": "/",
        "log": str(folder / "log"),
        "namespace": kind,
        "mounts": ((str(hosts), HOSTS, True), (str(folder), "/swell-try", False)),
        "stage": str(stage),
    }
    return try_run(folder, spec)


def try_run(folder: Path, spec: Mapping[str, object]) -> bool:
    """Whether a run of a spec ends with 0. Its log is left in the folder."""
    (folder / supervisor.SPEC_FILE).write_bytes(marshal.dumps(dict(spec)))
    launcher = Launcher(folder)
    reports, reports_in = os.pipe()
    try:
        launcher.launch(folder, reports_in)
        os.close(reports_in)
        with os.fdopen(reports, "rb") as file:
            return b"\nexit 0 " in file.read()
    except OSError:
        return False
    finally:
        launcher.close()


def _send(connection: socket.socket, folder: Path, report: int) -> None:
    socket.send_fds(connection, [str(folder).encode()], [report])


def _answer(connection: socket.socket) -> int:
    answer = connection.recv(64)
    if not answer:
        raise ConnectionResetError("the launcher has ended")
    return int(answer)
