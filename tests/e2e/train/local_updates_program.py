"""Every optimizer of torch updates a sharded module here, beside a plain one; a line for each."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from swell.train.backends.torch.local_updates import LocalUpdates

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "ASGD": {},
    "Adadelta": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "SGD": {"momentum": 0.9},
    "Own": {},
}
N_STEPS = 4


class Own(torch.optim.AdamW):  # type: ignore[misc]
    """An optimizer of a user, of which nothing is known."""


def trained(name: str, options: dict[str, Any], *, is_sharded: bool) -> tuple[Any, bool]:
    """The weights after some steps, and whether the optimizer saw anything but plain tensors."""
    torch.manual_seed(3)
    module: Any = torch.nn.Linear(6, 5)
    if is_sharded:
        fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
    kind = Own if name == "Own" else getattr(torch.optim, name)
    optimizer: Any = kind(module.parameters(), lr=0.01, **options)
    seen: list[bool] = []
    updates = LocalUpdates(optimizer)
    optimizer.register_step_pre_hook(lambda _, args, kwargs: updates.begin(args, kwargs))
    optimizer.register_step_pre_hook(
        lambda *_: seen.extend(isinstance(p, DTensor) for p in optimizer.param_groups[0]["params"])
    )
    optimizer.register_step_post_hook(lambda *_: updates.end())
    for step in range(N_STEPS):
        optimizer.zero_grad()
        loss = module(torch.ones(3, 6) * (step + 1)).square().mean()
        loss.backward()
        optimizer.step()
    parameters = list(module.parameters())
    assert [*optimizer.param_groups[0]["params"]] == parameters
    assert set(optimizer.state) == set(parameters)
    for parameter in parameters:
        for key, value in optimizer.state[parameter].items():
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                assert isinstance(value, DTensor) == is_sharded, key
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in parameters]
    return torch.cat([one.detach().reshape(-1) for one in whole]), any(seen)


def main() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    for name, options in OPTIMIZERS.items():
        plain, _ = trained(name, options, is_sharded=False)
        sharded, sees_dtensors = trained(name, options, is_sharded=True)
        difference = float((plain - sharded).abs().max())
        print(name, "whole" if sees_dtensors else "local", difference < 1e-6)  # noqa: T201
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
