"""The built-in kinds: what a real server says of them, read from data, and how each is special.

The data holds names, verbs and columns. What discovery does not tell is in the table below: whether
an update needs a version, whether objects have a generation, which fields select, how they go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from swell.api.codec import decode
from swell.cluster.embedded.plainrules import PlainRules
from swell.cluster.embedded.registry import (
    METADATA_FIELDS,
    Column,
    Conversion,
    FieldPath,
    Kind,
    Registry,
    Rules,
    ScalePaths,
)

EVENT_TTL_S = 3600.0

# Builds the rules of a kind, given what the data says of it.
RulesFor = Callable[[str, Mapping[str, Any]], Rules]


def _fields(*same: str, **absent: str) -> Mapping[str, FieldPath]:
    """Fields that select by their own path; keywords (dots as __) say what missing counts as."""
    found = {name: FieldPath(name) for name in same}
    found |= {
        name.replace("__", "."): FieldPath(name.replace("__", "."), value)
        for name, value in absent.items()
    }
    return MappingProxyType({**METADATA_FIELDS, **found})


def _event_fields(reference: str, component: str) -> Mapping[str, FieldPath]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    found = {f"{reference}.{part}": FieldPath(f"{reference}.{part}") for part in parts}
    found |= {name: FieldPath(name) for name in ("reason", "type", "reportingComponent")}
    if component == "source":
        found["source"] = FieldPath("source.component")
    else:
        found["reportingController"] = FieldPath("reportingController")
    return MappingProxyType({**METADATA_FIELDS, **found})


_POD_FIELDS = _fields(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
    spec__hostNetwork="false",
)
_CLUSTER_NAME = {"metadata.name": METADATA_FIELDS["metadata.name"]}
_EVENT: dict[str, Any] = {
    "has_generation": False,
    "create_on_update": True,
    "name_rule": "segment",
    "qualified_finalizers": False,
    "default_propagation": "Unsupported",
    "ttl_s": EVENT_TTL_S,
}

_TRAITS: dict[str, dict[str, Any]] = {
    "configmaps": {"has_generation": False},
    "secrets": {"has_generation": False, "selectable_fields": _fields("type")},
    "endpoints": {"has_generation": False, "create_on_update": True},
    "services": {
        "has_generation": False,
        "create_on_update": True,
        "name_rule": "label",
        "returns_deleted": True,
        "selectable_fields": _fields("spec.clusterIP", "spec.type"),
    },
    "nodes": {
        "has_generation": False,
        "selectable_fields": {
            **_CLUSTER_NAME,
            "spec.unschedulable": FieldPath("spec.unschedulable", "false"),
        },
    },
    "namespaces": {
        "has_generation": False,
        "name_rule": "label",
        "returns_deleted": True,
        "selectable_fields": {**_CLUSTER_NAME, "status.phase": FieldPath("status.phase")},
    },
    "pods": {"graceful": True, "returns_deleted": True, "selectable_fields": _POD_FIELDS},
    "events": {**_EVENT, "selectable_fields": _event_fields("involvedObject", "source")},
    "events.events.k8s.io": {
        **_EVENT,
        "stored_as": "events",
        "selectable_fields": _event_fields("regarding", "reportingController"),
    },
    "leases.coordination.k8s.io": {
        "has_generation": False,
        "create_on_update": True,
        "unconditional_update": False,
        "qualified_finalizers": False,
    },
    "poddisruptionbudgets.policy": {
        "unconditional_update": False,
        "name_rule": "segment",
        "qualified_finalizers": False,
    },
    "customresourcedefinitions.apiextensions.k8s.io": {
        "unconditional_update": False,
        "qualified_finalizers": False,
        "deletion_finalizer": "customresourcecleanup.apiextensions.k8s.io",
    },
    "jobs.batch": {
        "default_propagation": "Orphan",
        "selectable_fields": _fields(status__successful="0"),
    },
    "replicasets.apps": {
        "scale": ScalePaths("spec.replicas", "status.replicas", "spec.selector"),
    },
}


def plain_rules(resource: str, entry: Mapping[str, Any]) -> Rules:  # noqa: ARG001 (the contract)
    return PlainRules(has_status=any(sub["name"] == "status" for sub in entry["subresources"]))


def builtin_kinds(
    rules_for: RulesFor = plain_rules, conversions: Mapping[str, Conversion] = MappingProxyType({})
) -> list[Kind]:
    """The built-in kinds; those stored in another form only if their conversion is given."""
    return [
        replace(_kind(entry, rules_for), conversion=conversions.get(_resource(entry)))
        for entry in _data()["kinds"]
        if "stored_as" not in _TRAITS.get(_resource(entry), {}) or _resource(entry) in conversions
    ]


def builtin_registry(rules_for: RulesFor = plain_rules) -> Registry:
    registry = Registry()
    for kind in builtin_kinds(rules_for):
        registry.add(kind)
    return registry


def traits(resource: str) -> Mapping[str, Any]:
    """How a built-in kind is special, for who builds it with a conversion."""
    return _TRAITS.get(resource, {})


@cache
def _data() -> dict[str, Any]:
    file = resources.files("swell.cluster.embedded") / "data" / "builtin-kinds.json"
    return decode(file.read_bytes(), dict)


def _resource(entry: Mapping[str, Any]) -> str:
    return f"{entry['plural']}.{entry['group']}" if entry["group"] else entry["plural"]


def _kind(entry: Mapping[str, Any], rules_for: RulesFor) -> Kind:
    resource = _resource(entry)
    return Kind(
        group=entry["group"],
        version=entry["version"],
        kind=entry["kind"],
        plural=entry["plural"],
        singular=entry["singular"],
        list_kind=f"{entry['kind']}List",
        namespaced=entry["namespaced"],
        short_names=tuple(entry["shortNames"]),
        categories=tuple(entry["categories"]),
        verbs=tuple(entry["verbs"]),
        subresources=frozenset(sub["name"] for sub in entry["subresources"]),
        columns=tuple(
            Column(
                name=column["name"],
                json_path="",
                type=column["type"],
                format=column["format"],
                priority=column["priority"],
            )
            for column in entry["columns"]
        ),
        rules=rules_for(resource, entry),
        **{"qualified_finalizers": True, **_TRAITS.get(resource, {})},
    )
