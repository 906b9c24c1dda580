"""Discovery documents: the served groups, versions and resources, separate or aggregated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from swell.api.meta import Body
from swell.cluster.embedded.http.credentials import HOST
from swell.cluster.embedded.registry import ServedKind, version_rank

AGGREGATED_VERSION = "apidiscovery.k8s.io/v2"


class DiscoveredSubresource(NamedTuple):
    """A subresource in discovery. Without a kind of its own it has its parent's."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


# The verbs and kinds that a real server lists for its subresources.
_CHANGE = ("get", "patch", "update")
_STREAM = ("create", "get")
SUBRESOURCES: Mapping[str, DiscoveredSubresource] = {
    "attach": DiscoveredSubresource(_STREAM, "PodAttachOptions"),
    "binding": DiscoveredSubresource(("create",), "Binding"),
    "ephemeralcontainers": DiscoveredSubresource(_CHANGE),
    "eviction": DiscoveredSubresource(("create",), "Eviction", "policy", "v1"),
    "exec": DiscoveredSubresource(_STREAM, "PodExecOptions"),
    "finalize": DiscoveredSubresource(("update",)),
    "log": DiscoveredSubresource(("get",)),
    "portforward": DiscoveredSubresource(_STREAM, "PodPortForwardOptions"),
    "resize": DiscoveredSubresource(_CHANGE),
    "scale": DiscoveredSubresource(_CHANGE, "Scale", "autoscaling", "v1"),
    "status": DiscoveredSubresource(_CHANGE),
}


def core_versions(port: int) -> Body:
    """The document at `/api`."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": f"{HOST}:{port}"}
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [address],
    }


def group_list(kinds: Iterable[ServedKind]) -> Body:
    """The document at `/apis`."""
    grouped = _by_group(kinds)
    groups = [_group(name, versions) for name, versions in grouped.items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Iterable[ServedKind], name: str) -> Body | None:
    """The document at `/apis/GROUP`; None when the group is not served."""
    versions = _by_group(kinds).get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(kinds: Iterable[ServedKind], group_name: str, version: str) -> Body | None:
    """The document at `/apis/GROUP/VERSION` or `/api/v1`; None when that is not served."""
    served = [k for k in kinds if (k.group, k.version) == (group_name, version)]
    if not served:
        return None
    resources = [entry for kind in served for entry in (_resource(kind), *_subresources(kind))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": resources,
    }


def aggregated(kinds: Iterable[ServedKind], *, core: bool) -> Body:
    """The aggregated document: the core group, or all other groups, with their resources."""
    grouped = _by_group(kinds)
    items = [_aggregated_group(n, versions) for n, versions in grouped.items() if (n == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": AGGREGATED_VERSION,
        "metadata": {},
        "items": items,
    }


def _by_group(kinds: Iterable[ServedKind]) -> dict[str, dict[str, list[ServedKind]]]:
    """Kinds by group and version: groups in the order of registration, versions best first."""
    found: dict[str, dict[str, list[ServedKind]]] = {}
    for kind in kinds:
        found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    return {
        name: dict(sorted(versions.items(), key=lambda item: version_rank(item[0]), reverse=True))
        for name, versions in found.items()
    }


def _group(name: str, versions: Mapping[str, object]) -> Body:
    entry = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entry, "preferredVersion": entry[0]}


def _resource(kind: ServedKind) -> Body:
    entry: Body = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        "storageVersionHash": "",
    }
    return entry | _names(kind)


def _names(kind: ServedKind) -> Body:
    """The optional names of a kind; empty ones are left out, as a real server does."""
    names = {"shortNames": kind.short_names, "categories": kind.categories}
    return {field: list(given) for field, given in names.items() if given}


def _subresources(kind: ServedKind) -> Iterable[Body]:
    for name in sorted(kind.subresources & SUBRESOURCES.keys()):
        sub = SUBRESOURCES[name]
        entry: Body = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": sub.kind or kind.kind,
            "verbs": list(sub.verbs),
        }
        if sub.group:
            entry |= {"group": sub.group, "version": sub.version}
        yield entry


def _aggregated_group(name: str, versions: Mapping[str, list[ServedKind]]) -> Body:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in kinds],
                "freshness": "Current",
            }
            for version, kinds in versions.items()
        ],
    }


def _aggregated_resource(kind: ServedKind) -> Body:
    entry: Body = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": list(kind.verbs),
    }
    entry |= _names(kind)
    subs = [
        _aggregated_subresource(kind, name)
        for name in sorted(kind.subresources & SUBRESOURCES.keys())
    ]
    return entry | ({"subresources": subs} if subs else {})


def _aggregated_subresource(kind: ServedKind, name: str) -> Body:
    sub = SUBRESOURCES[name]
    entry = {"group": kind.group, "version": kind.version, "kind": sub.kind or kind.kind}
    if sub.group:
        entry |= {"group": sub.group, "version": sub.version}
    return {"subresource": name, "responseKind": entry, "verbs": list(sub.verbs)}
