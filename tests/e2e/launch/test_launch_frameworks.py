"""`swell launch` with real frameworks: scripts that know nothing of it survive every change."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.e2e.launch.programs import (
    JAX,
    JAX_SUM,
    PADDLE,
    PADDLE_SUM,
    ROOT,
    TORCH,
    TORCH_DDP,
    interpreter,
)
from tests.e2e.launch.stories import WITHIN_S, pauses, training
from tests.unit.train.launch.members import LaunchedMembers, swell_launch

pytestmark = pytest.mark.long
# Figures are measured by `python -m bench`; here a pause has to be shorter than a start of the
# framework on a machine that runs other tests.
WARM_S_MAX = 15.0
COLD_S_MAX = 60.0


def check_steps(members: LaunchedMembers) -> None:
    """No step was lost: the first step of every group follows one that was done before."""
    done = 0
    groups: dict[int, list[int]] = {}
    for fact in members.facts():
        if fact["rank"] == 0:
            groups.setdefault(fact["pid"], []).append(fact["step"])
    for steps in groups.values():
        assert steps == list(range(steps[0], steps[0] + len(steps)))
        assert steps[0] <= done + 1
        done = steps[-1]


@pytest.mark.parametrize(
    ("program", "python", "way", "limit_s"),
    [
        (TORCH_DDP, TORCH, ["--framework", "pytorch"], WARM_S_MAX),
        (TORCH_DDP, TORCH, ["--framework", "pytorch", "--cold"], COLD_S_MAX),
        (JAX_SUM, JAX, ["--framework", "jax"], WARM_S_MAX),
        (PADDLE_SUM, PADDLE, ["--framework", "paddle"], WARM_S_MAX),
    ],
    ids=["torch-warm", "torch-cold", "jax-warm", "paddle-warm"],
)
def test_program_survives_changes(
    tmp_path: Path, program: str, python: Path, way: list[str], limit_s: float
) -> None:
    """One dies, the leader dies, two leave, two come: it trains on, and no launcher has ended."""
    script = tmp_path / "train.py"
    script.write_text(program)
    command = swell_launch(*way, str(script), python=interpreter(python))
    with training(tmp_path, command, library_path(tmp_path, python)) as members:
        found = pauses(members)

        assert all(one.poll() is None for one in members.launchers.values()), members.log()
        check_steps(members)
    assert max(found.values()) < limit_s, found


def test_torchrun_meets_through_the_members(tmp_path: Path) -> None:
    """`torchrun --rdzv-backend=swell`, by torch's entry point, through the same changes."""
    script = tmp_path / "train.py"
    script.write_text(TORCH_DDP)
    flags = ["--rdzv-backend=swell", "--nnodes=1:4", "--max-restarts=100"]
    command = [interpreter(TORCH), "-m", "torch.distributed.run", *flags, str(script)]
    with training(tmp_path, command, library_path(tmp_path, TORCH)) as members:
        found = pauses(members)

        assert all(one.poll() is None for one in members.launchers.values()), members.log()
        check_steps(members)
    assert max(found.values()) < COLD_S_MAX, found


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
    steps = [fact["step"] for fact in members.facts(size=4) if fact["rank"] == 0]
    assert steps == list(range(1, 51))


def library_path(folder: Path, python: Path) -> dict[str, str]:
    """PYTHONPATH of this tree, with the entry points that an installed package has."""
    if python == JAX:
        return {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / "site" / "swell-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: swell\nVersion: 0\n")
    lines = ["[torchrun.handlers]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["torchrun.handlers"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": f"{ROOT / 'src'}:{folder / 'site'}"}
