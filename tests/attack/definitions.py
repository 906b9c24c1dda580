"""Attacks by custom resource definitions: schemas, patterns, rules and printer columns."""

from __future__ import annotations

import copy
import time
from typing import Any

from tests.attack.harness import Attack, Target
from tests.contract import definitions
from tests.contract.hostile import DEFINITIONS, NAMESPACE
from tests.contract.world import GROUP

TABLE: dict[str, str | None] = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def definition(name: str) -> dict[str, Any]:
    """A definition whose kind is free to be spoilt: its spec takes anything."""
    made: dict[str, Any] = copy.deepcopy(definitions.WIDGETS)
    made["metadata"]["name"] = f"{name}s.{GROUP}"
    kind = name.capitalize()
    made["spec"]["names"] = {"plural": f"{name}s", "kind": kind, "singular": name}
    made["spec"]["names"]["listKind"] = f"{kind}List"
    (version,) = [one for one in made["spec"]["versions"] if one.get("storage")]
    made["spec"]["versions"] = [version]
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version.pop("additionalPrinterColumns", None)
    return made


def _schema(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: dict[str, Any] = found["properties"]["spec"]
    return spec


def _try(target: Target, made: dict[str, Any], *specs: object) -> None:
    """Create a definition, objects of it, and tables of them; then take it away."""
    names = made["spec"]["names"]
    version = made["spec"]["versions"][0]["name"]
    answer = target.ask("POST", DEFINITIONS, made)
    if answer is None or answer.code != 201:
        return
    path = f"/apis/{GROUP}/{version}/namespaces/{NAMESPACE}/{names['plural']}"
    until = time.monotonic() + 5
    while time.monotonic() < until and target.raw.ask("GET", path).code == 404:
        time.sleep(0.05)
    for n, spec in enumerate(specs):
        body = {"apiVersion": f"{GROUP}/{version}", "kind": names["kind"], "spec": spec}
        target.ask("POST", path, {**body, "metadata": {"name": f"o{n}"}})
    for _ in range(3):
        target.ask("GET", path, headers=TABLE)
    target.ask("DELETE", f"{DEFINITIONS}/{made['metadata']['name']}")


def _columns(*paths: str) -> Attack:
    def attack(target: Target) -> None:
        made = definition("column")
        made["spec"]["versions"][0]["additionalPrinterColumns"] = [
            {"name": f"C{n}", "type": "string", "jsonPath": path} for n, path in enumerate(paths)
        ]
        _try(target, made, *[{"a": {"b": [{"c": n}] * 50}} for n in range(20)])

    return attack


def _rules(rules: list[str], schema: dict[str, Any], *specs: object) -> Attack:
    def attack(target: Target) -> None:
        made = definition("ruled")
        where = _schema(made)
        where.clear()
        where |= schema
        where["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
        _try(target, made, *specs)

    return attack


def _patterns(target: Target) -> None:
    for pattern in ("(a+)+$", "(a|a)*b", "(.*)*" * 20 + "x", "a{1000}" * 30, "(" * 1_000, "[" * 9):
        made = definition("pattern")
        text = {"type": "string", "pattern": pattern}
        _schema(made)["properties"] = {"a": text, "b": {"type": "string", "format": "duration"}}
        _try(target, made, {"a": "a" * 900_000 + "!"}, {"a": "", "b": "1" * 900_000})


def _deep_schema(target: Target) -> None:
    for depth in (60, 150, 190):
        made = definition("deep")
        inner: dict[str, Any] = {"type": "string"}
        for _ in range(depth):
            inner = {"type": "object", "properties": {"a": inner}}
        _schema(made)["properties"] = {"a": inner}
        _try(target, made, {"a": {}})


def _wide_schema(target: Target) -> None:
    made = definition("wide")
    fields = {f"f{n}": {"type": "string", "default": "x"} for n in range(8_000)}
    _schema(made)["properties"] = fields
    _try(target, made, {}, {}, {})
    made = definition("anyof")
    _schema(made)["anyOf"] = [{"required": [f"a{n}"]} for n in range(5_000)]
    _try(target, made, {f"b{n}": 1 for n in range(5_000)})


def _set_lists(target: Target) -> None:
    made = definition("listed")
    items = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
    listed = {"type": "array", "items": items, "x-kubernetes-list-type": "map"}
    unique = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    listed["x-kubernetes-list-map-keys"] = ["k"]
    _schema(made)["properties"] = {"m": listed, "s": unique}
    values = {"m": [{"k": n} for n in range(20_000)], "s": [str(n) for n in range(40_000)]}
    _try(target, made, values)


def _names(target: Target) -> None:
    for name in ("a" * 100_000, "-", "a.b", ""):
        made = definition("named")
        made["spec"]["names"]["plural"] = name
        made["spec"]["names"]["shortNames"] = [f"s{n}" for n in range(20_000)]
        target.ask("POST", DEFINITIONS, made)
    made = definition("versioned")
    first = made["spec"]["versions"][0]
    made["spec"]["versions"] += [
        {**first, "name": f"v{n}", "storage": False, "served": True} for n in range(2, 200)
    ]
    _try(target, made, {})


def _many_wide_schemas(target: Target) -> None:
    """Definitions with thousands of fields, one after the other, and their documents."""
    for n in range(6):
        made = definition(f"many{n}")
        one = {"a": {"type": "string", "pattern": "^a*$"}, "b": {"type": "integer", "minimum": n}}
        nested = {"type": "object", "properties": one}
        _schema(made)["properties"] = {f"f{m}": nested for m in range(4_000)}
        target.ask("POST", DEFINITIONS, made)
        target.ask("GET", "/openapi/v2")
        target.ask("GET", f"/openapi/v3/apis/{GROUP}/v1")
        target.ask("DELETE", f"{DEFINITIONS}/{made['metadata']['name']}")


def _alternatives(target: Target) -> None:
    """Small objects against schemas with thousands of alternatives, and long enumerations."""
    for schema, value in (
        ({"anyOf": [{"minimum": n} for n in range(9_000, 12_000)]}, list(range(3_000))),
        ({"oneOf": [{"required": [f"a{n}"]} for n in range(2_000)]}, [{"b": 1}] * 2_000),
        ({"not": {"anyOf": [{"pattern": f"x{n}"} for n in range(2_000)]}}, ["y"] * 2_000),
        ({"enum": [f"v{n}" for n in range(20_000)], "type": "string"}, ["v19999"] * 8_000),
        ({"enum": [f"v{n}" for n in range(20_000)], "type": "string"}, ["w"] * 8_000),
    ):
        made = definition("choice")
        items = {"x-kubernetes-preserve-unknown-fields": True, **schema}
        _schema(made)["properties"] = {"l": {"type": "array", "items": items}}
        _try(target, made, {"l": value})


def _wide_columns(target: Target) -> None:
    """Columns over arrays of tens of thousands of items."""
    made = definition("column")
    paths = (".spec.a[*].c", ".spec.a[?(@.c==1)].c", ".spec.a[0:40000].c", ".spec..c", ".spec.a")
    made["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": f"C{n}", "type": "string", "jsonPath": path} for n, path in enumerate(paths)
    ]
    _try(target, made, *[{"a": [{"c": n} for n in range(40_000)]}] * 5)


_TEXT = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 100}}}
_LIST = {
    "type": "object",
    "properties": {"l": {"type": "array", "maxItems": 1_000, "items": {"type": "integer"}}},
}
_LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NUMBERS = {"l": list(range(1_000))}

ATTACKS: dict[str, Attack] = {
    "many wide schemas": _many_wide_schemas,
    "alternatives and enumerations": _alternatives,
    "columns over long arrays": _wide_columns,
    "rules that match long texts": _rules(
        ["self.s.matches('(a*)*b')", "self.s.matches('(.*a){20}')", "self.s.split('').size() > 0",
         "self.s.replace('a', 'aaaa') != ''", "self.s.find('(a|a)*$') != 'x'"],
        {"type": "object", "properties": {"s": {"type": "string", "maxLength": 100_000}}},
        {"s": "a" * 100_000},
        {"s": "a" * 30_000 + "!"},
    ),
    "column of 60000 blanks": _columns(".spec" + " " * 60_000, ".spec[" + " " * 60_000),
    "column of filters": _columns(".spec.a[?(@." + "c" * 50_000 + " == 1", ".a" + "[?(" * 9_000),
    "column of stars": _columns(".spec" + "[*]" * 20_000, ".spec" + "['" * 30_000, ".a" * 30_000),
    "column of digits": _columns(f".spec.a.b[{'9' * 60_000}]", ".spec" + "\\" * 60_001),
    "rules doubling a text": _rules(
        ["[self.s]" + ".map(x, x + x)" * 29 + ".size() > 0"], _TEXT, {"s": "x" * 100}
    ),
    "rules doubling a list": _rules(
        ["[self.l]" + ".map(x, x + x)" * 29 + ".size() > 0"], _LIST, _NUMBERS
    ),
    "rules sharing a list": _rules(
        ["[self.l]" + ".map(x, [dyn(x), dyn(x)])" * 29 + " == [self.l]"], _LIST, _NUMBERS
    ),
    "rules in loops": _rules(
        ["self.l.all(x, self.l.all(y, self.l.exists(z, x + y + z < 0) || true))"] * 5,
        _LIST,
        _NUMBERS,
    ),
    "rules with long sources": _rules(
        ["!" * 90_000 + "true", "(" * 90_000, "1" * 90_000 + " > 0", "self.s" + ".a" * 40_000,
         " && ".join(["true"] * 12_000), "'" + "\\x41" * 20_000 + "' == self.s", "[" * 90_000],
        _TEXT,
        {"s": "x"},
    ),
    "rules with odd values": _rules(
        ["timestamp(99999999999999) > timestamp(0)", "'%.999999999f'.format([1.0]) == ''",
         "lists.range(900000).map(x, x).size() > 0", "duration('9' + self.s) > duration('1s')",
         "self.s.matches('(a*)*' + self.s)", "{dyn([1]): 1}.size() > 0"],
        _TEXT,
        {"s": "x" * 100},
    ),
    "rules over loose objects": _rules(
        ["self.a == self.b", "size(self.a) > 0"], _LOOSE, {"a": [[1] * 1000] * 100, "b": {}}
    ),
    "patterns": _patterns,
    "deep schemas": _deep_schema,
    "wide schemas": _wide_schema,
    "sets and maps of lists": _set_lists,
    "names of definitions": _names,
}  # fmt: skip
