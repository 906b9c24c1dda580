"""Creating, updating and deleting objects: metadata, bodies, options, finalizers, owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.generated.steps import *  # noqa: F403

KINDS: list[tuple[str, Any]] = [
    (CM, cm(data={"k": "1"})),
    (PODS, pod()),
    (SERVICES, service()),
    (SECRETS, body("v1", "Secret")),
    (JOBS, job()),
    (REPLICASETS, rs()),
    (LEASES, body("coordination.k8s.io/v1", "Lease")),
    (
        PDBS,
        body(
            "policy/v1",
            "PodDisruptionBudget",
            spec={"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        ),
    ),
    (SLICES, body("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[])),
    (ENDPOINTS, body("v1", "Endpoints")),
    (EVENTS, body("v1", "Event", involvedObject={"namespace": "{ns}", "kind": "Pod", "name": "x"})),
    (WIDGETS, widget()),
    (PLAINS, plain(spec={"size": 1})),
    (
        NEWEVENTS,
        body(
            "events.k8s.io/v1",
            "Event",
            eventTime="2020-01-01T00:00:00.000000Z",
            reportingController="e.com/c",
            reportingInstance="i",
            action="a",
            reason="r",
            type="Normal",
            regarding={"namespace": "{ns}", "kind": "Pod", "name": "x"},
        ),
    ),
]
GLOBAL: list[tuple[str, Any]] = [
    (NODES, body("v1", "Node", metadata={"name": "n-{u}"})),
    (NAMESPACES, body("v1", "Namespace", metadata={"name": "x-{u}"})),
    (CLASSES, body("scheduling.k8s.io/v1", "PriorityClass", metadata={"name": "p-{u}"}, value=5)),
]
LONG = "x" * 64
NAMES = [
    "",
    "A",
    "a.b",
    "a..b",
    "-a",
    "a-",
    "a_b",
    "a b",
    "ä",
    "1",
    "1a",
    "a" * 63,
    "a" * 64,
    "a" * 253,
    "a" * 254,
    ".",
    "..",
    "a/b",
    "a%b",
    "a.-b",
    "a:b",
    " a",
]
METAS: list[dict[str, Any]] = [
    {"labels": {"a": LONG}},
    {"labels": {"a": "-x"}},
    {"labels": {"a": ""}},
    {"labels": {"": "a"}},
    {"labels": {"/a": "a"}},
    {"labels": {"a/": "a"}},
    {"labels": {"A.b/c": "a"}},
    {"labels": {"a/b/c": "d"}},
    {"labels": {"x" * 64: "a"}},
    {"labels": {"x" * 254 + "/a": "a"}},
    {"labels": {"-a": "b"}},
    {"labels": {"a.": "b"}},
    {"labels": {"a": "b c"}},
    {"labels": {"a_b.c-d": "e_F.9"}},
    {"labels": {"a": None}},
    {"labels": {"a": 1}},
    {"labels": {"a": True}},
    {"labels": []},
    {"labels": "x"},
    {"labels": {"bad key": "bad value!", "a": "!"}},
    {"annotations": {"bad key": "v"}},
    {"annotations": {"A.B/c": "v"}},
    {"annotations": {"E.COM/c": "v"}},
    {"annotations": {"a": 1}},
    {"annotations": {"a": None}},
    {"annotations": {"a": ""}},
    {"annotations": {"": "x"}},
    {"annotations": {"a/b/c": "x"}},
    {"annotations": {"big": {"$repeat": ["x", 262143]}}},
    {"annotations": {"big": {"$repeat": ["x", 262142]}}},
    {"annotations": {"big": {"$repeat": ["x", 262141]}}},
    {"annotations": {"big": {"$repeat": ["é", 131071]}}},
    {"finalizers": ["bad"]},
    {"finalizers": ["e.com/x", "e.com/x"]},
    {"finalizers": ["e.com/"]},
    {"finalizers": ["/x"]},
    {"finalizers": [""]},
    {"finalizers": ["foregroundDeletion"]},
    {"finalizers": ["orphan"]},
    {"finalizers": ["orphan", "foregroundDeletion"]},
    {"finalizers": ["kubernetes"]},
    {"finalizers": ["a b/c"]},
    {"finalizers": ["A.com/c"]},
    {"finalizers": None},
    {"finalizers": [None]},
    {"finalizers": "x"},
    {"finalizers": [1]},
    {"finalizers": ["a/b/c"]},
    {"finalizers": ["e.com/" + "x" * 64]},
    {"ownerReferences": [{}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}]},
    {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
    {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "X", "name": "p", "uid": "u"}]},
    {
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True},
            {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "w", "controller": True},
        ]
    },
    {
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "unknown": 1}
        ]
    },
    {"ownerReferences": [None]},
    {"ownerReferences": {}},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": 1}]},
    {
        "ownerReferences": [
            {"apiVersion": "events.k8s.io/v1", "kind": "Event", "name": "p", "uid": "u"}
        ]
    },
    {"generation": 5},
    {"generation": "x"},
    {"generation": -1},
    {"generation": 1.5},
    {"resourceVersion": "5"},
    {"resourceVersion": "x"},
    {"resourceVersion": 5},
    {"resourceVersion": "0"},
    {"uid": "x"},
    {"uid": 5},
    {"creationTimestamp": "2020-01-01T00:00:00Z"},
    {"creationTimestamp": "x"},
    {"creationTimestamp": 5},
    {"creationTimestamp": None},
    {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    {"deletionGracePeriodSeconds": 5},
    {"deletionGracePeriodSeconds": "x"},
    {"namespace": "default"},
    {"namespace": ""},
    {"namespace": "Bad"},
    {"generateName": "x"},
    {"generateName": "X"},
    {"generateName": "x_"},
    {"selfLink": "/x"},
    {"managedFields": []},
    {"managedFields": [{}]},
    {"managedFields": "x"},
    {"unknown": 1},
    {"clusterName": "x"},
    {"name": 5},
    {"name": None, "generateName": "a."},
    {"name": None, "generateName": "a" * 70},
    {"name": None, "generateName": "-a"},
    {"name": "", "generateName": "a-"},
    {"name": None, "generateName": ""},
]


def create() -> Iterator[Case]:
    for path, made in KINDS:
        plural = path.split("/")[-1] + ("2" if "events.k8s" in path else "")
        for name in NAMES:
            yield Case(
                "create",
                f"{plural} named {name[:20]}{len(name)}",
                [post(path, merged(made, {"metadata": {"name": name}}))],
            )
            yield Case(
                "create",
                f"{plural} generated {name[:20]}{len(name)}",
                [
                    post(
                        path,
                        merged(made, {"metadata": {"name": None, "generateName": name}}),
                        look=[],
                    )
                ],
            )
    for path, made in GLOBAL:
        for name in NAMES:
            yield Case(
                "create",
                f"{path} named {name[:20]}{len(name)}",
                [post(path, merged(made, {"metadata": {"name": name}}), query={"dryRun": "All"})],
            )
    for path, made in KINDS:
        for n, meta in enumerate(METAS):
            one = merged(made, {})
            for key, value in meta.items():
                if value is None and key == "name":
                    del one["metadata"]["name"]
                else:
                    one["metadata"][key] = value
            after = (
                []
                if "ownerReferences" in meta or any("$repeat" in str(v) for v in meta.values())
                else [get(path + "/a")]
            )
            rest = {"bodyless": True} if "$repeat" in str(meta) else {}
            yield Case(
                "create",
                f"{path.split('/')[-1]} meta {n} {meta}"[:100],
                [post(path, one, **rest), *after],
            )
    for path, made in KINDS:
        for change in (
            {"kind": None},
            {"apiVersion": None},
            {"kind": "Nope"},
            {"apiVersion": "v9"},
            {"apiVersion": "x/v1"},
            {"kind": ""},
            {"apiVersion": ""},
            {"metadata": None},
            {"metadata": "<null>"},
            {"metadata": []},
            {"metadata": "x"},
            {"spec": "<null>"},
            {"spec": []},
            {"spec": "x"},
            {"status": {}},
            {"status": "<null>"},
            {"status": []},
            {"unknown": 1},
            {"Kind": "x"},
            {"items": []},
            {"kind": "List"},
            {"kind": 5},
            {"apiVersion": 5},
        ):
            yield Case(
                "create", f"{path.split('/')[-1]} {change}", [post(path, merged(made, change))]
            )
        for value in ([], "x", 1, None, {}, [made], {"metadata": {}}, {"metadata": {"name": "a"}}):
            yield Case("create", f"{path.split('/')[-1]} body {value}"[:60], [post(path, value)])


UPDATES: list[Any] = [
    {"metadata": {"labels": {"z": "1"}}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"resourceVersion": "x"}},
    {"metadata": {"resourceVersion": ""}},
    {"metadata": {"resourceVersion": "0"}},
    {"metadata": {"resourceVersion": None}},
    {"metadata": {"resourceVersion": "99999999"}},
    {"metadata": {"uid": "x"}},
    {"metadata": {"uid": ""}},
    {"metadata": {"uid": None}},
    {"metadata": {"name": "b"}},
    {"metadata": {"name": None}},
    {"metadata": {"name": ""}},
    {"metadata": {"namespace": "default"}},
    {"metadata": {"namespace": None}},
    {"metadata": {"creationTimestamp": None}},
    {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}},
    {"metadata": {"generation": 9}},
    {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}},
    {"metadata": {"deletionGracePeriodSeconds": 4}},
    {"metadata": {"generateName": "q"}},
    {"metadata": {"selfLink": "q"}},
    {"metadata": {"finalizers": ["bad"]}},
    {"metadata": {"finalizers": ["e.com/f"]}},
    {"metadata": {"labels": {"bad key": "v"}}},
    {"metadata": {"ownerReferences": [{"name": "x"}]}},
    {"kind": "Nope"},
    {"kind": None},
    {"apiVersion": None},
    {"apiVersion": "v9"},
    {"status": {"x": 1}},
    {"unknown": 1},
    {},
    {"metadata": None},
    {"spec": None},
]


def update() -> Iterator[Case]:
    for path, made in KINDS + GLOBAL:
        name = made["metadata"]["name"]
        for n, change in enumerate(UPDATES):
            edit = {}
            for key, value in change.items():
                if isinstance(value, dict) and value:
                    edit |= {
                        f"{key}.{k}": ({"$delete": True} if v is None else v)
                        for k, v in value.items()
                    }
                else:
                    edit[key] = {"$delete": True} if value is None else value
            steps = [
                post(path, made, keep="obj"),
                {"do": f"PUT {path}/{name}", "from": "obj", "edit": edit},
                get(f"{path}/{name}"),
            ]
            yield Case("update", f"{path.split('/')[-1]} {n} {change}"[:80], steps)
        yield Case("update", f"{path} missing", [put(f"{path}/{name}", made)])
        yield Case(
            "update",
            f"{path} missing versioned",
            [put(f"{path}/{name}", merged(made, {"metadata": {"resourceVersion": "5"}}))],
        )
        yield Case(
            "update",
            f"{path} missing uid",
            [put(f"{path}/{name}", merged(made, {"metadata": {"uid": "u"}}))],
        )
        for value in ([], "x", None, {}, {"metadata": {"name": name}}):
            yield Case(
                "update",
                f"{path} body {value}",
                [post(path, made), put(f"{path}/{name}", value), get(f"{path}/{name}")],
            )
        yield Case("update", f"{path} collection", [put(path, made)])
        yield Case("update", f"{path} post to object", [post(f"{path}/{name}", made)])
        yield Case("update", f"{path} patch collection", [patch(path, {})])


OPTIONS: list[Any] = [
    {},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": -1},
    {"gracePeriodSeconds": 5},
    {"gracePeriodSeconds": "5"},
    {"gracePeriodSeconds": 1.5},
    {"gracePeriodSeconds": None},
    {"propagationPolicy": "Orphan"},
    {"propagationPolicy": "Foreground"},
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "foreground"},
    {"propagationPolicy": ""},
    {"propagationPolicy": None},
    {"propagationPolicy": 5},
    {"orphanDependents": True},
    {"orphanDependents": False},
    {"orphanDependents": "x"},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"dryRun": ["All"]},
    {"dryRun": ["x"]},
    {"dryRun": "All"},
    {"dryRun": []},
    {"dryRun": ["All", "All"]},
    {"preconditions": {"uid": "x"}},
    {"preconditions": {"resourceVersion": "1"}},
    {"preconditions": {}},
    {"preconditions": {"uid": ""}},
    {"preconditions": {"unknown": 1}},
    {"preconditions": "x"},
    {"unknown": 1},
    {"kind": "DeleteOptions"},
    {"kind": "DeleteOptions", "apiVersion": "v1"},
    {"kind": "DeleteOptions", "apiVersion": "apps/v1"},
    {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
    {"kind": "Pod", "apiVersion": "v1"},
    {"kind": "DeleteOptions", "apiVersion": "nope/v1"},
    {"ignoreStoreReadErrorWithClusterBreakingPotential": True},
    {"ignoreStoreReadErrorWithClusterBreakingPotential": False},
    {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"},
    {"apiVersion": "v1"},
    {"kind": 5},
]


def delete_() -> Iterator[Case]:
    for path, made in KINDS:
        name = path.split("/")[-1]
        for n, options in enumerate(OPTIONS):
            yield Case(
                "delete",
                f"{name} {n} {options}",
                [post(path, made), delete(path + "/a", body=options), get(path + "/a", poll=0)],
            )
        for query in (
            {"gracePeriodSeconds": "0"},
            {"gracePeriodSeconds": "x"},
            {"gracePeriodSeconds": ""},
            {"gracePeriodSeconds": "-1"},
            {"propagationPolicy": "Orphan"},
            {"propagationPolicy": "x"},
            {"propagationPolicy": "Foreground"},
            {"orphanDependents": "true"},
            {"orphanDependents": "false"},
            {"orphanDependents": "x"},
            {"dryRun": "All"},
            {"dryRun": "x"},
            {"dryRun": ""},
            {"dryRun": ["All", "x"]},
            {"unknown": "1"},
            {"pretty": "true"},
            {"timeout": "1s"},
            {"propagationPolicy": "Orphan", "orphanDependents": "true"},
        ):
            if name in ("configmaps", "pods", "jobs", "widgets", "services", "replicasets"):
                yield Case(
                    "delete",
                    f"{name} query {query}",
                    [post(path, made), delete(path + "/a", query=query), get(path + "/a")],
                )
        yield Case("delete", f"{name} missing", [delete(path + "/zz")])
        yield Case(
            "delete",
            f"{name} missing options",
            [delete(path + "/zz", body={"preconditions": {"uid": "x"}})],
        )
        yield Case(
            "delete",
            f"{name} with finalizer",
            [
                post(path, merged(made, {"metadata": {"finalizers": ["e.com/f"]}})),
                delete(path + "/a"),
                get(path + "/a"),
                delete(path + "/a"),
                get(path + "/a"),
                patch(path + "/a", {"metadata": {"finalizers": ["e.com/f", "e.com/g"]}}),
                patch(path + "/a", {"metadata": {"labels": {"q": "1"}}}),
                patch(path + "/a", {"metadata": {"finalizers": None}}),
                get(path + "/a"),
            ],
        )
        for policy in ("Foreground", "Orphan", "Background"):
            yield Case(
                "finalizers",
                f"{name} {policy} with finalizer",
                [
                    post(path, merged(made, {"metadata": {"finalizers": ["e.com/f"]}})),
                    delete(path + "/a", body={"propagationPolicy": policy}),
                    {"sleep": 1.2},
                    get(path + "/a"),
                    delete(path + "/a", body={"propagationPolicy": "Background"}),
                    {"sleep": 0.8},
                    get(path + "/a"),
                    patch(path + "/a", {"metadata": {"finalizers": None}}),
                    {"sleep": 0.5},
                    get(path + "/a"),
                ],
            )
    for text in (
        "{",
        "x",
        "null",
        "[]",
        '"x"',
        " ",
        '{"gracePeriodSeconds":0,"gracePeriodSeconds":5}',
        "gracePeriodSeconds: 0",
    ):
        for kind in ("application/json", "application/yaml", "text/plain"):
            yield Case(
                "delete",
                f"raw {text} {kind}",
                [post(CM, cm()), raw("DELETE", CM + "/a", text, type=kind), get(CM + "/a")],
            )
    for options in OPTIONS:
        yield Case(
            "delete",
            f"bound {options}",
            [
                post(PODS, pod({"nodeName": "n"})),
                delete(PODS + "/a", body=options),
                get(PODS + "/a"),
                delete(PODS + "/a", body={"gracePeriodSeconds": 3}),
                get(PODS + "/a"),
                delete(PODS + "/a", body={"gracePeriodSeconds": 60}),
                get(PODS + "/a"),
            ],
        )
        yield Case(
            "deletecollection",
            f"pods {options}",
            [
                post(PODS, pod()),
                post(PODS, pod(metadata={"name": "b"}, spec={"nodeName": "n"})),
                delete(PODS, body=options),
                get(PODS),
            ],
        )
        yield Case(
            "deletecollection",
            f"cms {options}",
            [
                post(CM, cm()),
                post(CM, cm(metadata={"name": "b"})),
                delete(CM, body=options),
                get(CM),
            ],
        )
        yield Case(
            "deletecollection",
            f"widgets {options}",
            [post(WIDGETS, widget()), delete(WIDGETS, body=options), get(WIDGETS)],
        )
    for query in (
        {"labelSelector": "x=1"},
        {"labelSelector": "x"},
        {"labelSelector": "!x"},
        {"labelSelector": "=="},
        {"fieldSelector": "metadata.name=a"},
        {"fieldSelector": "metadata.name!=a"},
        {"fieldSelector": "bad=1"},
        {"limit": "1"},
        {"limit": "x"},
        {"limit": "-1"},
        {"resourceVersion": "0"},
        {"resourceVersion": "1"},
        {"resourceVersion": "x"},
        {"resourceVersionMatch": "Exact"},
        {"continue": "x"},
        {"dryRun": "All"},
        {"dryRun": "x"},
        {"propagationPolicy": "x"},
        {"gracePeriodSeconds": "x"},
        {"watch": "true"},
        {"timeoutSeconds": "1"},
        {"unknown": "x"},
        {"sendInitialEvents": "true"},
        {"labelSelector": "x=1", "fieldSelector": "metadata.name=b"},
    ):
        for path, made in (
            (CM, cm()),
            (PODS, pod()),
            (WIDGETS, widget()),
            (JOBS, job()),
            (SERVICES, service()),
            (LEASES, body("coordination.k8s.io/v1", "Lease")),
        ):
            yield Case(
                "deletecollection",
                f"{path.split('/')[-1]} {query}",
                [
                    post(path, merged(made, {"metadata": {"labels": {"x": "1"}}})),
                    post(path, merged(made, {"metadata": {"name": "b"}})),
                    delete(path, query=query),
                    get(path),
                ],
            )
    for path in (
        "/api/v1/configmaps",
        "/api/v1/pods",
        "/apis/" + GROUP + "/v1/widgets",
        "/api/v1/services",
        "/api/v1/events",
        "/apis/batch/v1/jobs",
    ):
        yield Case(
            "deletecollection", f"all {path}", [delete(path, query={"labelSelector": "zzz={u}"})]
        )
        yield Case("deletecollection", f"all create {path}", [post(path, cm())])
    for path in ("/api/v1/nodes", CLASSES, CRDS, NAMESPACES):
        yield Case(
            "deletecollection",
            f"cluster {path}",
            [delete(path, query={"labelSelector": "zzz={u}"})],
        )
        yield Case(
            "deletecollection",
            f"cluster field {path}",
            [delete(path, query={"fieldSelector": "metadata.name=zzz"})],
        )


def dryrun() -> Iterator[Case]:
    for path, made in KINDS:
        name = path.split("/")[-1]
        for value in ("All", "all", "", "x", ["All", "All"], ["All", "x"]):
            query = {"dryRun": value}
            yield Case(
                "dryrun", f"{name} create {value}", [post(path, made, query=query), get(path)]
            )
            yield Case(
                "dryrun",
                f"{name} patch {value}",
                [
                    post(path, made),
                    patch(path + "/a", {"metadata": {"labels": {"q": "1"}}}, query=query),
                    get(path + "/a"),
                ],
            )
            yield Case(
                "dryrun",
                f"{name} put {value}",
                [
                    post(path, made, keep="obj"),
                    {
                        "do": f"PUT {path}/a",
                        "from": "obj",
                        "edit": {"metadata.labels": {"q": "2"}},
                        "query": query,
                    },
                    get(path + "/a"),
                ],
            )
            yield Case(
                "dryrun",
                f"{name} delete {value}",
                [post(path, made), delete(path + "/a", query=query), get(path + "/a")],
            )
            yield Case(
                "dryrun",
                f"{name} collection {value}",
                [post(path, made), delete(path, query=query), get(path)],
            )
        yield Case(
            "dryrun", f"{name} again", [post(path, made), post(path, made, query={"dryRun": "All"})]
        )
        yield Case(
            "dryrun",
            f"{name} put creates",
            [put(path + "/a", made, query={"dryRun": "All"}), get(path)],
        )
        yield Case(
            "dryrun",
            f"{name} generated",
            [
                post(
                    path,
                    merged(made, {"metadata": {"name": None, "generateName": "g-"}}),
                    query={"dryRun": "All"},
                ),
                get(path),
            ],
        )


def fieldvalidation() -> Iterator[Case]:
    levels = ["Strict", "Warn", "Ignore", "", "strict", "x"]
    texts = {
        "dup data": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}',
        "dup top": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"},"data":{"l":"2"}}',
        "dup name": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}',
        "dup labels": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"1","x":"2"}}}',
        "dup kind": '{"apiVersion":"v1","kind":"ConfigMap","kind":"ConfigMap","metadata":{"name":"a"}}',
        "dup kind other": '{"apiVersion":"v1","kind":"Secret","kind":"ConfigMap","metadata":{"name":"a"}}',
        "case": '{"apiVersion":"v1","kind":"ConfigMap","Metadata":{"name":"a"},"metadata":{"name":"a"}}',
        "case key": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"Name":"b","name":"a"},"Data":{"x":"y"}}',
        "unknown many": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","zz":1,"aa":{"b":1}},"yy":2,"bb":{"c":{"d":1}}}',
        "unknown and dup": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","zz":1},"data":{"k":"1","k":"2"}}',
        "dup unknown": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"zz":1,"zz":2}',
        "wrong and unknown": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"zz":1,"data":[]}',
        "null unknown": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"zz":null}',
        "triple": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2","k":"3"}}',
        "dup escaped": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","\\u006b":"2"}}',
    }
    customs = {
        "dup spec": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"size":2}}',
        "dup free": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"free":{"x":1,"x":2}}}',
        "dup labels": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a","labels":{"x":"1","x":"2"}},"spec":{"size":1}}',
        "dup map": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"labels":{"x":"1","x":"2"}}}',
        "unknown": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a","zz":1},"spec":{"size":1,"zz":1,"nested":{"yy":1}},"xx":1}',
        "unknown parts": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"parts":[{"name":"x","q":1},{"name":"y","q":1}]}}',
        "unknown and wrong": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":"x","zz":1}}',
        "unknown status": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1},"status":{"zz":1}}',
        "embedded": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","zz":1},"q":1}}}',
        "dup top": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1},"spec":{"size":2}}',
        "wrong meta": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a","labels":{"x":1}},"spec":{"size":1}}',
        "wrong meta annotation": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a","annotations":[]},"spec":{"size":1}}',
        "wrong finalizers": '{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a","finalizers":[1]},"spec":{"size":1}}',
    }
    yamls = {
        "dup": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: '1'\n  k: '2'\n",
        "unknown": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  zz: 1\n",
        "two docs": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\n",
        "number": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 1\n",
        "bool": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: yes\n",
        "intkey": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  1: a\n",
        "time": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 2001-01-01\n",
        "tab": "apiVersion: v1\nkind:\tConfigMap\nmetadata: {name: a}\n",
        "empty": "",
        "comment": "# x\n",
        "bad": "a: b: c",
        "octal": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nimmutable: on\n",
        "multi": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    x\n    y\n",
        "duptop": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nmetadata: {name: b}\n",
        "merge": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: ~}\n",
        "json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',
        "boolkey": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {true: x, 1.5: y}\n",
        "leading": "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    }
    for level in levels:
        query = {"fieldValidation": level} if level else {}
        for name, text in texts.items():
            yield Case(
                "fieldvalidation",
                f"cm {name} {level}",
                [raw("POST", CM, text, query=query), get(CM)],
            )
            yield Case(
                "fieldvalidation",
                f"cm put {name} {level}",
                [post(CM, cm()), raw("PUT", CM + "/a", text, query=query), get(CM)],
            )
            yield Case(
                "fieldvalidation",
                f"cm merge {name} {level}",
                [post(CM, cm()), raw("PATCH", CM + "/a", text, query=query, type="merge"), get(CM)],
            )
            yield Case(
                "fieldvalidation",
                f"cm strategic {name} {level}",
                [
                    post(CM, cm()),
                    raw("PATCH", CM + "/a", text, query=query, type="strategic"),
                    get(CM),
                ],
            )
        for name, text in customs.items():
            yield Case(
                "fieldvalidation",
                f"widget {name} {level}",
                [raw("POST", WIDGETS, text % GROUP, query=query), get(WIDGETS)],
            )
            yield Case(
                "fieldvalidation",
                f"widget merge {name} {level}",
                [
                    post(WIDGETS, widget()),
                    raw("PATCH", WIDGETS + "/a", text % GROUP, query=query, type="merge"),
                    get(WIDGETS),
                ],
            )
            yield Case(
                "fieldvalidation",
                f"widget status {name} {level}",
                [
                    post(WIDGETS, widget()),
                    raw("PATCH", WIDGETS + "/a/status", text % GROUP, query=query, type="merge"),
                    get(WIDGETS),
                ],
            )
        for name, text in yamls.items():
            yield Case(
                "fieldvalidation",
                f"yaml {name} {level}",
                [raw("POST", CM, text, query=query, type="application/yaml"), get(CM)],
            )
        for n, ops in enumerate(
            (
                [{"op": "add", "path": "/zz", "value": 1}],
                [{"op": "add", "path": "/data/k", "value": "1", "extra": 1}],
                [{"op": 1, "path": "/data"}],
                [{"op": "add", "path": "/metadata/zz", "value": 1}],
                [{"op": "add", "path": "/immutable", "value": "x"}],
                [{"op": "add", "value": 1}],
            )
        ):
            yield Case(
                "fieldvalidation",
                f"cm json {n} {level}",
                [post(CM, cm(data={})), patch(CM + "/a", ops, "json", query=query), get(CM)],
            )
            yield Case(
                "fieldvalidation",
                f"widget json {n} {level}",
                [
                    post(WIDGETS, widget()),
                    patch(WIDGETS + "/a", ops, "json", query=query),
                    get(WIDGETS),
                ],
            )
        for kind in ("pods", "jobs", "services"):
            path, made = {
                "pods": (PODS, pod()),
                "jobs": (JOBS, job()),
                "services": (SERVICES, service()),
            }[kind]
            for extra in (
                {"spec": {"zz": 1}},
                {"zz": 1},
                {"status": {"zz": 1}},
                {"metadata": {"zz": 1}},
            ):
                yield Case(
                    "fieldvalidation",
                    f"{kind} {extra} {level}",
                    [post(path, merged(made, extra), query=query)],
                )
                yield Case(
                    "fieldvalidation",
                    f"{kind} merge {extra} {level}",
                    [post(path, made), patch(path + "/a", extra, query=query)],
                )
                yield Case(
                    "fieldvalidation",
                    f"{kind} strategic {extra} {level}",
                    [post(path, made), patch(path + "/a", extra, "strategic", query=query)],
                )


def gc() -> Iterator[Case]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "{uid}"}
    for policy in ("Foreground", "Orphan", "Background"):
        for block in (True, False, None):
            for controller in (True, None):
                one = {
                    **owner,
                    **({} if block is None else {"blockOwnerDeletion": block}),
                    **({} if controller is None else {"controller": True}),
                }
                yield Case(
                    "gc",
                    f"{policy} block {block} controller {controller}",
                    [
                        post(CM, cm(), capture={"uid": "metadata.uid"}),
                        post(CM, cm(metadata={"name": "child", "ownerReferences": [one]})),
                        {"sleep": 0.5},
                        delete(CM + "/a", body={"propagationPolicy": policy}),
                        get(CM + "/a", until={"status": 404}, poll=8),
                        {"sleep": 1.5},
                        get(CM + "/child"),
                    ],
                )
        yield Case(
            "gc",
            f"{policy} child with finalizer",
            [
                post(CM, cm(), capture={"uid": "metadata.uid"}),
                post(
                    CM,
                    cm(
                        metadata={
                            "name": "child",
                            "finalizers": ["e.com/f"],
                            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
                        }
                    ),
                ),
                {"sleep": 0.5},
                delete(CM + "/a", body={"propagationPolicy": policy}),
                {"sleep": 2},
                get(CM + "/a"),
                get(CM + "/child"),
                patch(CM + "/child", {"metadata": {"finalizers": None}}),
                {"sleep": 1.5},
                get(CM + "/a"),
                get(CM + "/child"),
            ],
        )
        yield Case(
            "gc",
            f"{policy} two owners",
            [
                post(CM, cm(), capture={"uid": "metadata.uid"}),
                post(CM, cm(metadata={"name": "b"}), capture={"uidb": "metadata.uid"}),
                post(
                    CM,
                    cm(
                        metadata={
                            "name": "child",
                            "ownerReferences": [owner, {**owner, "name": "b", "uid": "{uidb}"}],
                        }
                    ),
                ),
                {"sleep": 0.5},
                delete(CM + "/a", body={"propagationPolicy": policy}),
                get(CM + "/a", until={"status": 404}, poll=8),
                {"sleep": 1.5},
                get(CM + "/child"),
            ],
        )
        for path, made, kind in (
            (JOBS, job({"suspend": True}), "batch/v1 Job"),
            (REPLICASETS, rs(), "apps/v1 ReplicaSet"),
            (WIDGETS, widget(), GROUP + "/v1 Widget"),
            (PODS, pod(), "v1 Pod"),
        ):
            version, _, name = kind.partition(" ")
            yield Case(
                "gc",
                f"{policy} {name}",
                [
                    post(path, made, capture={"uid": "metadata.uid"}),
                    post(
                        CM,
                        cm(
                            metadata={
                                "name": "child",
                                "ownerReferences": [
                                    {
                                        "apiVersion": version,
                                        "kind": name,
                                        "name": "a",
                                        "uid": "{uid}",
                                        "blockOwnerDeletion": True,
                                    }
                                ],
                            }
                        ),
                    ),
                    {"sleep": 0.5},
                    delete(path + "/a", body={"propagationPolicy": policy}),
                    get(path + "/a", until={"status": 404}, poll=8),
                    {"sleep": 1.5},
                    get(CM + "/child"),
                ],
            )


def namespace() -> Iterator[Case]:
    name = "y-{u}"
    for meta in METAS:
        if "name" not in meta and "$repeat" not in str(meta):
            yield Case(
                "namespace",
                f"meta {meta}"[:90],
                [
                    post(NAMESPACES, body("v1", "Namespace", metadata={"name": name} | meta)),
                    get(NAMESPACES + "/" + name),
                ],
            )
    for spec in (
        {"finalizers": []},
        {"finalizers": ["kubernetes"]},
        {"finalizers": ["x"]},
        {"finalizers": ["e.com/x"]},
        {"finalizers": "x"},
        {"unknown": 1},
        {},
    ):
        yield Case(
            "namespace",
            f"spec {spec}",
            [
                post(NAMESPACES, body("v1", "Namespace", metadata={"name": name}, spec=spec)),
                get(NAMESPACES + "/" + name),
                put(
                    NAMESPACES + "/" + name + "/finalize",
                    body("v1", "Namespace", metadata={"name": name}, spec=spec),
                ),
                get(NAMESPACES + "/" + name),
                patch(NAMESPACES + "/" + name, {"spec": spec}),
            ],
        )
    for status in (
        {"phase": "Terminating"},
        {"phase": "x"},
        {"conditions": [{"type": "a", "status": "True"}]},
        {},
    ):
        yield Case(
            "namespace",
            f"status {status}",
            [
                post(NAMESPACES, body("v1", "Namespace", metadata={"name": name}, status=status)),
                patch(NAMESPACES + "/" + name + "/status", {"status": status}),
                get(NAMESPACES + "/" + name),
            ],
        )
    for options in OPTIONS:
        yield Case(
            "namespace",
            f"delete {options}",
            [
                post(NAMESPACES, body("v1", "Namespace", metadata={"name": name})),
                delete(NAMESPACES + "/" + name, body=options),
                get(
                    NAMESPACES + "/" + name,
                    until={"status": 404},
                    poll=0 if "dryRun" in options else 6,
                ),
            ],
        )
    for reserved in ("default", "kube-system", "kube-public", "kube-node-lease"):
        yield Case(
            "namespace",
            f"delete {reserved}",
            [delete(NAMESPACES + "/" + reserved, query={"dryRun": "All"})],
        )
        yield Case("namespace", f"get {reserved}", [get(NAMESPACES + "/" + reserved)])
    for path, made in KINDS:
        gone = path.replace("{ns}", "nope-{u}")
        yield Case(
            "namespace",
            f"missing {path}",
            [
                get(gone),
                get(gone + "/a"),
                post(gone, made),
                put(gone + "/a", made),
                patch(gone + "/a", {}),
                delete(gone + "/a"),
                delete(gone),
            ],
        )
        ending = path.replace("{ns}", name)
        yield Case(
            "namespace",
            f"terminating {path}",
            [
                post(NAMESPACES, body("v1", "Namespace", metadata={"name": name})),
                post(
                    CM.replace("{ns}", name), cm(metadata={"name": "h", "finalizers": ["e.com/f"]})
                ),
                post(
                    ending,
                    merged(
                        made,
                        {
                            "metadata": {"name": "old"},
                            **(
                                {"involvedObject": {"namespace": name}}
                                if "/v1/namespaces/{ns}/events" in path and "k8s.io" not in path
                                else {}
                            ),
                            **({"regarding": {"namespace": name}} if "events.k8s" in path else {}),
                        },
                    ),
                ),
                delete(NAMESPACES + "/" + name),
                {"sleep": 1.0},
                post(ending, made, bare=True),
                patch(CM.replace("{ns}", name) + "/h", {"metadata": {"finalizers": None}}),
                get(NAMESPACES + "/" + name, until={"status": 404}, poll=10),
            ],
        )


def all_cases() -> Iterator[Case]:
    for family in (create, update, delete_, dryrun, fieldvalidation, gc, namespace):
        yield from family()
