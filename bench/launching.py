"""Pauses of scripts under `swell launch` and torchrun when members die, leave and come.

Four members on this machine; medians of `SWELL_BENCH_ROUNDS` rounds (10), and the worst one. The
frameworks are those that `make e2e` installs; one that is missing has no figures.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from tests.e2e.launch.programs import JAX, JAX_SUM, PADDLE, PADDLE_SUM, TORCH, TORCH_DDP
from tests.e2e.launch.stories import pauses, training
from tests.e2e.launch.test_launch_frameworks import library_path
from tests.unit.train.launch.members import swell_launch

ROUNDS = int(os.environ.get("SWELL_BENCH_ROUNDS", "10"))
TORCHRUN = ("-m", "torch.distributed.run", "--nnodes=1:4", "--max-restarts=100")
WAYS: dict[str, tuple[str, Path, list[str]]] = {
    "warm": (TORCH_DDP, TORCH, swell_launch("--framework", "pytorch")[1:]),
    "cold": (TORCH_DDP, TORCH, swell_launch("--framework", "pytorch", "--cold")[1:]),
    "warm JAX": (JAX_SUM, JAX, swell_launch("--framework", "jax")[1:]),
    "warm Paddle": (PADDLE_SUM, PADDLE, swell_launch("--framework", "paddle")[1:]),
    "torchrun, backend swell": (TORCH_DDP, TORCH, [*TORCHRUN, "--rdzv-backend=swell"]),
}


def run() -> dict[str, object]:
    chosen = os.environ.get("SWELL_BENCH_WAYS", ",".join(WAYS)).split(",")
    figures: dict[str, object] = {}
    for name in chosen:
        program, python, arguments = WAYS[name]
        if not python.exists():
            figures[name] = "not installed"
            continue
        figures |= _measure(name, program, python, arguments)
    return figures


def _measure(name: str, program: str, python: Path, arguments: list[str]) -> dict[str, object]:
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        script = folder / "train.py"
        script.write_text(program)
        command = [str(python), *arguments, str(script)]
        with training(folder, command, library_path(folder, python)) as members:
            for _ in range(ROUNDS):
                for event, seconds in pauses(members).items():
                    found.setdefault(event, []).append(seconds)
    medians = {f"{name}: {event}, s": statistics.median(all_) for event, all_ in found.items()}
    return {**medians, f"{name}: worst, s": max(s for all_ in found.values() for s in all_)}
