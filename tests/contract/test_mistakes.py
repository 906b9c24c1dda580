"""Mistakes in manifests on a cluster: nothing is written, and everybody says the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.contract.swell_command import Swell
from tests.contract.terminal import on_terminal
from tests.unit.cli.wrong_manifests import ENV, GOOD, MOUNTS, POD, RESOURCES, VOLUMES, WRONG

# Mistakes of the pod's own rules, which a server finds when such a pod is created.
RULES = (
    "volume-two",
    "volume-twice",
    "volume-name",
    "mount-unknown",
    "mount-twice",
    "container-probe-none",
    "env-both",
    "resources-name",
    "resources-fraction",
    "port-name",
    "pod-host-alias",
)


def test_nothing_is_written_for_any_mistake(swell: Swell) -> None:
    """Every wrong manifest is refused with exit code 1, and no object of it comes to be."""
    for name, case in WRONG.items():
        answer = swell.here("apply", "-f", swell.file(case.text, f"{name}.yaml"))

        assert (answer.code, answer.out) == (1, ""), name
        line, path, _ = case.said[0]
        assert f"{name}.yaml:{line}: {path}: " in answer.err, answer.err
        assert "nothing was done" in answer.err
    assert swell.here("get", "-o", "json").json["items"] == []


@pytest.mark.parametrize("name", RULES)
def test_rule_of_a_pod_has_the_words_of_the_server(swell: Swell, name: str) -> None:
    """The message is the one that the API server gives for the same pod."""
    case = WRONG[name]
    _, path, _ = case.said[0]
    answer = swell("validate", "-o", "json", swell.file(case.text))
    said = {error["path"]: error["message"] for error in json.loads(answer.out)["errors"]}
    template = yaml.safe_load(case.text)["spec"]["replicaSpecs"]["trainer"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}

    refusal = _created(swell, pod)

    assert said[path] in refusal
    assert path.removeprefix(f"{POD}.").partition("[")[0] in refusal


def _created(swell: Swell, pod: dict[str, object]) -> str:
    """Create an object without any check of ours, and return the server's refusal."""
    from swell.api.kinds import PODS
    from swell.cli.connection import connected
    from swell.cli.options import ClusterOptions
    from swell.cluster.kube import calls
    from swell.runtime.errors import InvalidError

    pod["metadata"] = {"name": "p", "namespace": swell.namespace}
    with connected(ClusterOptions()) as connection, pytest.raises(InvalidError) as refused:
        connection.client.send(calls.create(PODS.untyped(), pod))
    return str(refused.value)


def test_frozen_field_is_named_with_both_values_and_the_way_out(swell: Swell) -> None:
    """One line for a change that a job under way does not allow, before anything is sent."""
    assert swell.apply(GOOD).code == 0
    _put_under_way(swell)

    answer = swell.apply(GOOD.replace("queue: default", "queue: other"))

    assert (answer.code, answer.out) == (1, "")
    line = next(line for line in answer.err.splitlines() if ":5: spec.queue: " in line)
    assert 'it was "default" and would be "other"' in line
    assert "swell replace" in line
    inner = swell.apply(GOOD.replace("python:3.12", "python:3.13"))
    assert 'spec.containers[0].image was "python:3.12" and would be "python:3.13"' in inner.err


def test_frozen_field_is_named_by_diff_and_edit_too(
    swell: Swell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of apply; what was typed in the editor is kept."""
    assert swell.apply(GOOD).code == 0
    _put_under_way(swell)
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/'queue: default'/'queue: other'/")

    shown = swell.here("diff", "-f", swell.file(GOOD.replace("queue: default", "queue: other")))
    edited = swell.here("edit", "fit")

    for answer in (shown, edited):
        assert (answer.code, answer.out) == (1, "")
        assert "spec.queue: once a job is under way only" in answer.err
        assert 'it was "default" and would be "other"' in answer.err
        assert "Invalid value" not in answer.err
    kept = Path(edited.err.rpartition("your edit is in ")[2].strip())
    assert "queue: other" in kept.read_text()
    kept.unlink()


def test_replace_starts_anew(swell: Swell) -> None:
    """The way out of a frozen field works: the object is deleted and created."""
    swell.apply(GOOD)
    old = swell.here("get", "fit", "-o", "json").json["metadata"]
    _put_under_way(swell)
    changed = swell.file(GOOD.replace("python:3.12", "python:3.13"))

    answer = swell.here("replace", "-f", changed)

    assert answer.out == "aitrainingjob/fit replaced\n"
    new = swell.here("get", "fit", "-o", "json").json["metadata"]
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    assert old["uid"] != new["uid"]


def _put_under_way(swell: Swell) -> None:
    from swell.api.kinds import AI_TRAINING_JOBS
    from swell.api.meta import Key
    from swell.cli.connection import connected
    from swell.cli.options import ClusterOptions
    from swell.cluster.kube import calls
    from swell.runtime.cluster import merge_patch

    with connected(ClusterOptions()) as connection:
        patch = merge_patch({"status": {"phase": "Running"}})
        key = Key(swell.namespace, "fit")
        connection.client.send(calls.patch(AI_TRAINING_JOBS.status, key, patch))


def test_warning_is_printed_and_strict_refuses(swell: Swell) -> None:
    """A job that disappoints is sent with a warning; --strict sends nothing."""
    text = GOOD.replace("replicas: 2", "edlPolicy: Auto\n      replicas: 2")
    expected = "manifest.yaml:8: spec.replicaSpecs.trainer.edlPolicy: Auto has no effect"

    refused = swell.here("apply", "--strict", "-f", swell.file(text))
    assert (refused.code, refused.out) == (1, "")
    assert f"warning: {swell.folder}/{expected}" in refused.err
    assert "--strict" in refused.err

    sent = swell.apply(text)
    assert sent.out == "aitrainingjob/fit created\n"
    assert f"warning: {swell.folder}/{expected}" in sent.err


def test_unknown_kind_is_passed_over_when_asked(swell: Swell) -> None:
    """The other objects of the file are sent."""
    text = f"apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: w}}\n---\n{GOOD}"

    assert swell.apply(text).code == 1
    answer = swell.here("apply", "--ignore-unknown", "-f", swell.file(text))
    assert answer.out == "aitrainingjob/fit created\n"
    assert "passed over: the cluster has no kind Widget" in answer.err


@pytest.mark.parametrize(
    ("line", "sentence", "hint"),
    [
        ("get --wid", "No such option: --wid", "see: swell get --help"),
        ("queue", "which of its commands?", "see: swell queue --help"),
        ("run python train.py", "put -- before the command", "swell run -- python train.py"),
        ("run --cpu 1 python a.py --lr 2", "No such option: --lr", "put -- before the command: "),
        ("scale fit", "say which size", "for example: swell scale fit trainer=4"),
    ],
)
def test_mistake_on_the_command_line_has_the_one_style(
    swell: Swell, line: str, sentence: str, hint: str
) -> None:
    """`error:`, a sentence, a hint in the next line, exit code 2."""
    answer = swell(*line.split())

    assert (answer.code, answer.out) == (2, "")
    first, second = answer.err.splitlines()
    assert first.startswith(f"error: {sentence}")
    assert second.startswith(f"  {hint}")


def test_style_is_the_same_on_a_terminal(swell: Swell) -> None:
    """No frame and no colour is drawn around an error."""
    with on_terminal("get", "--qqq") as terminal:
        assert terminal.ends() == 2

    assert terminal.seen == "error: No such option: --qqq\n  see: swell get --help\n"


def test_all_mistakes_of_a_manifest_are_reported_by_every_command(swell: Swell) -> None:
    """validate, apply, run and render look equally closely."""
    text = GOOD.replace(VOLUMES, "volums: []\n          " + VOLUMES)
    text = text.replace(ENV, "env: [{name: LR, value: 0.1}]")
    text = text.replace(RESOURCES, "resources: {limits: {cpus: 1}}")
    text = text.replace(MOUNTS, "volumeMounts: [{name: dta, mountPath: /data}]")
    file = swell.file(text)
    expected = [f"{file}:{line}: " for line in (12, 17, 18, 19)]

    for command in (("validate",), ("render",), ("run",), ("apply", "-f"), ("replace", "-f")):
        answer = swell(*command, file)
        assert (answer.code, answer.out) == (1, "")
        assert all(part in answer.err for part in expected), answer.err
