"""Devices for tests, as bodies of the API: classes, slices, claims and templates of claims."""

from __future__ import annotations

from typing import Any

from swell.api.kinds import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from swell.api.resource import Resource

Body = dict[str, Any]
DRIVER = "gpu.example.com"


def a_device_class(name: str = DRIVER) -> Body:
    expression = f'device.driver == "{DRIVER}"'
    return {
        **_head(DEVICE_CLASSES, name),
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def a_slice(node: str, n_devices: int, generation: int = 1) -> Body:
    """So many devices of one node, gpu-0 and on."""
    return {
        **_head(RESOURCE_SLICES, f"{node}-{DRIVER}"),
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{at}"} for at in range(n_devices)],
        },
    }


def a_resource_claim(name: str, count: int, namespace: str) -> Body:
    return {**_head(RESOURCE_CLAIMS, name, namespace), "spec": _wants(count)}


def a_template(name: str, count: int, namespace: str) -> Body:
    head = _head(RESOURCE_CLAIM_TEMPLATES, name, namespace)
    return {**head, "spec": {"spec": _wants(count)}}


def _wants(count: int) -> Body:
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _head(resource: Resource[Any], name: str, namespace: str = "") -> Body:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
