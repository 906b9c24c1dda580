"""Programs of which only the speed by size is known: tables of steps a second. Values only.

A folder of tables has a file for each program, `<name>.csv`, with a row for each global batch size
and a column for each number of devices: steps a second, or nothing where it cannot run. A job has a
number of steps to do, at the batch size that it states.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from swell.autoscaler.goodput.batches import BatchRange
from swell.autoscaler.goodput.stepmodel import Floats
from swell.replay.interpolation import Mesh
from swell.replay.profiles import Placement, ProfileError, TrainedProgram
from swell.replay.traces import TraceError, TraceJob

_BATCH = "global_batch_size"


@dataclass(eq=False)
class ThroughputTable:
    """Steps a second of one program by batch size and devices."""

    name: str
    sizes: Floats
    rates: dict[int, Floats] = field(default_factory=dict)

    def program_of(self, job: TraceJob) -> TrainedProgram:
        """Returns the program of one job, which has its own number of steps. Raises TraceError."""
        if job.batch not in self.rates:
            raise TraceError(f"job {job.name}: {self.name} has no speeds at a batch of {job.batch}")
        return _TableProgram(f"{self.name} at {job.batch}", job, self.sizes, self.rates[job.batch])


class _TableProgram(TrainedProgram):
    """A program whose batch is given, with steps by size as measured, and linear between sizes."""

    def __init__(self, name: str, job: TraceJob, sizes: Floats, rates: Floats) -> None:
        batch, steps = job.batch, max(job.steps, 1.0)
        # The batch is divided among the replicas, so there is one for each of them at least.
        known = np.isfinite(rates) & (rates > 0) & (sizes <= batch)
        if not known.any():
            raise TraceError(f"job {job.name}: {name} runs on no number of devices")
        self._sizes, self._rates = sizes[known], rates[known]
        done = (np.array([steps]), np.ones(1), np.ones(1))
        super().__init__(
            name=name,
            batches=BatchRange(batch, batch, 1, batch),
            fixed_batch=batch,
            size_max=int(self._sizes[self._rates.argmax()]),
            n_epochs=1,
            restart_s={},
            ideal_s={},
            placements={},
            shapes=Mesh({}),
            validation={batch: done, 2 * batch: done},
        )

    def _step_times(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        del local_batch  # the batch of all replicas is the same at every size
        size = sum(placement)
        rate = float(np.interp(size, self._sizes, self._rates))
        rate *= min(size / float(self._sizes[0]), 1.0)  # fewer devices than were measured
        alone = 1.0 / float(np.interp(1, self._sizes, self._rates))
        step = 1.0 / rate
        # The part that does not shrink with the size counts as synchronisation.
        return step, max(step - alone / size, 0.0)


def read_throughputs(folder: Path) -> dict[str, ThroughputTable]:
    """Returns the tables of a folder by program. Raises ProfileError, and OSError."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        try:
            found[path.stem] = _read_table(path)
        except (ValueError, TypeError, csv.Error) as error:
            raise ProfileError(f"{path} holds no speeds: {error}") from error
    if not found:
        raise ProfileError(f"{folder} has neither apps.json nor tables of speeds")
    return found


def _read_table(path: Path) -> ThroughputTable:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        columns = [name for name in rows.fieldnames or () if name != _BATCH]
        table = ThroughputTable(path.stem, np.array([float(one) for one in columns]))
        for row in rows:
            rates = [float(row[name] or math.nan) for name in columns]
            table.rates[int(row[_BATCH])] = np.array(rates)
    if not columns or (table.sizes < 1).any() or (np.diff(table.sizes) <= 0).any():
        raise ValueError("the columns are no growing numbers of devices")
    return table
