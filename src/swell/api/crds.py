"""Generates the CustomResourceDefinitions of our kinds from their schemas.

`python -m swell.api.crds DIRECTORY` writes them as YAML, one file a kind, always the same bytes.
Without a directory it prints them. The files under `deploy/crds` are made by it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS, Definition, PrinterColumn
from swell.api.schemas.model import INT32_MAX, Schema, SchemaType
from swell.api.schemas.shared import QUANTITY_FORMAT

# A CRD may restrict only these fields of the metadata.
_METADATA_FIELDS = ("name", "generateName")

_SIZE_SUFFIXES = {
    SchemaType.OBJECT: "Properties",
    SchemaType.ARRAY: "Items",
    SchemaType.STRING: "Length",
    SchemaType.INT_OR_STRING: "Length",
}


def crd(definition: Definition) -> Body:
    """Returns the CustomResourceDefinition of a kind, as JSON."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": definition.group,
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.kind.lower(),
                "shortNames": list(definition.short_names),
                "categories": list(definition.categories),
            },
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == definition.versions[-1],
                    **_deprecation(definition, version),
                    "schema": {"openAPIV3Schema": _root(definition.schema())},
                    "subresources": _subresources(definition),
                    "additionalPrinterColumns": [_column(column) for column in definition.columns],
                }
                for version in definition.versions
            ],
        },
    }


def crd_yaml(definition: Definition) -> str:
    return yaml.dump(crd(definition), Dumper=_CrdDumper, sort_keys=False, width=100)


def crd_file_name(definition: Definition) -> str:
    return f"{definition.group}_{definition.plural}.yaml"


def main(arguments: list[str]) -> None:
    """Write one file a kind into the directory given, or all of them to standard output."""
    if not arguments:
        sys.stdout.write("---\n".join(crd_yaml(definition) for definition in DEFINITIONS))
        return
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for definition in DEFINITIONS:
        (directory / crd_file_name(definition)).write_text(crd_yaml(definition), encoding="utf-8")


def _deprecation(definition: Definition, version: str) -> Body:
    """Marks versions before the stored one as deprecated, in Kubernetes' own words."""
    stored = definition.versions[-1]
    if version == stored:
        return {}
    kind = definition.kind
    use = f"{definition.group}/{stored} {kind}"
    warning = f"{definition.group}/{version} {kind} is deprecated; use {use}"
    return {"deprecated": True, "deprecationWarning": warning}


def _subresources(definition: Definition) -> Body:
    scale = definition.scale
    if scale is None:
        return {"status": {}}
    paths = {
        "specReplicasPath": scale.spec_replicas,
        "statusReplicasPath": scale.status_replicas,
        "labelSelectorPath": scale.selector,
    }
    return {"status": {}, "scale": paths}


def _root(schema: Schema) -> Body:
    body = _openapi(schema)
    metadata = body["properties"]["metadata"]["properties"]
    body["properties"]["metadata"] = {
        "type": "object",
        "properties": {name: metadata[name] for name in _METADATA_FIELDS},
    }
    return body


def _openapi(schema: Schema) -> Body:
    body: Body = {}
    if schema.description:
        body["description"] = schema.description
    body.update(_type(schema))
    body.update(_bounds(schema))
    if schema.properties:
        body["properties"] = {name: _openapi(part) for name, part in schema.properties.items()}
    if schema.required:
        body["required"] = list(schema.required)
    if schema.values is not None:
        body["additionalProperties"] = _openapi(schema.values)
    if schema.items is not None:
        body["items"] = _openapi(schema.items)
        # Said of every list: server-side apply merges by it.
        body["x-kubernetes-list-type"] = "map" if schema.map_keys else "atomic"
    if schema.map_keys:
        body["x-kubernetes-list-map-keys"] = list(schema.map_keys)
    if schema.is_atomic:
        body["x-kubernetes-map-type"] = "atomic"
    if schema.rules:
        body["x-kubernetes-validations"] = [
            {"rule": rule.expression, "message": rule.message, "reason": rule.reason}
            | ({"messageExpression": rule.message_expression} if rule.message_expression else {})
            | ({"fieldPath": rule.field} if rule.field else {})
            for rule in schema.rules
        ]
    return body


def _type(schema: Schema) -> Body:
    body: Body = {}
    if schema.type is SchemaType.INT_OR_STRING:
        body["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        body["x-kubernetes-int-or-string"] = True
    elif schema.type is not SchemaType.ANY:
        body["type"] = schema.type.value
    if schema.is_open or schema.type is SchemaType.ANY:
        body["x-kubernetes-preserve-unknown-fields"] = True
    if schema.format and schema.format != QUANTITY_FORMAT:
        body["format"] = schema.format
    if schema.type is SchemaType.INTEGER:
        small = schema.maximum is not None and schema.maximum <= INT32_MAX
        body["format"] = "int32" if small else "int64"
    return body


def _bounds(schema: Schema) -> Body:
    body: Body = {}
    if schema.enum:
        body["enum"] = list(schema.enum)
    if schema.default is not None:
        body["default"] = schema.default
    if schema.minimum is not None:
        body["minimum"] = schema.minimum
    # The format int32 implies its maximum.
    if schema.maximum is not None and schema.maximum < INT32_MAX:
        body["maximum"] = schema.maximum
    if schema.pattern is not None:
        body["pattern"] = f"^{schema.pattern.regex}$"
    suffix = _SIZE_SUFFIXES.get(schema.type, "")
    if schema.size_min is not None:
        body[f"min{suffix}"] = schema.size_min
    if schema.size_max is not None:
        body[f"max{suffix}"] = schema.size_max
    return body


def _column(column: PrinterColumn) -> Body:
    body: Body = {
        "name": column.name,
        "type": column.type,
        "description": column.description,
        "jsonPath": column.path,
    }
    if column.is_wide:
        body["priority"] = 1
    return body


class _CrdDumper(yaml.SafeDumper):
    """Writes equal parts in full instead of as references to each other."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


if __name__ == "__main__":
    main(sys.argv[1:])
