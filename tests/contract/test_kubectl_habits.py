"""The flags that hands know from kubectl, on the embedded and on a real cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.contract.swell_command import Swell

CONFIGS = "\n---\n".join(
    f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{team: {team}}}}}\n"
    f"data: {{size: '{size}'}}"
    for name, team, size in (("one", "a", 3), ("two", "a", 1), ("three", "b", 2))
)
JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit}
spec:
  replicaSpecs:
    trainer:
      replicas: 2
      template: {spec: {containers: [{name: aitj-trainer, image: python}]}}
"""
OLDER_JOB = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: older}
spec: {image: python, trainer: {entrypoint: "true", min-instance: 1, max-instance: 1}}
"""


@pytest.fixture
def configs(swell: Swell) -> Swell:
    """Three ConfigMaps in a namespace; a real cluster adds one of its own."""
    assert swell.apply(CONFIGS).code == 0
    return swell


def names(swell: Swell, *arguments: str) -> list[str]:
    answer = swell.here("get", "cm", "-o", "name", *arguments)
    assert answer.code == 0, answer.err
    return [
        name
        for line in answer.out.splitlines()
        if (name := line.partition("/")[2]) != "kube-root-ca.crt"
    ]


def test_get_selects_by_labels_and_fields(configs: Swell) -> None:
    """-l and --field-selector are the server's own."""
    assert names(configs, "-l", "team=a") == ["one", "two"]
    assert names(configs, "-l", "team notin (a),team") == ["three"]
    assert names(configs, "--field-selector", "metadata.name=two") == ["two"]


def test_get_sorts_by_a_path(configs: Swell) -> None:
    """Tables and lists are in the order that was asked for."""
    assert names(configs, "-l", "team", "--sort-by", ".data.size") == ["two", "three", "one"]
    table = configs.here("get", "cm", "-l", "team", "--sort-by={.data.size}", "--no-headers").out
    assert [line.split()[0] for line in table.splitlines()] == ["two", "three", "one"]


def test_get_prints_by_paths(configs: Swell) -> None:
    """jsonpath and custom columns, for one object and for a list."""
    one = configs.here("get", "cm", "one", "-o", "jsonpath={.data.size}")
    every = configs.here("get", "cm", "-l", "team=a", "-o", "jsonpath={.items[*].metadata.name}")
    columns = "-o=custom-columns=WHO:.metadata.name,SIZE:.data.size"

    assert (one.out, every.out) == ("3", "one two")
    table = configs.here("get", "cm", "-l", "team=a", columns).out
    assert [line.split() for line in table.splitlines()] == [
        ["WHO", "SIZE"],
        ["one", "3"],
        ["two", "1"],
    ]


def test_get_shows_labels_and_leaves_headings_out(configs: Swell) -> None:
    """--show-labels adds a column; --no-headers leaves the first line out."""
    shown = configs.here("get", "cm", "one", "--show-labels").out.splitlines()

    assert shown[0].split()[-1] == "LABELS"
    assert shown[1].split()[-1] == "team=a"
    assert configs.here("get", "cm", "one", "--no-headers").out.split()[0] == "one"


def test_get_takes_several_kinds(configs: Swell) -> None:
    """By commas, as kind/name, and all; names then say their kind."""
    configs.apply(JOB)
    both = configs.here("get", "cm,aitj").out
    mixed = configs.here("get", "cm/one", "aitj/fit", "-o", "name").out

    assert "configmap/one" in both
    assert "aitrainingjob/fit" in both
    assert mixed == "configmap/one\naitrainingjob/fit\n"
    assert "aitrainingjob/fit" in configs.here("get", "all").out


@pytest.mark.parametrize("kind", ["job", "jobs"])
def test_get_job_means_ours(swell: Swell, kind: str) -> None:
    """Kubernetes' own Jobs are asked for by their full name."""
    swell.apply(JOB)
    swell.apply(OLDER_JOB)

    assert "fit" in swell.here("get", kind).out
    assert "older" in swell.here("get", kind).out
    assert swell.here("get", kind, "older", "-o", "name").out == "trainingjob/older\n"
    assert swell.here("get", f"{kind}/fit", "-o", "name").out == "aitrainingjob/fit\n"
    assert swell.here("get", "jobs.batch", "-o", "name").out == ""


def test_get_of_what_is_missing_can_be_no_error(swell: Swell) -> None:
    """--ignore-not-found is for scripts."""
    answer = swell.here("get", "cm", "nothing", "--ignore-not-found")

    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_delete_takes_files_labels_and_all(configs: Swell) -> None:
    """Every way to say which; a kind alone stays a mistake."""
    file = configs.file(CONFIGS)
    assert configs.here("delete", "cm").code == 2
    assert configs.here("delete", "cm", "-l", "team=a").out == (
        "configmap/one deleted\nconfigmap/two deleted\n"
    )
    assert configs.here("delete", "-f", file).code == 1
    assert configs.here("delete", "-f", file, "--ignore-not-found").out == (
        "configmap/three deleted\n"
    )
    configs.apply(CONFIGS)
    assert "configmap/three deleted" in configs.here("delete", "cm", "--all").out
    assert names(configs, "-l", "team") == []


def test_delete_force_skips_the_grace_period(swell: Swell) -> None:
    """--force, --now and --grace-period are sent to the server."""
    for flag in ("--force", "--now", "--grace-period=0"):
        swell.apply(CONFIGS)
        assert swell.here("delete", "cm", "one", flag).out == "configmap/one deleted\n"


def test_get_watch_shows_every_change(configs: Swell) -> None:
    """-w prints the objects, then a row for each change, until it is interrupted."""
    command = [sys.executable, "-u", "-m", "swell.cli.main", "get", "cm", "-w", "-l", "team"]
    with subprocess.Popen(
        [*command, "-n", configs.namespace], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as watch:
        assert watch.stdout is not None
        first = [watch.stdout.readline().split()[0] for _ in range(4)]
        configs.here("delete", "cm", "one")
        configs.apply(CONFIGS.replace("size: '1'", "more: x, size: '1'"))
        seen = {watch.stdout.readline().split()[0] for _ in range(2)}
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 130

    assert first == ["NAME", "one", "three", "two"]
    assert "one" in seen


def test_watch_of_changes_alone_leaves_out_what_is_there(configs: Swell) -> None:
    """--watch-only begins with the first change."""
    command = [sys.executable, "-u", "-m", "swell.cli.main", "get", "cm", "-o", "name"]
    with subprocess.Popen(
        [*command, "--watch-only", "-l", "team", "-n", configs.namespace],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    ) as watch:
        assert watch.stdout is not None
        time.sleep(1.5)
        configs.here("delete", "cm", "two")
        assert watch.stdout.readline() == "configmap/two\n"
        watch.send_signal(signal.SIGINT)
        watch.wait(20)


def test_get_watch_prints_objects_in_other_formats(configs: Swell) -> None:
    """-w goes together with -o."""
    command = [sys.executable, "-u", "-m", "swell.cli.main", "get", "cm", "one", "-w", "-o", "name"]
    with subprocess.Popen(
        [*command, "-n", configs.namespace], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "configmap/one\n"
        time.sleep(0.5)
        configs.here("delete", "cm", "one")
        assert watch.stdout.readline() == "configmap/one\n"
        watch.send_signal(signal.SIGINT)
        watch.wait(20)


def test_labels_and_annotations_are_set_and_removed(configs: Swell) -> None:
    """A value that is there is overwritten only when that is asked for."""
    assert configs.here("label", "cm", "one", "rank=1").out == "configmap/one labeled\n"
    refused = configs.here("label", "cm", "one", "rank=2")
    assert refused.code == 1
    assert "--overwrite" in refused.err
    assert configs.here("label", "cm/one", "rank=2", "--overwrite").code == 0
    assert names(configs, "-l", "rank=2") == ["one"]
    assert configs.here("label", "cm", "one", "rank-").code == 0
    assert names(configs, "-l", "rank") == []
    assert configs.here("annotate", "cm", "one", "note=x").out == "configmap/one annotated\n"


def test_wait_ends_when_its_condition_holds(configs: Swell) -> None:
    """Conditions, paths, phases, creation and deletion; one that never holds is an error."""
    assert configs.here("wait", "cm", "one", "--for=create").out == "configmap/one condition met\n"
    path = "--for=jsonpath={.data.size}=3"
    assert configs.here("wait", "cm", "one", path).code == 0
    assert configs.here("wait", "cm", "gone", "--for=delete").code == 0
    late = configs.here("wait", "cm", "one", "--for=phase=Running", "--timeout=100ms")
    assert late.code == 1
    assert "did not hold within 0.1 s" in late.err
    assert configs.here("wait", "cm", "one", "--for=soon").code == 2


def test_api_resources_name_our_kinds(swell: Swell) -> None:
    """The server's own discovery, ours among the others."""
    rows = [line.split() for line in swell("api-resources").out.splitlines()]

    assert rows[0] == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    assert ["aitrainingjobs", "aitj", "elasticdeeplearning.ai/v1", "true", "AITrainingJob"] in rows


def test_auth_can_i_answers_yes(swell: Swell) -> None:
    """The server is asked what this user may do."""
    assert swell.here("auth", "can-i", "create", "aitj").out == "yes\n"


def test_events_of_an_object_are_shown_in_order(swell: Swell) -> None:
    """Those of a job include those of its pods; another object's are left out."""
    swell.apply(JOB)
    job = swell.here("get", "fit", "-o", "json").json["metadata"]
    assert isinstance(job, dict)
    for number, (kind, name, uid) in enumerate(
        [
            ("AITrainingJob", "fit", job["uid"]),
            ("Pod", "fit-trainer-0", "1"),
            ("Pod", "other-0", "2"),
        ]
    ):
        swell.apply(
            f"apiVersion: v1\nkind: Event\nmetadata: {{name: e{number}}}\ntype: Normal\n"
            f"reason: Step{number}\nmessage: |\n  first line\n  second line\n"
            f"involvedObject: {{kind: {kind}, name: {name}, uid: '{uid}',"
            f" namespace: {swell.namespace}}}\nfirstTimestamp: '2026-01-01T00:00:0{number}Z'\n"
            f"lastTimestamp: '2026-01-01T00:00:0{number}Z'\n"
        )

    shown = swell.here("events", "--for", "fit").out.splitlines()
    every = swell.here("events").out

    assert [line.split()[2] for line in shown] == ["REASON", "Step0", "Step1"]
    assert shown[1].endswith("first line second line")
    assert "Step2" in every


def test_describe_of_a_job_tells_why_first(swell: Swell) -> None:
    """State and reason are the first lines; sizes follow, and a message is there once."""
    swell.apply(JOB)
    _report_waiting(swell)

    lines = swell.here("describe", "fit").out.splitlines()

    assert lines[0] == "State:        Pending 0/2"
    assert lines[1].startswith("Why:          WaitingForRoom: no room for 2 pods")
    assert "\n".join(lines).count("no room for 2 pods") == 1
    assert lines[2] == "Sizes:"
    assert lines[4].split() == ["trainer", "2", "0", "2", "2"]


def test_describe_of_a_job_that_nobody_has_looked_at_says_so(swell: Swell) -> None:
    """The most frequent cause is a cluster without an operator."""
    swell.apply(JOB)

    lines = swell.here("describe", "fit").out.splitlines()

    assert lines[0] == "State:        not looked at yet"
    assert lines[1] == (
        "Why:          no operator has looked at the job;"
        " does one run in this cluster? (swell operator)"
    )


def _report_waiting(swell: Swell) -> None:
    from swell.api.kinds import AI_TRAINING_JOBS
    from swell.api.meta import Key
    from swell.cli.connection import connected
    from swell.cli.options import ClusterOptions
    from swell.cluster.kube import calls
    from swell.runtime.cluster import merge_patch

    status = {
        "phase": "Pending",
        "ready": "0/2",
        "reason": "WaitingForRoom",
        "message": "no room for 2 pods",
    }
    with connected(ClusterOptions()) as connection:
        key = Key(swell.namespace, "fit")
        patch = merge_patch({"status": status})
        connection.client.send(calls.patch(AI_TRAINING_JOBS.status, key, patch))
