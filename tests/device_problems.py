"""Random problems about devices: a driver of its own with pools, classes and used devices, a pod.

The expressions come with functions of Python that mean the same, for the plain reference.
"""

from __future__ import annotations

from collections.abc import Callable
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
    number: int, *, has_distinct: bool = False, has_counters: bool = True
) -> DeviceProblem:
    """Returns the problem of this number, always the same."""
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
    return DeviceProblem(name, driver, chance.choice(NODES), slices, classes, claims, used[:32])


def _devices(one: Body) -> list[Body]:
    found: list[Body] = one["spec"].get("devices", [])
    return found


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
