"""What counts as left behind by a TrainingJob."""

from __future__ import annotations

import pytest

from swell.api.kinds import JOBS, PODS, REPLICA_SETS
from swell.api.meta import Key, ObjectMeta, OwnerReference, Uid
from swell.api.resource import Resource
from swell.operator.framework.orphans import LabelledObject, orphans
from swell.operator.trainingjob.kind import ORPHANS
from swell.operator.trainingjob.labels import JOB_UID

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
