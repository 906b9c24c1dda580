r"""Objects as the tables and the bare metadata that kubectl asks for, and columns by JSONPath.

Cells of built-in kinds are computed by `cells`. Columns of custom resources have a JSONPath, of
which this subset is understood: fields, quoted fields, indexes, `[*]` and equality filters. A path
outside it selects nothing, so that its cell stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cluster.embedded.http.tables.cells import cells_of
from swell.cluster.embedded.http.tables.formats import age
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
    bodies: Sequence[Body],
    meta: Body,
    *,
    include: str,
    now: float,
    headed: bool = True,
) -> Body:
    """A Table of objects. `include` says what each row carries: None, Metadata or Object.

    Without `headed` the table has no column definitions, as in every watch event but the first.
    """
    columns = kind.columns or (_NAME, _AGE)
    return {
        "kind": "Table",
        "apiVersion": META_VERSION,
        "metadata": meta,
        "columnDefinitions": [_definition(column) for column in columns] if headed else [],
        "rows": [_row(kind, columns, body, include, now) for body in bodies],
    }


def scale_kind(kind: ServedKind) -> ServedKind:
    """The kind of what the `scale` of a resource shows, with columns of its own."""
    return replace(kind, group="autoscaling", plural="scales", columns=_SCALE, custom=False)


def partial(body: Body) -> Body:
    """An object's metadata and nothing else."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": META_VERSION,
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
    kind: ServedKind, columns: Sequence[TableColumn], body: Body, include: str, now: float
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
            row["object"] = partial(body)
    return row


def _cell(column: TableColumn, body: Body, now: float) -> object:
    """The value of one column. A value that is not of the column's type is left out."""
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


# -- JSONPath ---------------------------------------------------------------------------------

# Maps a value to the values one step below it.
Step = Callable[[object], Iterable[object]]

# One alternative for each kind of step.
_TOKEN = re.compile(
    r"""\.?(?P<field>(?:[^.\[\]\\'"@?()*=\s]|\\.)+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \.?\[?\s*(?P<every>\*)\s*\]?
      | \[\s*(?P<quote>['"])(?P<quoted>(?:[^'"\\]|\\.)*)(?P=quote)\s*\]
      | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*==\s*(?P<literal>"[^"]*"|'[^']*'|[^)]*?)\s*\)\]""",
    re.VERBOSE,
)


def find_first(body: object, path: str) -> object:
    """The first value at a path; None when there is none."""
    found: Iterable[object] = [body]
    for step in _steps(path.strip()):
        found = [below for value in found for below in step(value)]
    return next(iter(found), None)


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[Step, ...]:
    path = path.removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            return (_nothing,)
        steps.append(_step(token))
        at = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    if token["index"] is not None:
        return _at_index(int(token["index"]))
    if token["every"] is not None:
        return _every
    if token["path"] is not None:
        return _where(token["path"], _literal(token["literal"]))
    name = token["field"] if token["field"] is not None else token["quoted"]
    return _at_field(re.sub(r"\\(.)", r"\1", name))


def _at_field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _at_index(index: int) -> Step:
    def step(value: object) -> Iterable[object]:
        fits = isinstance(value, list) and -len(value) <= index < len(value)
        return [value[index]] if isinstance(value, list) and fits else []

    return step


def _every(value: object) -> Iterable[object]:
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else []


def _where(path: str, wanted: object) -> Step:
    return lambda value: [item for item in _every(value) if find_first(item, path) == wanted]


def _nothing(_held: object) -> Iterable[object]:
    return []


def _literal(text: str) -> object:
    if text[:1] in {'"', "'"}:
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text
