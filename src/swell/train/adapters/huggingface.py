"""The class `HFCallback`, for the Trainer of transformers under `swell launch`.

trainer = Trainer(model, args, train_dataset=data, callbacks=[train.HFCallback()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))
"""

from __future__ import annotations

import os
from typing import Any

from swell.train.adapters.departure import AgreedDeparture
from swell.train.adapters.progress import progress_file
from swell.train.errors import MissingFrameworkError

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingFrameworkError("train.HFCallback", "transformers", error) from error


class HFCallback(TrainerCallback):  # type: ignore[misc]
    """Saves a checkpoint and leaves when the group changes, and reports progress."""

    def __init__(self) -> None:
        self._departure = AgreedDeparture()
        self._progress = progress_file(os.environ)
        self._is_leaving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._departure.catch_sigterm()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self._progress.step(state.global_step, batch=batch, total_steps=state.max_steps)
        if self._departure.is_last(state.global_step):
            self._is_leaving = True
            control.should_save = True
            control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            self._progress.loss(float(logs["loss"]))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._progress.saved(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the process: a script that went on would take half a training for a whole one."""
        if self._is_leaving and state.global_step < state.max_steps:
            self._departure.leave()
