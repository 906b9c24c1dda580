"""One pass over a ReplicaSet."""

from __future__ import annotations

from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.workloads import ReplicaSet
from swell.cluster.embedded.controllers.replicaset import ReplicaSetSnapshot, decide_replica_set
from swell.runtime.controller import RejectedWrite
from swell.runtime.plan import CreateObject, DeleteObject, PatchObject, PatchStatus, Plan
from tests.unit.cluster.embedded.controllers.builders import NOW, a_pod, a_replica_set, ago, ready

COUNTED: Body = {
    "replicas": 2,
    "fullyLabeledReplicas": 2,
    "terminatingReplicas": 0,
    "observedGeneration": 1,
}


def decide(owner: ReplicaSet, *pods: Pod, refusal: RejectedWrite | None = None) -> Plan:
    return decide_replica_set(ReplicaSetSnapshot(owner, pods, (), refusal, seed=1), NOW)


def creates(plan: Plan) -> list[CreateObject]:
    return [a for a in plan.each_action() if isinstance(a, CreateObject)]


def status_of(plan: Plan) -> Body:
    return next((a.status for a in plan.each_action() if isinstance(a, PatchStatus)), {})


def refused(retry_in_s: float) -> RejectedWrite:
    body = {"metadata": {"name": "a-x", "namespace": "default"}}
    return RejectedWrite(CreateObject(PODS, body), "Forbidden", "over quota", 1, NOW + retry_in_s)


def test_settled_set_needs_nothing() -> None:
    """A ReplicaSet that is as it should be needs no write."""
    plan = decide(a_replica_set(2, status=COUNTED), a_pod("x"), a_pod("y"))

    assert plan == Plan()


def test_status_is_written_before_pods_are_made() -> None:
    """The status counts the pods found, and is guarded by the version it was computed from."""
    plan = decide(a_replica_set(2))
    first = plan.actions[0]

    assert isinstance(first, PatchStatus)
    assert first.version == "7"
    assert len(creates(plan)) == 2


def test_burst_is_bounded() -> None:
    """However many are missing, one pass makes 500."""
    assert len(creates(decide(a_replica_set(2000)))) == 500


def test_ownership_is_settled_first() -> None:
    """No pod is created or deleted in a pass that adopts or releases."""
    plan = decide(a_replica_set(3), a_pod("lone", metadata={"ownerReferences": []}))

    assert all(isinstance(action, PatchObject) for action in plan.each_action())


def test_finished_pods_are_not_adopted_and_do_not_count() -> None:
    """A finished pod does not count."""
    lone = a_pod("lone", phase="Failed", metadata={"ownerReferences": []})
    plan = decide(a_replica_set(1), lone, a_pod("done", phase="Succeeded"))

    assert len(creates(plan)) == 1


def test_excess_is_deleted_by_uid() -> None:
    """The pod that costs least goes, and no other of its name."""
    assigned = a_pod("b", spec={"nodeName": "n"})
    plan = decide(a_replica_set(1, status=COUNTED), a_pod("a"), assigned)
    (deletion,) = [a for a in plan.each_action() if isinstance(a, DeleteObject)]

    assert (deletion.key, deletion.uid) == (Key("default", "a"), "uid-a")


def test_deleted_set_only_reports() -> None:
    """A set on its way out makes nothing and deletes nothing."""
    owner = a_replica_set(3, metadata={"deletionTimestamp": ago(1)})
    plan = decide(owner, a_pod("x"))

    assert creates(plan) == []
    assert status_of(plan)["replicas"] == 1


def test_refused_creates_are_reported_and_not_repeated_too_early() -> None:
    """After a refused create the condition reports it, and the next attempt waits."""
    plan = decide(a_replica_set(1), refusal=refused(30))
    (condition,) = status_of(plan)["conditions"]

    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert condition["message"] == "over quota"
    assert creates(plan) == []
    assert plan.wake_at == NOW + 30


def test_refused_creates_are_tried_again_in_time() -> None:
    """Creates are repeated when due, and the condition stays until they succeed."""
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    owner = a_replica_set(1, status={"observedGeneration": 1, "conditions": [failure]})
    plan = decide(owner, refusal=refused(0))

    assert len(creates(plan)) == 1
    assert "conditions" not in status_of(plan)


def test_failure_is_taken_back_when_all_pods_are_there() -> None:
    """The condition goes with its cause."""
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    owner = a_replica_set(1, status={"conditions": [failure]})

    assert status_of(decide(owner, a_pod("x")))["conditions"] is None


def test_wakes_when_a_pod_becomes_available() -> None:
    """Time alone makes a ready pod available, so the set looks again then."""
    pod = a_pod("x", status={"conditions": [ready(ago(4))]})
    plan = decide(a_replica_set(1, minReadySeconds=10), pod)

    assert plan.wake_at == NOW + 6
    assert "availableReplicas" not in status_of(plan)
