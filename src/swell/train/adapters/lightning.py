"""The class `LightningPlugin`, for the Trainer of Lightning under `swell launch`.

    plugin = train.LightningPlugin("/ckpt/a")
    Trainer(callbacks=[plugin], strategy="ddp").fit(model, data, ckpt_path=plugin.ckpt_path)

Lightning takes the variables of the launcher for torchrun's: it starts no processes of its own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from swell.train.adapters.departure import AgreedDeparture
from swell.train.adapters.progress import progress_file
from swell.train.errors import MissingFrameworkError

try:
    from lightning.pytorch import Callback
except ImportError as error:
    raise MissingFrameworkError("train.LightningPlugin", "lightning", error) from error


class LightningPlugin(Callback):  # type: ignore[misc]
    """Saves a checkpoint and leaves when the group changes, and reports progress.

    It is one of the Trainer's callbacks. Periodic checkpoints are Lightning's own.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = Path(folder) / "swell-last.ckpt"
        self._departure = AgreedDeparture()
        self._progress = progress_file(os.environ)

    @property
    def ckpt_path(self) -> str | None:
        """The checkpoint of the last departure, for `fit`; None if there is none."""
        return str(self._path) if self._path.exists() else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # Lightning's own handler would end the loop before the step that all agree on.
        self._departure.catch_sigterm(keeps_earlier=False)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        self._report(trainer, outputs, batch, step)
        if not self._departure.is_last(step):
            return
        began = time.monotonic()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        trainer.save_checkpoint(new)  # called by all workers; the first writes
        if trainer.is_global_zero:
            new.replace(self._path)
            self._progress.saved(step, time.monotonic() - began)
        trainer.strategy.barrier()
        self._departure.leave()

    def _report(self, trainer: Any, outputs: Any, batch: Any, step: int) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None and hasattr(loss, "detach") and step % 50 == 0:
            self._progress.loss(float(loss.detach()))  # now and then: it waits for the device
        first = batch[0] if isinstance(batch, list | tuple) and batch else batch
        n_samples = len(first) if hasattr(first, "__len__") else 1
        total = trainer.estimated_stepping_batches
        total_steps = int(total) if total != float("inf") else None
        self._progress.step(step, batch=n_samples * trainer.world_size, total_steps=total_steps)
