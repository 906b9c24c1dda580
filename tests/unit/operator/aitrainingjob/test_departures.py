"""A pod that could stay is asked to save, and goes when it has, has ended, or at its deadline."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from swell.api.codec import encode
from swell.api.injection import EVICTION_ANNOTATION, RELEASE_ANNOTATION, SAVED_ANNOTATION
from swell.api.times import format_time
from swell.operator.framework.reports import ReceivedReport, read_report
from swell.runtime.plan import DeleteObject, PatchObject, Plan
from tests.unit.operator.scene import Scene, a_job, a_node, a_role, deleted, recorded

T0, T1, T2 = "fit-trainer-0", "fit-trainer-1", "fit-trainer-2"


def training(*, saves: bool = True, grace_s: int = 20, **spec: object) -> Scene:
    """Three members, of an elastic role, whose program has reported."""
    sizes = {"minReplicas": 1, "maxReplicas": 3, "edlPolicy": "Manual"}
    role = a_role(replicas=3, restartPolicy="Always", **sizes)
    role["template"]["spec"]["terminationGracePeriodSeconds"] = grace_s
    scene = Scene(a_job({"trainer": role}, reporting=True, **spec)).running()
    told = {"generation": 1, "epoch": 1, "size": 3, "step": 9, "saves": saves}
    scene.report = ReceivedReport(read_report(encode(told)), scene.now, "trainer", 0)
    return scene.settle()


def note(scene: Scene, name: str, annotation: str, text: str) -> None:
    pod = scene.pods[name]
    notes = {**pod.metadata.annotations, annotation: text}
    scene.pods[name] = replace(pod, metadata=replace(pod.metadata, annotations=notes))


def evict(scene: Scene, *names: str, within_s: float = 15) -> None:
    """As the scheduler records it."""
    for name in names:
        record = {"uid": scene.pods[name].metadata.uid, "for": "team/big"}
        record["deadline"] = format_time(scene.now + within_s)
        note(scene, name, EVICTION_ANNOTATION, json.dumps(record))


def asked(plan: Plan) -> dict[str, dict[str, object]]:
    """The requests to leave that a plan publishes, by pod."""
    found: dict[str, dict[str, object]] = {}
    for one in plan.each_action():
        if isinstance(one, PatchObject) and isinstance(one.patch.body, dict):
            notes = one.patch.body["metadata"].get("annotations", {})
            if RELEASE_ANNOTATION in notes:
                found[one.key.name] = json.loads(notes[RELEASE_ANNOTATION])
    return found


def test_shrink_asks_first_and_deletes_at_the_answer() -> None:
    """The pod learns why, until when and for which membership; its answer lets it go."""
    scene = training().edit_role("trainer", replicas=2)
    plan = scene.look()
    assert asked(plan) == {
        T2: {"reason": "its role shrinks", "deadline": format_time(scene.now + 20), "epoch": 2}
    }
    assert deleted(plan) == []
    scene.settle()
    assert scene.look().wake_at == scene.now + 20
    note(scene, T2, SAVED_ANNOTATION, "step 9")

    assert deleted(scene.look()) == [T2]


def test_deadline_ends_the_wait() -> None:
    """It is on the pod, so it counts from the request, however often operators change."""
    scene = training().edit_role("trainer", replicas=2).settle().after(19)
    assert deleted(scene.look()) == []

    assert deleted(scene.after(1).look()) == [T2]


def test_program_that_ends_is_not_waited_for() -> None:
    """Nor does it count as failed, or as having completed its role."""
    for end in ("fails", "succeeds"):
        scene = training().edit_role("trainer", replicas=2).settle()
        getattr(scene, end)(T2)
        plan = scene.look()

        assert deleted(plan) == [T2]
        assert not recorded(plan).get("ending")
        assert scene.settle().status.restart_counts == {}


@pytest.mark.parametrize(
    ("spec", "saves", "grace_s", "wait_s"),
    [
        ({}, True, 20, 20),
        ({}, True, 600, 120),
        ({"saveSeconds": 50}, False, 20, 50),
        ({"saveSeconds": 500}, True, 20, 120),
        ({"saveSeconds": 0}, True, 20, 0),
        ({}, False, 20, 0),
    ],
)
def test_time_to_save(spec: dict[str, object], saves: bool, grace_s: int, wait_s: int) -> None:
    """The job's, else the pod's grace period, within a bound; none for who does not save."""
    scene = training(saves=saves, grace_s=grace_s, **spec).edit_role("trainer", replicas=2)
    plan = scene.look()

    assert deleted(plan) == ([] if wait_s else [T2])
    if wait_s:
        assert asked(plan)[T2]["deadline"] == format_time(scene.now + wait_s)


def test_suspended_job_saves_first() -> None:
    """All pods are asked at once, and the job is at rest when the last has gone."""
    scene = training().edit(suspend=True)
    assert sorted(asked(scene.look())) == [T0, T1, T2]
    scene.settle()
    for name in (T0, T1, T2):
        note(scene, name, SAVED_ANNOTATION, "")
    scene.settle().leavers_go().settle()

    assert scene.pods == {}


def test_healthy_pods_of_a_wider_restart_save_first() -> None:
    """The pod that failed goes at once; the restart waits for the others."""
    scene = training().fails(T1)
    plan = scene.look()

    assert deleted(plan) == [T1]
    assert sorted(asked(plan)) == [T0, T2]
    assert asked(plan)[T0]["reason"] == "its job restarts"
    assert sorted(scene.settle().pods) == [T0, T2]


def test_pod_that_was_asked_goes_though_the_reason_went_away() -> None:
    """Its program may be leaving already: a new pod takes its place."""
    scene = training().edit_role("trainer", replicas=2).settle()
    scene.edit_role("trainer", replicas=3).settle()
    assert not scene.pods[T2].metadata.deletion_timestamp
    scene.fails(T2).settle()

    assert sorted(scene.pods) == [T0, T1, T2]
    assert scene.pods[T2].metadata.annotations.get(RELEASE_ANNOTATION) is None
    assert scene.status.restart_counts == {}


def test_victims_of_the_scheduler_save_first() -> None:
    """Until the scheduler's deadline at most; then they are gone, uncharged."""
    scene = training()
    evict(scene, T2)
    plan = scene.look()
    assert asked(plan) == {
        T2: {
            "reason": "makes room for team/big",
            "deadline": format_time(scene.now + 15),
            "epoch": 1,
        }
    }
    scene.settle().after(15)
    assert deleted(scene.look()) == [T2]
    scene.settle().leavers_go().settle()

    assert sorted(scene.pods) == [T0, T1, T2]
    assert scene.status.restart_counts == scene.status.uncharged == {"trainer": 1}


def test_record_of_another_pod_evicts_nobody() -> None:
    """Templates are copied with their annotations; the record names the pod's UID."""
    scene = training()
    evict(scene, T2)
    record = scene.pods[T2].metadata.annotations[EVICTION_ANNOTATION]
    scene = training()
    note(scene, T1, EVICTION_ANNOTATION, record)

    assert (asked(scene.look()), deleted(scene.look())) == ({}, [])


def test_lost_node_is_not_waited_for() -> None:
    """Nothing on it can save."""
    scene = training()
    host = scene.pods[T2].spec.node_name
    scene.nodes[host] = type(scene.nodes[host])(a_node(host, ready=False), scene.now)
    scene.edit_role("trainer", replicas=2)

    assert deleted(scene.look()) == [T2]


def test_ending_and_deletion_wait_for_nobody() -> None:
    """A job that is over has nothing to go on from."""
    assert deleted(training().annotate("Failed", "no use").look()) == [T0, T1, T2]
    assert deleted(training().delete().look()) == [T0, T1, T2]


def test_job_that_ends_by_a_preemption_saves_first() -> None:
    """Whoever runs it again begins with what was saved; peers that were not chosen save as well."""
    role = a_role(replicas=2, restartPolicy="Always")
    scene = Scene(a_job({"trainer": role}, saveSeconds=30, requeuePolicy="End")).running()
    evict(scene, T0)
    plan = scene.look()
    assert recorded(plan)["ending"]["reason"] == "PreemptedByScheduler"
    assert {name: note["deadline"] for name, note in asked(plan).items()} == {
        T0: format_time(scene.now + 15),
        T1: format_time(scene.now + 30),
    }
    assert deleted(plan) == []
    scene.settle()
    note(scene, T0, SAVED_ANNOTATION, "step 9")
    # The others train in the group that the pods share, and it stays as long.
    assert [
        one.key.name for one in scene.look().each_action() if isinstance(one, DeleteObject)
    ] == [T0]

    scene.settle().leavers_go().after(30).settle()
    assert scene.group is None
    assert scene.leavers_go().settle().status.phase.value == "Preempted"
