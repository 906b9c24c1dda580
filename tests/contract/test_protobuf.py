"""Protobuf bodies, on the embedded server and on a real one, whose encoder is the reference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swell.cluster.embedded.http.protobuf import MEDIA_TYPE, read_protobuf
from tests.contract import hostile
from tests.contract.definitions import WIDGETS
from tests.contract.raw import Raw
from tests.protobuf_bodies import encode_body, envelope
from tests.testbed.control_plane import ControlPlane

SENT: dict[str, str | None] = {
    "Content-Type": MEDIA_TYPE,
    "Accept": f"{MEDIA_TYPE};q=0.5, application/json",
}
_numbers = itertools.count()

RICH_POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "rich",
        "labels": {"a": "b", "empty": ""},
        "annotations": {"x": "y"},
        "finalizers": ["example.com/hold"],
    },
    "spec": {
        "schedulerName": "nobody",
        "terminationGracePeriodSeconds": 0,
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}],
        "securityContext": {"runAsUser": 0, "supplementalGroups": [1, 70000], "fsGroup": 5},
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 0, "effect": "NoExecute"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v", ""]}]}
                    ]
                }
            }
        },
        "volumes": [
            {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "c", "configMap": {"name": "c", "optional": False, "defaultMode": 256}},
            {"name": "s", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
            {"name": "h", "hostPath": {"path": "/tmp", "type": ""}},
            {
                "name": "d",
                "downwardAPI": {
                    "items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]
                },
            },
        ],
        "containers": [
            {
                "name": "main",
                "image": "images.example/app:1",
                "command": ["a", ""],
                "ports": [{"containerPort": 80, "name": "web", "protocol": "UDP"}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                    {
                        "name": "C",
                        "valueFrom": {
                            "resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}
                        },
                    },
                ],
                "envFrom": [{"prefix": "P_", "secretRef": {"name": "s", "optional": True}}],
                "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
                "livenessProbe": {
                    "httpGet": {"port": "web", "httpHeaders": [{"name": "H", "value": "v"}]},
                    "initialDelaySeconds": 3,
                },
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
                "volumeMounts": [{"name": "e", "mountPath": "/e", "readOnly": True}],
                "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}, "runAsNonRoot": False},
            }
        ],
    },
}
DEFINITION: dict[str, Any] = {
    **WIDGETS,
    "metadata": {"name": "coded.protobuf.example.com"},
    "spec": {
        "group": "protobuf.example.com",
        "scope": "Namespaced",
        "names": {"plural": "coded", "kind": "Coded"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {
                            "spec": {
                                "type": "object",
                                "default": {"size": 1, "list": [None, "x"]},
                                "required": ["size"],
                                "properties": {
                                    "size": {
                                        "type": "number",
                                        "format": "double",
                                        "minimum": 0,
                                        "maximum": 7.5,
                                        "exclusiveMaximum": True,
                                    },
                                    "list": {
                                        "type": "array",
                                        "items": {"type": "string", "nullable": True},
                                        "minItems": 0,
                                    },
                                    "any": {"x-kubernetes-int-or-string": True},
                                    "map": {
                                        "type": "object",
                                        "additionalProperties": {"type": "string", "enum": ["a"]},
                                    },
                                },
                                "x-kubernetes-validations": [
                                    {"rule": "self.size >= 0", "message": "m"}
                                ],
                            }
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module", params=["https", "kubernetes"])
def server(request: pytest.FixtureRequest) -> Iterator[Raw]:
    if request.param == "https":
        kubeconfig: Path = request.getfixturevalue("embedded_kubeconfig")
    else:
        kubeconfig = request.getfixturevalue("control_plane").kubeconfig
    with Raw(kubeconfig) as raw:
        yield raw


@pytest.fixture
def namespace(server: Raw) -> str:
    return new_namespace(server)


def new_namespace(server: Raw) -> str:
    """The path of a new namespace, which is itself created in protobuf."""
    name = f"protobuf-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert server.ask("POST", "/api/v1/namespaces", encode_body(body), SENT).code == 201
    return f"/api/v1/namespaces/{name}"


def objects_in(namespace: str) -> dict[str, dict[str, Any]]:
    """An object of every kind that the encoder of the tests can write, by its path."""
    found = {
        path.replace(f"/{hostile.NAMESPACE}/", f"/{namespace}/"): body
        for path, body in hostile.objects(namespace).items()
        if body["kind"] not in {"Widget", "CustomResourceDefinition"}
    }
    found[f"/api/v1/namespaces/{namespace}/events"]["involvedObject"]["namespace"] = namespace
    return found | {f"/api/v1/namespaces/{namespace}/pods": RICH_POD}


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """An object without the parts that the server gives it."""
    given = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace")
    meta = {name: value for name, value in body["metadata"].items() if name not in given}
    return {**body, "metadata": meta}


def test_a_real_servers_objects_are_read_as_its_json(control_plane: ControlPlane) -> None:
    """What a real server writes in protobuf reads as what it writes in JSON, for every kind."""
    with Raw(control_plane.kubeconfig) as server:
        own = new_namespace(server).rpartition("/")[2]
        bodies = objects_in(own)
        bodies[hostile.DEFINITIONS] = DEFINITION
        for path, body in bodies.items():
            made = server.ask("POST", path, body)
            assert made.code == 201, made.body
            found, wanted = both_forms(server, f"{path}/{body['metadata']['name']}")

            assert without_zeros(found) == without_zeros(wanted)


def both_forms(server: Raw, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One version of an object, which controllers may be changing, from protobuf and from JSON."""
    for _ in range(20):
        coded = server.ask("GET", path, headers={"Accept": MEDIA_TYPE})
        found, wanted = read_protobuf(coded.body, ("", "")), server.ask("GET", path).json()
        if found["metadata"]["resourceVersion"] == wanted["metadata"]["resourceVersion"]:
            break
    return found, wanted


def without_zeros(value: Any) -> Any:
    """JSON without what has no meaning: null, and the empty parts of a status."""
    if isinstance(value, dict):
        kept = {name: without_zeros(inner) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner not in (None, {})}
    return [without_zeros(inner) for inner in value] if isinstance(value, list) else value


def test_objects_in_protobuf_are_stored_as_those_in_json(server: Raw, namespace: str) -> None:
    """The form of a body makes no difference to the object."""
    for where, body in objects_in(namespace.rpartition("/")[2]).items():
        coded = server.ask("POST", f"{where}?dryRun=All", encode_body(body), SENT)
        written = server.ask("POST", f"{where}?dryRun=All", body)

        assert (coded.code, written.code) == (201, 201), coded.body
        assert coded.header("Content-Type") == "application/json"
        found, wanted = plain(coded.json()), plain(written.json())
        for one in (found, wanted):  # the name of a job's pods holds the job's UID
            one.get("spec", {}).pop("selector", None)
            one.get("spec", {}).get("template", {}).pop("metadata", None)
            one.get("spec", {}).pop("clusterIP", None)
            one.get("spec", {}).pop("clusterIPs", None)
        assert found == wanted


def test_updates_and_deletes_in_protobuf(server: Raw, namespace: str) -> None:
    """An update replaces, and the options of a delete are heeded."""
    path = f"{namespace}/configmaps"
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert server.ask("POST", path, encode_body(config), SENT).code == 201
    config["data"] = {"k": "v"}
    updated = server.ask("PUT", f"{path}/a", encode_body(config), SENT)
    assert (updated.code, updated.json()["data"]) == (200, {"k": "v"})

    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    dry = encode_body(options | {"dryRun": ["All"]})
    assert server.ask("DELETE", f"{path}/a", dry, SENT).code == 200
    wrong = encode_body(options | {"preconditions": {"uid": "wrong"}})
    assert server.ask("DELETE", f"{path}/a", wrong, SENT).code == 409
    assert server.ask("DELETE", f"{path}/a", encode_body(options), SENT).code == 200
    assert server.ask("GET", f"{path}/a").code == 404


def test_subresources_in_protobuf(server: Raw, namespace: str) -> None:
    """A scale, a binding, a status and an eviction."""
    sets = f"{namespace.replace('/api/', '/apis/apps/')}/replicasets"
    labels = {"app": "x"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "images.example/app:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "a"}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    assert server.ask("POST", sets, encode_body(body), SENT).code == 201
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta}
    scaled = server.ask(
        "PUT", f"{sets}/a/scale", encode_body({**scale, "spec": {"replicas": 3}}), SENT
    )
    assert (scaled.code, scaled.json()["spec"]["replicas"]) == (200, 3)

    pods = f"{namespace}/pods"
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **template}
    pod["metadata"] = meta
    assert server.ask("POST", pods, encode_body(pod), SENT).code == 201
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta}
    target = {"target": {"kind": "Node", "name": "nowhere"}}
    assert server.ask("POST", f"{pods}/a/binding", encode_body(binding | target), SENT).code == 201
    status = pod | {"status": {"phase": "Running", "startTime": "2026-01-02T03:04:05Z"}}
    assert server.ask("PUT", f"{pods}/a/status", encode_body(status), SENT).code == 200
    found = server.ask("GET", f"{pods}/a").json()
    assert found["spec"]["nodeName"] == "nowhere"
    assert found["status"]["startTime"] == "2026-01-02T03:04:05Z"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    now = {"deleteOptions": {"gracePeriodSeconds": 0}}
    assert server.ask("POST", f"{pods}/a/eviction", encode_body(eviction | now), SENT).code == 201
    assert server.ask("GET", f"{pods}/a").code == 404


def test_bodies_of_another_kind_are_refused(server: Raw, namespace: str) -> None:
    """The envelope must name the kind of the path."""
    pod = encode_body({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert server.ask("POST", f"{namespace}/configmaps", pod, SENT).code == 400

    unknown = envelope("v1", "Nothing", b"")
    assert server.ask("POST", f"{namespace}/configmaps", unknown, SENT).code == 400


def test_custom_resources_have_no_protobuf(embedded_kubeconfig: Path) -> None:
    """A definition brings no messages. (A real server drops the connection here.)"""
    body: dict[str, Any] = {**DEFINITION, "metadata": {"name": "uncoded.protobuf2.example.com"}}
    names = {"plural": "uncoded", "kind": "Uncoded"}
    body["spec"] = {**DEFINITION["spec"], "group": "protobuf2.example.com", "names": names}
    coded = envelope("protobuf2.example.com/v1", "Uncoded", b"")
    with Raw(embedded_kubeconfig) as server:
        assert server.ask("POST", hostile.DEFINITIONS, body).code == 201
        path = "/apis/protobuf2.example.com/v1/namespaces/default/uncoded"
        answer = server.ask("POST", path, coded, SENT)

    assert (answer.code, answer.json()["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("accept", [MEDIA_TYPE, "application/cbor"])
def test_answers_are_json_only(embedded_kubeconfig: Path, accept: str) -> None:
    """A client that takes no JSON is told so; with JSON as its second choice it gets that."""
    with Raw(embedded_kubeconfig) as server:
        refused = server.ask("GET", "/api/v1/pods", headers={"Accept": accept})
        assert (refused.code, refused.json()["reason"]) == (406, "NotAcceptable")
        taken = server.ask("GET", "/api/v1/pods", headers={"Accept": f"{accept},application/json"})
        assert taken.header("Content-Type") == "application/json"
