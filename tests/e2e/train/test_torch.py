"""Real PyTorch through a kill, a leader's kill, a shrink and growth."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.train.cluster import ROOT, TrainingCluster

pytestmark = pytest.mark.long

PYTHON = Path(os.environ.get("SWELL_TORCH_PYTHON", ROOT / ".venv" / "torch" / "bin" / "python"))
PROGRAM = [str(PYTHON), "-m", "tests.e2e.train.torch_program"]
EPOCHS = "10"
N_STEPS = 10 * 134
# Four processes load torch at once, beside other tests.
WITHIN_S = 240.0
# A step, at first, and while processes come and go: all steps then take longer than any process
# takes to load.
FAST_S, SLOW_S = 0.03, 0.5


@pytest.fixture(scope="module", autouse=True)
def torch_is_installed() -> None:
    """These tests are never skipped: `make e2e` installs torch."""
    assert PYTHON.exists(), f"there is no torch at {PYTHON}: run them by `make e2e`"


@pytest.fixture(scope="module")
def undisturbed() -> np.ndarray:
    """The weights that one process reaches alone, without Swell."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "EPOCHS": EPOCHS}
    output = subprocess.run(PROGRAM, cwd=ROOT, env=env, check=True, capture_output=True)
    return np.array(json.loads(output.stdout.splitlines()[-1])["final"])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TrainingCluster]:
    made = TrainingCluster(tmp_path, PROGRAM, EPOCHS=EPOCHS)
    made.set_pace(FAST_S)
    yield made
    made.close()


def test_ddp_survives_and_ends_as_if_undisturbed(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """Survivors stay in their process; the weights are those of one process within 1e-5."""
    cluster.begin(4)
    cluster.wait_for_size(4, within_s=WITHIN_S)
    cluster.set_pace(SLOW_S)
    killed = cluster.replace(2)
    cluster.wait_for_size(3, killed, WITHIN_S)
    cluster.wait_for_size(4, killed, within_s=WITHIN_S)
    lost = cluster.replace(cluster.leader())
    cluster.wait_for_size(3, lost, WITHIN_S)
    cluster.wait_for_size(4, lost, within_s=WITHIN_S)
    shrunk = cluster.resize(2)
    cluster.wait_for_size(2, shrunk, WITHIN_S)
    grown = cluster.resize(4)
    cluster.wait_for_size(4, grown, within_s=WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0, 0, 0]

    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 4
    for fact in finals:
        assert fact["steps"] == N_STEPS
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-5


def test_fsdp_goes_on_from_copies_of_shards(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """A death costs no more steps than lie between two copies, and no disk is read."""
    cluster.set_variable("WRAP", "fsdp")
    cluster.set_variable("COPY_STEPS", "10")
    cluster.begin(3)
    cluster.wait(lambda: any(f.get("step", 0) > 20 for f in cluster.facts()), within_s=WITHIN_S)
    cluster.set_pace(SLOW_S)
    killed = cluster.replace(1)
    cluster.wait_for_size(2, killed, within_s=WITHIN_S)
    before = max(f["step"] for f in cluster.facts() if "step" in f and f["at"] < killed)
    smaller = [f for f in cluster.facts(killed) if f.get("size") == 2]
    again = min(f["step"] for f in smaller)
    # A survivor may tell late of its last step with the one that was killed.
    cluster.wait_for_size(3, max(f["at"] for f in smaller), WITHIN_S)
    shrunk = cluster.resize(2)
    cluster.wait_for_size(2, shrunk, within_s=WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600)[:2] == [0, 0]

    assert before - again < 12
    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 2
    for fact in finals:
        assert fact["steps"] == N_STEPS
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-5


def test_fsdp_survives_its_leader_and_grows(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """Shards are cut anew for the successor of the leader, for two more members, and for fewer."""
    cluster.set_variable("WRAP", "fsdp")
    cluster.begin(2)
    cluster.wait(lambda: any(f.get("step", 0) > 20 for f in cluster.facts()), WITHIN_S)
    cluster.set_pace(SLOW_S)
    lost = cluster.replace(cluster.leader())
    cluster.wait_for_size(1, lost, WITHIN_S)
    cluster.wait_for_size(2, lost, WITHIN_S)
    grown = cluster.resize(4)
    cluster.wait_for_size(4, grown, WITHIN_S)
    shrunk = cluster.resize(3)
    cluster.wait_for_size(3, shrunk, WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600)[:3] == [0, 0, 0]

    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 3
    for fact in finals:
        assert fact["steps"] == N_STEPS
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-5


def test_fsdp_with_two_copies_survives_two_deaths(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """Two neighbours of four die at once, and with them one shard and its nearer copy."""
    cluster.set_variable("WRAP", "fsdp")
    cluster.set_variable("COPIES", "2")
    cluster.begin(4)
    cluster.wait(lambda: any(f.get("step", 0) > 20 for f in cluster.facts()), WITHIN_S)
    cluster.set_pace(SLOW_S)
    indexes = {f["rank"]: f["index"] for f in cluster.facts() if f.get("size") == 4}
    lost = cluster.replace(indexes[1], indexes[2])
    cluster.wait_for_size(2, lost, WITHIN_S)
    before = max(f["step"] for f in cluster.facts() if "step" in f and f["at"] < lost)
    again = min(f["step"] for f in cluster.facts(lost) if f.get("size") == 2)
    cluster.wait_for_size(4, lost, WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0, 0, 0]

    assert before - again < 12
    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 4
    for fact in finals:
        assert fact["steps"] == N_STEPS
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-5


def test_fsdp_goes_back_to_its_checkpoint_after_too_many_losses(
    cluster: TrainingCluster, undisturbed: np.ndarray, tmp_path: Path
) -> None:
    """Two of three die at once, and one shard with all its copies: no step is lost for good."""
    cluster.set_variable("WRAP", "fsdp")
    cluster.set_variable("CHECKPOINT", str(tmp_path / "checkpoint"))
    cluster.set_variable("SAVE_EVERY", "1")
    cluster.begin(3)
    cluster.wait(lambda: any(f.get("step", 0) > 150 for f in cluster.facts()), WITHIN_S)
    cluster.set_pace(SLOW_S)
    lost = cluster.replace(1, 2)

    def redone() -> list[int]:
        """The steps that the successors have done, and those of the survivor alone."""
        facts = [fact for fact in cluster.facts(lost) if "step" in fact]
        return [f["step"] for f in facts if f["size"] == 1 or f["process"] in {"1-2", "2-2"}]

    cluster.wait(redone, WITHIN_S)
    before = max(f["step"] for f in cluster.facts() if "step" in f and f["at"] < lost)
    again = min(redone())
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0, 0]

    assert 1 < again <= before + 1
    finals = [fact for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 3
    for fact in finals:
        assert fact["steps"] == N_STEPS
        assert np.abs(np.array(fact["final"]) - undisturbed).max() < 1e-5


def test_whole_job_preempted_loses_no_step(
    cluster: TrainingCluster, undisturbed: np.ndarray, tmp_path: Path
) -> None:
    """All members save together when they are told to go; the next ones go on from there."""
    cluster.set_variable("CHECKPOINT", str(tmp_path / "checkpoint"))
    cluster.begin(2)
    cluster.wait(lambda: any(f.get("step", 0) > 50 for f in cluster.facts()), within_s=WITHIN_S)
    for process in cluster.processes.values():
        process.terminate()
    assert cluster.wait_for_end() == [143, 143]
    reached = max(fact.get("step", 0) for fact in cluster.facts())
    cluster.begin(2)

    assert cluster.wait_for_end(300) == [0, 0]

    resumed = [f for f in cluster.facts() if f["process"] in {"0-2", "1-2"} and "step" in f]
    assert min(fact["step"] for fact in resumed) == reached + 1
    final = next(fact for fact in cluster.facts() if "final" in fact)
    assert np.abs(np.array(final["final"]) - undisturbed).max() < 1e-5


def test_members_that_scale_by_the_noise_have_equal_weights(cluster: TrainingCluster) -> None:
    """A newcomer steps as far as the others do, who have measured the noise before it came."""
    cluster.set_variable("SCALE", "adascale")
    cluster.begin(2)
    cluster.wait(lambda: any(f.get("step", 0) > 45 for f in cluster.facts()), WITHIN_S)
    cluster.set_pace(SLOW_S)
    grown = cluster.resize(3)
    cluster.wait_for_size(3, grown, WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0, 0]

    finals = [fact["final"] for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 3
    assert np.ptp(np.array(finals), axis=0).max() < 1e-9


def test_a_wrapper_of_the_users_own_ends_as_if_undisturbed(
    cluster: TrainingCluster, undisturbed: np.ndarray
) -> None:
    """It is made anew for every group, and averages without knowing how large the parts are."""
    cluster.set_variable("WRAP", "own")
    cluster.begin(3)
    cluster.wait_for_size(3, within_s=WITHIN_S)
    cluster.set_pace(SLOW_S)
    killed = cluster.replace(1)
    cluster.wait_for_size(2, killed, WITHIN_S)
    cluster.wait_for_size(3, killed, WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0, 0]

    finals = [fact["final"] for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 3
    for final in finals:
        assert np.abs(np.array(final) - undisturbed).max() < 1e-5


@pytest.mark.parametrize("wrap", ["", "fsdp"])
def test_batches_in_parts_end_as_if_undisturbed(
    cluster: TrainingCluster, undisturbed: np.ndarray, wrap: str
) -> None:
    """Gradients of parts are added up before they are averaged; the model is used between steps."""
    cluster.set_variable("PARTS", "2")
    cluster.set_variable("WRAP", wrap)
    if not wrap:
        cluster.set_variable("LOOKS", "1")
    cluster.begin(3)
    cluster.wait_for_size(3, within_s=WITHIN_S)
    cluster.set_pace(SLOW_S)
    killed = cluster.replace(1)
    cluster.wait_for_size(2, killed, WITHIN_S)
    cluster.wait_for_size(3, killed, WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0, 0]

    finals = [fact["final"] for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 3
    for final in finals:
        assert np.abs(np.array(final) - undisturbed).max() < 1e-5


@pytest.mark.parametrize("wrap", ["", "fsdp"])
def test_layers_that_are_trained_later_end_as_if_undisturbed(
    cluster: TrainingCluster, wrap: str
) -> None:
    """A script thaws them when its second epoch begins; one that is new has them frozen."""
    cluster.set_variable("THAWS", "1")
    cluster.set_variable("WRAP", wrap)
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "EPOCHS": EPOCHS, "THAWS": "1"}
    output = subprocess.run(PROGRAM, cwd=ROOT, env=env, check=True, capture_output=True)
    undisturbed = np.array(json.loads(output.stdout.splitlines()[-1])["final"])
    cluster.begin(2)
    cluster.wait(lambda: any(f.get("step", 0) > 150 for f in cluster.facts()), WITHIN_S)
    cluster.set_pace(SLOW_S)
    killed = cluster.replace(1)
    cluster.wait_for_size(1, killed, WITHIN_S)
    cluster.wait_for_size(2, killed, WITHIN_S)
    cluster.set_pace(0.0)

    assert cluster.wait_for_end(600) == [0, 0]

    finals = [fact["final"] for fact in cluster.facts() if "final" in fact]
    assert len(finals) == 2
    for final in finals:
        assert np.abs(np.array(final) - undisturbed).max() < 1e-5


def test_what_scripts_do_besides_the_plain_loop() -> None:
    """Scalers, streams with a length, threads; what cannot be all or nothing is refused."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    program = [str(PYTHON), "-m", "tests.e2e.train.loop_program"]
    output = subprocess.run(program, cwd=ROOT, env=env, check=True, capture_output=True)
    found = json.loads(output.stdout.splitlines()[-1])

    assert found.pop("no place").startswith("a Endless cannot be trained on exactly once")
    assert found.pop("two updates").startswith("a second optimizer.step() in one step")
    assert found.pop("late update").startswith("an optimizer.step() after the step that")
    assert found.pop("closure").startswith("optimizer.step has a closure")
    assert found.pop("optimizers").startswith("the optimizer is a list: give one optimizer")
    assert found.pop("own group").startswith("torch.distributed has a group already: Elastic forms")
    assert found.pop("history").endswith("a tensor with its history: keep `.detach()` of it")
    assert found.pop("other optimizer").startswith("a Adam updates the model, and Elastic was not")
    for name in ("outside", "outside of shards"):
        assert found.pop(name).startswith("the optimizer has a parameter of shape (2,) that is not")
    assert found.pop("loader").startswith("a DataLoader has cut its batches already")
    assert found.pop("another wrapper") == [
        "none",
        "the checkpoint was made without `wrap=train.fsdp`",
        "none",
        "the checkpoint was made with `wrap=train.fsdp`, in shards",
    ]
    assert found == {
        "modes": [True, False, True, False],
        "updates": 2,
        "several optimizers": 2,
        "scaler": True,
        "left out": True,
        "stream": 48,
        "workers": 48,
        "first example of the page": 6,
    }


def test_under_torchrun_and_alone_it_runs_unchanged(tmp_path: Path) -> None:
    """The example trains as one process, and with torchrun's variables."""
    example = str(ROOT / "examples" / "train" / "elastic_ddp.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "EPOCHS": "1"}
    alone = subprocess.run([str(PYTHON), example], env=env, capture_output=True, check=True)
    torchrun = [str(PYTHON), "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    several = subprocess.run([*torchrun, example], env=env, capture_output=True, check=True)

    assert alone.stdout.startswith(b"loss ")
    assert several.stdout.count(b"loss ") == 2


def test_optimizers_update_shards_as_they_update_whole_parameters() -> None:
    """Those that work element by element see plain tensors, and end with the same weights."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    program = [str(PYTHON), "-m", "tests.e2e.train.local_updates_program"]
    output = subprocess.run(program, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    lines = [line.split() for line in output.stdout.splitlines()]

    assert [name for name, _, is_equal in lines if is_equal != "True"] == []
    assert [name for name, sees, _ in lines if sees == "whole"] == ["Own"]
    assert len(lines) == 12
