"""The plain DDP program that torchrun runs beside the elastic one; it has no `run`."""

from __future__ import annotations

import os
import time
from pathlib import Path


def main() -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(20, 65))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with Path(os.environ["STEPS_FILE"]).open("a", buffering=1) as steps:
        while True:
            time.sleep(0.02)
            optimizer.zero_grad()
            model(torch.randn(8, 20)).square().mean().backward()
            optimizer.step()
            if dist.get_rank() == 0:
                steps.write(f"{time.time()} {dist.get_world_size()}\n")


if __name__ == "__main__":
    main()
