"""Pauses of survivors when a training job changes, by real processes on loopback.

Medians over `ROUNDS` rounds of: one member killed, the leader killed, 4 to 2, 2 to 4. With torch
installed (`make e2e` installs it, or name its Python in SWELL_TORCH_PYTHON) DDP and FSDP2 are
measured, and torchrun beside them; always the backend that needs no framework.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.unit.train.cluster import ROOT, TrainingCluster

ROUNDS = int(os.environ.get("ROUNDS", "10"))
TORCH = Path(os.environ.get("SWELL_TORCH_PYTHON", ROOT / ".venv" / "torch" / "bin" / "python"))
EVENTS = ("kill one", "kill the leader", "4 to 2", "2 to 4")
# More than any bench lasts: the programs are ended by it.
EPOCHS = "100000"
TORCHRUN = [str(TORCH), "-m", "torch.distributed.run", "--nnodes=1:4", "--nproc-per-node=1"]


def run() -> dict[str, object]:
    figures: dict[str, object] = {}
    arrays = [sys.executable, "-m", "tests.unit.train.array_program"]
    programs: dict[str, tuple[list[str], dict[str, str]]] = {"arrays": (arrays, {})}
    if TORCH.exists():
        program = [str(TORCH), "-m", "tests.e2e.train.torch_program"]
        programs["DDP"] = (program, {})
        programs["FSDP2"] = (program, {"WRAP": "fsdp"})
    for name, (command, variables) in programs.items():
        for event, pauses in _pauses(command, variables).items():
            figures[f"{name}, {event}: pause, s"] = statistics.median(pauses)
            figures[f"{name}, {event}: worst, s"] = max(pauses)
    if TORCH.exists():
        figures["torchrun, kill one: pause, s"] = _torchrun_pause()
    return figures


def _pauses(command: list[str], variables: dict[str, str]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {event: [] for event in EVENTS}
    with tempfile.TemporaryDirectory() as folder:
        cluster = TrainingCluster(
            Path(folder), command, EPOCHS=EPOCHS, STEP_S="0.02", OMP_NUM_THREADS="1", **variables
        )
        try:
            cluster.begin(4)
            cluster.wait_for_size(4, within_s=120)
            for _ in range(ROUNDS):
                _round(cluster, found)
        finally:
            cluster.close()
    return found


def _round(cluster: TrainingCluster, found: dict[str, list[float]]) -> None:
    for event in EVENTS:
        time.sleep(1.0)
        at = _cause(cluster, event)
        size = {"4 to 2": 2, "2 to 4": 4}.get(event, 3)
        cluster.wait_for_size(size, at, within_s=120)
        time.sleep(0.3)
        # Newcomers join when they are loaded: the pause is when they do, not when they start.
        span = time.time() - at
        found[event].append(cluster.pause_after(at, span))
        if event.startswith("kill"):
            cluster.wait_for_size(4, at, within_s=120)


def _cause(cluster: TrainingCluster, event: str) -> float:
    match event:
        case "kill one":
            leader = cluster.leader()
            return cluster.replace(next(i for i in range(4) if i != leader))
        case "kill the leader":
            return cluster.replace(cluster.leader())
        case _:
            return cluster.resize(2 if event == "4 to 2" else 4)


def _torchrun_pause() -> float:
    """The time in which no survivor trains after one of four agents and its trainer are killed."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free.getsockname()[1]}"]
        free.close()
        steps = Path(folder) / "steps"
        env = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "STEPS_FILE": str(steps),
            "OMP_NUM_THREADS": "1",
            # Without it agents of torch 2.5 and later do not recover at all.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        command = [*TORCHRUN, *rendezvous, "--max-restarts=100", "-m", "bench.training_plain"]
        agents = [
            subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, stderr=-3)
            for _ in range(4)
        ]
        try:
            _wait_for_size(steps, 4, 0.0)
            time.sleep(2.0)
            at = time.time()
            os.killpg(agents[3].pid, signal.SIGKILL)
            return _wait_for_size(steps, 3, at) - at
        finally:
            for agent in agents:
                os.killpg(agent.pid, signal.SIGKILL)
                agent.wait()


def _wait_for_size(steps: Path, size: int, since: float, within_s: float = 180.0) -> float:
    """The time of the first step of a group of this size; infinite if there was none."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for line in steps.read_text().splitlines() if steps.exists() else []:
            at, _, n = line.partition(" ")
            if float(at) > since and n == str(size):
                return float(at)
        time.sleep(0.05)
    return float("inf")
