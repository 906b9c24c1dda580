"""Attacks by objects that are valid one by one: their number, their size, their relations."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from typing import Any
from urllib.parse import quote

from tests.attack.harness import Attack, Target, at_once
from tests.attack.payloads import (
    CONFIG_MAPS,
    DRY,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC,
    WIDGETS,
    config_map,
    widget,
)
from tests.contract.hostile import NAMESPACE

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def pod(called: str, spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    main = {"name": "a", "image": "i", **container}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": called}}
    return {**body, "spec": {"containers": [main], **(spec or {})}}


def _versions(target: Target) -> None:
    """Many versions of one wide object: the log of the store keeps the old ones."""
    target.ask("POST", WIDGETS, widget("wide", {f"k{n}": n for n in range(60_000)}))
    for n in range(60):
        target.ask("PATCH", f"{WIDGETS}/wide", {"metadata": {"labels": {"n": str(n)}}}, MERGE_PATCH)
        target.ask("GET", f"{WIDGETS}/wide", headers={"Accept": TABLE})
    target.ask("DELETE", f"{WIDGETS}/wide")


def _large_bodies_at_once(target: Target) -> None:
    body = json.dumps(widget("big", {f"k{n}": "x" * 10 for n in range(90_000)})).encode()

    def send(raw: Any) -> None:
        raw.ask("POST", WIDGETS + DRY, body)

    at_once(target, 40, send)


def _wrong_values(target: Target) -> None:
    """Bodies with as many errors as values."""
    target.ask("POST", PODS + DRY, pod("e", env=[{"name": f"={n}"} for n in range(40_000)]))
    target.ask("POST", PODS + DRY, pod("e", ports=[{"containerPort": -1}] * 50_000))
    data = {f"/{n}": "v" for n in range(60_000)}
    target.ask("POST", CONFIG_MAPS + DRY, config_map("e", data=data))
    target.ask("POST", CONFIG_MAPS + DRY, config_map("e", **{f"f{n}": 1 for n in range(60_000)}))


def _wide_pods(target: Target) -> None:
    volumes = [{"name": f"v{n}", "emptyDir": {}} for n in range(10_000)]
    mounts = [{"name": f"v{n}", "mountPath": f"/m{n}"} for n in range(10_000)]
    containers = [{"name": f"c{n}", "image": "i"} for n in range(30_000)]
    for name, body in {
        "env": pod("env", env=[{"name": f"E{n}", "value": "x"} for n in range(40_000)]),
        "volumes": pod("volumes", {"volumes": volumes}, volumeMounts=mounts),
        "containers": pod("containers", {"containers": containers}),
        "tolerations": pod("tolerations", {"tolerations": [{"operator": "Exists"}] * 30_000}),
        "gates": pod("gates", {"schedulingGates": [{"name": f"g{n}"} for n in range(30_000)]}),
        "refs": pod("refs", env=[{"name": "A", "value": "$(A)" * 100_000}]),
    }.items():
        target.ask("POST", PODS, body)
        target.ask("GET", f"{PODS}/{name}", headers={"Accept": TABLE})
        target.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


def _merged_lists(target: Target) -> None:
    """Strategic merge patches whose lists and directives are long and deep."""
    env = [{"name": f"E{n}", "value": "x"} for n in range(8_000)]
    target.ask("POST", PODS, pod("merged", env=env[:2_000]))
    order = [{"name": f"E{n}"} for n in reversed(range(8_000))]
    container: dict[str, Any] = {"name": "a", "env": env, "$setElementOrder/env": order}
    deletions = [{"name": f"E{n}", "$patch": "delete"} for n in range(8_000)]
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"$patch": "merge", "x": deep, "$retainKeys": ["x"] * 50}
    for change in (
        {"spec": {"containers": [container]}},
        {"spec": {"containers": [{"name": "a", "env": deletions}]}},
        {"spec": {"containers": [{"name": f"n{n}", "$patch": "delete"} for n in range(8_000)]}},
        {"metadata": {"annotations": deep}},
        {"spec": {"$retainKeys": [f"k{n}" for n in range(50_000)]}},
        {"spec": {"containers": [{"$patch": "replace"}] * 20_000}},
    ):
        target.ask("PATCH", f"{PODS}/merged{DRY}", change, STRATEGIC)
    target.ask("DELETE", f"{PODS}/merged?gracePeriodSeconds=0")


def _pointers(target: Target) -> None:
    """JSON patches with long paths, escapes, and tests of one large value."""
    target.ask("POST", WIDGETS, widget("pointed", {"l": list(range(20_000))}))
    value = list(range(20_000))
    for operations in (
        [{"op": "test", "path": "/spec/free/l/19999", "value": 19_999}] * 9_000,
        [{"op": "test", "path": "/spec" * 5_000, "value": 1}] * 20,
        [{"op": "add", "path": "/spec/free/" + "~1" * 50_000, "value": 1}] * 20,
        [{"op": "test", "path": "/spec/free/l", "value": value}] * 40,
        [{"op": "add", "path": f"/spec/free/l/{'9' * 5_000}", "value": 1}],
        [{"op": "remove", "path": "/spec/free/l/0"}] * 9_000,
    ):
        target.ask("PATCH", f"{WIDGETS}/pointed{DRY}", operations, JSON_PATCH)
    target.ask("DELETE", f"{WIDGETS}/pointed")


def _cycles(target: Target) -> None:
    """Objects that own each other, themselves, or what is not there, deleted in every way."""
    made: dict[str, str] = {}
    for n in range(60):
        answer = target.ask("POST", CONFIG_MAPS, config_map(f"c{n}"))
        if answer is not None and answer.code == 201:
            made[f"c{n}"] = answer.json()["metadata"]["uid"]
    kind = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
    names = list(made)
    for n, name in enumerate(names):
        others = {name, names[(n + 1) % len(names)], names[(n * 7) % len(names)]}
        owners = [{**kind, "name": other, "uid": made[other]} for other in sorted(others)]
        owners.append({**kind, "kind": "Nothing", "name": "x", "uid": f"u{n}"})
        meta = {"ownerReferences": owners, "finalizers": ["foregroundDeletion"] if n % 2 else []}
        target.ask("PATCH", f"{CONFIG_MAPS}/{name}", {"metadata": meta}, MERGE_PATCH)
    for n, name in enumerate(names):
        policy = ("Foreground", "Background", "Orphan")[n % 3]
        target.ask("DELETE", f"{CONFIG_MAPS}/{name}?propagationPolicy={policy}")
    time.sleep(1)
    for name in names:
        target.ask(
            "PATCH", f"{CONFIG_MAPS}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH
        )


def _namespaces(target: Target) -> None:
    """Namespaces with objects that hold on to them, deleted all at once."""
    names = [f"many{n}" for n in range(150)]
    for name in names:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        target.ask("POST", "/api/v1/namespaces", body)
        held = config_map("held") | {"metadata": {"name": "held", "finalizers": ["e.com/x"]}}
        target.ask("POST", f"/api/v1/namespaces/{name}/configmaps", held)
    for name in names:
        target.ask("DELETE", f"/api/v1/namespaces/{name}")
    for name in names:
        path = f"/api/v1/namespaces/{name}/configmaps/held"
        target.ask("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    time.sleep(1)


def _replicas(target: Target) -> None:
    """Workloads that ask for a billion pods."""
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    batch = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    sets = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    for n, spec in enumerate((
        {"parallelism": 10**9, "completions": 10**9, "template": once},
        {"parallelism": 2**31 - 1, "template": once},
        {"parallelism": 1, "completions": 10**9, "completionMode": "Indexed", "template": once},
        {"parallelism": 10**30, "template": once},
    )):  # fmt: skip
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"huge{n}"}}
        target.ask("POST", batch, {**body, "spec": spec})
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "huge"}}
    spec = {"replicas": 2**31 - 1, "selector": {"matchLabels": labels}, "template": template}
    target.ask("POST", sets, {**body, "spec": spec})
    time.sleep(3)
    for path in (*(f"{batch}/huge{n}" for n in range(4)), f"{sets}/huge"):
        target.ask("DELETE", f"{path}?propagationPolicy=Background")
    time.sleep(2)
    target.ask("DELETE", f"{PODS}?gracePeriodSeconds=0")


def _huge_quantities(target: Target) -> None:
    for text in ("1e400", "1" + "0" * 400, "9" * 400 + "Ei", "1e-400", "0." + "0" * 400 + "1",
                 "-1e400", "1E9999999999", "1e+", "Ki", "\u0663"):  # fmt: skip
        limits = {"cpu": text, "memory": text, "example.com/gpu": text}
        target.ask("POST", PODS + DRY, pod("q", resources={"requests": limits, "limits": limits}))
        patch = {"status": {"capacity": limits, "allocatable": limits}}
        target.ask("PATCH", f"/api/v1/nodes/victim/status{DRY}", patch, MERGE_PATCH)


def _forged_tokens(target: Target) -> None:
    """Continue tokens that no list gave out, and resource versions of every form."""
    tokens: list[object] = [
        {"v": "meta.k8s.io/v1", "rv": -1, "start": "x"},
        {"v": "meta.k8s.io/v1", "rv": 10**30, "start": "\x00"},
        {"v": "meta.k8s.io/v1", "rv": 1, "start": "../../secrets/x" * 500},
        {"v": "meta.k8s.io/v1", "rv": 1.5, "start": ["x"]},
        {"v": None, "rv": {"a": {}}, "start": {}}, [[[[]]]] * 100, "x", 1, None,
    ]  # fmt: skip
    for token in tokens:
        made = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
        target.ask("GET", f"{CONFIG_MAPS}?limit=1&continue={quote(made)}")
    target.ask("GET", f"{CONFIG_MAPS}?continue=" + quote("[" * 9_000))
    for version in ("-1", "1.5", "0x10", " 1", "1" * 400, "NaN", "\u0661", "null", "[]", "1,2"):
        for more in ("", "&resourceVersionMatch=Exact", "&resourceVersionMatch=x", "&watch=1"):
            query = f"resourceVersion={quote(version)}{more}&timeoutSeconds=1"
            target.ask("GET", f"{CONFIG_MAPS}?{query}")
    for seconds in ("-1", "1e9", "NaN", "9" * 400, " 1", "0x1", "1.5", "\u0661", "inf"):
        target.ask("GET", f"{CONFIG_MAPS}?limit=1&timeoutSeconds={quote(seconds)}")


def _odd_names(target: Target) -> None:
    for name in ("\x00", "a\x00b", "..", ".", "%2e%2e", "a/b", "\u202ea", "\U0001f600", "a\nb",
                 "con", "A" * 254, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
                 " ", "a ", "-a", "\u0430dmin"):  # fmt: skip
        target.ask("POST", CONFIG_MAPS, config_map(name))
        target.ask("GET", f"{CONFIG_MAPS}/{quote(name, safe='')}")
        target.ask("POST", CONFIG_MAPS, config_map("n", data={name: "v"}))
        labels = {"name": "n", "labels": {name: name}, "annotations": {name: name}}
        target.ask("POST", CONFIG_MAPS + DRY, config_map("n") | {"metadata": labels})
        target.ask(
            "POST", PODS + DRY, pod("p", env=[{"name": name, "value": name}], command=[name])
        )
        target.ask("POST", PODS + DRY, pod("p", {"nodeName": name, "hostname": name}, name=name))
        target.ask("DELETE", f"{CONFIG_MAPS}/{quote(name, safe='')}")


def _rewritten_answers(target: Target) -> None:
    """Lists of large objects as tables with the objects, as YAML, and indented."""
    for n in range(30):
        target.ask("POST", CONFIG_MAPS, config_map(f"y{n}", data={
            f"k{m}": "x: \n" * 10 for m in range(2_000)}))  # fmt: skip
    for query, accept in (
        ("", "application/yaml"),
        ("?pretty=true", "application/json"),
        ("?includeObject=Object", TABLE),
        ("", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        ("", "application/json"),
    ):
        for _ in range(3):
            target.ask("GET", f"{CONFIG_MAPS}{query}", headers={"Accept": accept})
    for name in ("y0", "y1"):
        target.ask("GET", f"{CONFIG_MAPS}/{name}", headers={"Accept": "application/yaml"})
        target.ask("GET", f"{CONFIG_MAPS}/{name}?pretty=1")
    for n in range(30):
        target.ask("DELETE", f"{CONFIG_MAPS}/y{n}")


def _slow_lists(target: Target) -> None:
    """Lists of tens of megabytes that their clients ask for and do not read."""
    for n in range(30):
        target.ask("POST", CONFIG_MAPS, config_map(f"s{n}", data={"k": "x" * 1_000_000}))
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(target.raw.open_stream(CONFIG_MAPS))
        time.sleep(3)
        target.take_memory()
    for n in range(30):
        target.ask("DELETE", f"{CONFIG_MAPS}/s{n}")


def _pages(target: Target) -> None:
    """Pages of one object each, of a list that changes all the time."""
    for n in range(600):
        target.ask("POST", CONFIG_MAPS, config_map(f"p{n}"))
    token = ""
    for n in range(300):
        answer = target.ask("GET", f"{CONFIG_MAPS}?limit=1&continue={quote(token)}")
        token = "" if answer is None else answer.json()["metadata"].get("continue", "")
        target.ask("PATCH", f"{CONFIG_MAPS}/p{n}", {"data": {"n": str(n)}}, MERGE_PATCH)
    target.ask("DELETE", CONFIG_MAPS)


def _events(target: Target) -> None:
    """Events without end, each of them long."""
    path = f"/api/v1/namespaces/{NAMESPACE}/events"
    for n in range(300):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{n}"}}
        about = {"kind": "Pod", "name": "x", "namespace": NAMESPACE}
        more = {"involvedObject": about, "message": "m" * 1_024, "reason": "R" * 128}
        target.ask("POST", path, {**event, **more, "related": {"name": "x" * 20_000}})
    for _ in range(5):
        target.ask("GET", path, headers={"Accept": TABLE})
    target.ask("DELETE", path)


ATTACKS: dict[str, Attack] = {
    "versions of a wide object": _versions,
    "40 large bodies at once": _large_bodies_at_once,
    "as many errors as values": _wrong_values,
    "pods with 10000 of everything": _wide_pods,
    "strategic merges of long lists": _merged_lists,
    "json patch pointers": _pointers,
    "owners in cycles": _cycles,
    "namespaces that hold on": _namespaces,
    "a billion replicas": _replicas,
    "quantities of 10^400": _huge_quantities,
    "forged tokens and versions": _forged_tokens,
    "odd names everywhere": _odd_names,
    "answers rewritten": _rewritten_answers,
    "large lists never read": _slow_lists,
    "pages of one object": _pages,
    "events without end": _events,
}
