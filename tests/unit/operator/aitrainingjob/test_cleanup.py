"""Deletion by finalizer in every phase, jobs that are invalid or cannot be read, garbage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.codec import to_body
from swell.api.kinds import AI_TRAINING_JOBS, JOBS, PODS, SERVICES
from swell.api.meta import ObjectMeta, OwnerReference, Uid
from swell.api.resource import Resource
from swell.api.times import format_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.kind import MALFORMED, ORPHANS
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.malformed import decide_malformed, placeholder
from swell.operator.framework.orphans import LabelledObject, orphans, stuck_pods
from swell.runtime.cluster import Malformed
from swell.runtime.plan import PatchObject, Plan
from tests.unit.operator.scene import (
    UID,
    Scene,
    a_job,
    a_node,
    a_role,
    created,
    deleted,
    forced,
    phases,
    recorded,
)

T0, T1 = "fit-trainer-0", "fit-trainer-1"


def restarting(scene: Scene) -> Scene:
    return scene.running().fails(T0).settle()


PHASES: dict[AITrainingJobPhase, Callable[[Scene], Scene]] = {
    AITrainingJobPhase.EMPTY: lambda scene: scene,
    AITrainingJobPhase.PENDING: Scene.settle,
    AITrainingJobPhase.CREATING: lambda scene: scene.settle(),
    AITrainingJobPhase.RUNNING: Scene.running,
    AITrainingJobPhase.TERMINATING: restarting,
    AITrainingJobPhase.RESTARTING: lambda scene: restarting(scene).leavers_go().settle(),
    AITrainingJobPhase.FAILED: lambda scene: scene.running().annotate("Failed", "x").settle(),
    AITrainingJobPhase.SUCCEED: lambda scene: scene.running().succeeds(T0, T1).settle(),
}


@pytest.mark.parametrize("phase", PHASES)
def test_deletion_takes_everything_then_the_finalizer(phase: AITrainingJobPhase) -> None:
    """Whatever the job was doing, nothing owned is left when its object goes."""
    job = a_job({"trainer": a_role(replicas=2, restartPolicy="Always")})
    scene = PHASES[phase](Scene(job)).delete()
    had = bool(scene.pods or scene.services)

    plan = scene.look()

    assert created(plan) == []
    assert recorded(plan) == {}
    if had:
        assert not any(isinstance(a, PatchObject) for a in plan.each_action())
    scene.settle().leavers_go().settle()
    assert not scene.pods
    assert not scene.services
    assert scene.group is None
    assert scene.members is None
    assert scene.job.metadata.finalizers == ()


def test_finalizer_comes_first() -> None:
    """Before anything exists that it has to guard."""
    scene = Scene(a_job())
    scene.job = replace(scene.job, metadata=replace(scene.job.metadata, finalizers=("other",)))

    plan = scene.look()

    assert [type(action).__name__ for action in plan.each_action()] == ["PatchObject"]
    assert scene.settle().job.metadata.finalizers == ("other", labels.FINALIZER)


def test_other_finalizers_are_left_to_their_owners() -> None:
    """We take off ours alone, and then have nothing more to do."""
    scene = Scene(a_job())
    both = ("other", labels.FINALIZER)
    scene.job = replace(scene.job, metadata=replace(scene.job.metadata, finalizers=both))

    scene.delete().settle()

    assert scene.job.metadata.finalizers == ("other",)
    assert scene.look().actions == ()


def test_deletion_on_a_dead_node_is_forced() -> None:
    """A pod that nobody will ever report gone must not keep its job for ever."""
    scene = Scene(a_job()).running().delete().settle()
    scene.nodes[f"node-of-{T1}"] = NodeState(None)

    assert forced(scene.look()) == [T1]


# -- invalid -----------------------------------------------------------------------------------


def test_invalid_job_fails_with_all_reasons() -> None:
    """An object that slipped through gets phase Failed, creates nothing, and stays so."""
    scene = Scene(a_job())
    scene.problems = ("spec.a: wrong", "spec.b: worse")

    scene.settle()

    assert phases(scene) == [AITrainingJobPhase.FAILED]
    assert scene.status.reason == "InvalidSpec"
    assert scene.status.message == "spec.a: wrong; spec.b: worse"
    assert not scene.pods
    assert scene.look().actions == ()


def test_message_of_an_invalid_job_is_bounded() -> None:
    """Hostile specs break many rules."""
    scene = Scene(a_job())
    scene.problems = tuple(f"spec.x{n}: wrong" for n in range(9999))

    assert len(scene.settle().status.message) <= 4096


def a_malformed(job: AITrainingJob, **status: object) -> Malformed:
    body = {**to_body(job), "spec": {"replicaSpecs": 7}, "status": status}
    meta = job.metadata
    return Malformed(meta.key, meta.uid, meta.resource_version, "spec.replicaSpecs: a map", body)


def plan_for(found: Malformed) -> Plan:
    """The plan when nothing but the job itself is there."""
    snapshot = Scene(placeholder(MALFORMED, found)).snapshot
    return decide_malformed(MALFORMED, found, snapshot, 0.0)


def test_unreadable_job_fails_and_loses_its_pods() -> None:
    """What it owns would otherwise run on unseen."""
    scene = Scene(a_job()).running()
    found = a_malformed(scene.job)
    scene.job = placeholder(MALFORMED, found)

    plan = decide_malformed(MALFORMED, found, scene.snapshot, scene.now)

    assert recorded(plan)["phase"] == "Failed"
    assert "a map" in recorded(plan)["message"]
    assert deleted(plan) == [T0, T1]


@pytest.mark.parametrize("phase", ["Failed", "Succeed", "Timeout"])
def test_unreadable_job_that_is_over_is_left_alone(phase: str) -> None:
    """Final is final, also for what cannot be read."""
    found = a_malformed(a_job(), phase=phase)

    assert plan_for(found).actions == ()


def test_unreadable_job_can_be_deleted() -> None:
    """Its finalizer comes off like any other's."""
    job = a_job()
    job = replace(job, metadata=replace(job.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    found = a_malformed(job)

    plan = plan_for(found)

    assert [type(action).__name__ for action in plan.each_action()] == ["PatchObject"]


def test_placeholder_of_a_job_without_sane_metadata_keeps_its_identity() -> None:
    """Even metadata may be nonsense; who it is, is always known."""
    found = Malformed(a_job().metadata.key, UID, "9", "broken", {"metadata": {"labels": 3}})

    assert placeholder(MALFORMED, found).metadata.uid == UID
    assert placeholder(MALFORMED, found).metadata.name == "fit"


def test_job_of_more_pods_than_can_be_named_is_invalid() -> None:
    """Before anything walks over their indexes."""
    scene = Scene(a_job({"trainer": a_role(replicas=2**31 - 1)})).settle()

    assert scene.status.reason == "InvalidSpec"
    assert "10000" in scene.status.message


def test_role_that_disappears_harms_nothing() -> None:
    """A server without our rules lets it happen: the rest goes on, its pods go at the end."""
    scene = Scene(a_job({"a": a_role(replicas=1), "b": a_role(replicas=1)})).running()

    scene.edit(replicaSpecs={"b": None}).settle()

    assert sorted(scene.pods) == ["fit-a-0", "fit-b-0"]
    assert scene.look().actions == ()
    assert deleted(scene.succeeds("fit-a-0").look()) == ["fit-a-0", "fit-b-0"]


def test_large_job_is_created_in_turns() -> None:
    """One job must not keep all others waiting."""
    scene = Scene(a_job({"trainer": a_role(replicas=1200)}))

    assert len(created(scene.look())) == 500
    assert len(scene.settle().pods) == 1200


# -- garbage -----------------------------------------------------------------------------------


def an_object(resource: Resource[object], owner: str, **changes: object) -> LabelledObject:
    reference = OwnerReference(
        api_version=AI_TRAINING_JOBS.api_version,
        kind=AI_TRAINING_JOBS.kind,
        name="fit",
        uid=Uid(owner),
        controller=True,
    )
    meta = ObjectMeta(
        name="x",
        namespace="team",
        uid=Uid("x-uid"),
        labels={labels.GROUP_NAME: labels.GROUP_VALUE},
        owner_references=(reference,),
    )
    return LabelledObject(resource, replace(meta, **changes))


def test_garbage_is_what_outlived_its_job_by_uid() -> None:
    """A namesake that lives does not save it; one that is not ours is not touched."""
    alive = frozenset({Uid("alive")})
    stranger = OwnerReference(api_version="apps/v1", kind="Deployment", uid=Uid("d"))
    found = [
        an_object(PODS, "alive"),
        an_object(PODS, "gone"),
        an_object(SERVICES, "gone"),
        an_object(JOBS, "gone"),
        an_object(PODS, "gone", labels={}),
        an_object(PODS, "gone", owner_references=()),
        an_object(PODS, "gone", owner_references=(replace(stranger, controller=True),)),
        an_object(PODS, "gone", deletion_timestamp="2026-01-01T00:00:00Z"),
    ]

    to_delete = orphans(ORPHANS, found, alive)

    assert [str(action.resource) for action in to_delete] == ["pods", "services", "jobs.batch"]


@pytest.mark.parametrize(
    ("past_s", "state", "goes"),
    [
        (61.0, NodeState(None), True),
        (59.0, NodeState(None), False),
        (61.0, NodeState(a_node("n")), False),
        (61.0, NodeState(a_node("n", ready=False), 0.0), True),
    ],
)
def test_pods_long_past_their_end_go_on_fenced_nodes_only(
    past_s: float, state: NodeState, goes: bool
) -> None:
    """Long past: longer than --node-fence-after beyond the deletion time."""
    scene = Scene(a_job()).running()
    scene.leaves(T1)
    pod = scene.pods[T1]
    now = scene.now + past_s
    assert format_time(scene.now) == pod.metadata.deletion_timestamp

    found = stuck_pods(
        [pod], {pod.spec.node_name: state}, AITrainingJobSettings().node_fence_after_s, now
    )

    assert bool(found) is goes
