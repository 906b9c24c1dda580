"""Devices, classes, claims and pods for tests, as bodies of the API and as input of a plan."""

from __future__ import annotations

from typing import Any

from swell.api import codec
from swell.api.core import Node
from swell.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.cycle import SchedulingPlan
from swell.scheduler.plan import SchedulerObjects
from tests.device_problems import NODE_LABEL, NODES, DeviceProblem

Body = dict[str, Any]
DRIVER = "gpu.example.com"
GPU = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'
STRUCTS: dict[str, tuple[type[Any], str]] = {
    "ResourceSlice": (ResourceSlice, "resource_slices"),
    "DeviceClass": (DeviceClass, "device_classes"),
    "ResourceClaim": (ResourceClaim, "resource_claims"),
}


def a_node(name: str, cpu: str = "8", **labels: str) -> Node:
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "50"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return codec.convert(body, Node)


def a_device(name: str, **fields: Any) -> Body:
    """A GPU; fields with a value of JSON are those of the device, `attributes` are added."""
    attributes = {
        "type": {"string": "gpu"},
        "cores": {"int": 16},
        "version": {"version": "9.0.0"},
        **fields.pop("attributes", {}),
    }
    return {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": "80Gi"}},
        **fields,
    }


def a_slice(
    node: str, *devices: Body, name: str = "", pool: Body | None = None, **spec: Any
) -> Body:
    where = {"nodeName": node} if node else {}
    pool_name = node or "shared"
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"slice-{pool_name}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool_name, "generation": 1, "resourceSliceCount": 1, **(pool or {})},
            **where,
            "devices": list(devices),
            **spec,
        },
    }


def gpus(node: str, n: int, **fields: Any) -> Body:
    return a_slice(node, *(a_device(f"gpu-{at}", **fields) for at in range(n)))


def a_class(name: str = "gpu", *expressions: str, **spec: Any) -> Body:
    selectors = [{"cel": {"expression": text}} for text in expressions or (GPU,)]
    return {
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def a_request(name: str = "gpu", *selectors: str, of: str = "gpu", **fields: Any) -> Body:
    exactly: Body = {"deviceClassName": of, "allocationMode": "ExactCount", "count": 1, **fields}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": exactly}


def a_claim(
    name: str, *requests: Body, owner: str = "", status: Body | None = None, **devices: Any
) -> Body:
    meta: Body = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "uid": f"uid-{owner}", "controller": True}]
    return {
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": list(requests or (a_request(),)), **devices}},
        "status": status or {},
    }


def allocated(
    *devices: tuple[str, str], on: str = "", users: tuple[str, ...] = (), **fields: Any
) -> Body:
    """A status with these devices (pool and name), reached from one node."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": pool, "device": name, **fields}
        for pool, name in devices
    ]
    found: Body = {"allocation": {"devices": {"results": results}}}
    if on:
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        found["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    found["reservedFor"] = [{"resource": "pods", "name": u, "uid": f"uid-{u}"} for u in users]
    return found


def a_pod(name: str, *claims: str, group: str = "gang", on: str = "", **fields: Any) -> Pod:
    body: Body = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "annotations": {"scheduling.k8s.io/group-name": group},
        },
        "spec": {
            "schedulerName": "swell",
            "nodeName": on,
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims],
            **fields.pop("spec", {}),
        },
        "status": {"phase": "Running" if on else "Pending", **fields.pop("status", {})},
    }
    return codec.convert(body, Pod)


def a_group(
    name: str = "gang", priority: str = "", *, least: int = 1, phase: str = "Inqueue"
) -> PodGroup:
    body = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": least, "queue": "q", "priorityClassName": priority},
        "status": {"phase": phase},
    }
    return codec.convert(body, PodGroup)


def a_cluster(
    nodes: list[Node], pods: list[Pod], *devices: Body, least: int | None = None
) -> SchedulerObjects:
    size = sum(not one.spec.node_name for one in pods) if least is None else least
    objects = SchedulerObjects(
        nodes=nodes,
        pods=pods,
        groups=[a_group(least=size)],
        queues=[codec.convert({"metadata": {"name": "q"}}, Queue)],
        are_whole=True,
    )
    put(objects, *devices)
    return objects


def put(objects: SchedulerObjects, *devices: Body) -> None:
    for body in devices:
        struct, place = STRUCTS[body["kind"]]
        getattr(objects, place).append(codec.convert(body, struct))


def objects_of(problem: DeviceProblem) -> SchedulerObjects:
    """A problem as the input of a plan: two nodes, and one pod for one of them."""
    nodes = [a_node(name, **{NODE_LABEL: name}) for name in NODES]
    claims = [one["metadata"]["name"] for one in problem.claims]
    pod = a_pod("p", *claims, spec={"nodeSelector": {NODE_LABEL: problem.node}})
    objects = a_cluster(nodes, [pod], *problem.slices, *problem.classes)
    for one in problem.claims:
        put(objects, {**one, "metadata": {**one["metadata"], "namespace": "ns"}})
    if problem.used:
        used = problem.used_claim
        meta = {**used["metadata"], "namespace": "ns"}
        put(objects, {**used, "metadata": meta, "status": problem.used_status})
    return objects


def devices_of(
    plan: SchedulingPlan, problem: DeviceProblem
) -> list[list[tuple[str, str, str]]] | None:
    """The devices of each claim of a problem; None if its pod is not placed."""
    if not plan.binds:
        return None
    (choice,) = plan.devices.values()
    return [
        [
            (one.request, one.pool, one.device)
            for one in choice.allocations[f"ns/{claim['metadata']['name']}"].devices.results
        ]
        for claim in problem.claims
    ]
