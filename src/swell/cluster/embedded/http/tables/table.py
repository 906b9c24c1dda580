"""Objects as the tables and the bare metadata that kubectl asks for.

Cells of built-in kinds are computed by `cells`, those of custom resources from the `jsonpath` of
their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cluster.embedded.http.tables.cells import cells_of
from swell.cluster.embedded.http.tables.formats import age
from swell.cluster.embedded.http.tables.jsonpath import find_first
from swell.cluster.embedded.http.tables.podcells import completion
from swell.cluster.embedded.registry import ServedKind, TableColumn

META_VERSION = "meta.k8s.io/v1"
_NAME = TableColumn("Name", ".metadata.name", format="name", description="Name of the object")
_AGE = TableColumn("Age", ".metadata.creationTimestamp", "date", description="Time of its creation")
_SCALE = (
    _NAME,
    TableColumn("Desired", "", "integer", description="Number of replicas wanted"),
    TableColumn("Available", "", "integer", description="Number of replicas observed"),
    _AGE,
)


def table(
    kind: ServedKind,
    bodies: Iterable[Body],
    meta: Body,
    *,
    include: str,
    now: float,
    headed: bool = True,
    api_version: str = META_VERSION,
) -> Body:
    """A Table of objects. `include` says what each row carries: None, Metadata or Object.

    Without `headed` its column definitions are null, as in every watch event but the first.
    """
    columns = kind.columns or (_NAME, _AGE)
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": meta,
        "columnDefinitions": [_definition(column) for column in columns] if headed else None,
        "rows": [
            _row(kind, columns, body, include, now, api_version=api_version) for body in bodies
        ],
    }


def scale_kind(kind: ServedKind) -> ServedKind:
    """The kind of what the `scale` of a resource shows, with columns of its own."""
    return replace(kind, group="autoscaling", plural="scales", columns=_SCALE, custom=False)


def partial(body: Body, api_version: str = META_VERSION) -> Body:
    """An object's metadata and nothing else."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": body["metadata"],
    }


def _definition(column: TableColumn) -> Body:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(
    kind: ServedKind,
    columns: Sequence[TableColumn],
    body: Body,
    include: str,
    now: float,
    *,
    api_version: str,
) -> Body:
    cells = None if kind.custom else cells_of(kind.resource, body, now)
    row: Body = {"cells": cells or [_cell(column, body, now) for column in columns]}
    if kind.resource == "pods" and (conditions := completion(body)):
        row["conditions"] = conditions  # clients grey out finished pods by these
    match include:
        case "None":
            row["object"] = None
        case "Object":
            row["object"] = body
        case _:
            row["object"] = partial(body, api_version)
    return row


def _cell(column: TableColumn, body: Body, now: float) -> object:
    """The value of one column. A value that is not of the column's type is left out."""
    value = find_first(body, column.json_path)
    match column.type:
        case "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            # An integer of JSON has 64 bits; a larger float has none that could be sent.
            return int(value) if -(2**63) <= value < 2**63 else None
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return age(value, now)
        case "string" if value is not None:
            return _text(value)
        case _:
            return None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return encode(value).decode()
    return str(value)
