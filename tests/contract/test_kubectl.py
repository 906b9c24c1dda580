"""kubectl itself on the embedded server and on a real one: the same visible results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl, KubectlResult

CRDS = Path(__file__).parents[2] / "deploy" / "chart" / "crds"
MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: kubectl}
data: {k: v}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: kubectl, labels: {app: x}}
spec:
  schedulerName: nobody
  containers: [{name: main, image: "images.example/app:1"}]
---
apiVersion: v1
kind: Service
metadata: {name: door, namespace: kubectl}
spec: {clusterIP: None, selector: {app: x}, ports: [{port: 80}]}
---
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit, namespace: kubectl}
spec:
  replicaSpecs:
    trainer:
      replicas: 2
      minReplicas: 1
      maxReplicas: 4
      template: {spec: {containers: [{name: aitj-trainer, image: local, command: [sleep, "1"]}]}}
"""
CHANGED = MANIFEST.replace("data: {k: v}", "data: {k: w, more: x}").replace(
    "replicas: 2", "replicas: 3"
)

SECOND = """
apiVersion: v1
kind: ConfigMap
metadata: {name: second, namespace: kubectl}
data: {k: before}
"""

# Each command, with what it reads on its standard input.
COMMANDS: list[tuple[str, str]] = [
    ("apply -f -", MANIFEST),
    ("apply -f -", MANIFEST),
    ("apply -f -", CHANGED),
    ("diff -f -", CHANGED),
    ("get configmap,pod,service,aitj", ""),
    ("get pod lonely", ""),
    ("get pods -o wide", ""),
    ("get services -o wide", ""),
    ("get aitj -o wide", ""),
    ("get aitj fit -o name", ""),
    ("get aitj fit -o yaml", ""),
    ("get configmap settings -o yaml", ""),
    ("get pod lonely -o jsonpath={.spec.restartPolicy}", ""),
    ("get pods -l app=x -o name", ""),
    ("get pods --field-selector status.phase=Running", ""),
    ("get namespace kubectl", ""),
    ("get pod none", ""),
    ("get nothings", ""),
    ("describe pod lonely", ""),
    ("describe configmap settings", ""),
    ("describe aitj fit", ""),
    ("label pod lonely colour=red", ""),
    ("label pod lonely colour=blue", ""),
    ("label pod lonely colour=blue --overwrite", ""),
    ("annotate aitj fit note=hello", ""),
    ('patch configmap settings -p {"data":{"k":"2"}}', ""),
    ('patch aitj fit --type=merge -p {"spec":{"replicaSpecs":{"trainer":{"replicas":1}}}}', ""),
    ('patch aitj fit --type=json -p [{"op":"remove","path":"/metadata/annotations/note"}]', ""),
    ('patch aitj fit --type=merge -p {"spec":{"replicaSpecs":{"trainer":{"replicas":-1}}}}', ""),
    ("wait --for=jsonpath={.status.phase}=Pending pod/lonely --timeout=20s", ""),
    ("wait --for=condition=Ready pod/lonely --timeout=1s", ""),
    ("logs lonely", ""),
    ("explain aitj.spec", ""),
    ("explain aitj.spec.replicaSpecs", ""),
    ("explain podgroup.spec", ""),
    ("explain queue.spec", ""),
    ("explain trainingjob.spec", ""),
    ("create -f - --dry-run=server -o name", SECOND),
    ("create -f -", SECOND),
    ("create -f -", SECOND),
    ("replace -f -", CHANGED.split("---")[0]),
    ("delete configmap second", ""),
    ("delete -f - --wait=true", MANIFEST),
    ("get configmap,pod,service,aitj", ""),
    ("delete pod none", ""),
]
# Times, identities and prose that are a server's own; kube-root-ca.crt comes from a controller.
NOISE = [
    (re.compile(r"\b\d+(\.\d+)?m?s\b"), "AGE"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"(Resource Version:\s+)\d+"), r"\1VERSION"),
    (re.compile(r"(resourceVersion: )'\d+'"), r"\1VERSION"),
    (re.compile(r"/tmp/\S+"), "FILE"),
    (re.compile(r"  +"), "  "),
]


class Shown(NamedTuple):
    exit_code: int
    stdout: str


def shown(result: KubectlResult) -> Shown:
    text = result.stdout
    if "-o yaml" in " ".join(result.arguments):
        text = without_managed_fields(text)
    for pattern, word in NOISE:
        text = pattern.sub(word, text)
    return Shown(result.exit_code, text)


def without_managed_fields(text: str) -> str:
    body = yaml.safe_load(text)
    body["metadata"].pop("managedFields", None)
    return str(yaml.safe_dump(body))


def prepared(kubectl: Kubectl) -> Kubectl:
    kubectl.run("apply", "-f", str(CRDS))
    for crd in sorted(CRDS.glob("*_*.yaml")):
        kubectl.ok("wait", "--for=condition=Established", "-f", str(crd), "--timeout=30s")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kubectl}\n"
    kubectl.ok("apply", "-f", "-", stdin=namespace)
    return kubectl


@pytest.fixture(scope="module")
def both(
    embedded_kubeconfig: Path, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Kubectl, Kubectl]:
    ours = Kubectl(embedded_kubeconfig, tmp_path_factory.mktemp("ours"))
    theirs = Kubectl(control_plane.kubeconfig, tmp_path_factory.mktemp("theirs"))
    return prepared(ours), prepared(theirs)


def test_kubectl_shows_the_same(both: tuple[Kubectl, Kubectl]) -> None:
    """One session of commands, one after the other, on both servers."""
    ours, theirs = both
    different = []
    for command, stdin in COMMANDS:
        arguments = ["-n", "kubectl", *command.split(" ")]
        mine, wanted = (shown(one.run(*arguments, stdin=stdin)) for one in (ours, theirs))
        if mine != wanted:
            different.append(f"{command}\n--- ours\n{mine}\n--- theirs\n{wanted}")

    assert not different, "\n\n".join(different)


def test_kubectl_edit_is_a_patch(
    both: tuple[Kubectl, Kubectl], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor's change reaches the object."""
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/before/after/")
    for kubectl in both:
        kubectl.ok("create", "-f", "-", stdin=SECOND.replace("second", "edited"))
        kubectl.ok("edit", "configmap", "edited", "-n", "kubectl")
        found = kubectl.ok(
            "get", "configmap", "edited", "-n", "kubectl", "-o", "jsonpath={.data.k}"
        )
        assert found == "after"


@pytest.mark.parametrize("words", [("exec", "lonely", "--", "ls"), ("attach", "lonely")])
def test_pod_without_a_node_is_not_reached(
    both: tuple[Kubectl, Kubectl], words: tuple[str, ...]
) -> None:
    """Both servers refuse it with the same sentence."""
    for kubectl in both:
        kubectl.ok("apply", "-f", "-", stdin=MANIFEST.split("---")[1])
        answer = kubectl.run(words[0], "-n", "kubectl", *words[1:])

        assert answer.exit_code != 0
        assert "does not have a host assigned" in answer.stderr
