"""The job that `swell run -- CMD` makes of a command line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from swell.api.meta import Body
from swell.api.times import parse_time
from swell.cli.command_line import CommandError
from swell.cli.jobs.command_job import MEMBERS_FOLDER, CommandOptions, add_caller, command_job
from swell.cli.jobs.warnings import ClusterFacts, warnings_about

HERE = Path("/work/place")


def made(asked: CommandOptions, environ: dict[str, str] | None = None) -> Body:
    return command_job("fit", ("python", "train.py"), asked, environ or {}).body


def role_of(job: Body) -> Body:
    role: Body = job["spec"]["replicaSpecs"]["trainer"]
    return role


def container_of(job: Body) -> Body:
    container: Body = role_of(job)["template"]["spec"]["containers"][0]
    return container


def variables_of(job: Body) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container_of(job).get("env") or ()}


def test_command_without_flags_is_one_fixed_pod() -> None:
    """The least that a job needs."""
    job = made(CommandOptions())

    assert container_of(job) == {
        "name": "aitj-trainer",
        "image": "local",
        "command": ["python", "train.py"],
    }
    assert (role_of(job)["replicas"], role_of(job)["edlPolicy"]) == (1, "Never")


def test_flags_become_fields_of_the_job() -> None:
    """Every flag has its place in the manifest."""
    asked = CommandOptions(
        cpu="1",
        gpu="2",
        image="torch",
        queue="vision",
        priority="high",
        framework="pytorch",
        restart=3,
        time_limit=7200.0,
        label=["team=a", "run=b"],
        workdir="/data",
    )
    job = made(asked)

    assert {k: v for k, v in job["spec"].items() if k != "replicaSpecs"} == {
        "queue": "vision",
        "priority": "high",
        "frameworkType": "pytorch",
        "timeLimit": 7200,
    }
    assert job["metadata"]["labels"] == {"team": "a", "run": "b"}
    assert (role_of(job)["restartPolicy"], role_of(job)["restartLimit"]) == ("OnFailure", 3)
    container = container_of(job)
    assert (container["image"], container["workingDir"]) == ("torch", "/data")
    assert container["resources"]["limits"] == {"cpu": "1", "nvidia.com/gpu": "2"}


def test_job_that_may_grow_is_elastic_in_fact() -> None:
    """Members are mounted, a port is open, and a lost pod comes again; nothing is warned about."""
    job = made(CommandOptions(least=1, most=4))
    role, container = role_of(job), container_of(job)

    assert (role["edlPolicy"], role["restartPolicy"]) == ("Auto", "OnNodeFail")
    assert container["volumeMounts"][0]["mountPath"] == MEMBERS_FOLDER
    assert role["template"]["spec"]["volumes"][0]["configMap"]["name"] == "fit-members"
    assert container["ports"]
    add_caller(job, CommandOptions(), {}, HERE)
    assert warnings_about(job, ClusterFacts()) == []


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ("python train.py --lr 1", "python -m swell.train.launch F train.py --lr 1"),
        ("python -u train.py", "python -m swell.train.launch F train.py"),
        ("/venv/bin/python3.12 -m t", "/venv/bin/python3.12 -m swell.train.launch F -m t"),
        ("torchrun train.py", "torchrun F train.py"),
        ("swell launch --cold t.py", "swell launch F --cold t.py"),
        ("./train.sh 1", "python -m swell.train.launch F --no-python ./train.sh 1"),
    ],
)
def test_several_workers_are_started_by_a_launcher(command: str, becomes: str) -> None:
    """Its own flag is given to a launcher, and other programs are handed to ours."""
    asked = CommandOptions(nproc_per_node="4")
    job = command_job("fit", command.split(), asked, {}).body

    flag = ["--nproc-per-node", "4"]
    at = becomes.split().index("F")
    words = becomes.split()
    assert container_of(job)["command"] == [*words[:at], *flag, *words[at + 1 :]]


@pytest.mark.parametrize(
    ("command", "workers"), [("python train.py", "0"), ("python -c x", "2"), ("python", "2")]
)
def test_workers_that_cannot_be_started_are_a_mistake_of_usage(command: str, workers: str) -> None:
    """Neither none of them, nor workers of a program that is no script."""
    with pytest.raises(CommandError) as refused:
        command_job("fit", command.split(), CommandOptions(nproc_per_node=workers), {})

    assert (refused.value.exit_code, "--nproc-per-node" in str(refused.value)) == (2, True)


@pytest.mark.parametrize(
    ("place", "folder", "source"),
    [
        ("/ckpt/a", "/ckpt/a", {"hostPath": {"path": "/ckpt/a", "type": "DirectoryOrCreate"}}),
        ("disk:/ckpt", "/ckpt", {"persistentVolumeClaim": {"claimName": "disk"}}),
    ],
)
def test_checkpoints_are_mounted_and_named(place: str, folder: str, source: Body) -> None:
    """The folder is a volume of every pod, beside that of the members, and a variable names it."""
    job = made(CommandOptions(least=1, most=2, checkpoints=place))

    assert role_of(job)["template"]["spec"]["volumes"][1] == {"name": "checkpoints", **source}
    assert container_of(job)["volumeMounts"][1]["mountPath"] == folder
    assert variables_of(job) == {"SWELL_CHECKPOINTS": folder}


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("import os\nfrom swell.train import Elastic\n", True),
        ("def main():\n    import swell.train as t\n", True),
        ("from swell import train\n", True),
        ("from swell import (\n    connect,\n    train,\n)\n", True),
        ("import swell\n# from swell.train import Elastic\n", False),
        ("from swell.trainers import x\nfrom swell import connect  # train\n", False),
    ],
)
def test_scripts_that_train_with_the_library_get_its_parts(
    tmp_path: Path, text: str, asks: bool
) -> None:
    """Without them each pod would train alone, on all of the data; a flag outweighs that."""
    (tmp_path / "fit.py").write_text(text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__main__.py").write_text(text)

    def asked(command: str, flag: bool | None = None) -> object:
        flags = CommandOptions(workdir=str(tmp_path), reporting=flag)
        return command_job("fit", command.split(), flags, {}).body["spec"].get("reporting")

    expected = True if asks else None
    assert asked("python fit.py --lr 1") is expected
    assert asked("python -m mine") is expected
    assert asked("python -m mine.absent other.py") is None
    assert (asked("python fit.py", False), asked("sh -c fit", True)) == (False, True)


def test_variables_come_from_flags_and_a_file(tmp_path: Path) -> None:
    """A bare name is the caller's; flags outweigh the file."""
    file = tmp_path / "env"
    file.write_text("# comment\nA=1\nexport B=2\n\nHOME\n")
    asked = CommandOptions(env=["A=9", "LR=0.1=x"], env_file=str(file))

    assert variables_of(made(asked, {"HOME": "/home/ada"})) == {
        "A": "9",
        "B": "2",
        "HOME": "/home/ada",
        "LR": "0.1=x",
    }


@pytest.mark.parametrize(
    "asked",
    [CommandOptions(env=["MISSING"]), CommandOptions(env=["=x"]), CommandOptions(label=["x"])],
)
def test_wrong_pair_is_a_mistake_of_usage(asked: CommandOptions) -> None:
    """A variable that is not set, or a pair that is none."""
    with pytest.raises(CommandError) as refused:
        made(asked)

    assert refused.value.exit_code == 2


def test_active_environment_of_the_caller_is_that_of_the_job() -> None:
    """PATH, VIRTUAL_ENV and CONDA_PREFIX pass; the folder is the caller's."""
    environ = {"PATH": "/venv/bin:/bin", "VIRTUAL_ENV": "/venv", "SECRET": "x"}
    job = made(CommandOptions())
    add_caller(job, CommandOptions(), environ, HERE)

    assert variables_of(job) == {"PATH": "/venv/bin:/bin", "VIRTUAL_ENV": "/venv"}
    assert container_of(job)["workingDir"] == str(HERE)


def test_python_is_ours_where_no_environment_is_active() -> None:
    """Without a virtual environment, `python` is the interpreter that runs Swell."""
    job = made(CommandOptions())
    add_caller(job, CommandOptions(), {"PATH": "/bin"}, HERE)

    assert variables_of(job) == {"PATH": f"{Path(sys.executable).parent}{os.pathsep}/bin"}


def test_flags_outweigh_the_environment_of_the_caller() -> None:
    """--env and --workdir are kept; --clean-env passes nothing."""
    asked = CommandOptions(env=["PATH=/mine"], workdir="/data")
    job = made(asked)
    add_caller(job, asked, {"PATH": "/bin", "VIRTUAL_ENV": "/venv"}, HERE)
    clean = made(CommandOptions(clean_env=True))
    add_caller(clean, CommandOptions(clean_env=True), {"PATH": "/bin"}, HERE)

    assert variables_of(job) == {"VIRTUAL_ENV": "/venv", "PATH": "/mine"}
    assert container_of(job)["workingDir"] == "/data"
    assert variables_of(clean) == {}


def test_job_may_come_after_others() -> None:
    """As with `swell run --after prepare --after fetch`; a name that is given twice counts once."""
    job = made(CommandOptions(after=["prepare", "fetch", "prepare"]))

    assert job["spec"]["after"] == ["prepare", "fetch"]
    assert "after" not in made(CommandOptions())["spec"]


def test_deadline_is_a_time_or_so_long_after_now() -> None:
    """As with `swell run --deadline 8h`; what is neither is refused like that of a manifest."""
    given = made(CommandOptions(deadline="2027-01-01T06:00:00Z"))
    before = time.time()
    later = made(CommandOptions(deadline="8h"))

    assert given["spec"]["deadline"] == "2027-01-01T06:00:00Z"
    assert 0 <= parse_time(later["spec"]["deadline"]) - int(before) - 8 * 3600 <= 60
    with pytest.raises(CommandError, match="1 problem found"):
        made(CommandOptions(deadline="tomorrow"))
