"""The contract of the `swell` command with scripts, on the embedded and on a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.contract.swell_command import Swell
from tests.contract.terminal import on_terminal

JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit}
spec:
  replicaSpecs:
    trainer:
      replicas: 2
      template: {spec: {containers: [{name: aitj-trainer, image: local}]}}
"""
CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1", b: "2"}
"""


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`swell server` as a user would start it."""
    home = tmp_path_factory.mktemp("home")
    program = "import sys; from swell.cli.main import main; sys.argv = ['swell', 'server']; main()"
    environment = {**os.environ, "SWELL_HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == f"export KUBECONFIG={home}/kubeconfig\n"
        yield home / "kubeconfig"
        server.terminate()
        assert server.wait(10) == 0


def test_apply_reports_created_configured_unchanged(swell: Swell) -> None:
    """Each object gets a line with what became of it."""
    assert swell.apply(CONFIG).out == "configmap/settings created\n"
    assert swell.apply(CONFIG).out == "configmap/settings unchanged\n"
    assert swell.apply(CONFIG.replace('"1"', '"9"')).out == "configmap/settings configured\n"


def test_apply_removes_what_the_manifest_no_longer_says(swell: Swell) -> None:
    """Three-way: own keys go, keys of others stay."""
    swell.apply(CONFIG)
    swell.apply(CONFIG.replace(', b: "2"', ""))

    assert swell.here("get", "cm", "settings", "-o", "json").json["data"] == {"a": "1"}


def test_apply_sends_nothing_when_anything_is_invalid(swell: Swell) -> None:
    """One bad document keeps the good ones from being sent, and its line is reported."""
    answer = swell.apply(f"{CONFIG}---\n{JOB.replace('replicas: 2', 'replicas: -2')}")

    assert answer.code == 1
    assert answer.out == ""
    assert "manifest.yaml:12: spec.replicaSpecs.trainer.replicas: " in answer.err
    assert swell.here("get", "cm", "settings").code == 1


def test_apply_twice_leaves_a_job_unchanged(swell: Swell) -> None:
    """Defaults the server fills in are no difference."""
    assert swell.apply(JOB).out == "aitrainingjob/fit created\n"
    assert swell.apply(JOB).out == "aitrainingjob/fit unchanged\n"


def test_get_json_is_one_object_for_a_name_and_a_list_otherwise(swell: Swell) -> None:
    """Scripts need no case distinction, also when nothing is there."""
    empty = swell.here("get", "-o", "json").json
    swell.apply(JOB)

    assert empty == {"apiVersion": "v1", "kind": "List", "items": []}
    assert swell.here("get", "fit", "-o", "json").json["kind"] == "AITrainingJob"
    items = swell.here("get", "aitj", "-o", "json").json["items"]
    assert isinstance(items, list)
    assert [item["metadata"]["name"] for item in items] == ["fit"]


@pytest.mark.parametrize("kind", ["aitj", "aitrainingjob", "aitrainingjobs", "AITrainingJob"])
def test_get_takes_every_name_of_a_kind(swell: Swell, kind: str) -> None:
    """Singular, plural, short name and the kind itself."""
    swell.apply(JOB)

    assert swell.here("get", kind, "-o", "name").out == "aitrainingjob/fit\n"


def test_get_table_has_the_columns_of_the_kind(swell: Swell) -> None:
    """The server's own columns, as kubectl shows them."""
    swell.apply(JOB)
    head = swell.here("get").out.splitlines()[0].split()

    assert head == ["NAME", "PHASE", "READY", "RESTARTS", "QUEUE", "AGE", "REASON"]
    assert "REASON" in swell.here("get", "-o", "wide").out


def test_get_everywhere_shows_the_namespace(swell: Swell) -> None:
    """-A puts the namespace in front."""
    swell.apply(CONFIG)
    lines = swell("get", "cm", "-A").out.splitlines()

    assert lines[0].startswith("NAMESPACE")
    assert any(line.split()[:2] == [swell.namespace, "settings"] for line in lines)


def test_get_of_what_is_missing_prints_nothing(swell: Swell) -> None:
    """Exit 1 and an empty stdout."""
    answer = swell.here("get", "nobody")

    assert (answer.code, answer.out) == (1, "")
    assert "nobody" in answer.err


def test_get_of_kinds_we_do_not_know_asks_the_server(swell: Swell) -> None:
    """Discovery finds what is not in our own list."""
    assert swell.here("get", "endpointslices").code == 0
    assert swell("get", "storageclassez", "x").code == 1


def test_get_yaml_is_the_object(swell: Swell) -> None:
    """-o yaml gives what kubectl would take."""
    swell.apply(CONFIG)
    body = yaml.safe_load(swell.here("get", "cm/settings", "-o", "yaml").out)

    assert body["data"] == {"a": "1", "b": "2"}


def test_describe_prints_the_object_and_its_events(swell: Swell) -> None:
    """Name, content and events, for people."""
    swell.apply(CONFIG)
    output = swell.here("describe", "cm", "settings").out

    assert "Name:         settings" in output
    assert "Events:       none" in output


def test_delete_returns_when_the_object_is_gone(swell: Swell) -> None:
    """What was deleted is not there any more."""
    swell.apply(CONFIG)
    swell.apply(JOB)

    assert swell.here("delete", "cm", "settings").out == "configmap/settings deleted\n"
    assert swell.here("delete", "fit").out == "aitrainingjob/fit deleted\n"
    assert swell.here("get", "cm", "settings").code == 1
    assert swell.here("delete", "fit").code == 1


def test_delete_without_names_is_refused(swell: Swell) -> None:
    """A kind alone deletes nothing."""
    assert swell.here("delete", "cm").code == 2


def test_changing_a_cluster_names_it_on_a_terminal(swell: Swell) -> None:
    """A kubeconfig may mean production: a person reads which, and a script gets no such line."""
    with on_terminal("apply", "-f", swell.file(CONFIG), "-n", swell.namespace) as terminal:
        assert terminal.ends() == 0

    assert terminal.seen.startswith("cluster: ")
    assert swell.apply(CONFIG).err == ""


def test_version_names_client_and_server(swell: Swell) -> None:
    """Both, as JSON."""
    answer = swell("version", "-o", "json").json

    assert set(answer) == {"client", "server"}
    assert str(answer["server"]).startswith("v1.36")


def test_refusal_of_the_server_is_a_sentence(swell: Swell) -> None:
    """An error that only the server finds is reported without a traceback."""
    answer = swell.apply(CONFIG.replace("settings", "Not_A_Name"))

    assert answer.code == 1
    assert answer.err.count("\n") <= 3
    assert "Traceback" not in answer.err


ELASTIC = JOB.replace(
    "replicas: 2",
    "replicas: 2\n      minReplicas: 1\n      maxReplicas: 4\n      edlPolicy: Manual",
)


@pytest.mark.parametrize(("command", "key"), [("fail", "Failed"), ("preempt", "Preempted")])
def test_job_is_ended_by_an_annotation(swell: Swell, command: str, key: str) -> None:
    """`swell fail` and `swell preempt` write what the operator obeys; the reason is its value."""
    swell.apply(JOB)

    answer = swell.here(command, "fit", "--reason", "enough of it")

    assert (answer.code, answer.out) == (0, f"aitrainingjob/fit {key.lower()}\n")
    metadata = swell.here("get", "aitj", "fit", "-o", "json").json["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["annotations"][key] == "enough of it"


@pytest.mark.parametrize(
    "arguments", [("fail", "none"), ("preempt", "none"), ("scale", "none", "a=1")]
)
def test_job_that_does_not_exist_is_reported(swell: Swell, arguments: tuple[str, ...]) -> None:
    """Exit 1, nothing on stdout."""
    answer = swell.here(*arguments)

    assert (answer.code, answer.out) == (1, "")
    assert "no job none" in answer.err


def test_scale_writes_replicas_of_a_manual_role(swell: Swell) -> None:
    """`swell scale JOB ROLE=N`."""
    swell.apply(ELASTIC)

    assert swell.here("scale", "fit", "trainer=3").out == "aitrainingjob/fit scaled\n"
    spec = swell.here("get", "aitj", "fit", "-o", "json").json["spec"]
    assert isinstance(spec, dict)
    assert spec["replicaSpecs"]["trainer"]["replicas"] == 3


@pytest.mark.parametrize(
    ("manifest", "size", "says"),
    [
        (JOB, "trainer=3", "edlPolicy to Manual"),
        (ELASTIC.replace("Manual", "Auto"), "trainer=3", "edlPolicy to Manual"),
        (ELASTIC, "trainer=9", "1 to 4 pods"),
        (ELASTIC, "worker=2", "no role worker"),
    ],
)
def test_scale_is_refused_with_a_hint(swell: Swell, manifest: str, size: str, says: str) -> None:
    """Auto and Never are refused with the hint what to change, and so are impossible sizes."""
    swell.apply(manifest)

    answer = swell.here("scale", "fit", size)

    assert (answer.code, answer.out) == (1, "")
    assert says in answer.err


def test_scale_without_a_size_is_a_mistake_of_use(swell: Swell) -> None:
    """Exit 2."""
    assert swell.here("scale", "fit", "trainer").code == 2
