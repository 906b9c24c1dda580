"""The vocabulary that generated behaviours are written in."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

Step = dict[str, Any]


class Case(NamedTuple):
    family: str
    name: str
    steps: list[Step]


CM = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
SERVICES = "/api/v1/namespaces/{ns}/services"
SECRETS = "/api/v1/namespaces/{ns}/secrets"
EVENTS = "/api/v1/namespaces/{ns}/events"
NEWEVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
ENDPOINTS = "/api/v1/namespaces/{ns}/endpoints"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
REPLICASETS = "/apis/apps/v1/namespaces/{ns}/replicasets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
PDBS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "{run}.holdout.example.com"
WIDGETS = "/apis/" + GROUP + "/v1/namespaces/{ns}/widgets"
PLAINS = "/apis/" + GROUP + "/v1/namespaces/{ns}/plains"
RULEDS = "/apis/" + GROUP + "/v1/namespaces/{ns}/ruleds"


def merged(base: Any, over: Any) -> Any:
    """The base with the values of the other put over it; None removes a key."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return copy.deepcopy(over)
    result = copy.deepcopy(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif value == "<null>":
            result[key] = None
        else:
            result[key] = merged(result.get(key), value)
    return result


def body(
    version: str, kind: str, over: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    base = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **rest}
    return merged(base, over or {})


def cm(**over: Any) -> dict[str, Any]:
    return body("v1", "ConfigMap", over)


def pod(
    spec: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **over: Any
) -> dict[str, Any]:
    one = merged({"name": "main", "image": "images.example/app:1"}, container or {})
    base = {"schedulerName": "nobody", "containers": [one]}
    return body("v1", "Pod", over, spec=merged(base, spec or {}))


def service(spec: dict[str, Any] | None = None, **over: Any) -> dict[str, Any]:
    return body("v1", "Service", over, spec=merged({"ports": [{"port": 80}]}, spec or {}))


TEMPLATE = {
    "spec": {
        "restartPolicy": "Never",
        "schedulerName": "nobody",
        "containers": [{"name": "main", "image": "images.example/app:1"}],
    }
}


def job(spec: dict[str, Any] | None = None, **over: Any) -> dict[str, Any]:
    return body(
        "batch/v1", "Job", over, spec=merged({"suspend": True, "template": TEMPLATE}, spec or {})
    )


def rs(spec: dict[str, Any] | None = None, **over: Any) -> dict[str, Any]:
    template = merged(
        TEMPLATE, {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Always"}}
    )
    base = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    return body("apps/v1", "ReplicaSet", over, spec=merged(base, spec or {}))


def widget(spec: dict[str, Any] | None = None, **over: Any) -> dict[str, Any]:
    return body(GROUP + "/v1", "Widget", over, spec=merged({"size": 3}, spec or {}))


def plain(**over: Any) -> dict[str, Any]:
    return body(GROUP + "/v1", "Plain", over)


def ruled(spec: dict[str, Any] | None = None, **over: Any) -> dict[str, Any]:
    return body(GROUP + "/v1", "Ruled", over, spec=spec or {})


def post(path: str, value: Any, **rest: Any) -> Step:
    return {"do": "POST " + path, "body": value, **rest}


def put(path: str, value: Any, **rest: Any) -> Step:
    return {"do": "PUT " + path, "body": value, **rest}


def get(path: str, **rest: Any) -> Step:
    return {"do": "GET " + path, **rest}


def delete(path: str, **rest: Any) -> Step:
    return {"do": "DELETE " + path, **rest}


def patch(path: str, value: Any, kind: str = "merge", **rest: Any) -> Step:
    return {"do": "PATCH " + path, "body": value, "type": kind, **rest}


def raw(method: str, path: str, text: str, **rest: Any) -> Step:
    return {"do": f"{method} {path}", "raw": [text], **rest}
