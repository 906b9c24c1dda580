"""Objects as the tables and the bare metadata that kubectl asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cluster.embedded.http.ages import age
from swell.cluster.embedded.http.cells import cells_of
from swell.cluster.embedded.http.jsonpaths import find_first
from swell.cluster.embedded.http.podcells import completion
from swell.cluster.embedded.registry import Column, Kind

META_VERSION = "meta.k8s.io/v1"
_NAME = Column("Name", ".metadata.name", format="name", description="Name of the object")
_AGE = Column("Age", ".metadata.creationTimestamp", "date", description="Time of its creation")


def table(
    kind: Kind, bodies: Sequence[Body], meta: Body, *, include: str, now: float, headed: bool = True
) -> Body:
    """A Table of objects. `include` is what a row carries: None, Metadata or Object."""
    columns = kind.columns or (_NAME, _AGE)
    return {
        "kind": "Table",
        "apiVersion": META_VERSION,
        "metadata": meta,
        "columnDefinitions": [_definition(column) for column in columns] if headed else [],
        "rows": [_row(kind, columns, body, include, now) for body in bodies],
    }


def partial(body: Body) -> Body:
    """An object's metadata and nothing else."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": META_VERSION,
        "metadata": body["metadata"],
    }


def _definition(column: Column) -> Body:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(kind: Kind, columns: Sequence[Column], body: Body, include: str, now: float) -> Body:
    cells = None if kind.custom else cells_of(kind.resource, body, now)
    row: Body = {"cells": cells or [_cell(column, body, now) for column in columns]}
    if kind.resource == "pods":
        row["conditions"] = completion(body)
    if include != "None":
        row["object"] = body if include == "Object" else partial(body)
    return row


def _cell(column: Column, body: Body, now: float) -> object:
    """One value by the column's type; what does not fit the type is left empty."""
    value = find_first(body, column.json_path)
    match column.type:
        case "integer" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
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
