"""Turns published definitions of Kubernetes' own kinds into schemas that `structure` checks.

The definitions are those of a server's OpenAPI document. Only shapes come from them: types,
required fields, enumerations and ranges of numbers. Rules between fields are the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swell.api.schemas.model import INT32_MAX, INT64_MAX, Schema, SchemaType
from swell.api.schemas.shared import QUANTITY

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_ANY = Schema(type=SchemaType.ANY, is_open=True)
_TEXT = Schema(type=SchemaType.STRING)
# Types with a JSON form of their own, which their definitions do not express.
_WELL_KNOWN: Mapping[str, Schema] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Schema(type=SchemaType.INT_OR_STRING),
    f"{_META}Time": _TEXT,
    f"{_META}MicroTime": _TEXT,
    f"{_META}FieldsV1": _ANY,
}
_INTEGER_MAX = {"int32": INT32_MAX}
# Maps of the published kinds have no limit; one that a file of a manifest may hold is below this.
_MAP_SIZE_MAX = 1 << 24

Definition = Mapping[str, Any]


class PublishedSchemas:
    """The schemas of definitions by name, converted when first asked for."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._converted: dict[str, Schema] = dict(_WELL_KNOWN)

    def of(self, name: str) -> Schema:
        """Returns the schema of a definition. Inside of itself a definition is not checked."""
        if name not in self._converted:
            self._converted[name] = _ANY
            self._converted[name] = self._convert(self._definitions[name])
        return self._converted[name]

    def _convert(self, definition: Definition) -> Schema:
        if "$ref" in definition:
            return self.of(definition["$ref"])
        match definition.get("type"):
            case "object":
                return self._object(definition)
            case "array":
                return Schema(type=SchemaType.ARRAY, items=self._convert(definition["items"]))
            case "string":
                return Schema(type=SchemaType.STRING, enum=tuple(definition.get("enum", ())))
            case "boolean":
                return Schema(type=SchemaType.BOOLEAN)
            case "integer":
                most = _INTEGER_MAX.get(definition.get("format", ""), INT64_MAX)
                return Schema(type=SchemaType.INTEGER, minimum=-most - 1, maximum=most)
            case _:
                return _ANY

    def _object(self, definition: Definition) -> Schema:
        values = definition.get("additionalProperties")
        if isinstance(values, Mapping):
            return Schema(
                type=SchemaType.OBJECT, values=self._convert(values), size_max=_MAP_SIZE_MAX
            )
        properties = definition.get("properties")
        if not properties:
            return Schema(type=SchemaType.OBJECT, is_open=True)
        return Schema(
            type=SchemaType.OBJECT,
            properties={name: self._convert(part) for name, part in properties.items()},
            required=tuple(definition.get("required", ())),
        )
