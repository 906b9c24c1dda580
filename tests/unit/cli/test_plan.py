"""`swell plan schedule`: what it reads, what it prints, how it ends."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swell.cli.main import run
from tests.scheduler_cases import FOLDER

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1, creationTimestamp: 2026-01-01T00:00:00Z}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 10}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pair, namespace: ns}
spec: {minMember: 2, queue: q}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: lost, namespace: ns}
spec: {minMember: 1, queue: nowhere}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ignored}
data: {a: b}
---
apiVersion: v1
kind: PodList
items:
- metadata: {name: pair-w-0, namespace: ns, annotations: {scheduling.k8s.io/group-name: pair}}
  spec: {schedulerName: swell, containers: [{name: a, resources: {limits: {cpu: 1}}}]}
- metadata: {name: pair-w-1, namespace: ns, annotations: {scheduling.k8s.io/group-name: pair}}
  spec: {schedulerName: SCHEDULER, containers: [{name: a, resources: {requests: {cpu: 500m}}}]}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.replace("SCHEDULER", "swell"))
    return path


def schedule(*arguments: object) -> int:
    return run(["plan", "schedule", *map(str, arguments)])


def test_plan_answers_in_json(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Limits stand in for missing requests, a missing phase is Pending, other kinds are ignored."""
    assert schedule("-f", manifest, "-o", "json") == 0

    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert said.err == ""
    assert answer["binds"] == {"ns/pair-w-0": "n1", "ns/pair-w-1": "n1"}
    assert answer["podGroups"]["ns/pair"] == {"phase": "Inqueue", "reason": "", "message": ""}
    assert answer["podGroups"]["ns/lost"]["phase"] == "Pending"
    assert answer["podGroups"]["ns/lost"]["reason"] == "QueueNotFound"


def test_plan_prints_a_table_for_people(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who is placed where, who waits and why."""
    assert schedule("-f", manifest) == 0

    assert capsys.readouterr().out.splitlines() == [
        "2 pods placed, 1 group waits",
        "",
        "Placed",
        "GROUP     NODE   PODS",
        "ns/pair   n1     pair-w-0 pair-w-1",
        "",
        "Waiting",
        "GROUP     PHASE     REASON          WHY",
        "ns/lost   Pending   QueueNotFound   there is no queue nowhere",
    ]


def test_plan_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-` is stdin, and a scheduler's name can be added."""
    text = CLUSTER.replace("SCHEDULER", "volcano").encode()
    arguments = ["-f", "-", "-o", "json"]

    counts = []
    for more in ([], ["--scheduler-name", "volcano"]):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        assert schedule(*arguments, *more) == 0
        counts.append(len(json.loads(capsys.readouterr().out)["binds"]))

    assert counts == [0, 2]


def test_plan_warns_of_what_it_does_not_know(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown actions, plugins, switches and arguments are ignored, with a word on stderr."""
    config = tmp_path / "conf.yaml"
    config.write_text(
        """
        actions: "enqueue, dance, allocate"
        tiers:
        - plugins:
          - {name: gang, enableSinging: true}
          - {name: horoscope}
          - {name: binpack, arguments: {binpack.weight: 2, binpack.luck: 7}}
        """
    )

    assert schedule("-f", manifest, "--config", config, "-o", "json") == 0

    said = capsys.readouterr()
    assert len(json.loads(said.out)["binds"]) == 2
    assert [line.partition(": ")[2].partition(": ")[2] for line in said.err.splitlines()] == [
        "unknown action 'dance' is ignored",
        "plugin gang: unknown switch 'enableSinging' is ignored",
        "unknown plugin 'horoscope' is ignored",
        "plugin binpack: unknown argument 'binpack.luck' is ignored",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "a: [",
        "just arguments",
        '{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": 7}}',
    ],
)
def test_plan_refuses_what_it_cannot_read(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, nothing on stdout."""
    path = tmp_path / "broken"
    path.write_text(text)

    assert schedule("-f", path, "-o", "json") == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert str(path) in said.err


def test_plan_refuses_missing_files_and_broken_configurations(
    manifest: Path, tmp_path: Path
) -> None:
    """What was asked for has to be there."""
    config = tmp_path / "conf.yaml"
    config.write_text("tiers: 7")

    assert schedule("-f", tmp_path / "none") == 1
    assert schedule("-f", manifest, "--config", config) == 1


def test_plan_is_the_same_from_json_and_yaml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quick reader for JSON and the slow one for YAML see the same objects."""
    import yaml

    documents: list[Any] = list(yaml.safe_load_all(CLUSTER.replace("SCHEDULER", "swell")))
    documents[0]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    as_json, as_yaml = tmp_path / "a.json", tmp_path / "a.yaml"
    as_json.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": documents}))
    as_yaml.write_text(CLUSTER.replace("SCHEDULER", "swell"))

    answers = []
    for path in (as_json, as_yaml):
        assert schedule("-f", path, "-o", "json") == 0
        answers.append(capsys.readouterr().out)

    assert answers[0] == answers[1]


def test_cases_are_there() -> None:
    """The recorded cases came with the tests."""
    assert len(list(FOLDER.glob("*.json"))) == 12
