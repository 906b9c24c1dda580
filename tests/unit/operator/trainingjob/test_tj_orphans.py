"""What counts as left behind by a TrainingJob."""

from __future__ import annotations

import pytest

from swell.api.kinds import JOBS, PODS, REPLICA_SETS
from swell.api.meta import Key, ObjectMeta, OwnerReference, Uid
from swell.api.resource import Resource
from swell.operator.framework.orphans import LabelledObject, former_orphans, orphans
from swell.operator.trainingjob.kind import ADOPTING, ORPHANS, training_job_kind
from swell.operator.trainingjob.labels import JOB_UID
from swell.operator.trainingjob.settings import TrainingJobSettings

TJ = ("paddlepaddle.org/v1", "TrainingJob")
RS = ("apps/v1", "ReplicaSet")


def labelled(
    resource: Resource[object],
    owner: tuple[str, str] = TJ,
    *,
    uid: str = "gone",
    job: str = "gone",
    **meta: object,
) -> LabelledObject:
    reference = OwnerReference(
        api_version=owner[0], kind=owner[1], uid=Uid(uid), name="x", controller=True
    )
    made = ObjectMeta(
        name="one",
        namespace="team",
        uid=Uid("u"),
        labels={JOB_UID: job},
        **{"owner_references": (reference,), **meta},  # type: ignore[arg-type]
    )
    return LabelledObject(resource, made)


@pytest.mark.parametrize(
    ("one", "goes"),
    [
        (labelled(REPLICA_SETS), True),
        (labelled(JOBS), True),
        (labelled(JOBS, uid="here", job="here"), False),
        (labelled(JOBS, deletion_timestamp="now"), False),
        (labelled(JOBS, owner_references=()), False),
        (labelled(JOBS, ("elasticdeeplearning.ai/v1", "AITrainingJob")), False),
        (labelled(PODS, RS), True),
        (labelled(PODS, RS, uid="set"), False),
        (labelled(PODS, RS, job="here"), False),
        (labelled(PODS, ("example.com/v1", "ReplicaSet")), False),
        (labelled(PODS, RS, job=""), False),
    ],
)
def test_orphan_is_what_has_lost_its_owner(one: LabelledObject, goes: bool) -> None:
    """Ours, by UID, with neither job nor workload left; whatever is not certainly so stays."""
    workload = LabelledObject(REPLICA_SETS, ObjectMeta(name="set", uid=Uid("set")))
    found = orphans(ORPHANS, [one, workload], {Uid("here")})

    assert [action.key for action in found] == ([Key("team", "one")] if goes else [])
    assert all(action.uid == "u" for action in found)


def test_orphans_of_jobs_take_their_pods_along() -> None:
    """A Job's pods would stay behind by default."""
    (action,) = orphans(ORPHANS, [labelled(JOBS)], set())

    assert action.propagation == "Background"


def original(
    resource: Resource[object], label: str = "paddle-job", **meta: object
) -> LabelledObject:
    """An object as the original controller made it: a label with its job's name, and no owner."""
    made = ObjectMeta(
        name="one",
        uid=Uid("u"),
        resource_version="7",
        **{"namespace": "team", "labels": {label: "old"}, **meta},  # type: ignore[arg-type]
    )
    return LabelledObject(resource, made)


OWNED = OwnerReference(api_version="v1", kind="ConfigMap", uid=Uid("x"), name="x")


@pytest.mark.parametrize(
    ("one", "goes"),
    [
        (original(JOBS), True),
        (original(REPLICA_SETS, "paddle-job-pserver"), True),
        (original(REPLICA_SETS, "paddle-job-master"), True),
        (original(PODS), True),
        (original(JOBS, owner_references=(OWNED,)), False),
        (original(JOBS, labels={"paddle-job": "old", JOB_UID: "gone"}), False),
        (original(JOBS, labels={"paddle-job": "kept"}), False),
        (original(JOBS, labels={"paddle-job": ""}), False),
        (original(JOBS, labels={"other": "old"}), False),
        (original(JOBS, namespace="other", labels={"paddle-job": "kept"}), True),
        (original(JOBS, deletion_timestamp="now"), False),
    ],
)
def test_original_orphan_has_neither_owner_nor_job(one: LabelledObject, goes: bool) -> None:
    """A job is known by its name in the object's namespace; whatever has an owner stays."""
    found = former_orphans(ADOPTING, [one], {Key("team", "kept")})

    assert [(action.uid, action.version) for action in found] == ([("u", "7")] if goes else [])


@pytest.mark.parametrize("adopts", [True, False])
def test_originals_are_looked_for_only_on_request(adopts: bool) -> None:
    """Without the flag they are not even listed."""
    rules = training_job_kind(TrainingJobSettings(adopt_original=adopts)).orphans

    assert bool(rules.former_labels) is adopts
