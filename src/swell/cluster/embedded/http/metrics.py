"""The figures of a running server for Prometheus, at /metrics behind the same rights as all paths.

They are few, and written as text here: the library for it would make every start slower.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from swell.cluster.embedded.http.connections import Connections
from swell.cluster.embedded.http.watches import Watches
from swell.cluster.embedded.storage import Storage

METRICS = "metrics"


class _Figure(NamedTuple):
    name: str
    kind: str
    text: str
    value: float


class ServerMetrics:
    """The meter of the loop's watchdog, and the text of all figures."""

    def __init__(self, storage: Storage, connections: Connections, watches: Watches) -> None:
        self._storage = storage
        self._connections = connections
        self._watches = watches
        self._n_stalls = 0
        self._stalled_s = 0.0

    def loop_stalled(self, seconds: float) -> None:
        """Called by the watchdog's thread."""
        self._n_stalls += 1
        self._stalled_s += seconds

    def exposition(self) -> str:
        """Returns all figures in Prometheus' text format."""
        lines: list[str] = []
        for figure in self._figures():
            lines += (
                f"# HELP {figure.name} {figure.text}",
                f"# TYPE {figure.name} {figure.kind}",
                f"{figure.name} {figure.value:.17g}",
            )
        return "\n".join((*lines, ""))

    def _figures(self) -> Iterator[_Figure]:
        storage = self._storage
        n_objects = sum(storage.count(name) for name in storage.collections())
        # The names of the two are those of the controllers' metrics.
        yield _Figure(
            "swell_event_loop_stalls_total",
            "counter",
            "Times the event loop stood still for half a second or more.",
            self._n_stalls,
        )
        yield _Figure(
            "swell_event_loop_stalled_seconds_total",
            "counter",
            "Seconds for which it did.",
            self._stalled_s,
        )
        for name, text, value in (
            ("swell_server_connections", "Open connections.", len(self._connections)),
            ("swell_server_watches", "Watches being served.", len(self._watches)),
            ("swell_store_objects", "Objects in the store.", n_objects),
            ("swell_store_log_commits", "Commits in the store's log.", storage.n_kept),
            ("swell_store_log_bytes", "Bytes that only the log keeps.", storage.n_kept_bytes),
            ("process_resident_memory_bytes", "Resident memory.", _resident_bytes()),
            ("process_open_fds", "Open descriptors.", _n_descriptors()),
        ):
            yield _Figure(name, "gauge", text, value)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _n_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
