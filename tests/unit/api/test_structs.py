"""The structs of our kinds: what is on the wire is read and written under the same names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swell.api import aitrainingjob, trainingjob
from swell.api.aitrainingjob import AITrainingJob, AITrainingJobSpec, EdlPolicy, ReplicaSpec
from swell.api.codec import convert, encode, to_body
from swell.api.core import Node
from swell.api.kinds import ALL, PODS, TRAINING_JOBS
from swell.api.manifest import read
from swell.api.pod import Pod
from swell.api.trainingjob import Framework, FrameworkType, RoleSpec, TrainingJob, TrainingJobSpec

DATA = Path(__file__).parents[2] / "data"


def test_status_of_a_job_is_read_in_full() -> None:
    """Every field of a status survives being read and written."""
    status = json.loads((DATA / "aitrainingjob-status.json").read_text())
    job = convert({"status": status}, AITrainingJob)

    written = to_body(job.status)
    # An empty text is the default, which is left out.
    del status["conditions"][0]["message"]
    assert written == status


def test_training_job_has_the_names_of_existing_manifests() -> None:
    """Dashes, underscores and capitals are as they always were."""
    (document,) = read((DATA / "manifests" / "trainingjob-full.yaml").read_bytes()).documents
    job = convert(document.body, TrainingJob)
    spec = job.spec

    assert (spec.ports_num, spec.ports_num_for_sparse, spec.trainer_ports_num) == (2, 1, 1)
    assert spec.volume_mounts == ({"name": "data", "mountPath": "/data"},)
    assert (spec.scheduler_name, spec.pod_group_name) == ("swell", "shared")
    assert spec.master.etcd_endpoint == "http://etcd:2379"
    assert (spec.trainer.min_instance, spec.trainer.max_instance) == (1, 4)
    assert spec.pserver.image_pull_secrets == ({"name": "registry"},)
    assert spec.annotations.walltime == 3600
    assert spec.has_pservers
    assert spec.is_elastic


@pytest.mark.parametrize(
    ("role", "sizes"),
    [
        (ReplicaSpec(), (1, 1, 1)),
        (ReplicaSpec(replicas=3), (3, 3, 3)),
        (ReplicaSpec(min_replicas=2), (2, 2, 2)),
        (ReplicaSpec(max_replicas=4), (1, 1, 4)),
        (ReplicaSpec(replicas=3, min_replicas=1), (1, 3, 3)),
        (ReplicaSpec(replicas=3, min_replicas=1, max_replicas=5), (1, 3, 5)),
    ],
)
def test_sizes_left_out_are_filled_in(role: ReplicaSpec, sizes: tuple[int, int, int]) -> None:
    """replicas defaults to minReplicas or 1, the bounds to replicas."""
    assert (role.minimum, role.size, role.maximum) == sizes


@pytest.mark.parametrize(
    ("policy", "least", "is_elastic", "gang"),
    [
        (EdlPolicy.AUTO, 1, True, 1),
        (EdlPolicy.MANUAL, 1, True, 1),
        (EdlPolicy.NEVER, 1, False, 3),
        (EdlPolicy.AUTO, 3, False, 3),
    ],
)
def test_a_role_is_elastic_by_policy_and_room(
    policy: EdlPolicy, least: int, is_elastic: bool, gang: int
) -> None:
    """Auto or Manual, and a minimum below the maximum; only then does the gang shrink."""
    role = ReplicaSpec(replicas=3, min_replicas=least, max_replicas=3, edl_policy=policy)

    assert role.is_elastic is is_elastic
    assert role.gang_minimum == gang


@pytest.mark.parametrize(
    ("raw", "codes"),
    [("137,128", {137, 128}), (137, {137}), ("", set()), (" 1 , 2 ", {1, 2}), ("1,x", {1})],
)
def test_exit_codes_are_text_or_number(raw: str | int, codes: set[int]) -> None:
    """Codes are separated by commas; one may be a bare number."""
    assert AITrainingJobSpec(restarting_exit_code=raw).retryable_exit_codes == codes


def test_final_phases_are_the_ends() -> None:
    """No other phase is final, and phases are spelt as in the API."""
    assert {phase.value for phase in aitrainingjob.FINAL_PHASES} == {
        "Succeed", "Failed", "Timeout", "Preempted", "NodeFail",
    }  # fmt: skip
    assert {phase.value for phase in trainingjob.FINAL_PHASES} == {"Succeed", "Failed", "Timeout"}


@pytest.mark.parametrize(
    ("spec", "has_pservers", "most"),
    [
        (TrainingJobSpec(), True, 3),
        (TrainingJobSpec(local_job=True), False, 1),
        (TrainingJobSpec(is_nccl=True), False, 3),
        (TrainingJobSpec(frame_work=Framework(type=FrameworkType.MULTI)), True, 3),
        (TrainingJobSpec(frame_work=Framework(type=FrameworkType.NCCL2)), False, 3),
        (TrainingJobSpec(frame_work=Framework(type=FrameworkType.LOCAL)), False, 1),
    ],
)
def test_framework_decides_on_pservers_and_trainers(
    spec: TrainingJobSpec, has_pservers: bool, most: int
) -> None:
    """Local jobs have one trainer and nothing else; nccl needs no pservers."""
    trainer = RoleSpec(min_instance=2, max_instance=3)
    body = {**to_body(spec), "trainer": to_body(trainer)}
    full = convert(body, TrainingJobSpec)

    assert full.has_pservers is has_pservers
    assert full.trainer_maximum == most


def test_resources_are_known_by_distinct_words() -> None:
    """No word on a command line could mean two kinds."""
    terms = [
        word
        for resource in ALL
        for word in {resource.plural, resource.kind.lower(), *resource.short_names}
    ]

    assert len(terms) == len(set(terms))
    assert TRAINING_JOBS.path("ns", "a") == "/apis/paddlepaddle.org/v1/namespaces/ns/trainingjobs/a"


def test_unknown_fields_do_not_hinder_reading() -> None:
    """A struct holds what we read; whatever else a pod has is passed over."""
    raw = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "tty": True}]}}
    pod = convert(json.loads(encode(raw)), Pod)

    assert pod.spec.containers[0].name == "c"
    assert PODS.struct is Pod


def test_node_with_an_image_that_lost_its_name_is_read() -> None:
    """A kubelet writes null for the names of an image whose name went to a newer one."""
    raw = {"status": {"allocatable": {"cpu": "2"}, "images": [{"names": None, "sizeBytes": 1}]}}
    node = convert(json.loads(encode(raw)), Node)

    assert node.status.allocatable == {"cpu": "2"}
