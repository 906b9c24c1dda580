"""Custom resources: definitions, schemas, CEL rules, status, scale, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.contract.generated.steps import *  # noqa: F403

SPECS: list[Any] = [
    {"size": 1},
    {"size": 0},
    {"size": 11},
    {"size": -1},
    {"size": 1.0},
    {"size": 1.5},
    {"size": "1"},
    {"size": "<null>"},
    {"size": None},
    {"size": True},
    {"size": 2147483648},
    {"size": 1e2},
    {"ratio": 0},
    {"ratio": 0.5},
    {"ratio": 0.3},
    {"ratio": 1},
    {"ratio": "x"},
    {"ratio": -1},
    {"color": "red"},
    {"color": "x"},
    {"color": ""},
    {"color": "<null>"},
    {"color": 1},
    {"code": "ab"},
    {"code": "a"},
    {"code": "ABC"},
    {"code": 5},
    {"short": "a"},
    {"short": "ab"},
    {"short": "abcde"},
    {"short": "éé"},
    {"short": "ééééé"},
    {"short": "<null>"},
    {"tags": []},
    {"tags": ["a"]},
    {"tags": ["a", "b", "c", "d"]},
    {"tags": ["a", "a"]},
    {"tags": [1]},
    {"tags": "x"},
    {"tags": {}},
    {"tags": ["<null>"]},
    {"tags": [None]},
    {"tags": "<null>"},
    {"numbers": [1, "x", 2.5]},
    {"numbers": [1.0]},
    {"numbers": [None]},
    {"flag": True},
    {"flag": 1},
    {"flag": "true"},
    {"flag": "<null>"},
    {"note": "<null>"},
    {"note": 1},
    {"opt": "<null>"},
    {"opt": ""},
    {"port": 1},
    {"port": "x"},
    {"port": 1.5},
    {"port": True},
    {"port": []},
    {"port": "<null>"},
    {"port": 1.0},
    {"free": {}},
    {"free": {"a": [1, {"b": None}]}},
    {"free": []},
    {"free": "<null>"},
    {"free": 1},
    {"mixed": {"known": 1, "x": 2}},
    {"mixed": {"known": "x"}},
    {"mixed": {"known": "<null>", "y": "<null>"}},
    {"labels": {"a": "b"}},
    {"labels": {"a": 1}},
    {"labels": {"a": "b", "c": "d", "e": "f"}},
    {"labels": {"a": "<null>"}},
    {"labels": []},
    {"nested": {}},
    {"nested": {"depth": "x"}},
    {"nested": {"inner": {}}},
    {"nested": {"inner": "<null>"}},
    {"nested": "<null>"},
    {"nested": {"depth": "<null>"}},
    {"nested": {"unknown": 1}},
    {"nested": []},
    {"lazy": {}},
    {"lazy": "<null>"},
    {"parts": []},
    {"parts": [{}]},
    {"parts": [{"name": "a"}]},
    {"parts": [{"name": "a"}, {"name": "a"}]},
    {"parts": [{"name": "a", "value": 1}, {"name": "a", "value": 2}]},
    {"parts": [{"name": 1}]},
    {"parts": [{"name": "<null>"}]},
    {"parts": [{"name": "a", "value": "x"}]},
    {"parts": [{"name": "a", "unknown": 1}]},
    {"parts": {}},
    {"parts": [None]},
    {"parts": ["x"]},
    {"parts": [1, 1]},
    {"parts": [{"name": "a", "value": "<null>"}]},
    {"when": "2020-01-01T00:00:00Z"},
    {"when": "x"},
    {"when": "2020-01-01"},
    {"when": ""},
    {"when": "2020-01-01t00:00:00z"},
    {"when": "2020-13-01T00:00:00Z"},
    {"when": "2020-01-01T00:00:00+25:00"},
    {"when": "2020-01-01T00:00:00.123456789Z"},
    {"when": "2020-01-01 00:00:00Z"},
    {"when": 5},
    {"big": 9223372036854775807},
    {"big": 9223372036854775808},
    {"big": -9223372036854775809},
    {"big": 1.5},
    {"big": 1e18},
    {"small": 2147483647},
    {"small": 2147483648},
    {"small": -2147483649},
    {"bytes": "AAE="},
    {"bytes": "x!"},
    {"bytes": ""},
    {"bytes": "AAE"},
    {"either": {}},
    {"either": {"a": 1}},
    {"either": {"a": 1, "b": 2}},
    {"either": {"a": "x"}},
    {"either": {"c": 1}},
    {"embedded": {}},
    {"embedded": {"apiVersion": "v1", "kind": "Pod"}},
    {
        "embedded": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x", "labels": {"a": 1}},
        }
    },
    {"embedded": {"apiVersion": "", "kind": ""}},
    {"embedded": {"apiVersion": "a/b/c", "kind": "x y"}},
    {"embedded": {"apiVersion": 1, "kind": "Pod"}},
    {"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "X!"}}},
    {"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"unknown": 1}}},
    {"unknown": 1},
    {"unknown": {"a": 1}, "size": 20, "color": "x", "tags": ["a", "a"]},
]
RULED: list[Any] = [
    {},
    {"low": 1, "high": 2},
    {"low": 3, "high": 2},
    {"title": "x"},
    {"title": "x" * 21},
    {"word": "abc"},
    {"word": "bcd"},
    {"word": "azz"},
    {"word": "aB"},
    {"word": "bZ"},
    {"word": ""},
    {"word": "a" * 31},
    {"list": [1, 2]},
    {"list": [0]},
    {"list": [1, 2, 3, 4]},
    {"list": [1, 2, 3, 4, 5]},
    {"list": [1] * 6},
    {"list": [0, 0, 0, 0]},
    {"list": []},
    {"names": ["a", "bad"]},
    {"names": ["bad", "bad"]},
    {"names": ["x" * 11]},
    {"map": {"a": 1}},
    {"map": {"a": 100, "b": 200}},
    {"map": {"a b": 100}},
    {"map": {str(n): 1 for n in range(6)}},
    {"roles": {"a": {"replicas": 1}}},
    {"roles": {"a": {}}},
    {"roles": {"a": {"replicas": 1, "min": 2}}},
    {"roles": {"a": {"replicas": 3, "max": 2}}},
    {"roles": {"a": {"replicas": 3, "min": 5, "max": 2}}},
    {"roles": {"A": {"replicas": 1}}},
    {"roles": {"A": {"replicas": 1, "min": 2}}},
    {"mode": "strict"},
    {"mode": "strict", "extra": "e"},
    {"mode": "<null>"},
    {"mode": ""},
    {"num": 4.5},
    {"num": 5},
    {"num": 5.0},
    {"num": -1},
    {"num": "x"},
    {"grow": 1},
    {"once": "x"},
    {"when": "2020-01-01T00:00:00Z"},
    {"when": "1999-01-01T00:00:00Z"},
    {"when": "x"},
    {"qty": 1},
    {"qty": 0},
    {"qty": "5%"},
    {"qty": "5"},
    {"qty": True},
    {"low": "x"},
    {"low": 3, "high": 2, "mode": "strict", "num": 9},
    {"low": "x", "high": 1, "num": 9},
    {"list": ["x"]},
    {"unknown": 1},
]


def schema() -> Iterator[Case]:
    for n, spec in enumerate(SPECS):
        yield Case("crschema", f"{n} {spec}"[:110], [post(WIDGETS, widget(nulled(spec)))])
        yield Case(
            "crschema",
            f"patch {n} {spec}"[:110],
            [
                post(WIDGETS, widget({"tags": ["t"], "nested": {"depth": 9}})),
                patch(WIDGETS + "/a", {"spec": nulled(spec)}),
                get(WIDGETS + "/a"),
            ],
        )
        yield Case(
            "crschema",
            f"put {n} {spec}"[:110],
            [
                post(WIDGETS, widget(), keep="obj"),
                {
                    "do": "PUT " + WIDGETS + "/a",
                    "from": "obj",
                    "edit": {
                        f"spec.{k}": ({"$delete": True} if v is None else v)
                        for k, v in nulled(spec, keep=True).items()
                    },
                },
                get(WIDGETS + "/a"),
            ],
        )
        if n % 3 == 0:
            yield Case(
                "crschema",
                f"strict {n} {spec}"[:110],
                [post(WIDGETS, widget(nulled(spec)), query={"fieldValidation": "Strict"})],
            )
    for n, spec in enumerate(RULED):
        yield Case("cel", f"{n} {spec}"[:110], [post(RULEDS, ruled(nulled(spec)))])
        yield Case(
            "cel",
            f"patch {n} {spec}"[:110],
            [
                post(RULEDS, ruled({"low": 1, "title": "n", "grow": 5, "extra": "e", "once": "o"})),
                patch(RULEDS + "/a", {"spec": nulled(spec)}),
                get(RULEDS + "/a"),
            ],
        )
        yield Case(
            "cel",
            f"replace {n} {spec}"[:110],
            [
                post(RULEDS, ruled({"low": 1, "title": "n", "grow": 5}), keep="obj"),
                {
                    "do": "PUT " + RULEDS + "/a",
                    "from": "obj",
                    "edit": {"spec": nulled(spec, keep=True)},
                },
                get(RULEDS + "/a"),
            ],
        )
    for status in (
        {"done": 5},
        {"done": 6},
        {"phase": "x" * 11},
        {"done": "x"},
        {"phase": "P"},
        {"unknown": 1},
        {},
    ):
        yield Case(
            "cel",
            f"status {status}",
            [
                post(RULEDS, ruled({"low": 1})),
                patch(RULEDS + "/a/status", {"status": status}),
                patch(RULEDS + "/a", {"spec": {"low": 2}}),
                get(RULEDS + "/a"),
            ],
        )
    for name in ("a" * 8, "a" * 9, "A"):
        yield Case(
            "cel", f"name {name}", [post(RULEDS, ruled({"low": 1}, metadata={"name": name}))]
        )


def nulled(value: Any, *, keep: bool = False) -> Any:
    """The values, with the mark of null made null where the helper would not do it."""
    return json.loads(json.dumps(value).replace('"<null>"', "null")) if keep else value


def _definition(
    over: dict[str, Any] | None = None, version: dict[str, Any] | None = None, schema: Any = None
) -> dict[str, Any]:
    one = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": schema
            if schema is not None
            else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    spec = {
        "group": "{u}.gen.example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
        },
        "versions": [merged(one, version or {})],
    }
    return merged(
        body(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            metadata={"name": "things.{u}.gen.example.com"},
            spec=spec,
        ),
        over or {},
    )


def _prop(value: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"x": value}}},
    }


SCHEMAS: list[Any] = [
    {},
    {"type": "string"},
    {"type": "object"},
    {"type": "array"},
    {"type": "x"},
    {"type": ""},
    {"type": "object", "properties": {"metadata": {"type": "object"}}},
    {
        "type": "object",
        "properties": {
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 5}},
            }
        },
    },
    {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}
        },
    },
    {
        "type": "object",
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "integer"}},
    },
    {"type": "object", "nullable": True},
    {"type": "object", "x-kubernetes-embedded-resource": True},
    _prop({}),
    _prop({"type": "null"}),
    _prop({"type": "array"}),
    _prop({"type": "array", "items": {}}),
    _prop({"type": "array", "items": {"type": "string"}}),
    _prop({"type": "array", "items": [{"type": "string"}]}),
    _prop({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
    _prop({"type": "object", "additionalProperties": False}),
    _prop({"type": "object", "additionalProperties": True}),
    _prop({"type": "object", "additionalProperties": {}}),
    _prop({"type": "string", "pattern": "("}),
    _prop({"type": "string", "pattern": "(?=x)"}),
    _prop({"type": "string", "format": "x"}),
    _prop({"type": "string", "minLength": 5, "maxLength": 2}),
    _prop({"type": "string", "enum": []}),
    _prop({"type": "string", "enum": ["a", "a"]}),
    _prop({"type": "integer", "enum": ["a"]}),
    _prop({"type": "string", "default": 5}),
    _prop({"type": "integer", "minimum": 5, "default": 1}),
    _prop({"type": "string", "default": None}),
    _prop({"type": "string", "nullable": True, "default": None}),
    _prop({"type": "object", "default": {"a": 1}}),
    _prop({"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"a": "x"}}),
    _prop({"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"b": 1}}),
    _prop(
        {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "integer"}},
            "default": {},
        }
    ),
    _prop({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    _prop({"type": "string", "$ref": "#/x"}),
    _prop({"type": "object", "patternProperties": {"a": {"type": "string"}}}),
    _prop({"type": "object", "dependencies": {"a": ["b"]}}),
    _prop({"type": "object", "additionalItems": True}),
    _prop({"type": "object", "definitions": {}}),
    _prop({"type": "string", "readOnly": True}),
    _prop({"type": "string", "id": "x"}),
    _prop({"unknown": 1, "type": "string"}),
    _prop({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    _prop({"x-kubernetes-int-or-string": True, "type": "string"}),
    _prop({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    _prop({"type": "object", "allOf": [{"properties": {"q": {"minimum": 1}}}]}),
    _prop(
        {
            "type": "object",
            "properties": {"q": {"type": "integer"}},
            "allOf": [{"properties": {"q": {"minimum": 1}}}],
        }
    ),
    _prop({"type": "object", "not": {"required": ["a"]}}),
    _prop({"type": "object", "oneOf": [{"default": 1}]}),
    _prop({"type": "object", "anyOf": [{"description": "x"}]}),
    _prop({"type": "object", "anyOf": [{"nullable": True}]}),
    _prop({"type": "object", "anyOf": [{"x-kubernetes-preserve-unknown-fields": True}]}),
    _prop({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
    _prop({"type": "array", "x-kubernetes-list-type": "x", "items": {"type": "object"}}),
    _prop(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        }
    ),
    _prop(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "object"}}},
        }
    ),
    _prop(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "a"],
            "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        }
    ),
    _prop(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["b"],
            "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        }
    ),
    _prop(
        {
            "type": "array",
            "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        }
    ),
    _prop({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
    _prop({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
    _prop(
        {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "string", "nullable": True},
        }
    ),
    _prop({"type": "string", "x-kubernetes-list-type": "set"}),
    _prop({"type": "object", "x-kubernetes-map-type": "x"}),
    _prop({"type": "object", "x-kubernetes-map-type": "granular"}),
    _prop({"type": "string", "x-kubernetes-map-type": "atomic"}),
    _prop({"type": "string", "x-kubernetes-preserve-unknown-fields": True}),
    _prop({"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
    _prop({"type": "string", "x-kubernetes-embedded-resource": True}),
    _prop({"type": "object", "x-kubernetes-embedded-resource": True}),
    _prop(
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]
RULES: list[Any] = [
    {"rule": "self > 0"},
    {"rule": ""},
    {"rule": " "},
    {"rule": None},
    {"rule": "self"},
    {"rule": "self +"},
    {"rule": "nope > 0"},
    {"rule": "self > 'a'"},
    {"rule": "self.x"},
    {"rule": "self > 0", "message": ""},
    {"rule": "self > 0", "message": "a\nb"},
    {"rule": "self > 0", "message": "x" * 2049},
    {"rule": "self > 0", "messageExpression": "'x'"},
    {"rule": "self > 0", "messageExpression": "self"},
    {"rule": "self > 0", "messageExpression": "'x' +"},
    {"rule": "self > 0", "messageExpression": " "},
    {"rule": "self > 0", "reason": "FieldValueInvalid"},
    {"rule": "self > 0", "reason": "x"},
    {"rule": "self > 0", "reason": ""},
    {"rule": "self > 0", "fieldPath": ".x"},
    {"rule": "self > 0", "fieldPath": ""},
    {"rule": "self > 0", "fieldPath": "x"},
    {"rule": "self >= oldSelf"},
    {"rule": "self >= oldSelf", "optionalOldSelf": True},
    {"rule": "self >= oldSelf.orValue(0)", "optionalOldSelf": True},
    {"rule": "self > 0", "optionalOldSelf": True},
    {"rule": "true"},
    {"rule": "1 + 1"},
    {"rule": "has(self.x)"},
    {"rule": "self.matches('(')"},
    {"rule": "self in [1,2]"},
    {"rule": "size(self) > 1"},
    {"rule": "self == null"},
    {"rule": "dyn(self) == 'x'"},
    {"rule": "self > 0", "unknown": 1},
    {"rule": "type(self) == int"},
    {"rule": "[1,2,3].all(x, x > self)"},
    {"rule": "cel.bind(x, self, x > 0)"},
    {"rule": "self > 0 || isURL('x')"},
    {"rule": "quantity('1').isGreaterThan(quantity('0'))"},
    {"rule": "self > duration('1s')"},
    {"rule": "timestamp('x') > timestamp('y')"},
    {"rule": "ip('1.1.1.1').isGlobalUnicast()"},
    {"rule": "self > 0u"},
    {"rule": "self > 1.0"},
    {"rule": "string(self) == '1'"},
    {"rule": "self % 2 == 0"},
    {"rule": "1/0 == 1"},
    {"rule": "'a'.format([1]) == 'a'"},
    {"rule": "self > 0 ? true : 'x'"},
    {"rule": "!self"},
    {"rule": "self && true"},
]


def definitions() -> Iterator[Case]:
    def case(name: str, made: dict[str, Any], then: list[Step] | None = None) -> Case:
        look = get(
            CRDS + "/things.{u}.gen.example.com",
            until={"status.conditions[type=Established].status": "True"},
            poll=1.5,
        )
        return Case(
            "crd",
            name[:110],
            [
                post(CRDS, made, bodyless=True),
                *(then or [look]),
                delete(CRDS + "/things.{u}.gen.example.com", unchecked=True),
            ],
        )

    for n, over in enumerate(SCHEMAS):
        yield case(f"schema {n} {over}", _definition(schema=over))
    yield case("no schema", _definition(version={"schema": None}))
    for n, rule in enumerate(RULES):
        yield case(
            f"rule {n} {rule}",
            _definition(schema=_prop({"type": "integer", "x-kubernetes-validations": [rule]})),
        )
        yield case(
            f"object rule {n} {rule}",
            _definition(
                schema={
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {"x": {"type": "integer"}},
                            "x-kubernetes-validations": [
                                {
                                    k: v.replace("self", "self.x")
                                    if isinstance(v, str) and k in ("rule", "messageExpression")
                                    else v
                                    for k, v in rule.items()
                                }
                            ],
                        }
                    },
                }
            ),
        )
    for rule in (
        "self.a.all(x, x.all(y, y.all(z, z > 0)))",
        "self.s.matches('a*')",
        "self.a.exists(x, x == 'b')",
        "size(self.s) < 5",
        "self.m.all(k, k != 'x')",
        "self.a.map(x, x + 'y').size() > 0",
        "self.a.filter(x, x == 'q').size() == 0",
        "self.s.contains('x')",
        "self.a == self.a",
        "self.a.all(x, self.a.all(y, x == y))",
    ):
        for bound in ({}, {"maxItems": 10}):
            limited = {"maxLength": 10} if bound else {}
            yield case(
                f"cost {rule} {bound}",
                _definition(
                    schema={
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "a": {
                                        "type": "array",
                                        **bound,
                                        "items": {"type": "string", **limited},
                                    },
                                    "s": {"type": "string", **limited},
                                    "m": {
                                        "type": "object",
                                        "additionalProperties": {"type": "string"},
                                        **({"maxProperties": 5} if bound else {}),
                                    },
                                },
                                "x-kubernetes-validations": [{"rule": rule}],
                            }
                        },
                    }
                ),
            )
    overs: list[Any] = [
        {"scope": "x"},
        {"scope": None},
        {"scope": "Cluster"},
        {"group": None},
        {"group": "X"},
        {"group": "other.com"},
        {"group": "nodots"},
        {"names": None},
        {"names": {"kind": None}},
        {"names": {"plural": None}},
        {"names": {"plural": "Things"}},
        {"names": {"plural": "other"}},
        {"names": {"kind": "thing"}},
        {"names": {"kind": "A B"}},
        {"names": {"kind": "1x"}},
        {"names": {"singular": None}},
        {"names": {"singular": "Thing"}},
        {"names": {"listKind": None}},
        {"names": {"listKind": "Thing"}},
        {"names": {"shortNames": ["t"]}},
        {"names": {"shortNames": ["T"]}},
        {"names": {"shortNames": ["things"]}},
        {"names": {"categories": ["all"]}},
        {"names": {"categories": ["A"]}},
        {"versions": None},
        {"versions": []},
        {"versions": [{"name": "v1"}]},
        {"conversion": {"strategy": "None"}},
        {"conversion": {"strategy": "x"}},
        {"conversion": {}},
        {"conversion": {"strategy": "None", "webhook": {}}},
        {"preserveUnknownFields": True},
        {"preserveUnknownFields": False},
        {"unknown": 1},
    ]
    for over in overs:
        yield case(f"spec {over}", _definition({"spec": over}))
    for over in (
        {"name": "V1"},
        {"name": "1"},
        {"name": "a.b"},
        {"name": None},
        {"served": False},
        {"served": None},
        {"storage": False},
        {"storage": None},
        {"deprecated": True},
        {"deprecated": True, "deprecationWarning": "w"},
        {"deprecationWarning": "w"},
        {"deprecated": True, "deprecationWarning": ""},
        {"subresources": {}},
        {"subresources": {"status": {}}},
        {"subresources": {"status": {"x": 1}}},
        {"subresources": {"scale": {}}},
        {
            "subresources": {
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                }
            }
        },
        {"subresources": {"scale": {"specReplicasPath": "x", "statusReplicasPath": ".spec.y"}}},
        {
            "subresources": {
                "scale": {
                    "specReplicasPath": ".status.x",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": "x",
                }
            }
        },
        {
            "subresources": {
                "scale": {
                    "specReplicasPath": ".spec.a[0]",
                    "statusReplicasPath": ".status.replicas",
                }
            }
        },
        {"additionalPrinterColumns": []},
        {"additionalPrinterColumns": [{}]},
        {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".x"}]},
        {"additionalPrinterColumns": [{"name": "A", "type": "x", "jsonPath": ".x"}]},
        {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "x"}]},
        {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ""}]},
        {
            "additionalPrinterColumns": [
                {"name": "A", "type": "string", "jsonPath": ".x[?(@.a=='b')].c"}
            ]
        },
        {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".x["}]},
        {
            "additionalPrinterColumns": [
                {"name": "A", "type": "string", "format": "x", "jsonPath": ".x"}
            ]
        },
        {
            "additionalPrinterColumns": [
                {
                    "name": "A",
                    "type": "integer",
                    "format": "int32",
                    "jsonPath": ".x",
                    "priority": -1,
                }
            ]
        },
        {"selectableFields": [{"jsonPath": ".spec.x"}]},
        {"selectableFields": [{"jsonPath": "spec.x"}]},
        {"selectableFields": [{"jsonPath": ".metadata.name"}]},
        {"selectableFields": [{}]},
        {"unknown": 1},
    ):
        yield case(f"version {over}", _definition(version=over, schema=_prop({"type": "string"})))
    for versions in (["v1", "v1"], ["v1", "v2"], ["v2", "v1beta1", "v1", "v1alpha1", "foo"]):
        many = [
            {
                "name": v,
                "served": True,
                "storage": n == 0,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
            for n, v in enumerate(versions)
        ]
        yield case(
            f"versions {versions}",
            _definition({"spec": {"versions": many}}),
            [
                get(
                    CRDS + "/things.{u}.gen.example.com",
                    until={"status.conditions[type=Established].status": "True"},
                    poll=2,
                ),
                get("/apis/{u}.gen.example.com", until={"status": 200}, poll=3),
            ],
        )
    for change in (
        {"spec": {"scope": "Cluster"}},
        {"spec": {"group": "x.com"}},
        {"spec": {"names": {"plural": "x"}}},
        {"spec": {"names": {"kind": "Other"}}},
        {"spec": {"names": {"shortNames": ["q"]}}},
        {"spec": {"versions": []}},
        {"metadata": {"labels": {"a": "b"}}},
        {"status": {"storedVersions": []}},
        {"spec": {"names": {"singular": "x", "listKind": "XList"}}},
    ):
        yield case(
            f"change {change}",
            _definition(),
            [
                get(
                    CRDS + "/things.{u}.gen.example.com",
                    until={"status.conditions[type=Established].status": "True"},
                    poll=4,
                    unchecked=True,
                ),
                {"sleep": 0.3},
                patch(CRDS + "/things.{u}.gen.example.com", change, bodyless=True),
                patch(CRDS + "/things.{u}.gen.example.com/status", change, bodyless=True),
            ],
        )
    for meta in (
        {"name": "x"},
        {"name": "things.x.com"},
        {"name": None},
        {"finalizers": ["bad"]},
        {"labels": {"a b": "c"}},
        {"annotations": {"api-approved.kubernetes.io": "x"}},
    ):
        yield Case(
            "crd", f"meta {meta}", [post(CRDS, _definition({"metadata": meta}), bodyless=True)]
        )
    for group in ("x.k8s.io", "x.kubernetes.io"):
        yield Case(
            "crd",
            f"protected {group}",
            [
                post(
                    CRDS,
                    _definition(
                        {"metadata": {"name": f"things.{group}"}, "spec": {"group": group}}
                    ),
                    query={"dryRun": "All"},
                    bodyless=True,
                )
            ],
        )


def scales() -> Iterator[Case]:
    made = _definition(
        version={
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            }
        },
        schema={
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"replicas": {"type": "integer", "minimum": 0, "maximum": 9}},
                },
                "status": {
                    "type": "object",
                    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
                },
            },
        },
    )
    things = "/apis/{u}.gen.example.com/v1/namespaces/{ns}/things"
    thing = body("{u}.gen.example.com/v1", "Thing", spec={"replicas": 2})
    ground = [
        post(CRDS, made, bodyless=True),
        get(
            CRDS + "/things.{u}.gen.example.com",
            until={"status.conditions[type=Established].status": "True"},
            unchecked=True,
        ),
        get(things, until={"status": 200}, unchecked=True),
    ]
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 3},
    }
    for over in (
        {},
        {"spec": {"replicas": -1}},
        {"spec": {"replicas": 10}},
        {"spec": {"replicas": "x"}},
        {"spec": None},
        {"metadata": {"name": "b"}},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"uid": "x"}},
        {"kind": "Thing"},
        {"apiVersion": "v1"},
        {"status": {"replicas": 7}},
    ):
        yield Case(
            "crstatus",
            f"scale {over}",
            [
                *ground,
                post(things, thing),
                patch(things + "/a/status", {"status": {"replicas": 1, "selector": "a=b"}}),
                get(things + "/a/scale"),
                put(things + "/a/scale", merged(scale, over)),
                patch(things + "/a/scale", over),
                get(things + "/a/scale"),
                get(things + "/a"),
                delete(CRDS + "/things.{u}.gen.example.com", unchecked=True),
            ],
        )
    yield Case(
        "crstatus",
        "scale none",
        [
            *ground,
            post(things, merged(thing, {"spec": None})),
            get(things + "/a/scale", coarse=True),
            get(things + "/zz/scale"),
            patch(
                things + "/a/scale",
                [{"op": "replace", "path": "/spec/replicas", "value": 1}],
                "json",
                coarse=True,
            ),
            delete(CRDS + "/things.{u}.gen.example.com", unchecked=True),
        ],
    )


def all_cases() -> Iterator[Case]:
    for family in (schema, definitions, scales):
        yield from family()
