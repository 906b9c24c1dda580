"""The built-in kinds: names, verbs and columns from data, traits and behaviours from tables here.

The data was read from the discovery of a real server. `_TRAITS` has what discovery does not list:
whether an update needs a version, whether objects have a generation, which fields can be selected
by, how objects are deleted. `BEHAVIOURS` has the rules that no schema expresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from swell.cluster.embedded.access import index as access
from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.builtin.configuration import CONFIG_MAPS, SECRETS
from swell.cluster.embedded.builtin.devices import DEVICES, GROUP, device_behaviours
from swell.cluster.embedded.builtin.endpoints import ENDPOINTS, SLICES
from swell.cluster.embedded.builtin.events import CORE_EVENTS, NEW_EVENTS, EventConversion
from swell.cluster.embedded.builtin.jobs import JOBS
from swell.cluster.embedded.builtin.nodes import NAMESPACES, NODES
from swell.cluster.embedded.builtin.podgroups import (
    GENERIC,
    POD_GROUPS,
    WORKLOADS,
    gang_behaviours,
    with_groups,
    without_groups,
)
from swell.cluster.embedded.builtin.pods import PODS
from swell.cluster.embedded.builtin.policies import BUDGETS, LEASES, PRIORITIES
from swell.cluster.embedded.builtin.replicasets import REPLICA_SETS
from swell.cluster.embedded.builtin.roles import BINDINGS, ROLES
from swell.cluster.embedded.builtin.rules import Behaviour, BuiltinRules
from swell.cluster.embedded.builtin.services import SERVICES
from swell.cluster.embedded.builtin.storage import CLAIMS, STORAGE_CLASSES, VOLUMES
from swell.cluster.embedded.builtin.storage import CLASSES as CLASS_KIND
from swell.cluster.embedded.customresources.definition import CLEANUP_FINALIZER, CRDS, DEFINITIONS
from swell.cluster.embedded.registry import (
    METADATA_FIELDS,
    FieldPath,
    Registry,
    ScalePaths,
    ServedKind,
    TableColumn,
)

EVENT_TTL_S = 3600.0  # the default of kube-apiserver's --event-ttl


def _fields(*same: str, **absent: str) -> Mapping[str, FieldPath]:
    """Fields selectable by their own path.

    A keyword names a field with dots written as `__`; its value is what a missing field counts as.
    """
    found = {name: FieldPath(name) for name in same}
    found |= {
        name.replace("__", "."): FieldPath(name.replace("__", "."), value)
        for name, value in absent.items()
    }
    return MappingProxyType({**METADATA_FIELDS, **found})


def _event_fields(reference: str, component: str) -> Mapping[str, FieldPath]:
    """The selectable fields of events. Paths are those of the stored form, the core group's."""
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    found = {f"{reference}.{part}": FieldPath(f"involvedObject.{part}") for part in parts}
    found |= {name: FieldPath(name) for name in ("reason", "type", "reportingComponent")}
    if component == "source":
        found["source"] = FieldPath("source.component", otherwise="reportingComponent")
    else:
        found["reportingController"] = FieldPath("reportingComponent")
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
_ENDPOINTS_WARNING = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_CLUSTER_NAME = {"metadata.name": METADATA_FIELDS["metadata.name"]}
_EVENT: dict[str, Any] = {
    "has_generation": False,
    "create_on_update": True,
    "name_rule": "segment",
    "metadata_last": True,
    "qualified_finalizers": False,
    "default_propagation": "Unsupported",
    "ttl_s": EVENT_TTL_S,
}

_ACCESS: dict[str, Any] = {
    "has_generation": False,
    "create_on_update": True,
    "name_rule": "segment",
}

_TRAITS: dict[str, dict[str, Any]] = {
    "configmaps": {"has_generation": False},
    "secrets": {"has_generation": False, "selectable_fields": _fields("type")},
    "endpoints": {
        "has_generation": False,
        "create_on_update": True,
        "deprecation": _ENDPOINTS_WARNING,
    },
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
        "metadata_last": False,
        "name_rule": "subdomain",
        "stored_as": "events",
        "conversion": EventConversion(),
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
        "metadata_last": True,
        "qualified_finalizers": False,
    },
    **dict.fromkeys(
        (access.ROLES, access.CLUSTER_ROLES, access.ROLE_BINDINGS, access.CLUSTER_ROLE_BINDINGS),
        _ACCESS,
    ),
    CRDS: {
        "unconditional_update": False,
        "qualified_finalizers": False,
        "deletion_finalizer": CLEANUP_FINALIZER,
    },
    POD_GROUPS: {"has_generation": False},
    WORKLOADS: {"has_generation": False},
    "persistentvolumeclaims": {"has_generation": False, "returns_deleted": True},
    "persistentvolumes": {"has_generation": False, "returns_deleted": True},
    CLASS_KIND: {"has_generation": False, "returns_deleted": True},
    "jobs.batch": {
        "default_propagation": "Orphan",
        "selectable_fields": _fields(status__successful="0"),
    },
    "replicasets.apps": {
        "scale": ScalePaths("spec.replicas", "status.replicas", "spec.selector"),
    },
}


BEHAVIOURS: Mapping[str, Behaviour] = {
    "configmaps": CONFIG_MAPS,
    "endpoints": ENDPOINTS,
    "endpointslices.discovery.k8s.io": SLICES,
    "events": CORE_EVENTS,
    "events.events.k8s.io": NEW_EVENTS,
    "jobs.batch": JOBS,
    "leases.coordination.k8s.io": LEASES,
    "namespaces": NAMESPACES,
    "nodes": NODES,
    "persistentvolumeclaims": CLAIMS,
    "persistentvolumes": VOLUMES,
    "poddisruptionbudgets.policy": BUDGETS,
    "pods": PODS,
    "priorityclasses.scheduling.k8s.io": PRIORITIES,
    "replicasets.apps": REPLICA_SETS,
    "secrets": SECRETS,
    "services": SERVICES,
    CLASS_KIND: STORAGE_CLASSES,
    access.ROLES: ROLES,
    access.CLUSTER_ROLES: ROLES,
    access.ROLE_BINDINGS: BINDINGS,
    access.CLUSTER_ROLE_BINDINGS: BINDINGS,
    CRDS: DEFINITIONS,
}


# The kinds that have pods, or templates of pods.
_WITH_PODS = ("pods", "jobs.batch", "replicasets.apps")


def builtin_registry(gates: frozenset[str] = frozenset()) -> Registry:
    """A registry of the built-in kinds, as a cluster begins with it, with these feature gates."""
    registry = Registry()
    entries = definitions.read_data("builtin-kinds.json")["kinds"]
    behaviours = dict(BEHAVIOURS)
    gated = definitions.read_data("gated-kinds.json")["kinds"]
    if DEVICES in gates:
        entries = [*entries, *(one for one in gated if one["group"] == GROUP)]
        behaviours |= device_behaviours()
    if GENERIC in gates:
        entries = [*entries, *(one for one in gated if one["group"] != GROUP)]
        behaviours |= {**gang_behaviours(gates), "pods": with_groups(PODS)}
    else:
        behaviours |= {name: without_groups(behaviours[name]) for name in _WITH_PODS}
    for entry in entries:
        registry.add(_kind(entry, behaviours))
    return registry


def _kind(entry: Mapping[str, Any], behaviours: Mapping[str, Behaviour]) -> ServedKind:
    resource = f"{entry['plural']}.{entry['group']}" if entry["group"] else entry["plural"]
    definition = definitions.names()[entry["group"], entry["version"], entry["kind"]]
    is_review = tuple(entry["verbs"]) == ("create",)
    return ServedKind(
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
            TableColumn(
                name=column["name"],
                json_path="",
                type=column["type"],
                format=column["format"],
                priority=column["priority"],
            )
            for column in entry["columns"]
        ),
        empty=entry["empty"],
        is_review=is_review,
        rules=BuiltinRules(definition, Behaviour() if is_review else behaviours[resource]),
        merge_schema=definitions.merge_schema(definition),
        **{"qualified_finalizers": True, **_TRAITS.get(resource, {})},
    )
