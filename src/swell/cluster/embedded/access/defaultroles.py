"""The roles and bindings that a cluster begins with.

They have the names of Kubernetes' own. `view`, `edit` and `admin` cover the kinds that are served
here, ours among them, and are written out instead of aggregated. `view` also reads nodes, queues
and priority classes, which `swell explain`, `swell top` and `swell queue` need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS
from swell.cluster.embedded.access.attributes import AUTHENTICATED, MASTERS
from swell.cluster.embedded.access.index import GROUP

API_VERSION = f"{GROUP}/v1"
# A default object is brought up to date at every start, unless this annotation says "false".
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_INFO_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_INFO_PATHS)
_STREAMS = ("pods/attach", "pods/exec", "pods/portforward")
_OWN_GROUPS = sorted({definition.group for definition in DEFINITIONS})
_JOB_KINDS = tuple(d.plural for d in DEFINITIONS if d.namespaced)
_CLUSTER_KINDS = tuple(d.plural for d in DEFINITIONS if not d.namespaced)


def _with_parts(plurals: Iterable[str], *parts: str) -> list[str]:
    return [name for p in plurals for name in (p, *(f"{p}/{part}" for part in parts))]


def _rule(groups: Iterable[str], resources: Iterable[str], verbs: Iterable[str]) -> Body:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _paths(paths: Iterable[str], verbs: Iterable[str]) -> Body:
    return {"nonResourceURLs": list(paths), "verbs": list(verbs)}


_VIEW = [
    _rule([""], ["configmaps", "endpoints", "pods", "services", "services/status"], _READ),
    _rule([""], ["pods/log", "pods/status", "namespaces/status", "bindings"], _READ),
    _rule([""], ["namespaces", "nodes"], _READ),
    _rule([""], ["persistentvolumeclaims", "persistentvolumeclaims/status"], _READ),
    _rule([""], ["persistentvolumes"], _READ),
    _rule(["storage.k8s.io"], ["storageclasses"], _READ),
    _rule(["", "events.k8s.io"], ["events"], _READ),
    _rule(["apps"], ["replicasets", "replicasets/scale", "replicasets/status"], _READ),
    _rule(["batch"], ["jobs", "jobs/status"], _READ),
    _rule(["discovery.k8s.io"], ["endpointslices"], _READ),
    _rule(["policy"], ["poddisruptionbudgets", "poddisruptionbudgets/status"], _READ),
    _rule(["scheduling.k8s.io"], ["priorityclasses"], _READ),
    _rule(_OWN_GROUPS, _with_parts((*_JOB_KINDS, *_CLUSTER_KINDS), "status", "scale"), _READ),
]
_EDIT = [
    _rule([""], ["secrets", *_STREAMS], _READ),
    _rule([""], ["configmaps", "endpoints", "pods", "secrets", "services", *_STREAMS], _WRITE),
    _rule([""], ["persistentvolumeclaims"], _WRITE),
    _rule([""], ["pods/eviction"], ["create"]),
    _rule(["", "events.k8s.io"], ["events"], _WRITE),
    _rule(["apps"], ["replicasets", "replicasets/scale"], _WRITE),
    _rule(["batch"], ["jobs"], _WRITE),
    _rule(["coordination.k8s.io"], ["leases"], (*_WRITE, *_READ)),
    _rule(["policy"], ["poddisruptionbudgets"], _WRITE),
    _rule(_OWN_GROUPS, _with_parts(_JOB_KINDS, "scale"), _WRITE),
]
_ADMIN = [
    _rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
    _rule([GROUP], ["rolebindings", "roles"], (*_WRITE, *_READ)),
]
_ROLES: dict[str, list[Body]] = {
    "cluster-admin": [_rule(["*"], ["*"], ["*"]), _paths(["*"], ["*"])],
    "view": _VIEW,
    "edit": [*_EDIT, *_VIEW],
    "admin": [*_ADMIN, *_EDIT, *_VIEW],
    "system:basic-user": [
        _rule(
            ["authorization.k8s.io"],
            ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ["create"],
        ),
        _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
    ],
    "system:discovery": [_paths(_DISCOVERY_PATHS, ["get"])],
    "system:public-info-viewer": [_paths(_INFO_PATHS, ["get"])],
    "system:auth-delegator": [
        _rule(["authentication.k8s.io"], ["tokenreviews"], ["create"]),
        _rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
    ],
    "system:kubelet-api-admin": [
        _rule([""], ["nodes"], _READ),
        _rule([""], ["nodes"], ["proxy"]),
        _rule([""], ["nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"], ["*"]),
    ],
}
# The common name of the server's certificate, which it shows to node agents to read logs.
SERVER = "swell"
_BINDINGS = {
    "cluster-admin": ("Group", MASTERS),
    "system:basic-user": ("Group", AUTHENTICATED),
    "system:discovery": ("Group", AUTHENTICATED),
    "system:public-info-viewer": ("Group", AUTHENTICATED),
    "system:kubelet-api-admin": ("User", SERVER),
}


def default_cluster_roles() -> Iterator[Body]:
    for name, rules in _ROLES.items():
        yield {**_object("ClusterRole", name), "rules": rules}


def default_bindings() -> Iterator[Body]:
    for name, (kind, subject) in _BINDINGS.items():
        yield {
            **_object("ClusterRoleBinding", name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject}],
        }


def updated_role(default: Body, stored: Body) -> Body | None:
    """A stored default role with the rules it lacks; None when it is to stay as it is.

    A rule that a user has added stays, as on a real server.
    """
    if (stored["metadata"].get("annotations") or {}).get(AUTOUPDATE) != "true":
        return None
    rules = stored.get("rules") or []
    lacking = [rule for rule in default["rules"] if rule not in rules]
    return {**stored, "rules": [*rules, *lacking]} if lacking else None


def _object(kind: str, name: str) -> Body:
    metadata = {"name": name, "labels": dict(_LABELS), "annotations": {AUTOUPDATE: "true"}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}
