"""Devices: which nodes a pod with resource claims may use, which devices it gets, what is said."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api import codec
from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.cycle import run_cycle
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule
from tests.device_objects import (
    DRIVER,
    Body,
    a_claim,
    a_class,
    a_cluster,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    allocated,
    gpus,
)

MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
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


# --- gangs and use


def test_gang_gets_a_device_each() -> None:
    """Eight pods on two nodes of four GPUs: eight different devices, each on its pod's node."""
    pods = [a_pod(f"p-{i}", f"c-{i}") for i in range(8)]
    claims = [a_claim(f"c-{i}") for i in range(8)]

    binds, devices, _ = outcome(
        a_cluster(two(), pods, a_class(), *claims, gpus("a", 4), gpus("b", 4))
    )

    assert len({one for found in devices.values() for one in found}) == 8
    for i in range(8):
        assert devices[f"c-{i}"][0][0] == binds[f"ns/p-{i}"]


def test_gang_with_one_device_too_few_is_refused_with_counts() -> None:
    """Nine pods for eight devices: nothing is chosen, and the message counts the devices."""
    pods = [a_pod(f"p-{i}", f"c-{i}") for i in range(9)]
    claims = [a_claim(f"c-{i}") for i in range(9)]

    binds, devices, message = outcome(
        a_cluster(two(), pods, a_class(), *claims, gpus("a", 4), gpus("b", 4))
    )

    assert (binds, devices) == ({}, {})
    assert "claim ns/c-8 cannot be met: of 8 devices there 8 in use" in message


@pytest.mark.parametrize("fields", [{}, {"shareID": "x"}, {"unknown": 1}])
def test_devices_of_other_claims_are_in_use(fields: Body) -> None:
    """Whatever else an allocation says, its devices are taken."""
    taken = a_claim("other", status=allocated(("a", "gpu-0"), **fields))

    _, devices, _ = one_pod(a_claim("c"), taken, gpus("a", 2))

    assert devices == {"c": [("a", "gpu-1")]}


def test_devices_with_admin_access_are_free() -> None:
    """An administrator looks on; that is no use."""
    looking = a_claim("other", status=allocated(("a", "gpu-0"), adminAccess=True))

    _, devices, _ = one_pod(a_claim("c"), looking, gpus("a", 1))

    assert devices == {"c": [("a", "gpu-0")]}


def test_admin_access_looks_over_users() -> None:
    """A request with admin access gets a device that another claim has."""
    taken = a_claim("other", status=allocated(("a", "gpu-0")))
    claim = a_claim("c", a_request(adminAccess=True))
    plan = plan_schedule(
        a_cluster([a_node("a")], [a_pod("p", "c")], a_class(), claim, taken, gpus("a", 1))
    )

    (choice,) = plan.devices.values()
    (result,) = choice.allocations["ns/c"].devices.results
    assert (result.device, result.admin_access) == ("gpu-0", True)


def test_discarded_gang_gives_its_devices_back() -> None:
    """A gang that does not fit leaves every device to the next one."""
    pods = [a_pod(f"p-{i}", f"c-{i}") for i in range(3)]
    claims = [a_claim(f"c-{i}") for i in range(3)]
    objects = a_cluster([a_node("a")], pods, a_class(), *claims, gpus("a", 2))
    snapshot = objects.snapshot()
    plan = run_cycle(snapshot, DEFAULT)
    use = snapshot.devices.objects.use

    assert not plan.binds
    assert not snapshot.devices.choices.by_task
    assert not any(use.is_used((DRIVER, "a", f"gpu-{i}")) for i in range(2))


# --- selectors


@pytest.mark.parametrize(
    ("expression", "is_met"),
    [
        (MEMORY, True),
        (MEMORY.replace("40Gi", "100Gi"), False),
        (f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("8.1.0"))', True),
        (f'device.attributes["{DRIVER}"].version.isLessThan(semver("8.1.0"))', False),
        (f'cel.bind(d, device.attributes["{DRIVER}"], d.type == "gpu" && d.cores > 8)', True),
        (f'device.attributes["{DRIVER}"].?fan.orValue(true)', True),
        ('device.attributes["other.example.com"].?fan.hasValue()', False),
        ('"other.example.com" in device.attributes', False),
        ("device.allowMultipleAllocations", False),
        (f'device.attributes["{DRIVER}"].type.matches("^g")', True),
    ],
)
def test_selector_of_a_request(expression: str, is_met: bool) -> None:
    """The library of Kubernetes, an empty map for an unknown domain, and cel.bind."""
    _, devices, message = one_pod(a_claim("c", a_request("gpu", expression)), gpus("a", 1))

    assert bool(devices) is is_met
    assert is_met or "of 1 devices there 1 not matching" in message


def test_selectors_of_class_and_request_must_both_hold() -> None:
    """The second device is of the class, the third has the memory; only the first is both."""
    small = a_device("gpu-1", capacity={"memory": {"value": "10Gi"}})
    other = a_device("gpu-2", attributes={"type": {"string": "nic"}})

    _, devices, _ = one_pod(
        a_claim("c", a_request("gpu", MEMORY)), a_slice("a", small, other, a_device("gpu-3"))
    )

    assert devices == {"c": [("a", "gpu-3")]}


@pytest.mark.parametrize(
    "expression",
    [
        f'device.attributes["{DRIVER}"].unknown == "x"',
        f'device.attributes["{DRIVER}"].cores == 1 / 0',
        f'device.attributes["{DRIVER}"].cores',
        "device.nothing",
        "device.driver",
        "device.driver ==",
        "true || " * 2000 + "true",
    ],
)
def test_selector_without_a_result_refuses_the_pod(expression: str) -> None:
    """An unknown id, a text that is no expression, one that is too long: every node refuses."""
    objects = a_cluster(
        two(),
        [a_pod("p", "c")],
        a_class(),
        a_claim("c", a_request("gpu", expression)),
        gpus("a", 1),
    )
    plan = plan_schedule(objects)
    _, _, message = outcome(objects)

    assert not plan.binds
    assert "2 refused because claim ns/c: the selector" in message
    assert "of request 'gpu'" in message


def test_selector_fails_only_on_devices_that_are_looked_at() -> None:
    """As in kube-scheduler the search stops at the first solution."""
    expression = f'device.attributes["{DRIVER}"].fan'
    fans = {"fan": {"bool": True}}

    _, devices, _ = one_pod(
        a_claim("c", a_request("gpu", expression)),
        a_slice("a", a_device("gpu-0", attributes=fans), a_device("gpu-1")),
    )

    assert devices == {"c": [("a", "gpu-0")]}


# --- requests and constraints


def test_all_takes_every_device() -> None:
    """All devices that the selectors admit, on the one node where all of them are free."""
    taken = a_claim("other", status=allocated(("a", "gpu-2")))
    claim = a_claim("c", a_request(allocationMode="All"))
    objects = a_cluster(
        two(), [a_pod("p", "c")], a_class(), claim, taken, gpus("a", 3), gpus("b", 2)
    )

    binds, devices, _ = outcome(objects)

    assert binds == {"ns/p": "b"}
    assert devices == {"c": [("b", "gpu-0"), ("b", "gpu-1")]}


def test_all_of_nothing_is_no_solution() -> None:
    """A node without a matching device is no place for a claim on all of them."""
    _, devices, _ = one_pod(
        a_claim("c", a_request("gpu", "false", allocationMode="All")), gpus("a", 2)
    )

    assert devices == {}


def test_first_available_falls_back_and_prefers_the_first() -> None:
    """A pair where there is one, else a single device; the node with a pair comes first."""
    request = {
        "name": "gpu",
        "firstAvailable": [
            {"name": "pair", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
            {"name": "one", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        ],
    }
    claims = [a_claim(f"c-{i}", request) for i in range(2)]
    pods = [a_pod(f"p-{i}", f"c-{i}") for i in range(2)]
    objects = a_cluster(two(), pods, a_class(), *claims, gpus("a", 1), gpus("b", 2))
    plan = plan_schedule(objects)

    results = {
        claim: [one.request for one in allocation.devices.results]
        for choice in plan.devices.values()
        for claim, allocation in choice.allocations.items()
    }
    assert results == {"ns/c-0": ["gpu/pair", "gpu/pair"], "ns/c-1": ["gpu/one"]}


@pytest.mark.parametrize(
    ("kind", "roots", "expected"),
    [
        ("matchAttribute", "ABBAB", ["gpu-1", "gpu-2", "gpu-4"]),
        ("matchAttribute", "ABCAB", None),
        ("distinctAttribute", "ABABC", ["gpu-0", "gpu-1", "gpu-4"]),
        ("distinctAttribute", "ABABA", None),
        ("matchAttribute", "-AA-A", ["gpu-1", "gpu-2", "gpu-4"]),
    ],
)
def test_constraint_on_three_devices(kind: str, roots: str, expected: list[str] | None) -> None:
    """The same root, or three different ones; a device without it cannot be taken."""
    devices = [
        a_device(f"gpu-{at}", attributes={} if root == "-" else {"root": {"string": root}})
        for at, root in enumerate(roots)
    ]
    claim = a_claim("c", a_request(count=3), constraints=[{kind: f"{DRIVER}/root"}])

    _, found, _ = one_pod(claim, a_slice("a", *devices))

    assert found == ({} if expected is None else {"c": [("a", name) for name in expected]})


def test_match_compares_types_too() -> None:
    """The number 1 and the text 1 are different values."""
    devices = [
        a_device("gpu-0", attributes={"root": {"int": 1}}),
        a_device("gpu-1", attributes={"root": {"string": "1"}}),
    ]
    claim = a_claim("c", a_request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])

    assert one_pod(claim, a_slice("a", *devices))[1] == {}


def test_claim_has_at_most_32_devices() -> None:
    """More are refused; among alternatives a smaller one is taken."""
    many = [gpus("a", 40)]
    request = {
        "name": "gpu",
        "firstAvailable": [
            {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
            {"name": "few", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
        ],
    }

    refused = one_pod(a_claim("c", a_request(count=33)), *many)
    taken = one_pod(a_claim("c", request), *many)

    assert "it asks for 33 devices; a claim can have 32" in refused[2]
    assert len(taken[1]["c"]) == 3


def test_search_is_bounded_by_its_steps() -> None:
    """Thirty devices of different roots, of which ten must be alike in pairs: it gives up."""
    devices = [
        a_device(f"gpu-{at}", attributes={"root": {"int": at // 2}, "side": {"int": at % 2}})
        for at in range(30)
    ]
    claim = a_claim(
        "c",
        a_request("one", count=8),
        a_request("two", count=8),
        constraints=[{"distinctAttribute": f"{DRIVER}/root"}],
    )

    _, found, message = one_pod(claim, a_slice("a", *devices))

    assert found == {}
    assert "search too long" in message


# --- pools


@pytest.mark.parametrize(
    ("pool", "more", "why"),
    [
        ({"resourceSliceCount": 2}, {}, "pool gpu.example.com/a is being updated"),
        ({}, {"allNodes": None, "futureSelection": True}, "unknown field `futureSelection`"),
    ],
)
def test_pool_that_cannot_be_used(pool: Body, more: Body, why: str) -> None:
    """An incomplete pool, and one of a slice with a field that is not known, give nothing."""
    found = a_slice("a", a_device("gpu-0"), pool=pool, **more)

    _, devices, message = one_pod(a_claim("c"), found)

    assert devices == {}
    assert why in message


def test_pool_with_a_name_twice_is_invalid() -> None:
    """Which device would be meant is not known."""
    _, devices, message = one_pod(a_claim("c"), a_slice("a", a_device("x"), a_device("x")))

    assert devices == {}
    assert "pool gpu.example.com/a has two devices named 'x'" in message


def test_only_the_highest_generation_counts() -> None:
    """A slice of an older generation is as good as gone."""
    old = a_slice("a", a_device("old"), name="s-0", pool={"generation": 1})
    new = a_slice("a", a_device("new"), name="s-1", pool={"generation": 2})

    assert one_pod(a_claim("c"), old, new)[1] == {"c": [("a", "new")]}


def test_newer_generation_elsewhere_closes_the_older_one() -> None:
    """A pool whose new slices are for another node has nothing left here."""
    old = a_slice("a", a_device("old"), name="s-0", pool={"name": "p", "generation": 1})
    new = a_slice("b", a_device("new"), name="s-1", pool={"name": "p", "generation": 2})
    objects = a_cluster(two(), [a_pod("p", "c")], a_class(), a_claim("c"), old, new)

    assert outcome(objects)[0] == {"ns/p": "b"}


def test_shared_pool_is_reached_from_selected_nodes() -> None:
    """The allocation carries the selector of the slice, so that other pods can follow."""
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
    shared = a_slice("", a_device("gpu-0"), nodeSelector={"nodeSelectorTerms": [term]})
    nodes = [a_node("a", rack="r0"), a_node("b", rack="r1")]
    plan = plan_schedule(a_cluster(nodes, [a_pod("p", "c")], a_class(), a_claim("c"), shared))

    (choice,) = plan.devices.values()
    selector = choice.allocations["ns/c"].node_selector
    assert choice.node == "b"
    assert selector is not None
    assert codec.to_body(selector) == {"nodeSelectorTerms": [term]}


def test_devices_for_all_nodes_need_no_selector() -> None:
    """An allocation of them can be used from everywhere."""
    shared = a_slice("", a_device("gpu-0"), allNodes=True)
    plan = plan_schedule(a_cluster(two(), [a_pod("p", "c")], a_class(), a_claim("c"), shared))

    (choice,) = plan.devices.values()
    assert choice.allocations["ns/c"].node_selector is None


def test_each_device_may_have_its_own_nodes() -> None:
    """Of a slice with perDeviceNodeSelection a node reaches its devices alone."""
    shared = a_slice(
        "",
        a_device("gpu-a", nodeName="a"),
        a_device("gpu-b", nodeName="b"),
        perDeviceNodeSelection=True,
    )
    pods = [a_pod("p-0", "c-0"), a_pod("p-1", "c-1")]
    claims = [a_claim("c-0"), a_claim("c-1")]

    binds, devices, _ = outcome(a_cluster(two(), pods, a_class(), *claims, shared))

    assert sorted(binds.values()) == ["a", "b"]
    assert {devices[f"c-{i}"][0][1] for i in range(2)} == {"gpu-a", "gpu-b"}


def test_whole_device_and_its_parts_exclude_each_other() -> None:
    """Counters: while a part is in use the whole is not to be had, and the other way round."""
    counters = {"memory": {"value": "40Gi"}}
    sets = a_slice(
        "a",
        name="sets",
        pool={"resourceSliceCount": 2},
        sharedCounters=[{"name": "card", "counters": counters}],
    )
    del sets["spec"]["devices"]
    parts = a_slice(
        "a",
        *(
            a_device(
                name,
                consumesCounters=[
                    {"counterSet": "card", "counters": {"memory": {"value": f"{size}Gi"}}}
                ],
            )
            for name, size in (("whole", 40), ("half-0", 20), ("half-1", 20))
        ),
        name="parts",
        pool={"resourceSliceCount": 2},
    )

    assert one_pod(a_claim("c"), sets, parts)[1] == {"c": [("a", "whole")]}
    used = a_claim("other", status=allocated(("a", "half-1")))
    assert one_pod(a_claim("c"), sets, parts, used)[1] == {"c": [("a", "half-0")]}
    used = a_claim("other", status=allocated(("a", "whole")))
    assert one_pod(a_claim("c"), sets, parts, used)[1] == {}


# --- taints


@pytest.mark.parametrize(
    ("effect", "toleration", "is_met"),
    [
        ("NoSchedule", None, False),
        ("NoExecute", None, False),
        ("None", None, True),
        ("NoSchedule", {"key": "broken", "operator": "Exists"}, True),
        ("NoSchedule", {"operator": "Exists"}, True),
        ("NoSchedule", {"key": "broken", "value": "79"}, True),
        ("NoSchedule", {"key": "broken", "value": "80"}, False),
        ("NoSchedule", {"key": "other", "operator": "Exists"}, False),
        ("NoExecute", {"key": "broken", "operator": "Exists", "effect": "NoSchedule"}, False),
    ],
)
def test_taint_and_toleration(effect: str, toleration: Body | None, is_met: bool) -> None:
    """A tainted device is taken by those who tolerate its taints only."""
    tainted = a_device("gpu-0", taints=[{"key": "broken", "value": "79", "effect": effect}])
    tolerations = [toleration] if toleration else []
    request = a_request(tolerations=tolerations)

    _, devices, message = one_pod(a_claim("c", request), a_slice("a", tainted))

    assert bool(devices) is is_met
    assert is_met or "of 1 devices there 1 tainted" in message


# --- results


def test_result_has_tolerations_and_configuration() -> None:
    """Settings of the class once, those of the claim for the alternatives that were chosen."""
    toleration = {"key": "k", "operator": "Exists"}
    opaque = {"driver": DRIVER, "parameters": {"a": 1}}
    claim = a_claim(
        "c",
        a_request("one", tolerations=[toleration]),
        a_request("two"),
        {"name": "ways", "firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 1}]},
        config=[
            {"opaque": {"driver": DRIVER, "parameters": {"all": 1}}},
            {"requests": ["two"], "opaque": {"driver": DRIVER, "parameters": {"two": 1}}},
            {"requests": ["ways/y"], "opaque": {"driver": DRIVER, "parameters": {"y": 1}}},
            {"requests": ["ways/x"], "opaque": {"driver": DRIVER, "parameters": {"x": 1}}},
        ],
    )
    plan = plan_schedule(
        a_cluster(
            [a_node("a")],
            [a_pod("p", "c")],
            a_class(config=[{"opaque": opaque}]),
            claim,
            gpus("a", 3),
        )
    )

    (choice,) = plan.devices.values()
    body = codec.to_body(choice.allocations["ns/c"])
    assert body["devices"]["results"][0]["tolerations"] == [toleration]
    assert [(c["source"], c.get("requests"), c["opaque"]) for c in body["devices"]["config"]] == [
        ("FromClass", ["one", "two", "ways/x"], opaque),
        ("FromClaim", None, {"driver": DRIVER, "parameters": {"all": 1}}),
        ("FromClaim", ["two"], {"driver": DRIVER, "parameters": {"two": 1}}),
        ("FromClaim", ["ways/x"], {"driver": DRIVER, "parameters": {"x": 1}}),
    ]
    (term,) = body["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
