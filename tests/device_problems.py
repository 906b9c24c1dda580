"""Random problems about devices: a driver of its own with pools, classes and used devices, a pod.

The expressions come with functions of Python that mean the same, for the plain reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Body = dict[str, Any]
# Attributes and capacity of a device by their short names.
Facts = dict[str, Any]
NODES = ("a", "b")
NODE_LABEL = "e2e/device-node"
MODELS = ("red", "blue")


def selectors(driver: str) -> list[tuple[str, Callable[[Facts], bool]]]:
    attribute, capacity = f'device.attributes["{driver}"]', f'device.capacity["{driver}"]'
    return [
        (f'{attribute}.model == "red"', lambda f: bool(f["model"] == "red")),
        (
            f'{capacity}.memory.compareTo(quantity("20Gi")) >= 0',
            lambda f: bool(f["memory"] >= 20),
        ),
        (
            f'{attribute}.version.isGreaterThan(semver("1.5.0"))',
            lambda f: bool(f["version"] > 1),
        ),
        (
            f"cel.bind(d, {attribute}, d.slot % 2 == 0 || d.?twin.orValue(false))",
            lambda f: bool(f["slot"] % 2 == 0 or f.get("twin", False)),
        ),
        (f'"{driver}" in device.attributes', lambda _: True),
    ]


@dataclass
class DeviceProblem:
    """The objects of one problem; `node` is the one node where its pod may go."""

    name: str
    driver: str
    node: str
    slices: list[Body]
    classes: list[Body]
    claims: list[Body]
    used: list[tuple[str, str]]  # pool and device
    given: tuple[str, str] | None = None  # what the first claim has already, on this node

    @property
    def used_claim(self) -> Body:
        """A claim that has the devices in use."""
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"{self.name}-used"},
            "spec": {"devices": {"requests": [self._any(len(self.used))]}},
        }

    def _any(self, count: int) -> Body:
        way = {"deviceClassName": self.name, "allocationMode": "ExactCount", "count": count}
        return {"name": "r", "exactly": way}

    @property
    def used_status(self) -> Body:
        results = [
            {"request": "r", "driver": self.driver, "pool": pool, "device": device}
            for pool, device in self.used
        ]
        return {"allocation": {"devices": {"results": results}}}


def a_problem(
    number: int,
    *,
    has_distinct: bool = False,
    has_counters: bool = True,
    has_reach: bool = True,
) -> DeviceProblem:
    """Returns the problem of this number, always the same.

    With `has_reach` some pools are for nodes that a selector names, and some claims have their
    devices before the pod comes.
    """
    chance = Random(number)
    name = f"problem-{number}"
    driver = f"{name}.example.com"
    slices = [one for node in NODES for one in _local_pool(chance, name, driver, node)]
    if chance.random() < 0.3:
        slices.append(_slice(chance, f"{name}-net", driver, "net", {"allNodes": True}, "net"))
    if has_counters and chance.random() < 0.3:
        slices += _partitioned(chance, name, driver)
    expression = f'device.driver == "{driver}"'
    spec: Body = {"selectors": [{"cel": {"expression": expression}}]}
    if chance.random() < 0.3:
        spec["config"] = [{"opaque": {"driver": driver, "parameters": {"mode": "plain"}}}]
    classes = [_object("DeviceClass", name, spec)]
    claims = [
        _claim(chance, f"{name}-{at}", name, driver, has_distinct=has_distinct)
        for at in range(chance.choice((1, 1, 2)))
    ]
    devices = [(s["spec"]["pool"]["name"], d["name"]) for s in slices for d in _devices(s)]
    used = [one for one in devices if chance.random() < 0.2]
    made = DeviceProblem(name, driver, chance.choice(NODES), slices, classes, claims, used[:32])
    if has_reach:
        _add_reach(Random(f"{number} reach"), made)
    return made


def given_status(problem: DeviceProblem, node: str) -> Body:
    """Returns the status of the first claim where it has a device of this node."""
    assert problem.given is not None
    (pool, device), spec = problem.given, problem.claims[0]["spec"]
    request = spec["devices"]["requests"][0]
    ways = request.get("firstAvailable")
    name = f"{request['name']}/{ways[0]['name']}" if ways else request["name"]
    result = {"request": name, "driver": problem.driver, "pool": pool, "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "allocation": {
            # kube-scheduler adds one that is missing, and fails as an allocation is immutable.
            "allocationTimestamp": "2026-01-01T00:00:00Z",
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
    }


def _devices(one: Body) -> list[Body]:
    found: list[Body] = one["spec"].get("devices", [])
    return found


def _add_reach(chance: Random, problem: DeviceProblem) -> None:
    name, driver = problem.name, problem.driver
    if chance.random() < 0.3:
        where = {"nodeSelector": _selecting(chance.sample(NODES, chance.randint(1, 2)))}
        problem.slices.append(_slice(chance, f"{name}-some", driver, "some", where, "some"))
    if chance.random() < 0.3:
        one = _slice(chance, f"{name}-each", driver, "each", {"perDeviceNodeSelection": True}, "e")
        for device in _devices(one):
            device.update(
                chance.choice(
                    (
                        {"allNodes": True},
                        {"nodeName": chance.choice(NODES)},
                        {"nodeSelector": _selecting([chance.choice(NODES)])},
                    )
                )
            )
        problem.slices.append(one)
    pool = f"local-{problem.node}"
    free = [
        (pool, device["name"])
        for one in problem.slices
        if one["spec"]["pool"]["name"] == pool and one["spec"]["pool"]["generation"] == 1
        for device in _devices(one)
        if (pool, device["name"]) not in problem.used
    ]
    if free and chance.random() < 0.2:
        problem.given = chance.choice(free)


def _selecting(names: Sequence[str]) -> Body:
    expression = {"key": NODE_LABEL, "operator": "In", "values": list(names)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def _local_pool(chance: Random, name: str, driver: str, node: str) -> list[Body]:
    """Returns the slices of a node's own pool: one or two of them, sometimes not all there."""
    n = chance.choice((1, 1, 2))
    made = [
        _slice(chance, f"{name}-{node}-{at}", driver, f"local-{node}", {"nodeName": node}, f"d{at}")
        for at in range(n)
    ]
    missing = 1 if chance.random() < 0.1 else 0
    for one in made:
        one["spec"]["pool"]["resourceSliceCount"] = n + missing
    if chance.random() < 0.1:
        old = _slice(chance, f"{name}-{node}-old", driver, f"local-{node}", {"nodeName": node}, "o")
        old["spec"]["pool"] |= {"generation": 0}
        made.append(old)
    return made


def _slice(chance: Random, name: str, driver: str, pool: str, where: Body, prefix: str) -> Body:
    devices = [_device(chance, f"{prefix}-{at}", at) for at in range(chance.randint(1, 4))]
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        **where,
        "devices": devices,
    }
    return _object("ResourceSlice", name, spec)


def _device(chance: Random, name: str, slot: int) -> Body:
    attributes: Body = {
        "model": {"string": chance.choice(MODELS)},
        "root": {"string": f"pci{chance.randint(0, 1)}"},
        "slot": {"int": slot},
        "version": {"version": f"{chance.randint(1, 2)}.0.0"},
    }
    if chance.random() < 0.3:
        attributes["twin"] = {"bool": chance.random() < 0.5}
    if chance.random() < 0.1:
        del attributes["root"]
    body: Body = {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{chance.choice((10, 20, 40))}Gi"}},
    }
    if chance.random() < 0.2:
        effect = chance.choice(("NoSchedule", "NoExecute", "None"))
        body["taints"] = [{"key": "broken", "value": "yes", "effect": effect}]
    return body


def _partitioned(chance: Random, name: str, driver: str) -> list[Body]:
    """Returns a pool of one node whose devices share counters: a whole one, and its parts."""
    node = chance.choice(NODES)
    pool = {"name": f"parts-{node}", "generation": 1, "resourceSliceCount": 2}
    counters = {"memory": {"value": "40Gi"}}
    sets = {"sharedCounters": [{"name": "card", "counters": counters}]}
    where = {"nodeName": node}
    devices = []
    for at, size in enumerate((40, *(chance.choice((10, 20)) for _ in range(3)))):
        device = _device(chance, f"part-{at}", at)
        taken = {"memory": {"value": f"{size}Gi"}}
        device["consumesCounters"] = [{"counterSet": "card", "counters": taken}]
        devices.append(device)
    return [
        _object("ResourceSlice", f"{name}-sets", {"driver": driver, "pool": pool, **where, **sets}),
        _object(
            "ResourceSlice",
            f"{name}-parts",
            {"driver": driver, "pool": pool, **where, "devices": devices},
        ),
    ]


def _claim(chance: Random, name: str, class_name: str, driver: str, *, has_distinct: bool) -> Body:
    requests = [
        _request(chance, f"r{at}", class_name, driver) for at in range(chance.choice((1, 1, 2)))
    ]
    devices: Body = {"requests": requests}
    if chance.random() < 0.4:
        kind = "distinctAttribute" if has_distinct and chance.random() < 0.5 else "matchAttribute"
        key = chance.choice(("root", "model", "version", "slot"))
        about = [chance.choice(requests)["name"]] if chance.random() < 0.5 else []
        devices["constraints"] = [{"requests": about, kind: f"{driver}/{key}"}]
    if chance.random() < 0.2:
        settings = {"opaque": {"driver": driver, "parameters": {"mode": "fast"}}}
        devices["config"] = [{"requests": [requests[0]["name"]], **settings}]
    return _object("ResourceClaim", name, {"devices": devices})


def _request(chance: Random, name: str, class_name: str, driver: str) -> Body:
    if chance.random() < 0.25:
        ways = [
            {"name": f"s{at}", **_way(chance, class_name, driver)}
            for at in range(chance.randint(1, 3))
        ]
        return {"name": name, "firstAvailable": ways}
    way = _way(chance, class_name, driver)
    if chance.random() < 0.1:
        way["adminAccess"] = True
    return {"name": name, "exactly": way}


def _way(chance: Random, class_name: str, driver: str) -> Body:
    way: Body = {"deviceClassName": class_name, "allocationMode": "ExactCount"}
    if chance.random() < 0.15:
        way["allocationMode"] = "All"
    else:
        way["count"] = chance.choice((1, 1, 2, 3))
    if chance.random() < 0.5:
        expression, _ = chance.choice(selectors(driver))
        way["selectors"] = [{"cel": {"expression": expression}}]
    if chance.random() < 0.3:
        operator = chance.choice(("Exists", "Equal"))
        toleration: Body = {"key": "broken", "operator": operator}
        if operator == "Equal":
            toleration["value"] = chance.choice(("yes", "no"))
        way["tolerations"] = [toleration]
    return way


def _object(kind: str, name: str, spec: Body) -> Body:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
