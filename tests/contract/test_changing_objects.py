"""The commands that create, compare, edit and drain, on the embedded and on a real cluster."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from swell.api.injection import SAVED_ANNOTATION
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import InvalidError
from tests.contract.swell_command import Swell

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{size: '{size}'}}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: lonely}}
spec:
  nodeName: {node}
  containers: [{{name: c, image: x}}]
  volumes: [{{name: scratch, emptyDir: {{}}}}]
"""


def read(swell: Swell, *arguments: str) -> Any:
    answer = swell.here("get", *arguments, "-o", "json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_create_config_map_of_literals_and_files(swell: Swell, tmp_path: Path) -> None:
    """A file's name is its key unless one is given; what is no text goes into binaryData."""
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "model").write_bytes(b"\xff\x00")
    made = swell.here(
        "create", "configmap", "mine", "--from-literal", "a=b=c",
        "--from-file", str(tmp_path / "notes.txt"), f"--from-file=raw={tmp_path / 'model'}",
    )  # fmt: skip

    assert (made.code, made.out) == (0, "configmap/mine created\n"), made.err
    body = read(swell, "cm", "mine")
    assert body["data"] == {"a": "b=c", "notes.txt": "hello\n"}
    assert base64.b64decode(body["binaryData"]["raw"]) == b"\xff\x00"
    again = swell.here("create", "cm", "mine")
    assert (again.code, again.out) == (1, "")
    assert "already exists" in again.err


def test_what_the_server_warns_of_is_shown(swell: Swell) -> None:
    """A patch with a field that no ConfigMap has changes nothing, and says why."""
    swell.here("create", "configmap", "plain", "--from-literal", "a=b")
    patched = swell.here("patch", "configmap", "plain", "-p", '{"dada": {"a": "c"}}')
    quiet = swell.here("--quiet", "patch", "configmap", "plain", "-p", '{"dada": {"a": "c"}}')

    assert (patched.code, patched.out) == (0, "configmap/plain patched (no change)\n")
    assert patched.err == 'warning: unknown field "dada"\n'
    assert (quiet.code, quiet.err) == (0, "")


@pytest.mark.parametrize("form", [("secret", "generic"), ("secret",)])
def test_create_secret(swell: Swell, form: tuple[str, ...]) -> None:
    """With kubectl's word before the name, and without."""
    made = swell.here("create", *form, "key", "--from-literal=token=abc", "--type=example.com/t")

    assert (made.code, made.out) == (0, "secret/key created\n"), made.err
    body = read(swell, "secret", "key")
    assert (body["type"], body["data"]) == ("example.com/t", {"token": "YWJj"})


def test_create_what_has_no_namespace(swell: Swell) -> None:
    """Namespaces, priority classes, and queues as `swell queue create` makes them."""
    name = f"made-in-{swell.namespace}"
    try:
        assert swell("create", "namespace", name).out == f"namespace/{name} created\n"
        made = swell(
            "create", "priorityclass", name, "--value", "7", "--description", "for tests",
            "--preemption-policy", "Never",
        )  # fmt: skip
        assert made.out == f"priorityclass/{name} created\n", made.err
        body = read(swell, "priorityclass", name)
        assert (body["value"], body["preemptionPolicy"]) == (7, "Never")
        assert not body.get("globalDefault")
        assert swell("create", "queue", name, "--weight", "3").out == f"queue/{name} created\n"
        assert read(swell, "queue", name)["spec"]["weight"] == 3
    finally:
        for kind in ("namespace", "priorityclass", "queue"):
            swell("delete", kind, name, "--no-wait", "--ignore-not-found")


def test_create_from_a_manifest_refuses_what_is_there(swell: Swell, tmp_path: Path) -> None:
    """Unlike apply."""
    file = tmp_path / "one.yaml"
    file.write_text(CONFIG.format(name="one", size=1))

    assert swell.here("create", "-f", str(file)).out == "configmap/one created\n"
    assert swell.here("create", "-f", str(file)).code == 1
    assert swell.here("create").code == 2


def test_folders_are_applied(swell: Swell, tmp_path: Path) -> None:
    """Only their manifests, and those of folders inside with -R."""
    folder = tmp_path / "manifests"
    (folder / "inner").mkdir(parents=True)
    (folder / "README.md").write_text("not a manifest")
    (folder / "inner" / "two.yml").write_text(CONFIG.format(name="two", size=2))
    empty = swell.here("apply", "-f", str(folder))
    assert (empty.code, "-R" in empty.err) == (1, True)
    (folder / "one.yaml").write_text(CONFIG.format(name="one", size=1))

    assert swell.here("apply", "-f", str(folder)).out == "configmap/one created\n"
    deep = swell.here("apply", "-R", "-f", str(folder))
    assert deep.out == "configmap/two created\nconfigmap/one unchanged\n"
    assert swell.here("apply", "--recursive", "-f", str(folder)).out.count("unchanged") == 2


def test_diff_shows_what_apply_would_change(swell: Swell, tmp_path: Path) -> None:
    """Exit code 1 for a difference, and nothing is written."""
    file = tmp_path / "one.yaml"
    file.write_text(CONFIG.format(name="one", size=1))
    new = swell.here("diff", "-f", str(file))
    assert new.code == 1
    assert "+  size: '1'" in new.out
    swell.here("apply", "-f", str(file))
    same = swell.here("diff", "-f", str(file))
    assert (same.code, same.out) == (0, "")

    file.write_text(CONFIG.format(name="one", size=2))
    changed = swell.here("diff", "-f", str(file))
    lines = [line for line in changed.out.splitlines() if line[:1] in "+-"]
    assert changed.code == 1
    assert lines == [
        "--- live/configmap/one",
        "+++ merged/configmap/one",
        "-  size: '1'",
        "+  size: '2'",
    ]
    assert read(swell, "cm", "one")["data"] == {"size": "1"}


def test_edit_changes_an_object(
    swell: Swell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the editor of the environment; an edit without a change writes nothing."""
    swell.apply(CONFIG.format(name="one", size=1))
    monkeypatch.setenv("KUBE_EDITOR", "true")
    same = swell.here("edit", "cm", "one")
    assert (same.code, same.out) == (0, "")
    assert "nothing was changed" in same.err
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/'size: .1.'/'size: \"9\"'/")
    assert swell.here("edit", "cm/one").out == "configmap/one edited\n"
    assert read(swell, "cm", "one")["data"] == {"size": "9"}

    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/'name: one'/'name: two'/")
    renamed = swell.here("edit", "cm", "one")
    assert (renamed.code, "metadata.name cannot be edited" in renamed.err) == (1, True)
    monkeypatch.setenv("KUBE_EDITOR", "false")
    assert "nothing was changed" in swell.here("edit", "cm", "one").err
    monkeypatch.setenv("KUBE_EDITOR", str(tmp_path / "missing"))
    assert "cannot start the editor" in swell.here("edit", "cm", "one").err


def test_refused_edit_is_kept(swell: Swell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The typing of the user is in a file that the error names."""
    swell.apply(CONFIG.format(name="one", size=1))
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/'size:'/'a space:'/")
    refused = swell.here("edit", "cm", "one")

    assert refused.code == 1
    path = Path(refused.err.rpartition("your edit is in ")[2].strip())
    assert "a space" in path.read_text()
    path.unlink()


def test_drain_evicts_pods(swell: Swell) -> None:
    """Pods that would be lost need a flag each; what needs one is said before any pod goes."""
    name = f"drained-{swell.namespace}"
    swell.apply(NODE.format(name=name))
    try:
        swell.apply(POD.format(node=name))
        refused = swell("drain", name)
        assert refused.code == 1
        assert "--force" in refused.err
        refused = swell("drain", name, "--force", "--ignore-daemonsets", "--pod-selector", "!other")
        assert "--delete-emptydir-data" in refused.err
        assert read(swell, "node", name)["spec"]["unschedulable"] is True
        done = swell("drain", name, "--force", "--delete-emptydir-data", "--grace-period=0")
        assert done.code == 0, done.err
        assert done.out.splitlines() == [
            f"node/{name} cordoned",
            "pod/lonely evicted",
            f"node/{name} drained",
        ]
        assert "lonely" not in swell.here("get", "pods").out
    finally:
        swell("delete", "node", name, "--no-wait")


SAVER = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations: {{elasticdeeplearning.ai/save-seconds: "{seconds}"}}
spec:
  nodeName: {node}
  containers: [{{name: c, image: x}}]
"""


def test_drain_lets_pods_save(swell: Swell) -> None:
    """One that answers is evicted then, long before its deadline; one that never does, at it."""
    name = f"drained-{swell.namespace}"
    swell.apply(NODE.format(name=name))
    try:
        for pod, seconds in (("quick", 3600), ("mute", 2)):
            swell.apply(SAVER.format(node=name, name=pod, seconds=seconds))
        saved = merge_patch({"metadata": {"annotations": {SAVED_ANNOTATION: "saved"}}})
        with connected(ClusterOptions()) as connection:
            for pod in ("quick", "mute"):
                status = merge_patch({"status": {"phase": "Running"}})
                key = Key(swell.namespace, pod)
                connection.client.send(calls.patch(PODS.untyped().status, key, status))
            connection.client.send(calls.patch(PODS.untyped(), Key(key.namespace, "quick"), saved))
        limit = ("--save-seconds-max", "1h", "--grace-period=0")
        done = swell("drain", name, "--force", *limit)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        assert lines[0] == f"node/{name} cordoned"
        assert sorted(lines[1:3]) == ["pod/mute asked to save", "pod/quick asked to save"]
        assert sorted(lines[3:5]) == ["pod/mute evicted", "pod/quick evicted"]
        assert lines[5:] == [f"node/{name} drained"]
    finally:
        swell("delete", "node", name, "--no-wait")


JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: placed}
spec:
  replicaSpecs:
    w: {template: {spec: {containers: [{name: aitj-c, image: x}]}}}
"""


def test_template_of_a_suspended_job_may_change(swell: Swell) -> None:
    """As Kueue does it: where the pods may go is written with `suspend`, and taken back with it."""
    swell.apply(JOB)
    key, jobs = Key(swell.namespace, "placed"), AI_TRAINING_JOBS.untyped()
    running = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}

    def change(suspend: bool, selector: Body | None) -> Body:
        template = {"spec": {"nodeSelector": selector}}
        roles = {"w": {"template": template}}
        return {"spec": {"suspend": suspend, "replicaSpecs": roles}}

    with connected(ClusterOptions()) as connection:
        send = connection.client.send
        send(calls.patch(jobs.status, key, merge_patch({"status": running})))
        with pytest.raises(InvalidError, match="while it is suspended, template"):
            send(calls.patch(jobs, key, merge_patch(change(False, {"pool": "spot"}))))
        send(calls.patch(jobs, key, merge_patch(change(True, {"pool": "spot"}))))
        admitted = {"spec": {"replicaSpecs": {"w": {"replicas": 1}}}}
        send(calls.patch(jobs, key, merge_patch(admitted)))
        send(calls.patch(jobs, key, merge_patch(change(False, None))))
        with pytest.raises(InvalidError):
            send(calls.patch(jobs, key, merge_patch(change(False, {"pool": "other"}))))
