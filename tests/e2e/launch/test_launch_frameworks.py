"""`swell launch` with real frameworks: scripts that know nothing of it survive every change."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from swell.train.launch.arguments import parser
from tests.e2e.launch.programs import (
    JAX,
    JAX_SUM,
    PADDLE,
    PADDLE_SUM,
    TORCH,
    TORCH_DDP,
    interpreter,
    library_path,
)
from tests.e2e.launch.stories import WITHIN_S, pauses, training
from tests.unit.train.launch.members import COUNTING, LaunchedMembers, swell_launch

pytestmark = pytest.mark.long
# Whether the process catches SIGTERM, before and after JAX has met others.
JAX_SIGNALS = """
import os, pathlib, signal, jax
def is_caught():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)
print(is_caught())
jax.distributed.initialize(os.environ["ADDRESS"], num_processes=1, process_id=0)
print(is_caught())
"""
# torchrun whose agents die by themselves: once of each rank that the file `due` names, of three.
DYING = """
import os, pathlib, sys
from torch.distributed.elastic.agent.server import api
here = pathlib.Path(sys.argv[0]).parent
real = api.SimpleElasticAgent._assign_worker_ranks
def assign(agent, store, group_rank, group_world_size, spec):
    dead = here / f"dead-{group_rank}"
    is_due = group_world_size == 3 and (here / "due").read_text() == str(group_rank)
    if is_due and not dead.exists():
        new = here / "dying"
        new.write_text(os.environ["TRAININGJOB_REPLICA_INDEX"])
        new.rename(dead)
        os.kill(os.getpid(), 9)
    return real(agent, store, group_rank, group_world_size, spec)
api.SimpleElasticAgent._assign_worker_ranks = assign
from torch.distributed.run import main
sys.argv[0] = "torchrun"
main()
"""


def check_steps(members: LaunchedMembers) -> None:
    """No step was lost: the first step of every group follows one that was done before."""
    done = 0
    groups: dict[int, list[int]] = {}
    for fact in members.facts():
        if fact["rank"] == 0:
            groups.setdefault(fact["pid"], []).append(fact["step"])
    for steps in groups.values():
        assert steps == list(range(steps[0], steps[0] + len(steps)))
        assert steps[0] <= done + 2  # rank 0 saves a step before it tells it, and may die between
        done = steps[-1]


@pytest.mark.parametrize(
    ("program", "python", "way"),
    [
        (TORCH_DDP, TORCH, ["--framework", "pytorch"]),
        (TORCH_DDP, TORCH, ["--framework", "pytorch", "--cold"]),
        (JAX_SUM, JAX, ["--framework", "jax"]),
        (PADDLE_SUM, PADDLE, ["--framework", "paddle"]),
    ],
    ids=["torch-warm", "torch-cold", "jax-warm", "paddle-warm"],
)
def test_program_survives_changes(
    tmp_path: Path, program: str, python: Path, way: list[str]
) -> None:
    """One dies, the leader dies, two leave, two come: it trains on, and no launcher has ended."""
    script = tmp_path / "train.py"
    script.write_text(program)
    command = swell_launch(*way, str(script), python=interpreter(python))
    with training(tmp_path, command, library_path(tmp_path)) as members:
        pauses(members)

        assert all(one.poll() is None for one in members.launchers.values()), members.log()
        check_steps(members)


def test_torchrun_meets_through_the_members(tmp_path: Path) -> None:
    """`torchrun --rdzv-backend=swell`, by torch's entry point, through the same changes."""
    script = tmp_path / "train.py"
    script.write_text(TORCH_DDP)
    flags = ["--rdzv-backend=swell", "--nnodes=1:4", "--max-restarts=100"]
    command = [interpreter(TORCH), "-m", "torch.distributed.run", *flags, str(script)]
    with training(tmp_path, command, library_path(tmp_path)) as members:
        pauses(members)

        assert all(one.poll() is None for one in members.launchers.values()), members.log()
        check_steps(members)


def test_torchrun_survives_deaths_while_ranks_are_given(tmp_path: Path) -> None:
    """An agent dies right after all have met, before it says how many workers it has.

    The others would wait for what it says, or end when the store is gone that it keeps.
    """
    (tmp_path / "dying.py").write_text(DYING)
    script = tmp_path / "train.py"
    # Workers of torchrun outlive an agent that is killed; those of this test end with it.
    script.write_text("import ctypes; ctypes.CDLL(None).prctl(1, 9)\n" + COUNTING)
    flags = ["--rdzv-backend=swell", "--nnodes=1:4", "--max-restarts=0"]
    command = [interpreter(TORCH), str(tmp_path / "dying.py"), *flags, str(script)]
    environ = library_path(tmp_path) | {"SWELL_GENERATION": "0"}
    members = LaunchedMembers(tmp_path, command, environ)
    due = tmp_path / "due"
    try:
        due.write_text("1")
        members.resize(3)
        members.start(0, 1, 2)
        for rank in (1, 0):
            dead = tmp_path / f"dead-{rank}"
            members.wait(dead.exists, WITHIN_S)
            index, died_at = int(dead.read_text()), dead.stat().st_mtime
            members.trains(2, died_at, WITHIN_S)
            due.write_text("0")
            members.launchers[index].wait()
            members.start(index)
            members.resize(3)

        assert members.trains(3, died_at, WITHIN_S)
        assert all(one.poll() is None for one in members.launchers.values()), members.log()
    finally:
        members.close()


def test_all_flags_of_the_real_torchrun_are_accepted() -> None:
    """In every spelling; what prints a completion of torchrun itself starts no script."""
    asked = "from torch.distributed.run import get_args_parser as g\n"
    asked += "print(*(o for a in g()._actions if a.dest != 'print_completion'"
    asked += " for o in a.option_strings))"
    found = subprocess.run(
        [interpreter(TORCH), "-c", asked], capture_output=True, text=True, check=True
    )
    accepted = {option for action in parser()._actions for option in action.option_strings}
    flags = set(found.stdout.split())

    assert "--nproc_per_node" in flags
    assert flags - accepted == set()


def test_training_ends(tmp_path: Path) -> None:
    """Every launcher ends well, and all steps are done."""
    script = tmp_path / "train.py"
    script.write_text(TORCH_DDP)
    command = swell_launch("--nproc-per-node", "2", str(script), python=interpreter(TORCH))
    members = LaunchedMembers(tmp_path, command, {"STEPS": "50"})
    try:
        members.resize(2)
        members.start(0, 1)
        for launcher in members.launchers.values():
            assert launcher.wait(WITHIN_S) == 0, members.log()
    finally:
        members.close()
    # A launcher that loads for long is not waited for: the first steps may be those of the other.
    check_steps(members)
    assert max(fact["step"] for fact in members.facts()) == 50


@pytest.mark.parametrize(("service", "is_caught"), [("true", True), ("false", False)])
def test_jax_catches_sigterm_once_its_processes_have_met(service: str, is_caught: bool) -> None:
    """So workers of JAX get a shorter grace period at a change; the service can be turned off."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environ = {**os.environ, "JAX_ENABLE_PREEMPTION_SERVICE": service, "ADDRESS": address}
    environ.pop("PYTHONWARNINGS", None)
    command = [interpreter(JAX), "-c", JAX_SIGNALS]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    assert ended.stdout.split() == ["False", str(is_caught)], ended.stderr
