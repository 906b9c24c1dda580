"""Trainers of transformers and Lightning under `swell launch`: they save and go on at a resize."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.launch.programs import TORCH, interpreter
from tests.e2e.launch.stories import WITHIN_S
from tests.unit.train.launch.members import LaunchedMembers, swell_launch

pytestmark = pytest.mark.long
STEPS = 400
_DATA = """
import json, os, pathlib, sys, time
import torch
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
facts = open(pathlib.Path(os.environ["FACTS"], f"{time.time_ns()}-{os.getpid()}"), "w", 1)
folder = os.path.join(os.environ["FACTS"], "..", "checkpoints")
def tell(step):
    fact = {"at": time.time(), "rank": rank, "size": size, "step": step, "pid": os.getpid()}
    facts.write(json.dumps(fact) + "\\n")
    time.sleep(0.02)
"""
HUGGING_FACE = f"""
{_DATA}
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from swell import train
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, y):
        return {{"loss": (self.layer(x) - y).square().mean()}}
class Tell(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        tell(state.global_step)
data = [{{"x": torch.ones(4) * i, "y": torch.ones(1)}} for i in range(64)]
args = TrainingArguments(
    folder, max_steps={STEPS}, per_device_train_batch_size=4, save_strategy="no", use_cpu=True,
    report_to=[], disable_tqdm=True, ddp_backend="gloo", save_total_limit=2, logging_steps=20,
)
trainer = Trainer(Net(), args, train_dataset=data, callbacks=[train.HFCallback(), Tell()])
last = get_last_checkpoint(folder) if os.path.isdir(folder) else None
trainer.train(resume_from_checkpoint=last)
"""
LIGHTNING = f"""
{_DATA}
import lightning.pytorch as pl
from swell import train
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
class Tell(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        tell(trainer.global_step)
data = torch.utils.data.TensorDataset(torch.ones(640, 4))
plugin = train.LightningPlugin(folder)
pl.Trainer(
    max_steps={STEPS}, max_epochs=-1, accelerator="cpu", devices=1, num_nodes=size, strategy="ddp",
    callbacks=[Tell(), plugin], logger=False, enable_checkpointing=False, enable_progress_bar=False,
).fit(Net(), torch.utils.data.DataLoader(data, 4), ckpt_path=plugin.ckpt_path)
"""


@pytest.mark.parametrize("program", [HUGGING_FACE, LIGHTNING], ids=["transformers", "lightning"])
def test_trainer_goes_on_after_a_resize(tmp_path: Path, program: str) -> None:
    """Three workers, then two: no step is done twice or lost, and the training ends well."""
    script = tmp_path / "train.py"
    script.write_text(program)
    python = interpreter(TORCH)
    members = LaunchedMembers(
        tmp_path, swell_launch("--framework", "pytorch", str(script), python=python)
    )
    try:
        members.resize(3)
        members.start(0, 1, 2)
        members.trains(3, within_s=WITHIN_S)
        members.wait(lambda: any(fact["step"] >= 20 for fact in members.facts()), WITHIN_S)
        members.resize(2)
        members.terminate(2)
        for index, code in ((2, 143), (0, 0), (1, 0)):
            assert members.launchers[index].wait(WITHIN_S) == code, members.log()[-4000:]
    finally:
        members.close()
    steps = [fact["step"] for fact in members.facts() if fact["rank"] == 0]

    assert steps == list(range(1, STEPS + 1))
    assert {fact["size"] for fact in members.facts()} == {2, 3}
