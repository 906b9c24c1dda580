"""Reads the report of a program that has not the library, from the file that it writes.

The program may leave out all that the launcher knows better: generation, epoch and size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.api.report import REPORT_BYTES_MAX, TrainingReport
from swell.train.bus.plan import GroupPlan

# Reports are asked for every 10 s at most.
_EVERY_S = 1.0


@dataclass(slots=True)
class ReportFile:
    """A file that a program writes its report into, again and again."""

    path: Path
    # A sentence about the last report that could not be read; empty if it could.
    complaint: str = ""
    _next: float = 0.0
    _seen: tuple[int, int, int] | None = None

    def read(self, plan: GroupPlan, now: float) -> TrainingReport | None:
        """The report, if there is a new one that can be read."""
        if now < self._next:
            return None
        self._next = now + _EVERY_S
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return None
            with self.path.open("rb") as file:
                text = file.read(REPORT_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.complaint = f"the report cannot be read: {error.strerror}"
            return None
        self._seen = seen
        return self._parse(text, plan)

    def _parse(self, text: bytes, plan: GroupPlan) -> TrainingReport | None:
        self.complaint = ""
        if not text.strip():
            return None  # it is being written
        if len(text) > REPORT_BYTES_MAX:
            self.complaint = f"the report has more than {REPORT_BYTES_MAX} bytes"
            return None
        known = {"generation": plan.generation, "epoch": plan.epoch, "size": plan.size}
        try:
            report = known | msgspec.json.decode(text, type=dict[str, object])
            return msgspec.convert(report, TrainingReport)
        except (msgspec.MsgspecError, RecursionError) as error:
            self.complaint = f"the report is not understood: {error}"
            return None
