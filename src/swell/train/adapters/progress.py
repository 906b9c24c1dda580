"""The report of a worker, written into the file that the launcher reads."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from swell.api.injection import REPORT_FILE_VARIABLE
from swell.api.report import REPORT_BYTES_MAX, SaveReport, TrainingState

_EVERY_S = 1.0


@dataclass(slots=True)
class ProgressFile:
    """Writes progress at most once a second; does nothing where the job has no reports."""

    path: Path | None
    _next: float = 0.0
    _facts: dict[str, object] = field(default_factory=dict)
    _steps: tuple[float, int] | None = None

    def step(self, step: int, *, batch: int, total_steps: int | None = None) -> None:
        """Say that a step is done, of this many samples by all workers together."""
        now = time.monotonic()
        self._facts |= {"step": step, "samples": step * batch, "globalBatch": batch}
        self._facts["state"] = TrainingState.TRAINING
        if total_steps is not None and total_steps > 0:
            self._facts["totalSamples"] = total_steps * batch
        if now < self._next:
            return
        self._next = now + _EVERY_S
        if self._steps is not None and now > self._steps[0]:
            rate = (step - self._steps[1]) * batch / (now - self._steps[0])
            size = os.environ.get("GROUP_WORLD_SIZE", "1")
            self._facts["rates"] = {size: round(rate, 3)}
        self._steps = (now, step)
        self._write()

    def loss(self, loss: float) -> None:
        self._facts["loss"] = loss

    def saved(self, step: int, seconds: float = 0.0) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._facts |= {"lastSave": SaveReport(step, at, seconds), "saves": True}
        self._write()

    def _write(self) -> None:
        if self.path is None or "step" not in self._facts:
            return
        text = msgspec.json.encode(self._facts)
        if len(text) > REPORT_BYTES_MAX:
            return
        new = self.path.with_suffix(f".{os.getpid()}")
        try:
            new.write_bytes(text)
            new.replace(self.path)
        except OSError:
            # Training is worth more than its report; where there is no folder there is none.
            self.path = None


def progress_file(environ: Mapping[str, str]) -> ProgressFile:
    """The file of the first worker; the others have none."""
    path = environ.get(REPORT_FILE_VARIABLE)
    is_first = environ.get("RANK", "0") == "0"
    return ProgressFile(Path(path) if path and is_first else None)
