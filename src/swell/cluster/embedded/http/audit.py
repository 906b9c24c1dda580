"""The audit log: one line of JSON for every write, and for every request that was refused a right.

It tells who asked for what and how it was answered, never the content of an object. Parts of Swell
in the server's own process write without HTTP and are not in it. The file is for its owner alone,
and rotated as the other logs are.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from swell.api.codec import encode
from swell.api.meta import Body
from swell.api.times import format_time
from swell.cluster.embedded.access.attributes import Identity, RequestAttributes
from swell.cluster.private import open_private
from swell.runtime.logfile import rotate

_log = logging.getLogger(__name__)

BYTES_MAX = 16 << 20  # of one file; three former ones are kept
# Texts of a client's choice are cut, so that a request cannot fill the log.
_TEXT_MAX = 256
# Requests without a valid token are logged up to this number in this time; the others are counted.
UNKNOWN_MAX, UNKNOWN_S = 20, 10.0


class AuditLog:
    """Appends to one file. A disk that does not take a line is reported in the server's log."""

    def __init__(self, path: Path, now: Callable[[], float], bytes_max: int = BYTES_MAX) -> None:
        self._path = path
        self._now = now
        self._bytes_max = bytes_max
        self._descriptor = -1
        self._n_bytes = 0
        self._unknown_since, self._n_unknown, self._n_dropped = 0.0, 0, 0

    def record(
        self, identity: Identity | None, wanted: RequestAttributes, code: int, uri: str, agent: str
    ) -> None:
        """Write one line. Requests of nobody known are bounded: anyone can send them."""
        now = self._now()
        if identity is None and not self._admits_unknown(now):
            self._n_dropped += 1
            return
        line: Body = {
            "time": format_time(now),
            "user": identity.name if identity else "",
            "groups": list(identity.groups) if identity else [],
            "verb": wanted.verb,
            "group": wanted.group,
            "resource": wanted.combined,
            "namespace": wanted.namespace,
            "name": wanted.name,
            "code": code,
            "uri": uri[:_TEXT_MAX],
            "agent": agent[:_TEXT_MAX],
        }
        if self._n_dropped:
            line["unknownNotShown"], self._n_dropped = self._n_dropped, 0
        self._write(encode(line) + b"\n")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _admits_unknown(self, now: float) -> bool:
        if now - self._unknown_since >= UNKNOWN_S:
            self._unknown_since, self._n_unknown = now, 0
        self._n_unknown += 1
        return self._n_unknown <= UNKNOWN_MAX

    def _write(self, line: bytes) -> None:
        try:
            if self._descriptor < 0:
                self._open()
            elif self._n_bytes + len(line) > self._bytes_max:
                self.close()
                rotate(self._path, 1)
                self._open()
            self._n_bytes += os.write(self._descriptor, line)
        except OSError as error:
            _log.error("%s: a line is missing: %s", self._path, error.strerror)
            self.close()

    def _open(self) -> None:
        self._descriptor = open_private(self._path, os.O_WRONLY | os.O_APPEND)
        self._n_bytes = os.fstat(self._descriptor).st_size
