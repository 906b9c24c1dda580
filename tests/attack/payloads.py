"""Attacks by what a request carries: bodies, patches, queries and paths."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.attack.harness import Attack, Target
from tests.contract.hostile import NAMESPACE
from tests.contract.world import GROUP

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"
DRY = "?dryRun=All"
YAML: dict[str, str | None] = {"Content-Type": "application/yaml"}
JSON_PATCH: dict[str, str | None] = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH: dict[str, str | None] = {"Content-Type": "application/merge-patch+json"}
STRATEGIC: dict[str, str | None] = {"Content-Type": "application/strategic-merge-patch+json"}


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def widget(name: str, free: object) -> dict[str, Any]:
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}}
    return {**head, "spec": {"size": 1, "free": free}}


def _posts(path: str, headers: dict[str, str | None] | None, *bodies: object) -> Attack:
    def attack(target: Target) -> None:
        for body in bodies:
            target.ask("POST", path, body, headers)

    return attack


def _nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    head = json.dumps(widget("deep", "X")).encode()
    return head.replace(b'"X"', opening * depth + b"1" + closing * depth)


def _yaml(*bodies: str) -> Attack:
    return _posts(CONFIG_MAPS + DRY, YAML, *(body.encode() for body in bodies))


def _copies(count: int, size: int) -> Attack:
    """Copies of a long text in one patch."""

    def attack(target: Target) -> None:
        target.ask("POST", WIDGETS, widget("copied", {"a": "x" * size}))
        operations = [
            {"op": "copy", "from": "/spec/free/a", "path": f"/spec/free/c{n}"} for n in range(count)
        ]
        target.ask("PATCH", f"{WIDGETS}/copied", operations, JSON_PATCH)
        target.ask("DELETE", f"{WIDGETS}/copied")

    return attack


def _doubling(target: Target) -> None:
    target.ask("POST", WIDGETS, widget("doubled", {"a": {"x": "y"}}))
    operations = []
    for n in range(200):
        operations += [
            {"op": "copy", "from": "/spec/free/a", "path": f"/spec/free/b{n}"},
            {"op": "copy", "from": "/spec/free", "path": "/spec/free/a/x"},
        ]
    target.ask("PATCH", f"{WIDGETS}/doubled", operations, JSON_PATCH)
    target.ask("DELETE", f"{WIDGETS}/doubled")


def _moves(target: Target) -> None:
    """Each pair of operations nests the object one level deeper."""
    target.ask("POST", WIDGETS, widget("moved", {"n0": {}}))
    operations: list[dict[str, object]] = []
    for n in range(4999):
        operations += [
            {"op": "add", "path": f"/spec/free/n{n + 1}", "value": {}},
            {"op": "move", "from": f"/spec/free/n{n}", "path": f"/spec/free/n{n + 1}/x"},
        ]
    target.ask("PATCH", f"{WIDGETS}/moved{DRY}", operations, JSON_PATCH)
    operations += [{"op": "test", "path": "/spec/free", "value": {}}] * 2
    target.ask("PATCH", f"{WIDGETS}/moved{DRY}", operations, JSON_PATCH)
    target.ask("DELETE", f"{WIDGETS}/moved")


def _tests_of_large_values(target: Target) -> None:
    free = {f"k{n}": n for n in range(50_000)}
    target.ask("POST", WIDGETS, widget("tested", free))
    operations = [
        {"op": "copy", "from": "/spec/free", "path": "/metadata/annotations"},
        *[{"op": "test", "path": "/spec/free", "value": {}}] * 9998,
    ]
    target.ask("PATCH", f"{WIDGETS}/tested{DRY}", operations, JSON_PATCH)
    target.ask("DELETE", f"{WIDGETS}/tested")


def _inserts(target: Target) -> None:
    operations: list[dict[str, object]] = [
        {"op": "add", "path": "/spec/free", "value": [0] * 90_000}
    ]
    operations += [{"op": "add", "path": "/spec/free/0", "value": 1}] * 9_999
    target.ask("PATCH", f"{WIDGETS}/victim{DRY}", operations, JSON_PATCH)


def _wide_merges(target: Target) -> None:
    patch = {"spec": {"free": {f"k{n}": {"a": None} for n in range(60_000)}}}
    target.ask("PATCH", f"{WIDGETS}/victim{DRY}", patch, MERGE_PATCH)
    order = [{"name": f"c{n}"} for n in range(5_000)]
    containers = [{"name": f"c{n}", "image": "i"} for n in range(5_000)]
    spec = {"containers": containers, "$setElementOrder/containers": order}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/victim{DRY}"
    target.ask("PATCH", path, {"spec": spec}, STRATEGIC)
    removed = [f"f{n}.example.com/x" for n in range(20_000)]
    meta = {"$deleteFromPrimitiveList/finalizers": removed, "finalizers": removed}
    target.ask("PATCH", path, {"metadata": meta}, STRATEGIC)


def _large_objects(target: Target) -> None:
    for n_bytes in (1_400_000, 1_600_000, 2_500_000, 3_300_000):
        target.ask("POST", WIDGETS, widget(f"w{n_bytes}", {"a": "x" * n_bytes}))
    target.ask("POST", WIDGETS, widget("wide", {f"k{n}": n for n in range(100_000)}))
    for name in ("w1400000", "wide"):
        target.ask("GET", f"{WIDGETS}/{name}")
        target.ask("DELETE", f"{WIDGETS}/{name}")


def _many_keys(target: Target) -> None:
    text = "".join(f"k{n}: 1\n" for n in range(250_000))
    target.ask("POST", CONFIG_MAPS + DRY, text.encode(), YAML)
    target.ask("POST", CONFIG_MAPS + DRY, f"a: [{'1,' * 700_000}]".encode(), YAML)


def _many_values(target: Target) -> None:
    for inner in ("[]," * 900_000, "{}," * 200_000, "1," * 190_000, '"",' * 60_000):
        body = json.dumps(widget("values", "V")).replace('"V"', f"[{inner[:-1]}]")
        target.ask("POST", WIDGETS + DRY, body.encode())


def _duplicates(target: Target) -> None:
    name = "n" * 200_000
    inner = ",".join(f'"k{n}":1' for n in range(100_000))
    target.ask("POST", WIDGETS + DRY, f'{{"{name}":{{{inner},"k1":2}},"a":1,"a":2}}'.encode())
    target.ask("POST", CONFIG_MAPS + DRY, ("{" + '"a":{"b":1},' * 200_000 + '"c":1}').encode())
    wide = '"a":{' + inner + "}"
    target.ask("POST", CONFIG_MAPS + DRY, ("{" + wide + ',"a":{"z":1}' * 100_000 + "}").encode())


def _numbers(target: Target) -> None:
    template = json.dumps(widget("numbers", "N"))
    for number in ("9" * 400, "-" + "9" * 5000, "1e400", "1" * 2_000_000, "0." + "1" * 500_000):
        target.ask("POST", WIDGETS + DRY, template.replace('"N"', number).encode())
        target.ask("POST", WIDGETS + DRY, template.replace('"N"', number).encode(), YAML)
    for version in ("9" * 5000, "\u00b2", "-1"):
        body = config_map("victim")
        body["metadata"]["resourceVersion"] = version
        target.ask("PUT", f"{CONFIG_MAPS}/victim", body)
        target.ask("POST", CONFIG_MAPS + DRY, body)


def _texts(target: Target) -> None:
    for text in ("\\ud800", "\\udc00\\ud800", "\\u0000", "\u202e"):
        body = json.dumps(widget("texts", "T")).replace('"T"', f'{{"{text}":"{text}"}}').encode()
        target.ask("POST", WIDGETS + DRY, body)
        target.ask("POST", WIDGETS + DRY, body.replace(b'"kind"', b'"kind":"Widget","kind"'))
    target.ask("POST", WIDGETS + DRY, b"\xff\xfe" * 100_000)
    target.ask("POST", WIDGETS + DRY, b'"' + b"\\" * 2_000_000)


def _quantities(target: Target) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods{DRY}"
    for text in ("1e999999999", "9" * 1_000_000, "1" * 500_000 + "x", "0." + "0" * 900_000 + "1"):
        container = {"name": "a", "image": "i", "resources": {"requests": {"cpu": text}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}}
        target.ask("POST", path, {**pod, "spec": {"containers": [container]}})


def _times(target: Target) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases{DRY}"
    for text in ("9" * 1_000_000, "2030-01-01T00:00:00." + "1" * 1_000_000 + "Z", "0000-00-00"):
        spec = {"renewTime": text, "leaseDurationSeconds": 10}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        target.ask("POST", path, {**lease, "metadata": {"name": "t"}, "spec": spec})


def _selectors(target: Target) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    many = ",".join(f"!k{n}" for n in range(4_000))
    values = f"a notin ({','.join(f'v{n}' for n in range(4_000))})"
    for text in (many, values, "a>" + "9" * 20_000, "(" * 20_000, ",".join(["a=b"] * 5_000)):
        target.ask("GET", f"{pods}?labelSelector={quote(text)}")
    names = ",".join(f"metadata.name!=n{n}" for n in range(1_000))
    for text in (names, "metadata.name=" + "\\," * 7_000, "\\" * 9_000, "=" * 20_000):
        target.ask("GET", f"{pods}?fieldSelector={quote(text)}")


def _queries(target: Target) -> None:
    for query in (
        "&".join(["a=b"] * 7_000), "&" * 30_000, "%" * 30_000, "limit=" + "9" * 20_000,
        "continue=" + "A" * 30_000, "continue=" + "eyJ2" * 5_000, "resourceVersion=" + "9" * 9_000,
        "timeoutSeconds=" + "9" * 30, "dryRun=All&" * 2_000, "fieldManager=" + "x" * 20_000,
        "limit=\u00b2", "watch=1&timeoutSeconds=1&resourceVersion=99999999999999999999",
    ):  # fmt: skip
        target.ask("GET", f"{CONFIG_MAPS}?{quote(query, safe='&=%')}")


def _paths(target: Target) -> None:
    for path in ("/" * 30_000, "/api" + "/v1" * 9_000, "/%2f" * 7_000, "/apis/" + "a" * 30_000):
        target.ask("GET", path)
    for path in ("/openapi/v3/" + "x/" * 5_000, "/api/v1/namespaces/" + "%00" * 9_000, "/%ff%fe"):
        target.ask("GET", path)
    target.ask("GET", f"{CONFIG_MAPS}/{'x' * 30_000}")


def _bombs(target: Target) -> None:
    """Bodies that inflate a thousandfold, with and without a token."""
    bomb = gzip.compress(b"[" * (2 << 30 >> 3), 9)[: 3 << 20]
    for token in (None, f"Bearer {target.raw.token}"):
        for encoding in ("gzip", "deflate", "br"):
            headers = {"Authorization": token, "Content-Encoding": encoding}
            target.ask("POST", CONFIG_MAPS + DRY, bomb, headers)


def _many_objects(target: Target) -> None:
    """Thousands of small objects, listed in every form and deleted at once."""
    for n in range(1_500):
        target.ask("POST", CONFIG_MAPS, config_map(f"m{n}", metadata_=None) | {
            "metadata": {"name": f"m{n}", "labels": {"many": "yes"}}})  # fmt: skip
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        for _ in range(5):
            target.ask("GET", CONFIG_MAPS, headers={"Accept": accept})
    items = {
        "kind": "List",
        "apiVersion": "v1",
        "items": [config_map(f"i{n}") for n in range(9_000)],
    }
    target.ask("POST", CONFIG_MAPS, items)
    target.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=many%3Dyes")


def _owners(target: Target) -> None:
    """A chain of a thousand owners, and an object with ten thousand of them."""
    owner: dict[str, object] | None = None
    for n in range(400):
        meta: dict[str, object] = {"name": f"o{n}"}
        if owner is not None:
            meta["ownerReferences"] = [owner]
        answer = target.ask("POST", CONFIG_MAPS, config_map(f"o{n}") | {"metadata": meta})
        if answer is not None and answer.code == 201:
            uid = answer.json()["metadata"]["uid"]
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{n}", "uid": uid}
    many = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"x{n}", "uid": f"u{n}"}
        for n in range(8_000)
    ]
    target.ask("POST", CONFIG_MAPS, {**config_map("owned"), "metadata": {
        "name": "owned", "ownerReferences": many}})  # fmt: skip
    target.ask("DELETE", f"{CONFIG_MAPS}/o0?propagationPolicy=Foreground")
    time.sleep(1)


def _metadata(target: Target) -> None:
    """Names, labels, annotations and finalizers at and beyond their limits."""
    metas: list[dict[str, Any]] = [
        {"name": "x" * 1_000_000},
        {"name": "-" * 200_000},
        {"generateName": "a" * 500_000},
        {"name": "l", "labels": {f"k{n}": "v" for n in range(50_000)}},
        {"name": "l", "labels": {"a" * 500_000 + "!": "b" * 500_000 + "!"}},
        {"name": "a", "annotations": {f"k{n}": "v" * 10 for n in range(50_000)}},
        {"name": "a", "annotations": {"k": "v" * 300_000}},
        {"name": "f", "finalizers": [f"e.com/{n}" for n in range(50_000)]},
        {"name": "m", "managedFields": [{"fieldsV1": {"f:" + str(n): {}}} for n in range(50_000)]},
    ]
    for meta in metas:
        target.ask("POST", CONFIG_MAPS + DRY, config_map("m") | {"metadata": meta})


Attacks = dict[str, Callable[[Target], None]]
ATTACKS: Attacks = {
    "yaml brackets": _yaml("a: " + "[" * 40_000 + "]" * 40_000, "[" * 80_000, "{a: " * 20_000),
    "yaml indentation": _yaml("".join(" " * n + "a:\n" for n in range(2_000)), "- " * 40_000),
    "yaml many keys": _many_keys,
    "yaml aliases": _yaml("a: &a [x,x]\n" + "b: [*a,*a]\n" * 50_000, "a: &a [*a]"),
    "yaml long scalars": _yaml('a: "' + "\\x41" * 700_000 + '"', "a: >\n" + " x\n" * 900_000),
    "yaml documents": _yaml("---\n" * 700_000, "%TAG ! x\n" * 100_000, "!!binary aGk=" * 9_000),
    "yaml questions": _yaml("? " * 40_000, "&a " * 40_000, "!a " * 40_000, "'" * 90_000),
    "json nested lists": _posts(
        WIDGETS + DRY, None, _nested(500_000, b"[", b"]"), b"[" * 3_000_000
    ),
    "json nested objects": _posts(WIDGETS + DRY, None, _nested(100_000, b'{"a":', b"}")),
    "json nested to the limit": _posts(WIDGETS, None, _nested(190, b"[", b"]")),
    "json numbers": _numbers,
    "json texts": _texts,
    "json many values": _many_values,
    "json duplicates": _duplicates,
    "patch copies 100 of 500 KB": _copies(100, 500_000),
    "patch copies 9999 of 500 KB": _copies(9_999, 500_000),
    "patch doubling": _doubling,
    "patch moves": _moves,
    "patch tests": _tests_of_large_values,
    "patch inserts": _inserts,
    "patch merges": _wide_merges,
    "objects beyond 1.5 MiB": _large_objects,
    "quantities": _quantities,
    "timestamps": _times,
    "selectors": _selectors,
    "queries and continue tokens": _queries,
    "paths": _paths,
    "gzip bombs": _bombs,
    "many small objects": _many_objects,
    "owner references": _owners,
    "metadata": _metadata,
}
