"""Groups of Kubernetes itself count for sizes as those of Volcano do."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from swell.api.codec import convert
from swell.api.meta import Body, Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod, SchedulingGroup
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.policies.interface import SizeReason
from tests.autoscaler_cases import (
    NAMESPACE,
    Thing,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_role,
    a_stranger,
    decide,
    in_queue,
    look,
)

ROLE = a_role(1, 8, cpu="1", memory="1Gi")
NODE = a_node("n", cpu=100, memory="100Gi")


def native(
    name: str, queue: str = "", said: str = "", status: str = "False", job: str = "", **spec: Any
) -> NativeGroup:
    condition: Body = {"type": "PodGroupScheduled", "status": status, "message": said}
    body: Body = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"TrainingJobName": job} if job else {},
            "annotations": {"scheduling.volcano.sh/queue-name": queue} if queue else {},
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, **spec},
        "status": {"conditions": [condition] if said else []},
    }
    return convert(body, NativeGroup)


def member(name: str, group: str, node: str = "") -> Pod:
    """A pod of no job of ours, in a native group that our scheduler serves."""
    pod = a_stranger(name, node, cpu="1", memory="1Gi")
    spec = replace(
        pod.spec, scheduler_name="swell", scheduling_group=SchedulingGroup(pod_group_name=group)
    )
    return replace(pod, spec=spec)


def test_role_does_not_grow_into_the_quota_that_a_native_group_of_its_queue_holds() -> None:
    role = in_queue(a_job("a", targets={"t": 2}, t=ROLE), "q")
    own = [a_pod("a", "t", index, "n", cpu="1", memory="1Gi") for index in range(2)]
    others = [member(f"x-{index}", "x", "n") for index in range(3)]
    cluster: list[Thing] = [NODE, a_queue("q", cpu=6), role, *own, *others]
    (free,) = decide(look(*cluster, native("x", queue="other"))).values()
    (taken,) = decide(look(*cluster, native("x", queue="q"))).values()

    assert free.target == 6
    assert (taken.target, taken.reason) == (3, SizeReason.ROOM)
    assert "queue q is at its capability" in taken.message


def test_native_group_that_its_scheduler_refuses_waits_until_it_is_scheduled() -> None:
    """One of which nothing was said may belong to a scheduler that says nothing."""
    ledger = Ledger(NeedsReader(()))
    key, own = Key(NAMESPACE, "x"), Key(NAMESPACE, "podgroup.k8s:x")
    for group, waits in (
        (native("x"), False),
        (native("x", said="NotEnoughResources: 0/1 nodes"), True),
        (native("x", said="at least 1 pod has a node", status="True"), False),
        (native("x", said="NotEnoughResources: 0/1 nodes"), True),
        (None, False),
    ):
        ledger.put_native_group(key, group)
        assert (own in ledger.snapshot().waiting_groups) is waits


def test_job_whose_native_group_is_refused_for_its_queue_presses_on_no_other() -> None:
    """Either of its groups says so, and it is over when both no longer do."""
    ledger = Ledger(NeedsReader(()))
    ledger.put_node(NODE)
    ledger.put_job(a_job("a", phase="Pending", targets={"t": 2}, t=ROLE))

    def is_hopeless() -> bool:
        (state,) = ledger.snapshot().jobs
        return state.is_hopeless

    assert not is_hopeless()
    said = "QueueClosed: queue q is closed"
    for name in ("a", "a-r1"):
        ledger.put_native_group(Key(NAMESPACE, name), native(name, said=said, job="a"))
        assert is_hopeless()
    ledger.put_native_group(Key(NAMESPACE, "a"), native("a", job="a"))
    assert is_hopeless()
    ledger.put_native_group(Key(NAMESPACE, "a-r1"), None)
    assert not is_hopeless()
