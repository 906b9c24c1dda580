"""Hostile requests, drawn from a seed, and the checks of a server's answers to them.

    python -m tests.contract.hostile --requests 20000 [--seed 1] [--compare]

Never a 5xx (but 501 for what is not implemented and 504 for a version of the future), always an
answer in time; and nothing is accepted that a real server, asked the same, refuses.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import http.client
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from swell.cluster.embedded.http.protobuf import MEDIA_TYPE
from tests.contract import definitions
from tests.contract.raw import Answer, Raw
from tests.contract.targets import embedded_server
from tests.contract.world import GROUP
from tests.protobuf_bodies import encode_body
from tests.testbed.control_plane import running_control_plane

NAMESPACE = "hostile"
ANSWER_S_MAX = 10.0
GROWTH_BYTES_MAX = 400 << 20
ALLOWED_5XX = frozenset({501, 504})
HUGE_BYTES = 10 << 20
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
UNCODED = frozenset({"Widget", "CustomResourceDefinition"})  # no test writes them in protobuf
NO_ANSWER = 599  # the real server drops the connection when a handler panics

Headers = dict[str, str | None]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes | None = None
    headers: Headers = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path[:300]} {self.headers} {(self.body or b'')[:600]!r}"


def _container() -> dict[str, Any]:
    return {"name": "main", "image": "images.example/app:1"}


def objects(name: str) -> dict[str, dict[str, Any]]:
    """Good objects by the path of their collection, to be spoilt."""
    meta = {"name": name, "labels": {"a": "b"}, "annotations": {"x": "y"}}
    pod = {"schedulerName": "nobody", "containers": [_container()], "nodeSelector": {"a": "b"}}
    labels = {"app": "nobody"}  # no victim's: a ReplicaSet would adopt and delete it
    selector = {"matchLabels": labels}
    template = {"metadata": {"labels": labels}, "spec": pod}
    core, ns = "/api/v1", f"namespaces/{NAMESPACE}"
    job = {"template": {"spec": {**pod, "restartPolicy": "Never"}}, "suspend": True}
    made: dict[str, dict[str, Any]] = {
        f"{core}/{ns}/configmaps": {"kind": "ConfigMap", "data": {"k": "v"}},
        f"{core}/{ns}/pods": {"kind": "Pod", "spec": pod},
        f"{core}/{ns}/services": {"kind": "Service", "spec": {"ports": [{"port": 80}]}},
        f"{core}/{ns}/secrets": {"kind": "Secret", "data": {"k": "dg=="}, "type": "Opaque"},
        f"{core}/nodes": {
            "kind": "Node",
            "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]},
        },
        f"/apis/{GROUP}/v1/{ns}/widgets": {
            "kind": "Widget",
            "spec": {"size": 1, "tags": ["a"], "parts": [{"name": "x"}], "free": {"a": [1]}},
        },
        f"/apis/apps/v1/{ns}/replicasets": {
            "kind": "ReplicaSet",
            "spec": {"replicas": 0, "selector": selector, "template": template},
        },
        f"/apis/batch/v1/{ns}/jobs": {"kind": "Job", "spec": job},
        f"/apis/policy/v1/{ns}/poddisruptionbudgets": {
            "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": 1, "selector": selector},
        },
        f"/apis/coordination.k8s.io/v1/{ns}/leases": {
            "kind": "Lease",
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 10},
        },
        "/apis/scheduling.k8s.io/v1/priorityclasses": {"kind": "PriorityClass", "value": 5},
        f"{core}/{ns}/events": {
            "kind": "Event",
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": NAMESPACE},
            "reason": "R",
            "type": "Normal",
        },
        f"{core}/{ns}/endpoints": {
            "kind": "Endpoints",
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
        },
        f"/apis/discovery.k8s.io/v1/{ns}/endpointslices": {
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"port": 80}],
        },
        DEFINITIONS: {
            "kind": "CustomResourceDefinition",
            "spec": copy.deepcopy(definitions.WIDGETS["spec"]),
        },
    }
    for path, body in made.items():
        group = "v1" if path.startswith(core) else "/".join(path.split("/")[2:4])
        body |= {"apiVersion": group, "metadata": dict(meta)}
    made[DEFINITIONS]["metadata"]["name"] = f"{name}s.{GROUP}"
    made[DEFINITIONS]["spec"]["names"] = {"plural": f"{name}s", "kind": name.capitalize()}
    return made


# fmt: off
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 1.5, 1e308,
    -0.0, "", " ", "a", "A b", "x" * 300, "\u0000", "\ufffd", "\u202e", "💥", "../..", "%00", "1Gi",
    "9" * 40, "2030-01-01T00:00:00Z", "true", [], {}, [None], [[]], {"": ""}, {"a": None}, "-1",
    ["a", "a"], [{}], {"$patch": "delete"}, {"$patch": "replace"}, "null", "0x10", "1e3",
    "(a+)+$", "self.size > ", "self.all(x, x)", "size(self) > 0", "[", "integer",
    {"type": "string"},
)
FIELDS = (
    "spec", "metadata", "status", "kind", "apiVersion", "name", "uid", "finalizers", "data", "",
    "ownerReferences", "deletionTimestamp", "resourceVersion", "bogus", "$patch",
)
SELECTORS = (
    "a=b", "a in (b", "!", "a==", ",", "a,,b", "a in ()", "=", "a=b=c", "a>x", "x" * 500, "\\",
    "metadata.name=a", "metadata.name", "spec.nodeName!=x", "a\u0000b", "(", "a notin b", "a=\\",
    "metadata.name=a\\,b",
)
NUMBERS = ("0", "1", "-1", "2", "abc", "", "9" * 30, "1.5", "0x1", " 1", "999999999", "+1", "1e3")
TEXTS = (
    "All", "Some", "", "Strict", "Warn", "Ignore", "Background", "Foreground", "Orphan", "x",
    "true", "false", "Exact", "NotOlderThan", "None", "Object",
)
QUERIES = {
    "labelSelector": SELECTORS, "fieldSelector": SELECTORS, "limit": NUMBERS,
    "resourceVersion": NUMBERS, "resourceVersionMatch": TEXTS, "continue": (*TEXTS, "e30", "eyJ2"),
    "fieldValidation": TEXTS, "fieldManager": (*TEXTS, "x" * 200), "propagationPolicy": TEXTS,
    "gracePeriodSeconds": NUMBERS, "orphanDependents": TEXTS, "pretty": TEXTS, "bogus": TEXTS,
}
MEDIA = (
    "application/json", "application/yaml", "text/plain", "", "application/xml", ";;;", "\u00ff",
    "application/vnd.kubernetes.protobuf", "application/json;charset=utf-16",
)
PATCHES = (
    "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json", "application/apply-patch+yaml",
)
ACCEPTS = (
    "application/json", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "", ";q=x", ",,,",
    "application/json;as=Table;v=v1beta9;g=meta.k8s.io", "text/html",
)
POINTERS = (
    "/metadata/name", "/spec", "", "/", "/spec/containers/-", "/spec/containers/9", "/data/k~1",
    "/data/~2", "/metadata/labels/a", "/spec/size", "/a/b/c",
)
SEGMENTS = (
    "api", "apis", "v1", "namespaces", NAMESPACE, "pods", "victim", "..", ".", "", "%2e%2e", "%00",
    "%ff", "a%2fb", "x" * 400, "status", "exec", "💥", "apps", "*", "~", ";x=1", "watch", "proxy",
    "openapi", "v3", "healthz", "version", "log",
)
OPERATIONS: tuple[Any, ...] = ("add", "remove", "replace", "move", "copy", "test", "x", 5, [], {})
# fmt: on


class Attacker:
    """Draws requests. Most are dry runs, so that two servers stay comparable."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._n = 0

    def draw(self) -> Request:
        self._n += 1
        kinds = [self._create, self._update, self._patch, self._read, self._delete, self._path]
        kinds += [self._noise, self._order, self._huge]
        return self._rng.choices(kinds, [30, 12, 22, 16, 8, 8, 8, 4, 0.2])[0]()

    def _strange(self) -> Any:
        return copy.deepcopy(self._rng.choice(STRANGE))

    def _order(self) -> Request:
        """A binding or an eviction with something wrong in it."""
        kind = self._rng.choice(["Binding", "Eviction"])
        body: dict[str, Any] = {
            "apiVersion": "v1" if kind == "Binding" else "policy/v1",
            "kind": kind,
            "metadata": {"name": "victim"},
            "target": {"kind": "Node", "name": "n"},
            "deleteOptions": {"dryRun": ["All"], "preconditions": {"uid": "x"}},
        }
        self._spoil(body)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/victim/{kind.lower()}?dryRun=All"
        return Request("POST", path, self._encoded(body), self._headers())

    def _create(self) -> Request:
        path, body = self._spoilt(f"h{self._n}")
        query = self._query("dryRun=All" if self._rng.random() < 0.8 else "")
        return Request("POST", path + query, self._encoded(body), self._headers())

    def _update(self) -> Request:
        path, body = self._spoilt("victim")
        sub = self._rng.choice(["", "", "", "/status", "/scale"])
        where = f"{path}/victim{sub}" + self._query("dryRun=All")
        return Request("PUT", where, self._encoded(body), self._headers())

    def _patch(self) -> Request:
        rng = self._rng
        path, body = self._spoilt("victim")
        media = rng.choice(PATCHES)
        patch: Any = body
        if "json-patch" in media:
            patch = [self._operation() for _ in range(rng.randint(0, 4))]
        elif "strategic" in media and rng.random() < 0.5:
            patch = self._directives()
        elif rng.random() < 0.6:
            key = rng.choice(FIELDS)
            patch = {key: self._strange(), "spec": {rng.choice(FIELDS): self._strange()}}
        sub = rng.choice(["", "", "", "/status", "/scale"])
        headers = self._headers() | {"Content-Type": media}
        where = f"{path}/victim{sub}" + self._query("dryRun=All")
        return Request("PATCH", where, self._encoded(patch), headers)

    def _directives(self) -> Any:
        """A strategic merge patch with lists and directives that make no sense."""
        rng = self._rng
        items = [self._strange(), {"name": self._strange()}, {"$patch": self._strange()}]
        items += [{"name": "main", "image": self._strange()}, {"key": "a", "$patch": "delete"}]
        rng.shuffle(items)
        lists = ("containers", "tolerations", "finalizers", "ownerReferences", "ports", "taints")
        name = rng.choice(lists)
        part: dict[str, Any] = {name: items[: rng.randint(0, 5)]}
        if rng.random() < 0.5:
            arguments = (
                "$retainKeys",
                f"$deleteFromPrimitiveList/{name}",
                f"$setElementOrder/{name}",
            )
            part[rng.choice(arguments)] = self._strange()
        return {rng.choice(["spec", "metadata"]): part}

    def _operation(self) -> Any:
        rng = self._rng
        operation = {"op": rng.choice(OPERATIONS)}
        operation["path"] = rng.choice(POINTERS)
        if rng.random() < 0.8:
            operation["value"] = self._strange()
        if rng.random() < 0.3:
            operation["from"] = rng.choice(POINTERS)
        return operation if rng.random() < 0.9 else self._strange()

    def _read(self) -> Request:
        path, _ = self._spoilt("victim")
        tail = self._rng.choice(["", "", "/victim", "/none", "/victim/status", "/victim/log"])
        return Request("GET", path + tail + self._query(""), None, self._headers())

    def _delete(self) -> Request:
        path, _ = self._spoilt("victim")
        options: Any = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
        keys = ("gracePeriodSeconds", "preconditions", "propagationPolicy", "orphanDependents")
        options[self._rng.choice(keys)] = self._strange()
        return Request("DELETE", f"{path}/victim", self._encoded(options), self._headers())

    def _path(self) -> Request:
        rng = self._rng
        path = "/" + "/".join(rng.choice(SEGMENTS) for _ in range(rng.randint(0, 8)))
        method = rng.choice(["GET", "GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PURGE"])
        encoded = path.encode().decode("latin-1")
        safe = "".join(c if " " < c < "\x7f" else f"%{ord(c):02x}" for c in encoded)
        if method == "DELETE":
            safe += "?dryRun=All"  # a collection may be hit
        return Request(method, safe, b"{}" if method in {"PUT", "POST"} else None)

    def _noise(self) -> Request:
        rng = self._rng
        path, body = self._spoilt(f"h{self._n}")
        raw = bytearray(self._encoded(body))
        kind = rng.randint(0, 4)
        if kind == 0:
            raw = bytearray(rng.randbytes(rng.randint(0, 2000)))
        elif kind == 1 and raw:
            raw = raw[: rng.randrange(len(raw))]
        elif kind == 2 and raw:
            for _ in range(rng.randint(1, 5)):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
        elif kind == 3:
            deep = rng.choice([10, 200, 1000, 20_000])
            raw = bytearray(b'{"a":' * deep + b"1" + b"}" * deep)
        else:
            raw = raw.replace(b'"metadata"', b'"metadata":{},"metadata"', 1)
        return Request("POST", f"{path}?dryRun=All", bytes(raw), self._headers())

    def draw_protobuf(self) -> Request:
        """A good object in protobuf, of which some bytes are changed, cut, doubled or added."""
        self._n += 1
        rng = self._rng
        coded = [(p, b) for p, b in objects(f"h{self._n}").items() if b["kind"] not in UNCODED]
        path, body = rng.choice(coded)
        raw = bytearray(encode_body(body))
        for _ in range(rng.randint(0, 4)):
            at, size = rng.randrange(len(raw)), rng.randint(1, 12)
            changed = [
                b"",
                raw[at : at + size] * 2,
                rng.randbytes(size),
                bytes([rng.randrange(256)]),
            ]
            raw[at : at + rng.choice([0, 1, size])] = rng.choice(changed)
        headers: Headers = {"Content-Type": MEDIA_TYPE, "Accept": "application/json"}
        return Request("POST", f"{path}?dryRun=All", bytes(raw), headers)

    def _huge(self) -> Request:
        path, body = self._spoilt(f"h{self._n}")
        body["data"] = {"k": "x" * HUGE_BYTES}
        return Request("POST", path, json.dumps(body).encode())

    def _spoilt(self, name: str) -> tuple[str, dict[str, Any]]:
        """A good object with a few values replaced, removed, added or buried."""
        path, body = self._rng.choice(list(objects(name).items()))
        for _ in range(self._rng.choice([0, 1, 1, 2, 3])):
            self._spoil(body)
        return path, body

    def _spoil(self, body: dict[str, Any]) -> None:
        rng = self._rng
        place: Any = body
        while True:
            keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                return
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and rng.random() < 0.75:
                place = place[key]
                continue
            break
        action = rng.random()
        if action < 0.6:
            place[key] = self._strange()
        elif action < 0.75 and isinstance(place, dict):
            del place[key]
        elif isinstance(place, dict):
            place[rng.choice(FIELDS)] = self._strange()
        else:
            place.append(self._strange())

    def _query(self, first: str) -> str:
        parts = [first] if first else []
        if self._rng.random() < 0.3:
            name = self._rng.choice(list(QUERIES))
            parts.append(f"{name}={quote(self._rng.choice(QUERIES[name]), safe='')}")
        return "?" + "&".join(parts) if parts else ""

    def _headers(self) -> Headers:
        headers: Headers = {}
        if self._rng.random() < 0.1:
            headers["Content-Type"] = self._rng.choice(MEDIA)
        if self._rng.random() < 0.1:
            headers["Accept"] = self._rng.choice(ACCEPTS)
        return headers

    def _encoded(self, body: Any) -> bytes:
        return json.dumps(body, ensure_ascii=self._rng.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )


@dataclass
class Report:
    """What went wrong, if anything."""

    n_requests: int = 0
    server_errors: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    too_generous: list[str] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)
    growth_bytes: int = 0


def attack(
    server: Raw, n: int, seed: int, *, reference: Raw | None = None, protobuf: bool = False
) -> Report:
    """Send n requests; with a reference server, also to it, and compare what is accepted."""
    attacker = Attacker(random.Random(seed))
    report = Report()
    for _ in range(n):
        request = attacker.draw_protobuf() if protobuf else attacker.draw()
        begun = time.monotonic()
        answer = send(server, request)
        if time.monotonic() - begun > ANSWER_S_MAX:
            report.slow.append(str(request))
        report.n_requests += 1
        report.codes[answer.code] = report.codes.get(answer.code, 0) + 1
        if answer.code >= 500 and answer.code not in ALLOWED_5XX:
            report.server_errors.append(f"{answer.code} {request} -> {answer.body[:300]!r}")
        if reference is not None and answer.code < 300:
            wanted = send(reference, request)
            if 400 <= wanted.code < NO_ANSWER:
                report.too_generous.append(f"{wanted.code} {request} -> {wanted.body[:300]!r}")
    return report


def send(server: Raw, request: Request) -> Answer:
    """An answer, also when the server closed the connection after the last one."""
    for _ in range(2):
        try:
            return server.ask(request.method, request.path, request.body, request.headers)
        except (ConnectionError, http.client.HTTPException):
            server.close()
    return Answer(NO_ANSWER, [], b"no answer")


def prepare(server: Raw) -> None:
    """A namespace, the custom kind, and a victim of every kind."""
    definition = definitions.WIDGETS
    server.ask("POST", DEFINITIONS, definition)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    server.ask("POST", "/api/v1/namespaces", body)
    for path, victim in objects("victim").items():
        while server.ask("POST", path, victim).code == 404:
            time.sleep(0.1)


def memory_bytes(pid: int) -> int:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def _reference_server(wanted: bool) -> Iterator[Raw | None]:
    if not wanted:
        yield None
        return
    with running_control_plane() as plane, Raw(plane.kubeconfig) as raw:
        prepare(raw)
        yield raw


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare", action="store_true", help="with a real server")
    flags = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        embedded_server(Path(home)) as process,
        Raw(Path(home) / "kubeconfig") as server,
        _reference_server(flags.compare) as reference,
    ):
        prepare(server)
        before = memory_bytes(process.pid)
        report = attack(server, flags.requests, flags.seed, reference=reference)
        report.growth_bytes = memory_bytes(process.pid) - before
    for line in (*report.server_errors, *report.slow, *report.too_generous):
        print(line)  # noqa: T201
    print(  # noqa: T201
        f"{report.n_requests} requests: {len(report.server_errors)} server errors, "
        f"{len(report.slow)} slow, {len(report.too_generous)} accepted that a real server refuses, "
        f"{report.growth_bytes >> 20} MiB of growth; codes {dict(sorted(report.codes.items()))}"
    )
    bad = report.server_errors or report.slow or report.too_generous
    return 1 if bad or report.growth_bytes > GROWTH_BYTES_MAX else 0


if __name__ == "__main__":
    raise SystemExit(main())
