"""All built-in kinds with their rules: the table of which behaviour belongs to which resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.builtin.configuration import CONFIG_MAPS, SECRETS
from swell.cluster.embedded.builtin.events import CORE_EVENTS, NEW_EVENTS, EventConversion
from swell.cluster.embedded.builtin.jobs import JOBS
from swell.cluster.embedded.builtin.nodes import NAMESPACES, NODES
from swell.cluster.embedded.builtin.pods import PODS
from swell.cluster.embedded.builtin.policies import BUDGETS, LEASES, PRIORITIES
from swell.cluster.embedded.builtin.replicasets import REPLICA_SETS
from swell.cluster.embedded.builtin.rules import Behaviour, BuiltinRules
from swell.cluster.embedded.builtin.services import ENDPOINTS, SERVICES, SLICES
from swell.cluster.embedded.builtinkinds import builtin_kinds
from swell.cluster.embedded.customresources.definition import CRDS, DEFINITIONS
from swell.cluster.embedded.registry import Kind, Registry, Rules

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
    "poddisruptionbudgets.policy": BUDGETS,
    "pods": PODS,
    "priorityclasses.scheduling.k8s.io": PRIORITIES,
    "replicasets.apps": REPLICA_SETS,
    "secrets": SECRETS,
    "services": SERVICES,
    CRDS: DEFINITIONS,
}


def full_registry() -> Registry:
    """The built-in kinds as a cluster serves them."""
    registry = Registry()
    for kind in builtin_kinds(_rules, {"events.events.k8s.io": EventConversion()}):
        registry.add(replace(kind, merge_schema=definitions.merge_schema(_definition(kind))))
    return registry


def _rules(resource: str, entry: Mapping[str, Any]) -> Rules:
    name = definitions.names()[entry["group"], entry["version"], entry["kind"]]
    return BuiltinRules(name, BEHAVIOURS[resource])


def _definition(kind: Kind) -> str:
    return definitions.names()[kind.group, kind.version, kind.kind]
