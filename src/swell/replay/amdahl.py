"""Programs of which only an amount of work and a serial share are known: profiles made of those."""

from __future__ import annotations

import numpy as np

from swell.autoscaler.goodput.batches import BatchRange
from swell.replay.interpolation import Mesh
from swell.replay.profiles import Placement, TrainedProgram
from swell.replay.traces import TraceJob


class AmdahlProgram(TrainedProgram):
    """A program whose speed with n replicas is n / (1 + serial (n - 1)), wherever they are."""

    def __init__(self, job: TraceJob) -> None:
        # A step of one sample on one replica takes a second, and a batch has the largest size.
        batch = job.maximum
        super().__init__(
            name=job.name,
            batches=BatchRange(batch, batch, 1, batch),
            fixed_batch=batch,
            size_max=job.maximum,
            n_epochs=1,
            restart_s={},
            ideal_s={},
            placements={},
            shapes=Mesh({}),
            validation={
                batch: (np.array([max(job.work_s, 1e-3) / batch]), np.ones(1), np.ones(1)),
                2 * batch: (np.array([max(job.work_s, 1e-3) / batch]), np.ones(1), np.ones(1)),
            },
        )
        self.serial = job.serial

    def _step_times(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        del local_batch  # all replicas together have the same batch at every size
        size, batch = sum(placement), float(self.batches.first)
        step = batch * (1 + self.serial * (size - 1)) / size
        # The part that does not shrink with the size counts as synchronisation.
        return step, step - batch / size
