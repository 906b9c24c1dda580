"""A training program with torch: DDP, or FSDP2 with `WRAP=fsdp`; on a GPU with `DEVICE=cuda`."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

STARTED = time.time()
INDEX = int(os.environ.get("TRAININGJOB_REPLICA_INDEX", "0"))
DEVICE = os.environ.get("DEVICE", "cpu")
# NCCL takes several processes on one GPU for a mistake, unless they seem to be on machines of
# their own.
os.environ.setdefault("NCCL_HOSTID", f"member-{INDEX}")

import torch  # noqa: E402 (its import is measured)

from swell import train  # noqa: E402
from swell.train import Elastic  # noqa: E402

N_SAMPLES, N_BATCH = 4000, 30


def facts_file() -> int:
    """A file of this process below `$FACTS`; without it, the standard output."""
    if "FACTS" not in os.environ:
        return 1
    name = Path(os.environ["FACTS"], f"{time.time_ns()}-{os.getpid()}")
    return os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)


FACTS = facts_file()


def say(**fact: Any) -> None:
    os.write(FACTS, json.dumps({"at": time.time(), "index": INDEX, **fact}).encode() + b"\n")


def pause() -> None:
    """Take as long for a step as `$PACE` says now; without that file, as `$STEP_S` says."""
    path = os.environ.get("PACE")
    time.sleep(float(Path(path).read_text() if path else os.environ.get("STEP_S", "0")))


def weights(model: Elastic) -> list[float]:
    parts = []
    for parameter in model.parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        parts.append(whole.detach().reshape(-1))
    values: list[float] = torch.cat(parts).tolist()
    return values


def backward(model: Elastic, criterion: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    """Compute the gradient of the batch, with `PARTS=n` in so many parts."""
    n_parts = min(int(os.environ.get("PARTS", "1")), len(x))
    parts = list(zip(x.tensor_split(n_parts), y.tensor_split(n_parts), strict=True))
    for number, (some_x, some_y) in enumerate(parts, 1):
        with model.no_sync() if number < len(parts) else contextlib.nullcontext():
            loss = criterion(model(some_x.to(DEVICE)), some_y.to(DEVICE))
            (loss * len(some_x) / len(x)).backward()


class OwnWrapper:
    """A wrapper of a user's own: it averages each gradient over the members as it comes."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self.average)
            for parameter in module.parameters()
        ]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self._module(x)
        return output

    @staticmethod
    def average(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= torch.distributed.get_world_size()

    def __del__(self) -> None:
        """The next group has a wrapper of its own."""
        for hook in self._hooks:
            hook.remove()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(INDEX)
    net = torch.nn.Sequential(
        torch.nn.Linear(20, 65), torch.nn.Tanh(), torch.nn.Linear(65, 33), torch.nn.Linear(33, 1)
    )
    net.to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    noise = torch.Generator().manual_seed(1)
    inputs = torch.randn(N_SAMPLES, 20, generator=noise)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())
    more: dict[str, Any] = {}
    if os.environ.get("WRAP") == "fsdp":
        more = {"wrap": train.fsdp, "redundancy_steps": int(os.environ.get("COPY_STEPS", "10"))}
        more["redundancy"] = int(os.environ.get("COPIES", "1"))
    if os.environ.get("WRAP") == "own":
        more = {"wrap": OwnWrapper}
    more["save_every"] = float(os.environ.get("SAVE_EVERY", "600"))
    if os.environ.get("SCALE"):
        more |= {"scale": "member", "lr_rule": os.environ["SCALE"]}
    model = Elastic(net, optimizer, scheduler, checkpoint=os.environ.get("CHECKPOINT"), **more)
    model.on_change(lambda old, new: say(change=[old, new], at_step=model.steps))
    criterion = torch.nn.MSELoss()
    say(loaded=time.time() - STARTED)
    epochs = int(os.environ.get("EPOCHS", "6"))
    final: list[float] = []
    thaws = int(os.environ.get("THAWS", "0"))
    model.module[0].requires_grad_(not thaws)
    for x, y in model.batches(data, batch_size=N_BATCH, epochs=epochs):
        done = model.steps
        if thaws and done == thaws * -(-N_SAMPLES // N_BATCH):
            model.module[0].requires_grad_(True)
        with model.step():
            pause()
            optimizer.zero_grad()
            backward(model, criterion, x, y)
            optimizer.step()
            scheduler.step()
            if done + 1 == epochs * -(-N_SAMPLES // N_BATCH):
                final = weights(model)  # while there is a group to gather from
        if "LOOKS" in os.environ:
            with torch.no_grad():
                model(x.to(DEVICE))
        if model.steps > done:
            plan = model._formed().plan
            say(
                step=model.steps,
                samples=model.samples,
                size=plan.size,
                rank=model.rank,
                generation=plan.generation,
            )
    say(final=final or weights(model), steps=model.steps, rate=optimizer.param_groups[0]["lr"])


if __name__ == "__main__":
    main()
