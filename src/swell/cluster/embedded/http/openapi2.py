"""The OpenAPI document of version 2, as JSON and as the protobuf that kubectl asks for. Pure.

kubectl reads it where version 3 does not help it: to check the items of a List before it sends
them, and to find out that a kind is not served. The document has the definitions of all kinds, and
of their paths only that patches take `fieldValidation` and `dryRun`.

The numbers are those of the published message `openapi.v2.Document` of gnostic (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cluster.embedded.http.openapi import GVK, INFO, REF, CustomSchema, add_schema, gvk, paths
from swell.cluster.embedded.registry import ServedKind

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_ASKED = PROTOBUF.replace("v2.v1.0", "v2@v1.0")  # as clients write it in Accept
_DEFINITION = "#/definitions/"
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_COPIED = ("type", "format", "description", "default", "enum", "required")
_UNKNOWN_FIELDS = "x-kubernetes-preserve-unknown-fields"


def document(kinds: Iterable[ServedKind], custom_schema: CustomSchema) -> Body:
    schemas: Body = {}
    served: Body = {}
    for kind in kinds:
        name = add_schema(kind, schemas, custom_schema)
        path = list(paths(kind, name))[-1]
        parameters = [{"name": one, "in": "query", "type": "string"} for one in _PARAMETERS]
        answers = {"200": {"description": "OK"}}
        patch = {GVK: gvk(kind), "parameters": parameters, "responses": answers}
        served[path] = {"patch": patch}
    definitions = {name: _second_version(schema) for name, schema in schemas.items()}
    return {"swagger": "2.0", "info": INFO, "paths": served, "definitions": definitions}


def _second_version(schema: Body) -> Body:
    """A schema in the words that version 2 has; alternatives are left out, and so check nothing."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace(REF, _DEFINITION)}
    if len(schema.get("allOf", ())) == 1:
        return _second_version(schema["allOf"][0])
    found: Body = {word: schema[word] for word in _COPIED if word in schema}
    found |= {word: value for word, value in schema.items() if word.startswith("x-kubernetes-")}
    if "type" not in schema and "oneOf" in schema:
        found["type"] = "string"  # quantities, and numbers that may be texts
    if schema.get("x-kubernetes-int-or-string") or schema.get(_UNKNOWN_FIELDS):
        found.pop("type", None)
        return found
    if "properties" in schema:
        properties = schema["properties"].items()
        found["properties"] = {name: _second_version(inner) for name, inner in properties}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            found[word] = _second_version(schema[word])
    return found


# --- protobuf -----------------------------------------------------------------------------------


def protobuf(swagger: Body) -> bytes:
    """The document as a message."""
    info = _text(1, swagger["info"]["title"]) + _text(2, swagger["info"]["version"])
    served = b"".join(
        _message(2, _text(1, path) + _message(2, _message(8, _operation(item["patch"]))))
        for path, item in swagger["paths"].items()
    )
    definitions = _named_schemas(swagger["definitions"])
    head = _text(1, swagger["swagger"]) + _message(2, info)
    return head + _message(8, served) + _message(9, definitions)


def _operation(operation: Body) -> bytes:
    parameters = b"".join(
        # ParametersItem > Parameter > NonBodyParameter > QueryParameterSubSchema
        _message(
            8, _message(1, _message(2, _message(3, _text(2, "query") + _text(4, one["name"]))))
        )
        for one in operation["parameters"]
    )
    return parameters + _extensions(13, operation)


def _schema(schema: Body) -> bytes:
    return b"".join(_schema_fields(schema))


def _schema_fields(schema: Body) -> Iterator[bytes]:
    for word, number in (("$ref", 1), ("format", 2), ("description", 4)):
        if schema.get(word):
            yield _text(number, schema[word])
    if "default" in schema:
        yield _message(5, _any(schema["default"]))
    for name in schema.get("required", ()):
        yield _text(19, name)
    for value in schema.get("enum", ()):
        yield _message(20, _any(value))
    if "additionalProperties" in schema:
        yield _message(21, _message(1, _schema(schema["additionalProperties"])))
    if "type" in schema:
        yield _message(22, _text(1, schema["type"]))
    if "items" in schema:
        yield _message(23, _message(1, _schema(schema["items"])))
    if "properties" in schema:
        yield _message(25, _named_schemas(schema["properties"]))
    yield _extensions(31, schema)


def _named_schemas(schemas: Mapping[str, Body]) -> bytes:
    return b"".join(
        _message(1, _text(1, name) + _message(2, _schema(schema)))
        for name, schema in schemas.items()
    )


def _extensions(number: int, of: Body) -> bytes:
    return b"".join(
        _message(number, _text(1, word) + _message(2, _any(value)))
        for word, value in of.items()
        if word.startswith("x-kubernetes-")
    )


def _any(value: object) -> bytes:
    """A value as YAML, of which JSON is a part."""
    return _message(2, encode(value))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
