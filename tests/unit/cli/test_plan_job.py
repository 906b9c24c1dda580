"""`swell plan job` and `plan drain`: the answers, the variants, and that nothing is written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swell.cli.main import run
from swell.cluster.kube.calls import KubeCall

JOB = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit, namespace: team}
spec:
  replicaSpecs:
    trainer:
      replicas: SIZE
      minReplicas: SIZE
      maxReplicas: 6
      edlPolicy: Auto
      template: {spec: {containers: [{name: aitj-t, image: i, resources: {requests: {cpu: "1"}}}]}}
"""
NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 20}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 20}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
"""
OTHER = """
---
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: old, namespace: team, uid: old}
spec:
  replicaSpecs:
    trainer:
      replicas: 5
      minReplicas: MIN
      maxReplicas: 5
      edlPolicy: Auto
      template: {spec: {containers: [{name: aitj-t, image: i, resources: {requests: {cpu: "1"}}}]}}
status: {phase: Running, targetReplicas: {trainer: 5}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: old, namespace: team}
spec: {minMember: MIN, queue: default}
status: {phase: Running}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata:
  name: old-trainer-INDEX
  namespace: team
  annotations: {scheduling.k8s.io/group-name: old, volcano.sh/task-spec: trainer}
  labels: {TrainingJobName: old, TrainingJobReplicaName: trainer, TrainingJobReplicaIndex: "INDEX"}
  ownerReferences:
  - apiVersion: elasticdeeplearning.ai/v1
    kind: AITrainingJob
    name: old
    uid: old
    controller: true
spec:
  {nodeName: NODE, schedulerName: swell, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
status: {phase: Running}
"""

Plan = Callable[..., list[dict[str, Any]]]


def busy(minimum: int) -> str:
    """A job of five pods on six cpus, which can shrink to its minimum."""
    pods = [
        POD.replace("INDEX", str(index)).replace("NODE", "n1" if index < 4 else "n2")
        for index in range(5)
    ]
    return NODES + OTHER.replace("MIN", str(minimum)) + "".join(pods)


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    def ask(cluster: str, *flags: str, size: int = 2) -> list[dict[str, Any]]:
        (tmp_path / "job.yaml").write_text(JOB.replace("SIZE", str(size)))
        (tmp_path / "cluster.yaml").write_text(cluster)
        files = [str(tmp_path / "job.yaml"), "-f", str(tmp_path / "cluster.yaml")]
        assert run(["plan", "job", *files, "-o", "json", *flags]) == 0
        answers: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return answers

    return ask


def test_job_starts_now_where_there_is_room(plan: Plan) -> None:
    """It says where, and to which size the autoscaler would let it grow."""
    (found,) = plan(NODES)

    assert found["starts"] == "now"
    assert found["nodes"] == {"n1": 2}
    assert found["makesRoom"] == []
    assert found["size"] == "trainer 5"


def test_others_shrink_for_it(plan: Plan) -> None:
    """The autoscaler's own decision says who: at most 97 % of six cpus are to be requested."""
    (found,) = plan(busy(2))

    assert found["starts"] == "after others make room"
    assert found["makesRoom"] == ["team/old trainer shrinks from 5 to 3"]


def test_it_waits_where_nobody_may_shrink_and_starts_without_that_job(plan: Plan) -> None:
    as_it_is, without = plan(busy(5), "--without", "team/old")

    assert (as_it_is["starts"], without["starts"]) == ("waits", "now")
    assert "cpu" in as_it_is["why"]


def test_it_never_starts_where_an_empty_cluster_is_too_small(plan: Plan) -> None:
    found, smaller = plan(NODES, "--replicas", "3", size=6)[:2]
    (lost,) = plan(NODES, size=7)

    assert found["starts"] == "now"
    assert smaller["starts"] == "now"
    assert lost["starts"] == "never"


def test_every_variant_has_a_line_and_all_together_the_last(plan: Plan) -> None:
    flags = ("--priority", "urgent", "--queue", "none", "--node-pool", "+2x8gpu", "--drain", "n2")
    found = plan(NODES, *flags)

    assert [one["variant"] for one in found] == [
        "as it is",
        "--priority urgent",
        "--queue none",
        "--node-pool +2x8gpu",
        "--drain n2",
        "--priority urgent --queue none --node-pool +2x8gpu --drain n2",
    ]
    assert [one["starts"] for one in found] == ["now", "now", "never", "now", "now", "never"]
    assert "none" in found[2]["why"]


def test_variants_of_one_table_are_those_asked_one_by_one(plan: Plan) -> None:
    """What one variant changes in the copy of the cluster is not there in the next."""
    changes = (
        ("--drain", "n2"),
        ("--without", "team/old"),
        ("--node-pool", "+1x1gpu"),
        ("--replicas", "1"),
        ("--priority", "urgent"),
    )
    together = plan(busy(3), *(word for change in changes for word in change))
    apart = [plan(busy(3), *change)[1] for change in changes]

    told = ("variant", "starts", "nodes", "makesRoom", "size")
    by_label = {one["variant"]: [one[name] for name in told] for one in together}
    assert [[one[name] for name in told] for one in apart] == [
        by_label[one["variant"]] for one in apart
    ]
    assert {one["starts"] for one in apart} >= {"now", "after others make room"}


def test_nobody_makes_room_for_a_job_that_starts_now(plan: Plan) -> None:
    """Others may have to shrink for jobs that wait, and not for one that has its place."""
    waiting = (
        JOB.replace("SIZE", "4").replace("name: fit", "name: waits, uid: waits")
        + "status: {phase: Pending, targetReplicas: {trainer: 4}}\n"
    )
    (found,) = plan(busy(2) + "---" + waiting, size=1)

    assert (found["starts"], found["makesRoom"]) == ("now", [])


def test_drain_tells_of_a_pod_that_its_gang_can_do_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A complete gang is refused nothing, and its surplus pod waits all the same."""
    (tmp_path / "cluster.yaml").write_text(busy(2).replace("cpu: 4", "cpu: 4.5"))

    assert run(["plan", "drain", "n2", "-f", str(tmp_path / "cluster.yaml"), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["pod"], found["node"]) == ("team/old-trainer-4", "")
    assert "its gang runs on without it" in found["why"]


def test_table_and_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("SIZE", "2"))
    (tmp_path / "cluster.yaml").write_text(NODES)
    files = [str(tmp_path / "job.yaml"), "-f", str(tmp_path / "cluster.yaml")]

    assert run(["plan", "job", *files, "--policy", "goodput"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("VARIANT")
    assert "times as fast as one replica" in text


def test_drain_says_where_pods_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(busy(2))
    files = ["-f", str(tmp_path / "cluster.yaml")]

    assert run(["plan", "drain", "n2", *files, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["pod"] == "team/old-trainer-4"
    assert run(["plan", "drain", "n1", *files]) == 0
    text = capsys.readouterr().out
    assert text.count("n2") + text.count("waits") == 4
    assert run(["plan", "drain", "n9", *files]) == 1
    assert "there is no node n9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--node-pool", "4"), "is not like +4x8gpu"),
        (("--without", "team/none"), "there is no job team/none"),
        (("--drain", "n9"), "there is no node n9"),
        (("--policy", "luck"), "there is no policy"),
    ],
)
def test_nonsense_is_refused(
    flags: tuple[str, ...], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("SIZE", "2"))
    (tmp_path / "cluster.yaml").write_text(NODES)
    files = [str(tmp_path / "job.yaml"), "-f", str(tmp_path / "cluster.yaml")]

    assert run(["plan", "job", *files, *flags]) != 0
    assert problem in capsys.readouterr().err


def test_live_cluster_is_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that reaches a cluster is a GET."""
    sent: list[tuple[str, str]] = []
    empty = (
        b'{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}'
    )

    def send(call: KubeCall[Any]) -> Any:
        sent.append((call.method, call.path))
        return call.read(empty)

    @contextlib.contextmanager
    def connected(_: object, **__: object) -> Iterator[object]:
        yield SimpleNamespace(client=SimpleNamespace(send=send))

    monkeypatch.setattr("swell.cli.connection.connected", connected)
    (tmp_path / "job.yaml").write_text(JOB.replace("SIZE", "2"))

    assert run(["plan", "job", str(tmp_path / "job.yaml"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["starts"] == "never"
    assert len(sent) >= 8
    assert {method for method, _ in sent} == {"GET"}
