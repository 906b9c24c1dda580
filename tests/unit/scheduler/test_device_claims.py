"""Resource claims: allocated and shared ones, those refused, and their devices over time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from swell.api import codec
from swell.api.devices import ResourceClaim
from swell.api.meta import Condition
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.scheduler.config import DEFAULT, Arguments, Config
from swell.scheduler.cycle import run_cycle
from swell.scheduler.model.devices import answers
from swell.scheduler.model.devices.search import search
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from tests.device_objects import (
    DRIVER,
    Body,
    a_claim,
    a_class,
    a_cluster,
    a_device,
    a_group,
    a_node,
    a_pod,
    a_request,
    a_slice,
    allocated,
    gpus,
)

OFF = "predicate.DynamicResourceAllocationEnable"


def outcome(objects: SchedulerObjects, config: Config = DEFAULT) -> tuple[Body, Body, str]:
    """The binds, the devices by claim (pool and name) and the message of the gang."""
    body: Any = answer(plan_schedule(objects, config))
    devices = {
        key.removeprefix("ns/"): [(one["pool"], one["device"]) for one in found]
        for key, found in body.get("devices", {}).items()
    }
    return body["binds"], devices, body["podGroups"]["ns/gang"]["message"]


def one_pod(*devices: Body, claims: tuple[str, ...] = ("c",)) -> tuple[Body, Body, str]:
    """The outcome for one pod on one node."""
    return outcome(a_cluster([a_node("a")], [a_pod("p", *claims)], a_class(), *devices))


def two() -> list[Any]:
    return [a_node("a"), a_node("b")]


# --- allocated and shared claims


def test_allocated_claim_ties_its_pod_to_its_nodes() -> None:
    """Nothing is allocated again: the pod is only to be added to those that use the claim."""
    claim = a_claim("c", status=allocated(("b", "gpu-0"), on="b"))
    plan = plan_schedule(
        a_cluster(two(), [a_pod("p", "c")], a_class(), claim, gpus("a", 1), gpus("b", 1))
    )

    (choice,) = plan.devices.values()
    assert (choice.node, choice.allocations, choice.reserved) == ("b", {}, ("ns/c",))


def test_gang_that_shares_a_claim_is_placed_together() -> None:
    """Three pods and one claim: one allocation, the same for all, on the node with room for all."""
    nodes = [a_node("a", "2"), a_node("b", "3")]
    pods = [a_pod(f"p-{i}", "c") for i in range(3)]
    plan = plan_schedule(
        a_cluster(nodes, pods, a_class(), a_claim("c"), gpus("a", 1), gpus("b", 1))
    )

    choices = list(plan.devices.values())
    assert {choice.node for choice in choices} == {"b"}
    assert len(choices) == 3
    assert len({codec.encode(choice.allocations["ns/c"]) for choice in choices}) == 1


def test_gang_of_more_than_256_cannot_share_a_claim() -> None:
    """The server keeps so many users of a claim."""
    pods = [a_pod(f"p-{i}", "c") for i in range(257)]
    nodes = [a_node("a", "500")]

    _, devices, message = outcome(a_cluster(nodes, pods, a_class(), a_claim("c"), gpus("a", 1)))

    assert devices == {}
    assert "claim ns/c would have 257 users, and can have 256" in message


def test_allocation_in_the_way_of_its_only_users_is_to_be_freed() -> None:
    """The node of the claim is full: with nobody else using it, all is chosen anew."""
    nodes = [a_node("a", "0"), a_node("b")]
    claim = a_claim("c", status=allocated(("a", "gpu-0"), on="a", users=("p",)))
    objects = a_cluster(nodes, [a_pod("p", "c")], a_class(), claim, gpus("a", 1), gpus("b", 1))

    assert plan_schedule(objects).deallocations == ("ns/c",)
    used = a_claim("c", status=allocated(("a", "gpu-0"), on="a", users=("p", "somebody")))
    objects = a_cluster(nodes, [a_pod("p", "c")], a_class(), used, gpus("a", 1), gpus("b", 1))
    assert plan_schedule(objects).deallocations == ()


# --- claims of pods


def templated(name: str, status: Body | None = None) -> Pod:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    return a_pod(name, spec={"resourceClaims": claims}, status=status or {})


def test_claim_of_a_template_comes_from_the_status_of_the_pod() -> None:
    """Without it the pod waits; a claim of another pod is not its own; no name: none needed."""
    named = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]}
    unneeded = {"resourceClaimStatuses": [{"name": "gpu"}]}

    def said(status: Body | None, owner: str = "p") -> tuple[Body, Body, str]:
        claim = a_claim("p-gpu-x", owner=owner)
        pods = [templated("p", status)]
        return outcome(a_cluster([a_node("a")], pods, a_class(), claim, gpus("a", 1)))

    assert said(named)[1] == {"p-gpu-x": [("a", "gpu-0")]}
    assert "claim 'gpu' of its template has not been created yet" in said(None)[2]
    assert "claim ns/p-gpu-x was not made for this pod" in said(named, owner="q")[2]
    assert said(unneeded)[:2] == ({"ns/p": "a"}, {})


def test_claims_that_cannot_be_used_say_why() -> None:
    """Missing, being deleted, of a class that is not there: each has its reason."""
    deleting = a_claim("c")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert "claim ns/c does not exist" in one_pod(gpus("a", 1))[2]
    assert "claim ns/c is being deleted" in one_pod(deleting, gpus("a", 1))[2]
    missing = one_pod(a_claim("c", a_request(of="none")), gpus("a", 1))[2]
    assert "claim ns/c: device class 'none' of request 'gpu' does not exist" in missing


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (a_claim("c", {"name": "gpu", "future": {}}), "unknown field `future`"),
        (a_claim("c", {"name": "gpu"}), "request 'gpu' is of a kind that is not known"),
        (a_claim("c", a_request(capacity={"requests": {}})), "request 'gpu' asks for capacity"),
        (a_claim("c", constraints=[{"requests": []}]), "constraint 0 is neither"),
        (a_claim("c", constraints=[{"future": "x"}]), "unknown field `future`"),
        (a_claim("c", a_request(selectors=[{}])), "a selector that is not CEL"),
        (a_claim("c", a_request(selectors=[{"future": {}}])), "unknown field `future`"),
        (a_claim("c", a_request(allocationMode="Some")), "has allocationMode 'Some'"),
        (a_claim("c", a_request(count=0)), "request 'gpu' is for 0 devices"),
    ],
)
def test_claim_that_is_not_supported_names_the_field(claim: Body, why: str) -> None:
    """A field that is not known is never ignored: two pods could get one device."""
    binds, devices, message = one_pod(claim, gpus("a", 1))

    assert (binds, devices) == ({}, {})
    assert "1 refused because claim ns/c: " in message
    assert why in message


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"bindingConditions": ["ready"]}, "bindingConditions"),
        ({"allowMultipleAllocations": True}, "allowMultipleAllocations"),
        ({"nodeAllocatableResourceMappings": {"cpu": {}}}, "nodeAllocatableResourceMappings"),
        ({"attributes": {"ids": {"ints": [1, 2]}}}, "attribute ids, which is a list"),
        ({"attributes": {"id": {}}}, "attribute id, whose type is not known"),
        ({"attributes": {"id": {"future": 1}}}, "unknown field `future`"),
        ({"future": 1}, "unknown field `future`"),
    ],
)
def test_device_that_is_not_supported_is_not_offered(fields: Body, why: str) -> None:
    """The message names the field; a device beside it that is supported is taken."""
    odd = a_device("gpu-0", **fields)

    _, devices, message = one_pod(a_claim("c"), a_slice("a", odd))
    beside = one_pod(a_claim("c"), a_slice("a", odd, a_device("gpu-1")))

    assert devices == {}
    assert "of 1 devices there 1 unsupported" in message
    assert why in message
    assert beside[1] == {"c": [("a", "gpu-1")]}


# --- switches


def test_switched_off_pods_with_claims_are_refused() -> None:
    """Bound without their devices they would hang on their node."""
    tiers = tuple(
        tuple(
            replace(option, arguments=Arguments({OFF: "false"}))
            if option.name == "predicates"
            else option
            for option in tier
        )
        for tier in DEFAULT.tiers
    )
    config = replace(DEFAULT, tiers=tiers)
    objects = a_cluster([a_node("a")], [a_pod("p", "c")], a_class(), a_claim("c"), gpus("a", 1))

    binds, _, message = outcome(objects, config)

    assert binds == {}
    assert f"{OFF} switches off" in message


def test_server_without_devices_is_said() -> None:
    """A cluster that does not serve the version refuses pods with claims."""
    snapshot = a_cluster([a_node("a")], [a_pod("p", "c")]).snapshot()
    snapshot.devices.objects.are_served = False
    plan = run_cycle(snapshot, DEFAULT)

    refusal = plan.groups["ns/gang"].refusal
    assert refusal is not None
    assert "the server has no resource.k8s.io/v1" in refusal.message


def test_rules_are_off_where_nothing_is_known_of_devices() -> None:
    """A plan from files without any such object places the pod."""
    objects = a_cluster([a_node("a")], [a_pod("p", "c")])
    objects.are_whole = False

    assert outcome(objects)[0] == {"ns/p": "a"}


def test_devices_that_may_not_be_listed_are_not_looked_at() -> None:
    """Otherwise claims would be called missing that only cannot be seen."""
    objects = a_cluster([a_node("a")], [a_pod("p", "c")])
    objects.are_devices_hidden = True

    assert outcome(objects)[0] == {"ns/p": "a"}


# --- reservations over time


def bound(snapshot: SchedulerSnapshot, name: str) -> Task:
    body = codec.to_body(a_pod(name, "c", on="a"))
    body["status"]["phase"] = "Pending"
    return snapshot.put_pod(codec.convert(body, Pod))


def placed_one() -> SchedulerSnapshot:
    objects = a_cluster([a_node("a")], [a_pod("p", "c")], a_class(), a_claim("c"), gpus("a", 1))
    snapshot = objects.snapshot()
    assert run_cycle(snapshot, DEFAULT).binds
    return snapshot


def is_used(snapshot: SchedulerSnapshot) -> bool:
    return snapshot.devices.objects.use.is_used((DRIVER, "a", "gpu-0"))


def put_claim(snapshot: SchedulerSnapshot, status: Body | None) -> None:
    snapshot.devices.put_claim(codec.convert(a_claim("c", status=status), ResourceClaim))


def test_devices_of_a_bound_pod_stay_in_use_until_its_claim_is_seen() -> None:
    """The pod may be seen bound before its claim is seen allocated."""
    snapshot = placed_one()
    bound(snapshot, "p")
    assert is_used(snapshot)
    assert snapshot.devices.choices.is_chosen("ns/c")

    put_claim(snapshot, allocated(("a", "gpu-0"), on="a", users=("p",)))
    assert is_used(snapshot)
    assert not snapshot.devices.choices.is_chosen("ns/c")

    put_claim(snapshot, None)
    assert not is_used(snapshot)


def test_promise_ends_with_the_claim_or_on_request() -> None:
    """Where the claim is gone, or known not to be allocated, its devices are free."""
    snapshot = placed_one()
    bound(snapshot, "p")
    snapshot.devices.choices.release_promise("ns/c")
    assert not is_used(snapshot)

    snapshot = placed_one()
    bound(snapshot, "p")
    snapshot.devices.remove_claim("ns/c")
    assert not is_used(snapshot)


def test_changed_pod_keeps_its_devices() -> None:
    """A pod that is put in anew while it is binding gets what it had."""
    snapshot = placed_one()
    before = snapshot.devices.choices.by_task["ns/p"]
    task = snapshot.put_pod(a_pod("p", "c"))
    snapshot.move(task, TaskStatus.BINDING, 0)

    assert snapshot.devices.choices.by_task["ns/p"] is before


def test_pipelined_pod_is_promised_the_devices_of_leaving_ones() -> None:
    """The promise stands when the pod is gone and its claim is not seen deallocated yet."""
    taken = a_claim("other", status=allocated(("a", "gpu-0"), on="a", users=("old",)))
    old = codec.to_body(a_pod("old", "other", group="others", on="a"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = a_cluster(
        [a_node("a")],
        [a_pod("p", "c"), codec.convert(old, Pod)],
        a_class(),
        a_claim("c"),
        taken,
        gpus("a", 1),
        least=1,
    )
    snapshot = objects.snapshot()

    assert [task.key for task in run_cycle(snapshot, DEFAULT).pipelined] == ["ns/p"]
    snapshot.remove_pod("ns/old")
    assert [task.key for task in run_cycle(snapshot, DEFAULT).pipelined] == ["ns/p"]
    snapshot.devices.remove_claim("ns/other")
    assert [task.key for task in run_cycle(snapshot, DEFAULT).binds] == ["ns/p"]


def test_pods_that_share_a_claim_wait_together() -> None:
    """Its devices are in use until another pod has left: no pod that shares it takes them now."""
    taken = a_claim("other", status=allocated(("a", "gpu-0"), on="a", users=("old",)))
    old = codec.to_body(a_pod("old", "other", group="others", on="a"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    objects = a_cluster(
        [a_node("a")],
        [a_pod("p", "c"), a_pod("q", "c"), codec.convert(old, Pod)],
        a_class(),
        a_claim("c"),
        taken,
        gpus("a", 1),
        least=1,
    )
    snapshot = objects.snapshot()
    plan = run_cycle(snapshot, DEFAULT)

    assert not plan.binds
    assert sorted(task.key for task in plan.pipelined) == ["ns/p", "ns/q"]
    snapshot.remove_pod("ns/old")
    snapshot.devices.remove_claim("ns/other")
    assert sorted(task.key for task in run_cycle(snapshot, DEFAULT).binds) == ["ns/p", "ns/q"]


def test_important_pod_evicts_for_devices() -> None:
    """There is room for it in everything but devices: the less important one leaves."""
    pods = [
        a_pod("old", "other", group="low", on="a", spec={"priority": 0}),
        a_pod("p", "c", spec={"priority": 100}),
    ]
    taken = a_claim("other", status=allocated(("a", "gpu-0"), on="a", users=("old",)))
    objects = a_cluster([a_node("a")], pods, a_class(), a_claim("c"), taken, gpus("a", 1), least=1)
    objects.groups = [a_group("low", phase="Running"), a_group("gang", "high")]
    high = {"metadata": {"name": "high"}, "value": 100}
    objects.priority_classes = [codec.convert(high, PriorityClass)]
    config = replace(DEFAULT, actions=("enqueue", "allocate", "preempt"))
    plan = run_cycle(objects.snapshot(), config)

    assert [one.task.key for one in plan.evictions] == ["ns/old"]
    assert [task.key for task in plan.pipelined] == ["ns/p"]


def of_nvidia(node: str) -> Body:
    driver = "gpu.nvidia.com"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": [{"name": "gpu-0"}]}
    return {"kind": "ResourceSlice", "metadata": {"name": f"{driver}-{node}"}, "spec": spec}


@pytest.mark.parametrize("is_allocated", [True, False])
def test_devices_that_are_gpus_are_not_given_by_nodes_with_broken_ones(
    *, is_allocated: bool
) -> None:
    """Other devices of these nodes are; a claim that has a GPU there keeps its pod waiting."""
    broken = a_node("a")
    condition = codec.convert({"type": "GPUUnhealthy", "status": "True"}, Condition)
    status = msgspec.structs.replace(
        broken.status, conditions=(*broken.status.conditions, condition)
    )
    broken = msgspec.structs.replace(broken, status=status)
    of_class = a_class("gpu", 'device.driver == "gpu.nvidia.com"')
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0"}
    has = {"allocation": {"devices": {"results": [result]}}} if is_allocated else None
    claim = a_claim("c", status=has)
    pod = a_pod("p", "c")
    binds, _, message = outcome(a_cluster([broken], [pod], of_class, claim, of_nvidia("a")))
    assert binds == {}
    assert "a GPUUnhealthy" in message

    others = (a_class(), a_claim("c"), gpus("a", 1))
    assert outcome(a_cluster([broken], [pod], *others))[0] == {"ns/p": "a"}
    both = (of_class, a_claim("c"), of_nvidia("a"), of_nvidia("b"))
    assert outcome(a_cluster([broken, a_node("b")], [pod], *both))[0] == {"ns/p": "b"}


def test_device_in_two_claims_is_reported_and_not_chosen() -> None:
    """Two schedulers may have handed it out."""
    twice = [a_claim(name, status=allocated(("a", "gpu-0"))) for name in ("x", "y")]
    objects = a_cluster(
        [a_node("a")], [a_pod("p", "c")], a_class(), a_claim("c"), *twice, gpus("a", 2)
    )
    snapshot = objects.snapshot()
    plan = run_cycle(snapshot, DEFAULT)

    (choice,) = plan.devices.values()
    assert [one.device for one in choice.allocations["ns/c"].devices.results] == ["gpu-1"]
    assert snapshot.devices.objects.doubly_used() == {(DRIVER, "a", "gpu-0"): ("ns/x", "ns/y")}


def test_use_of_one_node_does_not_search_the_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a session grows with the pods that it places, not with pods times nodes."""
    n_searches = 0
    real = search

    def counting(*args: Any) -> Any:
        nonlocal n_searches
        n_searches += 1
        return real(*args)

    monkeypatch.setattr(answers, "search", counting)
    nodes = [a_node(f"n-{i}") for i in range(20)]
    slices = [gpus(f"n-{i}", 2) for i in range(20)]
    pods = [a_pod(f"p-{i}", f"c-{i}") for i in range(30)]
    claims = [a_claim(f"c-{i}") for i in range(30)]
    plan = plan_schedule(a_cluster(nodes, pods, a_class(), *claims, *slices))

    assert len(plan.binds) == 30
    assert n_searches <= 20 + 30
