"""Sends many calls of one command over several connections at a time.

A server that runs controllers in the same process, as the embedded one does, answers each call
after a turn of theirs. One call after the other would wait for as many turns as there are calls.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from swell.cli.connection import ClusterConnection
from swell.cli.error_texts import CLUSTER_FAILURES
from swell.cluster.kube.access import Access, AccessError
from swell.cluster.kube.calls import KubeCall
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.errors import ClusterError

R = TypeVar("R")
# Measured with 200 creates on a busy machine of two cores: 42 s with one, 19 s with 8, 4 s with 32.
CONNECTIONS_MAX = 32
# So few calls are not worth the handshakes of further connections.
_FEW = 3


def send_each(
    connection: ClusterConnection,
    calls: Sequence[KubeCall[R]],
    *,
    expected: tuple[type[ClusterError], ...] = (),
    report: Callable[[int], None] = lambda _: None,
) -> list[R | ClusterError]:
    """Return the answers in the order of the calls, expected errors in the places of theirs.

    After any other error no further call is sent, and the first such error is raised. `report` is
    called with the number of calls that are done.
    """
    sending = _Sending(calls, expected)
    if len(calls) <= _FEW:
        sending.work(connection.client)
        report(sending.n_done)
        return sending.answers()
    n_threads = min(CONNECTIONS_MAX, len(calls))
    threads = [
        threading.Thread(target=sending.work_alone, args=(connection.access,), daemon=True)
        for _ in range(n_threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)
            report(sending.n_done)
    return sending.answers()


class _Sending(Generic[R]):
    """Hands calls out to threads, and collects their answers."""

    def __init__(
        self, calls: Sequence[KubeCall[R]], expected: tuple[type[ClusterError], ...]
    ) -> None:
        self._calls = calls
        self._expected = expected
        self._found: dict[int, R | ClusterError] = {}
        self._error: BaseException | None = None
        self._next = 0
        self._lock = threading.Lock()

    @property
    def n_done(self) -> int:
        return len(self._found)

    def work_alone(self, access: Access) -> None:
        """Send calls over a connection of this thread's own."""
        client = None
        try:
            client = OneShot(access, random.Random(), keeps_connection=True)  # noqa: S311
            self.work(client)
        except (*CLUSTER_FAILURES, AccessError, OSError) as error:
            # It is raised by the thread that asked.
            self._error = self._error or error
        finally:
            if client is not None:
                client.close()

    def work(self, client: OneShot) -> None:
        """Send calls until all are sent, or one has failed."""
        while (place := self._take()) is not None:
            try:
                self._found[place] = client.send(self._calls[place])
            except self._expected as error:
                self._found[place] = error

    def answers(self) -> list[R | ClusterError]:
        if self._error is not None:
            raise self._error
        return [self._found[place] for place in range(len(self._calls))]

    def _take(self) -> int | None:
        with self._lock:
            if self._error is not None or self._next >= len(self._calls):
                return None
            self._next += 1
            return self._next - 1
