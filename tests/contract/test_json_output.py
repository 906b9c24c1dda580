"""`-o json` of every command that has it: one value on stdout, of a shape that scripts rely on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.contract.swell_command import Swell
from tests.contract.test_stopping import JOB

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NUMBER = {"type": "integer"}


def an(**fields: object) -> dict[str, Any]:
    """Return the shape of an object with at least these fields."""
    return {"type": "object", "required": list(fields), "properties": fields}


def some(items: object) -> dict[str, Any]:
    return {"type": "array", "items": items}


def a_list(items: object) -> dict[str, Any]:
    return an(apiVersion={"enum": ["v1"]}, kind={"enum": ["List"]}, items=some(items))


OBJECT = an(apiVersion=TEXT, kind=TEXT, metadata=an(name=TEXT))
ROW = an(index=NUMBER, job=TEXT, parameters=an(), phase=TEXT, message=TEXT)
SWEEP = an(
    apiVersion=TEXT,
    kind={"enum": ["Sweep"]},
    metadata=an(name=TEXT, namespace=TEXT),
    status=an(jobs=NUMBER, counts=an(), ended=FLAG),
    rows=some(ROW),
)
SHAPES = {
    "version": an(client=TEXT, server=TEXT),
    "cluster": an(chosenBy=TEXT),
    "get": a_list(OBJECT),
    "get fit": OBJECT,
    "get pods": a_list(OBJECT),
    "get pods,cm": a_list(OBJECT),
    "get sweeps": a_list(SWEEP),
    "get sweep s": SWEEP,
    "events": a_list(OBJECT),
    "api-resources": a_list(
        an(name=TEXT, shortNames=some(TEXT), apiVersion=TEXT, namespaced=FLAG, kind=TEXT)
    ),
    "explain fit": an(summary=TEXT),
    "top": an(sizes=some(an(job=TEXT, role=TEXT, phase=TEXT)), load=some(an()), reports=some(an())),
    "top --topology": an(domains=some(an())),
    "top pods": some(an(pod=TEXT, phase=TEXT, node=TEXT, cpu=TEXT, memory=TEXT, gpu=TEXT)),
    "auth whoami": an(username=TEXT, groups=some(TEXT)),
    "apply -f {file} --dry-run=server": OBJECT,
    "create ns shape --dry-run=server": OBJECT,
    "label aitj fit x=y": OBJECT,
    'patch aitj fit -p {{"metadata":{{"labels":{{"a":"b"}}}}}}': OBJECT,
    "queue list": a_list(OBJECT),
    "validate {file}": an(valid=FLAG, errors=some(an(file=TEXT, line=NUMBER, message=TEXT))),
}
NAMESPACED = frozenset({"get", "events", "explain", "top", "apply", "label", "patch"})


@pytest.fixture
def filled(swell: Swell) -> Swell:
    swell.apply(JOB)
    flags = ("--detach", "--name", "s", "-n", swell.namespace)
    swell("sweep", *flags, "a=1,2", "--", "true", "{a}")
    return swell


def test_json_of_every_command_has_its_shape(filled: Swell) -> None:
    """Nothing else is on stdout, and fields keep their names and types."""
    file = filled.file(JOB)
    wrong = []
    for line, shape in SHAPES.items():
        words = line.format(file=file).split()
        scope = ("-n", filled.namespace) if words[0] in NAMESPACED else ()
        answer = filled(*words, *scope, "-o", "json")
        value = msgspec.json.decode(answer.out) if answer.code == 0 else answer.err
        wrong += [f"{line}: {fault}" for fault in faults(value, shape, "$")]

    assert wrong == []


TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "object": dict,
    "array": list,
}


def faults(value: Any, shape: dict[str, Any], path: str) -> list[str]:
    """Return where a value is not of a shape."""
    if "enum" in shape:
        return [] if value in shape["enum"] else [f"{path} is {value!r}"]
    is_of_type = isinstance(value, TYPES[shape["type"]])
    if not is_of_type:
        return [f"{path} is {value!r}, not a value of type {shape['type']}"]
    if shape["type"] == "array":
        return [one for item in value for one in faults(item, shape["items"], f"{path}[]")]
    found = [f"{path}.{name} is missing" for name in shape.get("required", ()) if name not in value]
    for name, inner in shape.get("properties", {}).items():
        if name in value:
            found += faults(value[name], inner, f"{path}.{name}")
    return found
