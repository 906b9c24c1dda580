"""Patches of all three kinds, and bodies with duplicate keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.generated.steps import (
    CM,
    JOBS,
    PODS,
    SERVICES,
    WIDGETS,
    Case,
    Step,
    cm,
    get,
    job,
    patch,
    pod,
    post,
    raw,
    service,
    widget,
)

ANY = "application/json-patch+json"
OLD = cm(
    data={"k": "1", "l": "2"},
    metadata={"labels": {"x": "1", "e.com/b": "2"}, "annotations": {"e.com/a": "1"}},
)


def _on(path: str, made: Any, value: Any, kind: str, sub: str = "", **rest: Any) -> list[Step]:
    return [post(path, made), patch(path + "/a" + sub, value, kind, **rest), get(path + "/a")]


POINTERS = [
    "/data/k",
    "/data/missing",
    "/data",
    "/metadata/labels/e.com~1b",
    "/metadata/labels/e.com/b",
    "/data/m~n",
    "",
    "/",
    "data/k",
    "/metadata/labels/x",
    "/metadata/labels/y",
    "/metadata/annotations/e.com~1a",
    "/metadata/missing/deep",
    "/metadata/name",
    "/metadata/uid",
    "/kind",
    "/apiVersion",
    "/metadata/resourceVersion",
    "/data/k/deeper",
    "/metadata/finalizers/-",
    "/metadata/finalizers/0",
    "/binaryData/x",
    "/immutable",
    "/nonsense",
    "/metadata/nonsense",
    "/data/~2",
    "/data/",
    "/metadata/namespace",
    "/metadata/generation",
    "/metadata/creationTimestamp",
    "/metadata/labels",
    "/metadata",
]
VALUES: list[Any] = ["v", None, 1, {}, [], {"n": "1"}, True]


def jsonpatch() -> Iterator[Case]:
    def case(name: str, steps: list[Step]) -> Case:
        return Case("jsonpatch", name, steps)

    for pointer in POINTERS:
        for op in ("add", "replace", "test"):
            for value in VALUES:
                yield case(
                    f"{op} {pointer} {value}",
                    _on(CM, OLD, [{"op": op, "path": pointer, "value": value}], "json"),
                )
            yield case(
                f"{op} {pointer} no value", _on(CM, OLD, [{"op": op, "path": pointer}], "json")
            )
        yield case(f"remove {pointer}", _on(CM, OLD, [{"op": "remove", "path": pointer}], "json"))
        for op in ("move", "copy"):
            for other in (
                "/data/k",
                "/data/new",
                "/data",
                "/data/missing",
                "",
                "/metadata/labels/x",
            ):
                yield case(
                    f"{op} {pointer} to {other}",
                    _on(CM, OLD, [{"op": op, "from": pointer, "path": other}], "json"),
                )
    listed = pod(
        {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]},
        metadata={"finalizers": ["e.com/a", "e.com/b"]},
    )
    tail = {"key": "n", "operator": "Exists"}
    for index in (
        "-",
        "0",
        "1",
        "2",
        "4",
        "5",
        "01",
        "00",
        "-1",
        "-4",
        "1e0",
        "+1",
        "x",
        "",
        "99999999999999999999",
        "0/key",
        "0/missing",
        "-/key",
    ):
        for op in ("add", "replace", "test", "remove"):
            value: Any = tail if "/" not in index else "q"
            for kept in (value, None):
                if op == "remove" and kept is None:
                    continue
                yield case(
                    f"list {op} {index} {kept is None}",
                    _on(
                        PODS,
                        listed,
                        [{"op": op, "path": f"/spec/tolerations/{index}", "value": kept}],
                        "json",
                    ),
                )
            yield case(
                f"finalizers {op} {index}",
                _on(
                    PODS,
                    listed,
                    [{"op": op, "path": f"/metadata/finalizers/{index}", "value": "e.com/c"}],
                    "json",
                ),
            )
        for op in ("move", "copy"):
            yield case(
                f"list {op} {index}",
                _on(
                    PODS,
                    listed,
                    [
                        {
                            "op": op,
                            "from": f"/metadata/finalizers/{index}",
                            "path": "/metadata/finalizers/0",
                        }
                    ],
                    "json",
                ),
            )
            yield case(
                f"list {op} to {index}",
                _on(
                    PODS,
                    listed,
                    [
                        {
                            "op": op,
                            "from": "/metadata/finalizers/0",
                            "path": f"/metadata/finalizers/{index}",
                        }
                    ],
                    "json",
                ),
            )
    whole: list[Any] = [
        {},
        "x",
        None,
        5,
        [],
        [{}],
        [{"op": "add"}],
        [{"path": "/data/k"}],
        [{"op": "ADD", "path": "/data/k", "value": "1"}],
        [None],
        [1],
        ["x"],
        [[]],
        [{"op": 1, "path": "/data/k"}],
        [{"op": "add", "path": 1, "value": "1"}],
        [{"op": "add", "path": None, "value": "1"}],
        [{"op": "move", "path": "/data/x"}],
        [{"op": "copy", "path": "/data/x", "from": 1}],
        [{"op": "add", "path": "/data/k", "value": "1", "extra": 1}],
        [{"op": "remove", "path": "/data/k", "value": 1}],
        [{"op": "", "path": "/data/k", "value": "1"}],
        [{"op": None, "path": "/data/k"}],
        [
            {"op": "test", "path": "/data/k", "value": "1"},
            {"op": "remove", "path": "/data/k"},
            {"op": "test", "path": "/data/k", "value": None},
        ],
        [{"op": "remove", "path": "/data/k"}, {"op": "remove", "path": "/data/k"}],
        [
            {"op": "add", "path": "/data/n", "value": "1"},
            {"op": "replace", "path": "/data/n", "value": "2"},
        ],
        [{"op": "add", "path": "", "value": {"data": {}}}],
        [{"op": "replace", "path": "", "value": {}}],
        [{"op": "test", "path": "/metadata/labels", "value": {"x": "1"}}],
        [{"op": "test", "path": "/metadata/labels", "value": {"x": "1", "y": None}}],
        [{"op": "test", "path": "/data", "value": {"k": "1"}}],
        [{"op": "add", "path": "/metadata/labels", "value": None}],
        [{"op": "replace", "path": "/metadata/annotations", "value": None}],
        [{"op": "add", "path": "/data/k", "value": "1"}] * 3,
        [{"op": "move", "from": "/data", "path": "/data/inside"}],
        [{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}],
        [{"op": "move", "from": "/data/k", "path": "/data/k"}],
        [{"op": "copy", "from": "/data/k", "path": "/data/k"}],
        [
            {
                "op": "add",
                "path": "/metadata/ownerReferences",
                "value": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}],
            }
        ],
        [
            {
                "op": "add",
                "path": "/metadata/ownerReferences/-",
                "value": {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"},
            }
        ],
        [{"op": "replace", "path": "/metadata/labels/x", "value": "bad value!"}],
    ]
    for n, value in enumerate(whole):
        yield case(f"whole {n}", _on(CM, OLD, value, "json"))
        yield case(
            f"custom whole {n}",
            _on(WIDGETS, widget(metadata={"labels": {"x": "1"}}), value, "json"),
        )
    for name, text in RAW_PATCHES.items():
        yield case(
            f"raw {name}",
            [post(CM, OLD), raw("PATCH", CM + "/a", text, type="json"), get(CM + "/a")],
        )
    for path, made, sub in (
        (PODS, pod(), "/status"),
        (PODS, pod(), "/binding"),
        (CM, cm(), "/status"),
        (WIDGETS, widget(), "/status"),
        (JOBS, job(), "/status"),
    ):
        for ops in (
            [{"op": "add", "path": "/status/phase", "value": "Running"}],
            [{"op": "replace", "path": "/status", "value": {}}],
            [{"op": "remove", "path": "/status"}],
            [{"op": "add", "path": "/metadata/labels", "value": {"q": "1"}}],
            [{"op": "add", "path": "/status", "value": None}],
        ):
            yield case(f"{path}{sub} {ops}", _on(path, made, ops, "json", sub))
    for op in ("add", "replace", "remove", "test"):
        for pointer in (
            "/spec/size",
            "/spec/color",
            "/spec/note",
            "/spec/tags",
            "/spec/tags/0",
            "/spec/tags/-",
            "/spec/free",
            "/spec/free/x/y",
            "/spec/unknown",
            "/spec/labels/q",
            "/status/phase",
            "/spec",
            "/spec/parts/0/value",
            "/spec/parts/-",
        ):
            for value in (1, "x", None, [], {}):
                if op == "remove" and value != 1:
                    continue
                start = widget(
                    {"tags": ["p", "q"], "free": {"x": {"z": 1}}, "parts": [{"name": "m"}]}
                )
                yield case(
                    f"widget {op} {pointer} {value}",
                    _on(WIDGETS, start, [{"op": op, "path": pointer, "value": value}], "json"),
                )


RAW_PATCHES = {
    "empty": "",
    "blank": " ",
    "half": "[{",
    "null": "null",
    "twice": '[{"op":"add","op":"remove","path":"/data/k"}]',
    "twokeys": '[{"op":"add","path":"/data/q","value":{"a":1,"a":2}}]',
    "trailing": "[] x",
    "dupvalue": '[{"op":"add","path":"/data/q","value":"1","value":"2"}]',
    "yaml": "- op: add\n  path: /data/q\n  value: z\n",
    "caps": '[{"OP":"add","Path":"/data/q","VALUE":"1"}]',
    "dupdata": '{"data":{"q":"1","q":"2"}}',
    "dupmeta": '{"metadata":{"labels":{"q":"1"},"labels":{"r":"2"}}}',
    "number": "1.0",
    "big": '{"data":{"q":1e400}}',
    "nan": '{"data":{"q":NaN}}',
}
MERGES: list[Any] = [
    {},
    None,
    [],
    "x",
    1,
    {"data": None},
    {"data": {"k": None, "n": "1"}},
    {"data": {"k": 1}},
    {"data": []},
    {"data": "x"},
    {"data": {}},
    {"nonsense": 1},
    {"metadata": None},
    {"metadata": {"labels": None}},
    {"metadata": {"labels": {"x": None}}},
    {"metadata": {"labels": {"x": 1}}},
    {"metadata": {"labels": {"x": "bad value!"}}},
    {"metadata": {"labels": {"bad key!": "v"}}},
    {"metadata": {"annotations": {"bad key!": "v"}}},
    {"metadata": {"finalizers": ["bad"]}},
    {"metadata": {"finalizers": ["e.com/f"]}},
    {"metadata": {"finalizers": None}},
    {"metadata": {"name": "b"}},
    {"metadata": {"name": None}},
    {"metadata": {"namespace": "default"}},
    {"metadata": {"namespace": None}},
    {"metadata": {"uid": "x"}},
    {"metadata": {"uid": None}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"resourceVersion": None}},
    {"metadata": {"resourceVersion": ""}},
    {"metadata": {"resourceVersion": "0"}},
    {"metadata": {"generation": 7}},
    {"metadata": {"creationTimestamp": None}},
    {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}},
    {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
    {"metadata": {"deletionGracePeriodSeconds": 3}},
    {"metadata": {"ownerReferences": [{"name": "x"}]}},
    {"metadata": {"generateName": "x-"}},
    {"metadata": {"selfLink": "/x"}},
    {"metadata": {"managedFields": []}},
    {"kind": "Secret"},
    {"kind": None},
    {"kind": ""},
    {"apiVersion": "v2"},
    {"apiVersion": None},
    {"kind": "ConfigMap", "apiVersion": "v1"},
    {"immutable": True},
    {"immutable": "yes"},
    {"immutable": None},
    {"binaryData": {"b": "AAE="}},
    {"binaryData": {"b": "!"}},
    {"data": {"bad key": "x"}},
    {"data": {"k": {"x": None}}},
    {"metadata": {"labels": {"a": None, "b": None}}},
    {"metadata": {"ownerReferences": None}},
    {"metadata": {"annotations": {"n": {"x": 1}}}},
    {"metadata": "x"},
    {"metadata": []},
    {"status": {"x": 1}},
    {"spec": None},
    {"data": {"x": None}},
    {"stringData": {"a": "b"}},
]


def mergepatch() -> Iterator[Case]:
    for n, value in enumerate(MERGES):
        yield Case("mergepatch", f"cm {n} {value}"[:90], _on(CM, OLD, value, "merge"))
        yield Case("strategic", f"cm {n} {value}"[:90], _on(CM, OLD, value, "strategic"))
        yield Case("mergepatch", f"widget {n} {value}"[:90], _on(WIDGETS, widget(), value, "merge"))
    for name, text in RAW_PATCHES.items():
        for kind in ("merge", "strategic"):
            yield Case(
                "mergepatch",
                f"raw {kind} {name}",
                [post(CM, OLD), raw("PATCH", CM + "/a", text, type=kind), get(CM + "/a")],
            )
        yield Case(
            "mergepatch",
            f"raw custom {name}",
            [
                post(WIDGETS, widget()),
                raw("PATCH", WIDGETS + "/a", text, type="merge"),
                get(WIDGETS + "/a"),
            ],
        )
    for value in (
        {"spec": None},
        {"spec": {"size": None}},
        {"spec": {"size": "x"}},
        {"spec": {"size": 11}},
        {"spec": {"color": None}},
        {"spec": {"nested": None}},
        {"spec": {"nested": {"depth": None}}},
        {"spec": {"opt": None}},
        {"spec": {"note": None}},
        {"spec": {"free": {"a": {"b": None}}}},
        {"spec": {"free": {"a": {"b": [None]}}}},
        {"spec": {"tags": ["a", "a"]}},
        {"spec": {"unknown": 1}},
        {"status": {"phase": "x"}},
        {"spec": []},
        {"spec": {"parts": [{"name": "a"}, {"name": "a"}]}},
    ):
        yield Case(
            "mergepatch",
            f"widget {value}",
            _on(WIDGETS, widget({"nested": {"depth": 4}}), value, "merge"),
        )
        yield Case(
            "mergepatch",
            f"widget status {value}",
            _on(WIDGETS, widget(), value, "merge", "/status"),
        )
    for value in (
        {"spec": {"containers": []}},
        {"spec": {"containers": None}},
        {"spec": {"containers": [{"name": "main"}]}},
        {"spec": {"containers": [{"name": "main", "image": "x:2"}]}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"spec": {"activeDeadlineSeconds": -1}},
        {"spec": {"nodeName": "n"}},
        {"spec": {"tolerations": None}},
        {"spec": {"terminationGracePeriodSeconds": 5}},
        {"spec": {"hostname": "h"}},
        {"spec": {"priority": 3}},
        {"spec": None},
        {"status": {"phase": "Failed"}},
        {"spec": {"unknown": 1}},
    ):
        for kind in ("merge", "strategic"):
            yield Case("mergepatch", f"pod {kind} {value}", _on(PODS, pod(), value, kind))


STRATEGIC: list[Any] = [
    {"spec": {"containers": [{"name": "main", "image": "x:3"}]}},
    {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}},
    {"spec": {"containers": [{"$patch": "replace"}]}},
    {
        "spec": {
            "$setElementOrder/containers": [{"name": "main"}],
            "containers": [{"name": "main", "image": "q:1"}],
        }
    },
    {
        "spec": {
            "$setElementOrder/containers": [{"name": "nope"}],
            "containers": [{"name": "main", "image": "q:1"}],
        }
    },
    {"metadata": {"$patch": "replace", "labels": {"z": "1"}}},
    {"metadata": {"labels": {"$patch": "replace", "z": "1"}}},
    {"metadata": {"labels": {"$patch": "delete"}}},
    {"metadata": {"labels": {"$patch": "merge", "z": "1"}}},
    {"metadata": {"labels": {"$patch": "nonsense", "z": "1"}}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/zzz"]}},
    {"metadata": {"finalizers": ["e.com/b"]}},
    {"metadata": {"finalizers": ["e.com/a"]}},
    {
        "metadata": {
            "$setElementOrder/finalizers": ["e.com/b", "e.com/a"],
            "finalizers": ["e.com/b"],
        }
    },
    {"$patch": "delete"},
    {"$patch": "replace", "metadata": {"name": "a"}},
    {"$retainKeys": ["spec"]},
    {"spec": {"$retainKeys": ["containers"], "containers": [{"name": "main", "image": "x:1"}]}},
    {"spec": {"tolerations": [{"key": "t", "operator": "Exists"}]}},
    {"spec": {"tolerations": []}},
    {"spec": {"tolerations": None}},
    {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "9"}]}]}},
    {"spec": {"containers": [{"image": "x"}]}},
    {"spec": {"containers": "x"}},
    {"spec": {"containers": [None]}},
    {"spec": {"containers": ["x"]}},
    {"spec": {"containers": {"name": "main"}}},
    {"spec": {"containers": [{"name": 1}]}},
    {"spec": {"containers": [{"name": "main", "unknown": 1}]}},
    {
        "metadata": {
            "ownerReferences": [{"uid": "u1", "apiVersion": "v1", "kind": "Pod", "name": "x"}]
        }
    },
    {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u1"}]}},
    {"metadata": {"ownerReferences": [{"$patch": "replace"}]}},
    {"metadata": {"labels": {"x": None}}},
    {"metadata": {"labels": None}},
    {"metadata": None},
    {"spec": None},
    {"spec": {"imagePullSecrets": [{"name": "s"}]}},
    {"spec": {"schedulingGates": [{"name": "x"}]}},
    {"spec": {"nodeSelector": {"a": "b"}}},
    {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
    {"spec": {"activeDeadlineSeconds": 9}},
    {"unknown": {"x": 1}},
    {"metadata": {"annotations": {"a": 1}}},
    {"metadata": {"$setElementOrder/finalizers": "x"}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
    {"metadata": {"$retainKeys": "x"}},
    {"metadata": {"$unknown/finalizers": ["x"]}},
    {"spec": {"containers": [{"name": "main", "resources": {"$patch": "delete"}}]}},
]


def strategic() -> Iterator[Case]:
    two = pod(
        {
            "containers": [
                {
                    "name": "main",
                    "image": "x:1",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1"}},
                },
                {"name": "other", "image": "x:2"},
            ]
        },
        metadata={"labels": {"x": "1", "y": "2"}, "finalizers": ["e.com/a", "e.com/b"]},
    )
    for n, value in enumerate(STRATEGIC):
        yield Case("strategic", f"pod {n} {value}"[:90], _on(PODS, two, value, "strategic"))
    suspended = job({"template": {"spec": {"containers": two["spec"]["containers"]}}})
    for n, value in enumerate(STRATEGIC):
        if isinstance(value.get("spec"), dict) and "containers" in json_text(value):
            yield Case(
                "strategic",
                f"job {n} {value}"[:90],
                _on(JOBS, suspended, {"spec": {"template": value}}, "strategic"),
            )
    ported = service({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]})
    for value in (
        [{"port": 80, "name": "q"}],
        [{"port": 82, "name": "c"}],
        [{"port": 80, "$patch": "delete"}],
        [{"$patch": "replace"}, {"port": 9}],
        [{"name": "b"}],
        [{"port": "80"}],
        [{"port": 81, "protocol": "UDP", "name": "u"}],
        [],
    ):
        yield Case(
            "strategic",
            f"service {value}",
            _on(SERVICES, ported, {"spec": {"ports": value}}, "strategic"),
        )
    for value in (
        [{"type": "Ready", "status": "True"}],
        [{"type": "Ready", "$patch": "delete"}],
        [{"status": "True"}],
        [{"$patch": "replace"}],
        [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}],
    ):
        yield Case(
            "strategic",
            f"status {value}",
            _on(PODS, pod(), {"status": {"conditions": value}}, "strategic", "/status"),
        )
    for path, made in ((WIDGETS, widget()),):
        yield Case(
            "strategic", f"custom {path}", _on(path, made, {"spec": {"size": 4}}, "strategic")
        )


def json_text(value: Any) -> str:
    return str(value)


def patchtype() -> Iterator[Case]:
    types = [
        "application/merge-patch+json; charset=utf-8",
        "application/merge-patch+json;charset=latin-1",
        "application/json-patch+json; charset=UTF-8",
        "application/strategic-merge-patch+json; a=b",
        "text/plain",
        "application/json",
        "application/yaml",
        "",
        "application/MERGE-PATCH+json",
        "application/apply-patch+yaml",
        "application/merge-patch+json,application/json",
        "application/merge-patch+json; q",
        "*/*",
        "application/*",
        "merge-patch+json",
        " application/merge-patch+json ",
        "application/merge-patch+yaml",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/merge-patch+json;",
        'application/merge-patch+json; charset="utf-8"',
    ]
    for kind in types:
        if kind == "application/apply-patch+yaml":
            continue
        value: Any = (
            [{"op": "add", "path": "/metadata/labels", "value": {"q": "1"}}]
            if "json-patch" in kind
            else {"metadata": {"labels": {"q": "1"}}}
        )
        yield Case("patchtype", f"cm {kind}", _on(CM, OLD, value, kind))
        yield Case("patchtype", f"widget {kind}", _on(WIDGETS, widget(), value, kind))
        yield Case("patchtype", f"missing {kind}", [patch(CM + "/zz", value, kind)])
        yield Case("patchtype", f"create {kind}", [post(CM, cm(), type=kind)])
        yield Case("patchtype", f"create custom {kind}", [post(WIDGETS, widget(), type=kind)])
        yield Case(
            "patchtype",
            f"delete {kind}",
            [
                post(CM, cm()),
                {"do": "DELETE " + CM + "/a", "body": {"gracePeriodSeconds": 0}, "type": kind},
                get(CM + "/a"),
            ],
        )


def all_cases() -> Iterator[Case]:
    for family in (jsonpatch, mergepatch, strategic, patchtype):
        yield from family()
