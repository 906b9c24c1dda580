"""Looks up the addresses of names on a thread of its own: a name server may take seconds."""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable

from swell.train.bus.events import LineId

# Questions that wait; a further one fails at once, and is asked again later.
_WAITING_MAX = 256

# Called with the line and its address; with None and whether the name is known not to exist.
OnResolved = Callable[[LineId, str | None, bool], None]


def is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Resolver:
    """A thread that looks up one name after the other."""

    def __init__(self, on_resolved: OnResolved) -> None:
        self._on_resolved = on_resolved
        self._questions: queue.Queue[tuple[LineId, str] | None] = queue.Queue(_WAITING_MAX)
        self._thread: threading.Thread | None = None

    def ask(self, line: LineId, host: str) -> bool:
        """Whether the question was taken."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="swell-names", daemon=True)
            self._thread.start()
        try:
            self._questions.put_nowait((line, host))
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        if self._thread is not None:
            try:
                self._questions.put_nowait(None)
            except queue.Full:
                return  # It ends with the process.

    def _run(self) -> None:
        while (question := self._questions.get()) is not None:
            line, host = question
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                self._on_resolved(line, None, error.errno == socket.EAI_NONAME)
            except OSError:
                self._on_resolved(line, None, False)
            else:
                self._on_resolved(line, str(found[0][4][0]), False)
