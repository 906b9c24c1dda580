"""Commands that need no cluster, and how the command line answers misuse."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from swell.cli.main import COMMANDS, run

GOOD = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit}
spec:
  replicaSpecs:
    Trainer:
      minReplicas: 2
      template: {spec: {containers: [{name: aitj-trainer, image: local}]}}
"""
BAD = GOOD.replace("minReplicas: 2", "minReplicas: 0\n      edlPolicy: Autto")


def write(folder: Path, text: str) -> str:
    path = folder / "job.yaml"
    path.write_text(text)
    return str(path)


def test_validate_accepts_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A valid file: exit 0, nothing said."""
    assert run(["validate", write(tmp_path, GOOD)]) == 0
    assert capsys.readouterr() == ("", "")


def test_validate_tells_every_problem_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FILE:LINE: PATH: message (hint), on stderr, all at once."""
    file = write(tmp_path, BAD)

    assert run(["validate", file]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{file}:7: spec.replicaSpecs.Trainer.minReplicas: " in err
    assert f"{file}:8: spec.replicaSpecs.Trainer.edlPolicy: " in err
    assert "Auto" in err


def test_validate_json_lists_the_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object with the verdict and each problem's place."""
    file = write(tmp_path, BAD)
    code = run(["validate", file, "-o", "json"])
    report = json.loads(capsys.readouterr().out)

    assert code == 1
    assert report["valid"] is False
    assert all(set(e) == {"file", "line", "path", "message", "hint"} for e in report["errors"])
    assert run(["validate", write(tmp_path, GOOD), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"valid": True, "errors": []}


def test_validate_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` is stdin."""

    class Stdin:
        buffer = io.BytesIO(BAD.encode())

    monkeypatch.setattr("sys.stdin", Stdin)

    assert run(["validate", "-"]) == 1
    assert "-:7: " in capsys.readouterr().err


def test_validate_of_a_missing_file_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback for what cannot be opened."""
    assert run(["validate", "/nowhere/job.yaml"]) == 1
    assert capsys.readouterr().err == "error: /nowhere/job.yaml: no such file\n  check the path\n"


def test_render_prints_jobs_with_defaults_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other objects are left out; sizes and roles are as the operator will see them."""
    other = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"

    assert run(["render", write(tmp_path, GOOD + other)]) == 0
    (job,) = yaml.safe_load_all(capsys.readouterr().out)
    role = job["spec"]["replicaSpecs"]["trainer"]
    assert (role["replicas"], role["minReplicas"], role["maxReplicas"]) == (2, 2, 2)
    assert job["spec"]["cleanPodPolicy"] == "All"


def test_crds_are_those_that_are_checked_in(capsys: pytest.CaptureFixture[str]) -> None:
    """What the command prints is what `deploy` holds."""
    assert run(["crds"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    folder = Path(__file__).parents[3] / "deploy" / "crds"
    kept = [yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*_*.yaml"))]

    by_name = {body["metadata"]["name"]: body for body in kept}
    assert {body["metadata"]["name"]: body for body in printed} == by_name


@pytest.mark.parametrize("arguments", [[], ["gte"], ["get", "--nonsense"], ["validate"]])
def test_misuse_is_exit_2_and_leaves_stdout_empty(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage error is told apart from a failure."""
    assert run(arguments) == 2
    assert capsys.readouterr().out == ""


def test_an_unknown_command_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error gets its correction."""
    run(["gte"])

    assert "did you mean: swell get" in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The overview is an answer, so it is on stdout."""
    assert run(["--help"]) == 0
    listed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _, _ in COMMANDS] == [
        arguments[0]
        for arguments in listed
        if arguments and arguments[0] in {name for name, _, _ in COMMANDS}
    ]


def test_version_without_a_cluster_has_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No cluster is an ordinary answer."""
    monkeypatch.setenv("SWELL_HOME", str(tmp_path / "nothing"))

    assert run(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["server"] is None
