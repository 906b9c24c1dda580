"""Attacks by server-side apply, and by volumes, descriptions and reviews."""

from __future__ import annotations

import json
from typing import Any

from tests.attack.harness import Attack, Target, at_once
from tests.attack.payloads import CONFIG_MAPS, DRY, config_map
from tests.contract.hostile import NAMESPACE

APPLY: dict[str, str | None] = {"Content-Type": "application/apply-patch+yaml"}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def _apply(target: Target, path: str, body: object, manager: str, *, force: bool = True) -> None:
    query = f"?fieldManager={manager}&force={str(force).lower()}"
    target.ask("PATCH", path + query, body, APPLY)


def _many_managers(target: Target) -> None:
    """One object of which a thousand managers own a field each, and one takes all of them."""
    for n in range(1_000):
        _apply(target, f"{CONFIG_MAPS}/shared", config_map("shared", data={f"k{n}": "v"}), f"m{n}")
    whole = config_map("shared", data={f"k{n}": "w" for n in range(1_000)})
    _apply(target, f"{CONFIG_MAPS}/shared", whole, "all", force=False)
    _apply(target, f"{CONFIG_MAPS}/shared", whole, "all")
    target.ask("GET", f"{CONFIG_MAPS}/shared")
    target.ask("DELETE", f"{CONFIG_MAPS}/shared")


def _wide_applies(target: Target) -> None:
    """Two managers that take tens of thousands of fields from each other."""
    for turn in range(4):
        data = {f"k{n}": str(turn) for n in range(30_000)}
        _apply(target, f"{CONFIG_MAPS}/wide", config_map("wide", data=data), f"m{turn % 2}")
    target.ask("DELETE", f"{CONFIG_MAPS}/wide")


def _keyed_lists(target: Target) -> None:
    """Lists whose items are found by their keys: thousands, twice the same, and without a key."""
    meta = {"name": "keyed"}
    for items in (
        [{"name": f"E{n}", "value": "x"} for n in range(10_000)],
        [{"name": "E", "value": "x"}] * 10_000,
        [{"value": "x"}] * 10_000,
    ):
        spec = {"containers": [{"name": "a", "image": "i", "env": items}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        _apply(target, f"{PODS}/keyed", body, "one")
        _apply(target, f"{PODS}/keyed", body, "two")
    ports = [{"containerPort": n % 65_535 + 1, "protocol": "TCP"} for n in range(20_000)]
    spec = {"containers": [{"name": "a", "image": "i", "ports": ports}]}
    _apply(
        target,
        f"{PODS}/k2",
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec},
        "o",
    )
    target.ask("DELETE", f"{PODS}/keyed")


def _entry(fields: object, **more: object) -> dict[str, Any]:
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {**entry, "time": "2026-01-01T00:00:00Z", "fieldsV1": fields, **more}


def _records_by_hand(target: Target) -> None:
    """Records of owners that a client makes up: thousands, deep, and of what there is not."""
    deep: object = {}
    for _ in range(400):
        deep = {"f:x": deep}
    keyed: dict[str, object] = {
        'k:{"name":"' + "n" * 100_000 + '"}': {},
        "k:{": {},
        "k:[]": {},
        "v:" + "9" * 9_000: {},
    }
    for n, records in enumerate((
        [_entry({"f:data": {f"f:k{n}": {}}}, manager=f"m{n}") for n in range(5_000)],
        [_entry(deep)], [_entry(keyed)],
        [_entry({"f:data": {f"f:{n}": {} for n in range(40_000)}})],
        [_entry({"i:-1": {}, "i:" + "9" * 5_000: {}, "": {}, "x": {}, "f:": {}, ".": {".": {}}})],
        [_entry([1, 2])], [_entry("text")], [_entry(None)], [{}], [_entry({}, operation="Apply")],
        [_entry({}, apiVersion="x/y/z")], [_entry({}, time="never")], [_entry({}, fieldsType="V9")],
    )):  # fmt: skip
        body = config_map(f"made-{n}", data={"a": "b"})
        body["metadata"]["managedFields"] = records
        target.ask("POST", CONFIG_MAPS, body)
        _apply(target, f"{CONFIG_MAPS}/made-{n}", config_map(f"made-{n}", data={"a": "c"}), "me")
        target.ask("DELETE", f"{CONFIG_MAPS}/made-{n}")


def _bodies_of_applies(target: Target) -> None:
    """Bodies that are no objects, or YAML that grows."""
    grown = "a: &a [x,x]\n" + "".join(f"b{n}: &b{n} [*a,*a]\n" for n in range(9))
    for body in (
        b"", b"null", b"[]", b"7", b"{", b"a: " + b"[" * 40_000, grown.encode(), b"--- \n---\n",
        b"metadata: {managedFields: []}", b"apiVersion: v1\nkind: Secret", b"\xff\xfe", b"&a *a",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}", b"? [a]\n: b", b"<<: 1",
        json.dumps(config_map("x", data={"a": None})).encode(), b"a: !!python/object:os.system x",
    ):  # fmt: skip
        _apply(target, f"{CONFIG_MAPS}/body", body, "m")
        _apply(target, f"{CONFIG_MAPS}/body", body, "")
    for query in (
        "",
        "?force=maybe",
        "?fieldManager=" + "m" * 5_000,
        "?fieldManager=%00&force=true",
    ):
        target.ask("PATCH", f"{CONFIG_MAPS}/body{query}", config_map("body"), APPLY)


def _applies_at_once(target: Target) -> None:
    body = json.dumps(config_map("once", data={f"k{n}": "x" for n in range(20_000)})).encode()

    def send(raw: Any) -> None:
        raw.ask("PATCH", f"{CONFIG_MAPS}/once?fieldManager=m&force=true", body, APPLY)

    at_once(target, 20, send)
    target.ask("DELETE", f"{CONFIG_MAPS}/once")


def _object(
    kind: str, name: str, version: str = "resource.k8s.io/v1", **more: Any
) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def _volumes(target: Target) -> None:
    """Volumes with thousands of terms, and sizes and modes that are none."""
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"] * 500}] * 20}
    for spec in (
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [term] * 50}}},
        {"capacity": {"storage": "1e" + "9" * 400}}, {"capacity": {"storage": "-" * 9_000}},
        {"accessModes": ["ReadWriteOnce"] * 50_000}, {"mountOptions": ["x"] * 90_000},
        {"csi": {"volumeAttributes": {f"{n}": "v" for n in range(9_000)}}},
        {"hostPath": {"path": "/../" * 20_000}}, {"claimRef": {"name": "n" * 90_000}},
    ):  # fmt: skip
        body = _object("PersistentVolume", "v", "v1", spec={"capacity": {"storage": "1Gi"}, **spec})
        target.ask("POST", f"/api/v1/persistentvolumes{DRY}", body)
        claim = _object("PersistentVolumeClaim", "v", "v1", spec=spec)
        target.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims{DRY}", claim)
    topologies = [{"matchLabelExpressions": [{"key": "k", "values": ["v"] * 900}]}] * 90
    body = _object(
        "StorageClass", "s", "storage.k8s.io/v1", provisioner="p", allowedTopologies=topologies
    )
    target.ask("POST", f"/apis/storage.k8s.io/v1/storageclasses{DRY}", body)


def _descriptions(target: Target) -> None:
    """Descriptions of the whole interface, asked for in every form by many at once."""
    paths = [
        f"/openapi/{one}"
        for one in ("v2", "v3", "v3/api/v1", "v3/apis/apps/v1", "v3/" + "a/" * 900)
    ]
    forms = (
        "application/json",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "*/*;" * 900,
    )

    def send(raw: Any) -> None:
        for path in paths:
            for form in forms:
                raw.ask(
                    "GET", path, None, {"Accept": form, "If-None-Match": '"' + "x" * 4_000 + '"'}
                )

    at_once(target, 12, send)


def _reviews(target: Target) -> None:
    """Questions about rights whose every field is long."""
    long, rooms = "x" * 60_000, {f"k{n}": ["v"] * 50 for n in range(2_000)}
    path, verbs = {"path": "/" * 90_000, "verb": "get"}, {"verb": long, "resource": long}
    for spec in (
        {"user": long, "groups": [long] * 10, "resourceAttributes": verbs},
        {"user": "u", "groups": ["g"] * 90_000, "nonResourceAttributes": path},
        {"user": "u", "extra": rooms, "resourceAttributes": {}},
    ):  # fmt: skip
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        target.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    for token in (long, "a." * 30_000, "\u0000", "é" * 9_000):
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        target.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)


ATTACKS: dict[str, Attack] = {
    "a thousand owners of one object": _many_managers,
    "owners that take fields from each other": _wide_applies,
    "applies of keyed lists": _keyed_lists,
    "records of owners made by hand": _records_by_hand,
    "bodies of applies": _bodies_of_applies,
    "large applies at once": _applies_at_once,
    "volumes and their classes": _volumes,
    "descriptions in every form": _descriptions,
    "reviews of long names": _reviews,
}
