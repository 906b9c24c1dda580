"""Extended resources that devices stand for: as if a device plugin offered them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod, PodSpec
from swell.api.scheduling import Queue
from swell.scheduler.model.devices.extended import ExtendedResources, claim_spec, status_body
from swell.scheduler.model.devices.wanted import read_class
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from tests.device_objects import (
    STRUCTS,
    Body,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    allocated,
    gpus,
)

CARD = "example.com/card"
CARDS = a_class("cards", extendedResourceName=CARD)


def asking(name: str, count: int = 1, resource: str = CARD, **fields: Any) -> Pod:
    asked = {"requests": {"cpu": "1", resource: str(count)}, "limits": {resource: str(count)}}
    return a_pod(name, spec={"containers": [{"name": "main", "resources": asked}]}, **fields)


def plugin(name: str, n: int) -> Node:
    """A node whose device plugin offers cards."""
    node = a_node(name)
    amounts = {**node.status.allocatable, CARD: str(n)}
    return replace(node, status=replace(node.status, allocatable=amounts))


def outcome(objects: SchedulerObjects) -> tuple[Body, list[Any], str]:
    """The binds, the devices of each claim, and the message of the gang."""
    body: Any = answer(plan_schedule(objects))
    devices = sorted(
        [(one["pool"], one["device"]) for one in found]
        for found in body.get("devices", {}).values()
    )
    return body["binds"], devices, body["podGroups"]["ns/gang"]["message"]


@pytest.mark.parametrize("resource", [CARD, "deviceclass.resource.kubernetes.io/cards"])
def test_gang_gets_devices_for_its_extended_resources(resource: str) -> None:
    """By the name in the class, or by that of the class itself."""
    nodes = [a_node("a"), a_node("b")]
    pods = [asking("p", 2, resource), asking("q", 1, resource)]
    binds, devices, _ = outcome(a_cluster(nodes, pods, CARDS, gpus("a", 2), gpus("b", 1)))

    assert binds == {"ns/p": "a", "ns/q": "b"}
    assert devices == [[("a", "gpu-0"), ("a", "gpu-1")], [("b", "gpu-0")]]


def test_gang_with_one_device_too_few_is_refused() -> None:
    pods = [asking("p"), asking("q")]
    binds, devices, message = outcome(a_cluster([a_node("a")], pods, CARDS, gpus("a", 1)))

    assert (binds, devices) == ({}, [])
    assert f"the cluster has 1 {CARD} in all" in message


def test_devices_of_ordinary_claims_are_not_there_twice() -> None:
    """The amount of a node counts them all; the search knows which are in use."""
    used = a_claim("c", status=allocated(("a", "gpu-0"), on="a", users=("x",)))
    pods = [asking("p"), asking("q"), a_pod("x", "c", group="", on="a")]
    objects = a_cluster([a_node("a")], pods, CARDS, used, gpus("a", 2))
    binds, _, message = outcome(objects)

    assert binds == {}
    assert "of 2 devices there 2 in use" in message


def test_pod_on_a_node_with_a_plugin_needs_no_device() -> None:
    """What the node itself offers counts; devices of such a node stand for nothing."""
    pods = [asking("p"), asking("q")]
    objects = a_cluster([plugin("a", 1), a_node("b")], pods, CARDS, gpus("a", 4), gpus("b", 1))
    binds, devices, _ = outcome(objects)

    assert sorted(binds.values()) == ["a", "b"]
    assert devices == [[("b", "gpu-0")]]


def test_queues_count_what_devices_stand_for() -> None:
    objects = a_cluster([a_node("a")], [asking("p", 2)], CARDS, gpus("a", 2))
    limited = {"metadata": {"name": "q"}, "spec": {"capability": {CARD: "1"}}}
    objects.queues = [codec.convert(limited, Queue)]

    assert outcome(objects)[0] == {}


def test_without_a_class_a_resource_is_short() -> None:
    binds, _, message = outcome(a_cluster([a_node("a")], [asking("p")], gpus("a", 1)))

    assert binds == {}
    assert f"1 short of {CARD}" in message


def test_refusal_counts_the_devices() -> None:
    nodes = [a_node("a"), a_node("b")]
    objects = a_cluster(nodes, [asking("p", 3)], CARDS, gpus("a", 2), gpus("b", 2))
    _, _, message = outcome(objects)

    assert "claim ns/p-extended-resources-" in message
    assert "cannot be met: of 4 devices there 4 free but" in message


# --- the claim


def known(*classes: Body) -> ExtendedResources:
    found = ExtendedResources()
    read = (read_class(codec.convert(one, STRUCTS["DeviceClass"][0])) for one in classes)
    found.put_classes({one.name: one for one in read})
    return found


def a_container(name: str, **amounts: str) -> Body:
    limits = {one.replace("_", "/"): amount for one, amount in amounts.items()}
    return {"name": name, "resources": {"limits": limits}}


def spec_of(*containers: Body, before: tuple[Body, ...] = ()) -> PodSpec:
    body = {"containers": list(containers), "initContainers": list(before)}
    return codec.convert(body, PodSpec)


def test_claim_has_a_request_for_each_container_and_resource() -> None:
    nics = a_class("nics", extendedResourceName="z.example/nic")
    cards = a_class("cards", extendedResourceName="a.example/card")
    spec = spec_of(
        a_container("main", **{"z.example_nic": "1", "a.example_card": "2", "cpu": "1"}),
        a_container("side", **{"a.example_card": "1"}),
        before=(a_container("first", **{"a.example_card": "3"}),),
    )
    found = known(nics, cards).requests_of(spec)

    named = [(one.container, one.request, one.device_class, one.count) for one in found]
    assert named == [
        ("first", "container-0-request-0", "cards", 3),
        ("main", "container-1-request-0", "cards", 2),
        ("main", "container-1-request-1", "nics", 1),
        ("side", "container-2-request-0", "cards", 1),
    ]
    requests = claim_spec(found)["devices"]["requests"]
    assert [one["exactly"]["count"] for one in requests] == [3, 2, 1, 1]


def test_init_container_leaves_its_devices_to_the_next() -> None:
    """One that runs on keeps its own."""
    first = a_container("first", **{"example.com_card": "2"})
    sidecar = {**a_container("beside", **{"example.com_card": "2"}), "restartPolicy": "Always"}
    spec = spec_of(a_container("main", **{"example.com_card": "2"}), before=(first, sidecar))
    found = known(CARDS).requests_of(spec)

    assert [(one.container, one.request) for one in found] == [
        ("first", "container-1-request-0"),
        ("beside", "container-1-request-0"),
        ("main", "container-2-request-0"),
    ]
    assert len(claim_spec(found)["devices"]["requests"]) == 2
    mappings = status_body("c", found)["extendedResourceClaimStatus"]["requestMappings"]
    assert mappings[0] == {
        "containerName": "first",
        "resourceName": CARD,
        "requestName": "container-1-request-0",
    }


def test_newest_of_several_classes_counts() -> None:
    def of(name: str, created: str) -> Body:
        made = a_class(name, extendedResourceName=CARD)
        return {**made, "metadata": {"name": name, "creationTimestamp": created}}

    older, newer = of("a", "2026-01-01T00:00:00Z"), of("b", "2026-01-02T00:00:00Z")
    assert known(older, newer).class_of(CARD) == "b"
    assert known(of("b", ""), of("a", "")).class_of(CARD) == "a"
