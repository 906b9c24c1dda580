"""Training programs that know nothing of Swell, and the interpreters that have their frameworks.

Each saves after every step, goes on from there, and tells its steps by lines in a file of its own
below `$FACTS`.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Where `make e2e` installs them, unless they are named.
TORCH = Path(os.environ.get("SWELL_TORCH_PYTHON", ROOT / ".venv" / "torch" / "bin" / "python"))
PADDLE = Path(os.environ.get("SWELL_PADDLE_PYTHON", ROOT / ".venv" / "paddle" / "bin" / "python"))
JAX = Path(os.environ.get("SWELL_JAX_PYTHON", sys.executable))
_FACTS = """
import json, os, pathlib, time
facts = open(pathlib.Path(os.environ["FACTS"], f"{time.time_ns()}-{os.getpid()}"), "w", 1)
saved = pathlib.Path(os.environ["FACTS"], "..", "checkpoint")
n_steps = int(os.environ.get("STEPS", "1000000"))
index = int(os.environ.get("TRAININGJOB_REPLICA_INDEX", "0"))
def tell(rank, size, step):
    fact = {"at": time.time(), "rank": rank, "size": size, "step": step, "pid": os.getpid()}
    fact["index"] = index
    facts.write(json.dumps(fact) + "\\n")
    time.sleep(0.01)
"""
TORCH_DDP = f"""
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
{_FACTS}
torch.manual_seed(0)
net = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
step = 0
if saved.exists():
    found = torch.load(saved)
    net.load_state_dict(found["net"])
    step = found["step"]
model = DistributedDataParallel(net)
while step < n_steps:
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    step += 1
    if rank == 0:
        torch.save({{"net": net.state_dict(), "step": step}}, saved.with_suffix(".new"))
        saved.with_suffix(".new").rename(saved)
    tell(rank, size, step)
dist.destroy_process_group()
"""
JAX_SUM = f"""
import os
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
import jax.numpy as jnp
from jax.experimental import multihost_utils
rank, size = jax.process_index(), jax.process_count()
{_FACTS}
step = int(saved.read_text()) if saved.exists() else 0
while step < n_steps:
    total = multihost_utils.process_allgather(jnp.ones(4)).sum()
    assert total == 4 * size, (total, size)
    step += 1
    if rank == 0:
        saved.with_suffix(".new").write_text(str(step))
        saved.with_suffix(".new").rename(saved)
    tell(rank, size, step)
"""
PADDLE_SUM = f"""
import paddle, paddle.distributed as dist
dist.init_parallel_env()
rank, size = dist.get_rank(), dist.get_world_size()
{_FACTS}
step = int(saved.read_text()) if saved.exists() else 0
while step < n_steps:
    total = paddle.ones([4])
    if size > 1:
        dist.all_reduce(total)
    assert float(total.sum()) == 4 * size, (total, size)
    step += 1
    if rank == 0:
        saved.with_suffix(".new").write_text(str(step))
        saved.with_suffix(".new").rename(saved)
    tell(rank, size, step)
"""


def interpreter(path: Path) -> str:
    """An interpreter with a framework. A test without one fails, and says how to get it."""
    assert path.exists(), f"{path} is missing: `make e2e` installs it"
    return str(path)


def library_path(folder: Path) -> dict[str, str]:
    """PYTHONPATH of this tree, with the entry points that an installed package has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / "site" / "swell-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: swell\nVersion: 0\n")
    lines = ["[torchrun.handlers]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["torchrun.handlers"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": f"{ROOT / 'src'}:{folder / 'site'}"}
