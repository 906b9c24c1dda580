"""Writes docs/reference/fields.md: every field of our kinds, from the schemas that CRDs come from.

`python -m tools.write_fields` writes it; a test fails while it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from swell.api.schemas.definitions import DEFINITIONS, Definition
from swell.api.schemas.model import INT32_MAX, Schema, SchemaType, ValidationRule

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "fields.md"
# What every object of Kubernetes has is described by Kubernetes.
STANDARD = frozenset({"apiVersion", "kind", "metadata"})
HEAD = """# Fields

Written by `tools/write_fields.py` from the schemas; do not edit. `kubectl explain` says the same.
`[]` stands for an item of a list, `{}` for a value of a map; **required** fields must be given.
"""


def page() -> str:
    return "\n".join([HEAD, *(_section(definition) for definition in DEFINITIONS)])


def _section(definition: Definition) -> str:
    root = definition.schema()
    versions = ", ".join(f"`{definition.group}/{version}`" for version in definition.versions)
    names = ", ".join(f"`{name}`" for name in (definition.plural, *definition.short_names))
    scope = "in a namespace" if definition.namespaced else "of the whole cluster"
    rows = [
        f"| `{path}` | {_type(schema)} | {_text(schema, is_required)} |"
        for path, schema, is_required in _fields(root, "")
    ]
    rules = [f"- {rule.message}" for rule in dict.fromkeys(_rules(root))]
    return "\n".join(
        [
            f"## {definition.kind}",
            "",
            f"{root.description} {versions}; {names}; {scope}.",
            "",
            "| field | type | meaning |",
            "| --- | --- | --- |",
            *rows,
            "",
            *(["Rules between fields:", "", *rules, ""] if rules else []),
        ]
    )


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, Schema, bool]]:
    for name, part in schema.properties.items():
        if not path and name in STANDARD:
            continue
        below = f"{path}.{name}" if path else name
        yield below, part, name in schema.required
        yield from _fields(part, below)
    if schema.items is not None:
        yield from _fields(schema.items, f"{path}[]")
    if schema.values is not None:
        yield from _fields(schema.values, f"{path}{{}}")


def _rules(schema: Schema) -> Iterator[ValidationRule]:
    yield from schema.rules
    for part in (*schema.properties.values(), schema.items, schema.values):
        if part is not None:
            yield from _rules(part)


def _type(schema: Schema) -> str:
    if schema.type is SchemaType.ANY:
        return "quantity"
    if schema.items is not None:
        return f"list of {_type(schema.items)}"
    if schema.values is not None:
        return f"map to {_type(schema.values)}"
    return schema.format or schema.type.value


def _text(schema: Schema, is_required: bool) -> str:
    parts = ["**Required.**"] if is_required else []
    parts.append(schema.description)
    if schema.enum:
        parts.append("One of " + ", ".join(f"`{value}`" for value in schema.enum if value) + ".")
    parts += _bounds(schema)
    if schema.default is not None:
        parts.append(f"Default: `{_json(schema.default)}`.")
    return " ".join(parts).replace("|", "\\|")


def _bounds(schema: Schema) -> Iterator[str]:
    if schema.type is SchemaType.INTEGER:
        largest = schema.maximum if schema.maximum and schema.maximum < INT32_MAX else None
        least = schema.minimum
        if least and largest:
            yield f"From {least} to {largest}."
        elif largest:
            yield f"At most {largest}."
        elif least and least > 0:
            yield f"At least {least}."
    if schema.items is not None and schema.size_max:
        yield f"At most {schema.size_max}."


def _json(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> int:
    FILE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
