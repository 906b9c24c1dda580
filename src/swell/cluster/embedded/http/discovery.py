"""What is served, in the forms clients ask for it: group by group, or aggregated. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from swell.api.meta import Body
from swell.cluster.embedded.http.credentials import HOST
from swell.cluster.embedded.registry import ServedKind

AGGREGATED_VERSION = "apidiscovery.k8s.io/v2"
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_WORDS = {None: 2, "beta": 1, "alpha": 0}


class DiscoveredSubresource(NamedTuple):
    """A subresource as discovery shows it; without a kind it has its parent's."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


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
    """`/api`."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": f"{HOST}:{port}"}
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [address],
    }


def group_list(kinds: Iterable[ServedKind]) -> Body:
    """`/apis`."""
    grouped = _by_group(kinds)
    groups = [_group(name, versions) for name, versions in grouped.items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Iterable[ServedKind], name: str) -> Body | None:
    """`/apis/GROUP`; None when nothing of it is served."""
    versions = _by_group(kinds).get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(kinds: Iterable[ServedKind], group_name: str, version: str) -> Body | None:
    """`/apis/GROUP/VERSION` or `/api/v1`; None when nothing of it is served."""
    served = [k for k in kinds if (k.group, k.version) == (group_name, version)]
    if not served:
        return None
    resources = [shown for kind in served for shown in (_resource(kind), *_subresources(kind))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": resources,
    }


def aggregated(kinds: Iterable[ServedKind], *, core: bool) -> Body:
    """All groups but the core one, or only that, with their resources."""
    grouped = _by_group(kinds)
    items = [_whole_group(n, versions) for n, versions in grouped.items() if (n == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": AGGREGATED_VERSION,
        "metadata": {},
        "items": items,
    }


def version_rank(version: str) -> tuple[int, int, int]:
    """Sorts versions as Kubernetes prefers them, best last: v1 over v2beta1 over v1alpha1."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0)
    return (_WORDS[match[2]], int(match[1]), int(match[3] or 0))


def _by_group(kinds: Iterable[ServedKind]) -> dict[str, dict[str, list[ServedKind]]]:
    """Groups in the order they are served, versions best first."""
    found: dict[str, dict[str, list[ServedKind]]] = {}
    for kind in kinds:
        found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    return {
        name: dict(sorted(versions.items(), key=lambda item: version_rank(item[0]), reverse=True))
        for name, versions in found.items()
    }


def _group(name: str, versions: Mapping[str, object]) -> Body:
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _resource(kind: ServedKind) -> Body:
    shown: Body = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        "storageVersionHash": "",
    }
    if kind.short_names:
        shown["shortNames"] = list(kind.short_names)
    if kind.categories:
        shown["categories"] = list(kind.categories)
    return shown


def _subresources(kind: ServedKind) -> Iterable[Body]:
    for name in sorted(kind.subresources & SUBRESOURCES.keys()):
        sub = SUBRESOURCES[name]
        shown: Body = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": sub.kind or kind.kind,
            "verbs": list(sub.verbs),
        }
        if sub.group:
            shown |= {"group": sub.group, "version": sub.version}
        yield shown


def _whole_group(name: str, versions: Mapping[str, list[ServedKind]]) -> Body:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": [_whole_resource(kind) for kind in kinds],
                "freshness": "Current",
            }
            for version, kinds in versions.items()
        ],
    }


def _whole_resource(kind: ServedKind) -> Body:
    shown: Body = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        shown["shortNames"] = list(kind.short_names)
    if kind.categories:
        shown["categories"] = list(kind.categories)
    subs = [_whole_sub(kind, name) for name in sorted(kind.subresources & SUBRESOURCES.keys())]
    return shown | ({"subresources": subs} if subs else {})


def _whole_sub(kind: ServedKind, name: str) -> Body:
    sub = SUBRESOURCES[name]
    shown = {"group": kind.group, "version": kind.version, "kind": sub.kind or kind.kind}
    if sub.group:
        shown |= {"group": sub.group, "version": sub.version}
    return {"subresource": name, "responseKind": shown, "verbs": list(sub.verbs)}
