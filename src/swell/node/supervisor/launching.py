"""The warm process that forks supervisors: it has nothing to load when hundreds are wanted."""

from __future__ import annotations

import os
import signal
import socket
from typing import NoReturn

from .kernel import set_name
from .protocol import LAUNCHER_NAME
from .supervising import supervise

PATH_BYTES_MAX = 4096
DESCRIPTORS_MAX = 65536


def launch(requests: socket.socket) -> int:
    """Fork a supervisor for every folder that is asked for, until nobody asks any more.

    A request is a folder and the descriptor to report to; the answer is the pid.
    """
    os.setsid()
    os.closerange(3, DESCRIPTORS_MAX)  # what the agent's own parent left open is no affair of ours
    set_name(LAUNCHER_NAME)
    # Whoever ends is collected by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        folder, descriptors, _, _ = socket.recv_fds(requests, PATH_BYTES_MAX, 1)
        if not folder:
            return 0
        pid = os.fork()
        if pid == 0:
            requests.detach()  # what it stood for is replaced
            _take_over(folder.decode(), descriptors[0])
        os.close(descriptors[0])
        requests.send(str(pid).encode())


def _take_over(folder: str, report: int) -> NoReturn:
    """A forked launcher becomes a supervisor."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    errors = os.open(f"{folder}/supervisor.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for standard, given in enumerate((nothing, report, errors)):
        os.dup2(given, standard)
        os.close(given)
    os._exit(supervise(folder))


def main() -> int:
    """Take requests from standard input, which is a socket."""
    with socket.socket(fileno=0) as given:
        return launch(given)
