"""`swell plan autoscale`: one decision over files, as JSON and as a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swell.cli.main import run

OBJECTS = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1}
  status:
    allocatable: {cpu: "4", memory: 8Gi, nvidia.com/gpu: 2, pods: "110"}
    conditions: [{type: Ready, status: "True"}]
- apiVersion: elasticdeeplearning.ai/v1
  kind: AITrainingJob
  metadata: {name: a, namespace: d, uid: u}
  spec:
    replicaSpecs:
      trainer:
        replicas: 1
        minReplicas: 1
        maxReplicas: 3
        edlPolicy: Auto
        template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
  status: {phase: Running, targetReplicas: {trainer: 1}}
- apiVersion: elasticdeeplearning.ai/v1
  kind: AITrainingJob
  metadata: {name: still, namespace: d, uid: v}
  spec:
    replicaSpecs:
      trainer: {minReplicas: 1, maxReplicas: 3, edlPolicy: Auto, template: {spec: {containers: []}}}
  status: {phase: Restarting, targetReplicas: {trainer: 2}}
---
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: old, namespace: d}
spec:
  image: x
  fault_tolerant: true
  trainer: {min-instance: 1, max-instance: 3, resources: {requests: {cpu: 1}}}
  pserver: {min-instance: 1, max-instance: 1}
status: {phase: Running}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-no-interest}
"""


@pytest.fixture
def objects(tmp_path: Path) -> str:
    path = tmp_path / "objects.yaml"
    path.write_text(OBJECTS)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["plan", "autoscale", *arguments, "-o", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_json_has_targets_deltas_reasons_and_cluster(
    objects: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Targets of every role considered, deltas of those that change, amounts in their units."""
    found = answer(capsys, "-f", objects)

    assert found["targets"] == {
        "TrainingJob/d/old": {"trainer": 1},
        "d/a": {"trainer": 2},
        "d/still": {"trainer": 2},
    }
    assert found["deltas"] == {"d/a": {"trainer": 1}}
    assert found["reasons"] == {
        "TrainingJob/d/old": "trainer 1: the cluster has no cpu for another replica",
        "d/a": "trainer 1 to 2: there is room for more",
        "d/still": "trainer 2: the job is not running",
    }
    assert found["cluster"] == {
        "nodes": 1,
        "resources": {
            "cpu": {"total": 4000, "requested": 2000, "limited": 0},
            "gpu": {"total": 2, "requested": 0, "limited": 0},
            "memory": {"total": 8 * 2**30, "requested": 0, "limited": 0},
            "nvidia.com/gpu": {"total": 2, "requested": 0, "limited": 0},
        },
    }


@pytest.mark.parametrize("arguments", [("-f", "{a}", "-f", "{b}"), ("-f", "{a}", "{b}")])
def test_objects_may_come_from_several_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """One decision over all of them, whether each has its flag or not."""
    parts = [part for part in OBJECTS.split("---\n") if part.strip()]
    paths = {"a": tmp_path / "a.yaml", "b": tmp_path / "b.yaml"}
    paths["a"].write_text("---\n".join(parts[:2]))
    paths["b"].write_text("---\n".join(parts[2:]))
    found = answer(capsys, *(argument.format(**paths) for argument in arguments))

    assert found["deltas"] == {"d/a": {"trainer": 1}}


@pytest.mark.parametrize("flag", ["--max-load-desired", "--max-load"])
def test_max_load_has_two_names(
    objects: str, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    """A full load leaves room for both."""
    assert answer(capsys, "-f", objects, flag, "1")["deltas"] == {
        "TrainingJob/d/old": {"trainer": 1},
        "d/a": {"trainer": 1},
    }


def test_table_tells_people(objects: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes now and then with the reason, and how full the cluster is."""
    assert run(["plan", "autoscale", "-f", objects]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "3 elastic roles on 1 node, 1 to resize."
    assert lines[4].split()[:5] == ["d/a", "trainer", "1", "2", "+1"]
    assert "cpu              4000         2000        0         50%" in lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "guess"], "there is no policy 'guess'"),
        (["--max-load", "much"], "'much' is no load"),
        (["--max-load", "1.5"], "'1.5' is no load"),
    ],
)
def test_nonsense_is_refused(
    objects: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """What cannot be meant is said to be so, with exit code 2."""
    assert run(["plan", "autoscale", "-f", objects, *arguments]) == 2
    assert said in capsys.readouterr().err


QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: default}}
spec: {{capability: {{cpu: "{cpu}"}}}}
"""
CAPACITY = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: capacity
    enableHierarchy: true
"""


@pytest.mark.parametrize(("cpu", "size"), [("2", 1), ("3", 2)])
@pytest.mark.parametrize("config", ["", CAPACITY])
def test_queues_of_the_input_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cpu: str, size: int, config: str
) -> None:
    """A Queue in the files limits the raises of its jobs, by the scheduler's configuration."""
    path, settings = tmp_path / "objects.yaml", tmp_path / "scheduler.conf"
    path.write_text(f"{OBJECTS}---{QUEUE.format(cpu=cpu)}")
    settings.write_text(config)
    chosen = ["--config", str(settings)] if config else []

    code = run(["plan", "autoscale", "-f", str(path), "-o", "json", *chosen])
    answer = json.loads(capsys.readouterr().out)

    assert code == 0
    assert answer["targets"]["d/a"] == {"trainer": size}
    assert "queue default is at its capability: cpu" in answer["reasons"]["d/a"]
