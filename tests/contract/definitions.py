"""The custom kinds that behaviours use, and how they get into a cluster."""

from __future__ import annotations

from functools import partial

from swell.api.kinds import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.runtime.cluster import Cluster
from swell.runtime.errors import AlreadyExistsError, ClusterError
from tests.contract.world import GROUP, PLAIN_WIDGET, WIDGET, eventually

_RULES = [
    {"rule": "self.low <= self.high", "message": "low must not exceed high"},
    {"rule": "self.color == oldSelf.color", "message": "color is for ever"},
]
_SPEC: Body = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "green"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
        "replicas": {"type": "integer"},
        "low": {"type": "integer", "default": 0},
        "high": {"type": "integer", "default": 9},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "note": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}},
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
            },
        },
    },
    "x-kubernetes-validations": _RULES,
}
_STATUS: Body = {
    "type": "object",
    "properties": {"phase": {"type": "string"}, "count": {"type": "integer", "minimum": 0}},
}


def definition(plural: str, kind: str, schema: Body, **version: object) -> Body:
    """A CustomResourceDefinition with one version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


WIDGETS = definition(
    "widgets",
    "Widget",
    {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC, "status": _STATUS}},
    subresources={
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.count"},
    },
    additionalPrinterColumns=[
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    ],
)
PLAINS = definition(
    "plains",
    "Plain",
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    },
)


async def establish(cluster: Cluster) -> None:
    """Create the definitions and wait until their objects can be."""
    for body in (WIDGETS, PLAINS):
        try:
            await cluster.create(DEFINITIONS, body)
        except AlreadyExistsError:
            continue
    for resource in (WIDGET, PLAIN_WIDGET):
        await eventually(partial(_is_served, cluster, resource))


async def _is_served(cluster: Cluster, resource: Resource[Body]) -> bool:
    found = await cluster.get(DEFINITIONS, Key("", f"{resource.plural}.{GROUP}"))
    conditions = found.get("status", {}).get("conditions") or []
    if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        return False
    try:
        await cluster.list(resource)
    except ClusterError:
        return False
    return True
