"""Commands find a job of either kind by its name, on the embedded and on a real cluster."""

from __future__ import annotations

import pytest

from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Key
from swell.cli.connection import connected
from swell.cli.options import ClusterOptions
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from tests.contract.swell_command import Swell
from tests.contract.test_commands import JOB

TRAINING_JOB = """\
apiVersion: paddlepaddle.org/v1alpha1
kind: TrainingJob
metadata: {name: old, annotations: {scheduling.volcano.sh/queue-name: blue}}
spec:
  image: local
  fault_tolerant: true
  trainer: {entrypoint: train, min-instance: 1, max-instance: 3}
"""


@pytest.fixture
def both(swell: Swell) -> Swell:
    """A namespace with the AITrainingJob `fit` and the TrainingJob `old`."""
    assert swell.apply(f"{JOB}---\n{TRAINING_JOB}").code == 0
    return swell


def twins(swell: Swell) -> Swell:
    """Both kinds have a job of one name."""
    assert swell.apply(f"{JOB}---\n{TRAINING_JOB.replace('name: old', 'name: fit')}").code == 0
    return swell


def began(swell: Swell, name: str, target: int) -> None:
    """The operator has seen the TrainingJob."""
    patch = merge_patch({"status": {"phase": "Running", "trainer_target": target}})
    with connected(ClusterOptions()) as connection:
        key = Key(swell.namespace, name)
        connection.client.send(calls.patch(TRAINING_JOBS.status, key, patch))


def test_get_shows_jobs_of_both_kinds(both: Swell) -> None:
    """A table for each kind, one list for scripts, and names alone find either."""
    shown = both.here("get").out
    heads = [line.split() for line in shown.splitlines() if line.startswith("NAME")]

    assert [head[1:3] for head in heads] == [["PHASE", "READY"], ["PHASE", "TRAINERS"]]
    assert both.here("get", "-o", "name").out == "aitrainingjob/fit\ntrainingjob/old\n"
    assert both.here("get", "old", "-o", "name").out == "trainingjob/old\n"
    assert (
        both.here("get", "old", "fit", "-o", "name").out == "aitrainingjob/fit\ntrainingjob/old\n"
    )
    assert both.here("get", "old", "-o", "json").json["kind"] == "TrainingJob"
    assert "Kind:         TrainingJob" in both.here("describe", "old").out


@pytest.mark.parametrize(
    "command",
    [
        ["get", "fit"],
        ["describe", "fit"],
        ["delete", "fit"],
        ["logs", "fit"],
        ["explain", "fit"],
        ["scale", "fit", "trainer=1"],
    ],
)
def test_name_of_both_kinds_is_refused_with_the_choice(swell: Swell, command: list[str]) -> None:
    """Nothing is done, and the answer says how to write the one that is meant."""
    answer = twins(swell).here(*command)

    assert answer.code == 1
    assert "an AITrainingJob and a TrainingJob are named fit" in answer.err
    assert "aitj/fit or tj/fit" in answer.err
    assert len(swell.here("get", "-o", "name").out.split()) == 2


@pytest.mark.parametrize("kind", ["tj", "trainingjob", "TrainingJob", "trainingjobs"])
def test_choice_is_taken(swell: Swell, kind: str) -> None:
    """Every name of the kind will do."""
    twins(swell)

    assert swell.here("get", f"{kind}/fit", "-o", "name").out == "trainingjob/fit\n"
    assert swell.here("logs", f"{kind}/fit").code == 0
    assert swell.here("explain", f"{kind}/fit").code == 0
    assert swell.here("delete", f"{kind}/fit").out == "trainingjob/fit deleted\n"
    assert swell.here("get", "-o", "name").out == "aitrainingjob/fit\n"


def test_trainers_are_scaled_within_their_bounds(both: Swell) -> None:
    """The target is written with a record of who asked; anything else is refused in numbers."""
    assert "has not begun yet" in both.here("scale", "old", "trainer=2").err
    began(both, "old", 1)

    assert both.here("scale", "old", "trainer=3").out == "trainingjob/old scaled\n"
    status = both.here("get", "old", "-o", "json").json["status"]
    assert isinstance(status, dict)
    assert status["trainer_target"] == 3
    assert [(r["from"], r["to"], r["by"]) for r in status["scale_records"]] == [(1, 3, "user")]
    assert "may have 1 to 3 trainers" in both.here("scale", "old", "trainer=4").err
    assert "pserver has a fixed size" in both.here("scale", "old", "pserver=4").err
    assert "has no role worker" in both.here("scale", "old", "worker=1").err


def test_job_with_a_size_of_its_own_gets_another(both: Swell) -> None:
    """`spec.scale` is written then: the autoscaler does not change it again."""
    began(both, "old", 1)
    patch = merge_patch({"spec": {"scale": {"replicas": 2}}})
    with connected(ClusterOptions()) as connection:
        connection.client.send(calls.patch(TRAINING_JOBS, Key(both.namespace, "old"), patch))

    assert both.here("scale", "old", "trainer=3").out == "trainingjob/old scaled\n"
    spec = both.here("get", "old", "-o", "json").json["spec"]
    assert isinstance(spec, dict)
    assert spec["scale"] == {"replicas": 3}


def test_logs_of_a_training_job_know_its_roles(both: Swell) -> None:
    """A role, an index or a container that it never has is refused."""
    assert both.here("logs", "old").code == 0
    assert "its roles: master, pserver, trainer" in both.here("logs", "old", "--role", "x").err
    assert "never has a pod of index 3" in both.here("logs", "old", "--index", "3").err
    assert "its containers: etcd, master" in (
        both.here("logs", "old", "--role", "master", "--container", "x").err
    )


def test_unknown_kind_of_job_is_a_mistake_of_usage(both: Swell) -> None:
    """Only the two kinds have logs."""
    answer = both.here("logs", "cm/old")

    assert answer.code == 2
    assert "aitj/NAME or tj/NAME" in answer.err


def test_attaching_to_a_pod_says_what_to_do(swell: Swell) -> None:
    """kubectl attaches to pods; here the log of one is followed instead."""
    swell.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {schedulerName: none, containers: [{name: c, image: local}]}\n"
    )

    answer = swell.here("attach", "p")

    assert (answer.code, answer.out) == (1, "")
    assert "p is a pod, and attach takes a job" in answer.err
    assert "swell logs -f p" in answer.err
