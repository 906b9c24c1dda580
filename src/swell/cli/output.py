"""Writes answers to stdout: aligned tables, JSON, YAML, or `kind/name`.

Tables are plain text without colour, so that a pipe reads what a terminal shows. The quickest
commands print tables and load nothing else, so other formats import what they need themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

TYPE_CHECKING = False  # that of `typing` is slow to load
if TYPE_CHECKING:
    from swell.api.meta import Body

# The phases of jobs that may have a position in a queue, as servers send them in tables.
_WAITING = frozenset({None, "", "Pending", "Creating"})
_GAP = 3  # spaces between columns, as kubectl has them
# Control characters as terminals show those that are typed; ends of lines and tabs stay.
_VISIBLE = {
    **{code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F) if chr(code) not in "\n\t"},
    **{code: f"\\x{code:x}" for code in range(0x80, 0xA0)},
}


def printable(text: str) -> str:
    """Return a text without what a terminal would obey.

    Programs of jobs choose their messages, and whoever reads them may have more rights than they.
    """
    return text if text.isprintable() else text.translate(_VISIBLE)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines whose columns are as wide as their widest cell.

    The last column is not padded: lines have no blanks at their ends.
    """
    if not rows:
        return ""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = (
        "".join(cell.ljust(width + _GAP) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def table_rows(table: Body, *, wide: bool, with_namespace: bool) -> list[list[str]]:
    """Return heading and rows of a server's Table.

    Columns with a priority above 0 are shown only when `wide`: that is what the field is for.
    """
    columns = table.get("columnDefinitions") or []
    shown = [at for at, column in enumerate(columns) if wide or not column.get("priority")]
    lead = ["NAMESPACE"] if with_namespace else []
    rows = [[*lead, *(str(columns[at]["name"]).upper() for at in shown)]]
    for row in table.get("rows") or []:
        meta = (row.get("object") or {}).get("metadata") or {}
        lead = [str(meta.get("namespace", ""))] if with_namespace else []
        rows.append([*lead, *(_cell(row["cells"][at]) for at in shown)])
    return rows


def shown_rows(
    table: Body,
    *,
    wide: bool,
    with_namespace: bool,
    with_labels: bool = False,
    label_columns: Sequence[str] = (),
    kind: str = "",
) -> list[list[str]]:
    """Return heading and rows of a server's Table, as `get` shows it.

    With `kind` the first cell is written kind/name; all labels are a column of their own, and so is
    each of `label_columns`.
    """
    rows = list(table.get("rows") or ())
    if kind:
        rows = [{**row, "cells": [f"{kind}/{row['cells'][0]}", *row["cells"][1:]]} for row in rows]
    shown = table_rows({**table, "rows": rows}, wide=wide, with_namespace=with_namespace)
    for label in label_columns:
        # The part behind the slash, as kubectl writes it.
        cells = [label.rpartition("/")[2].upper(), *(_label(row, label) for row in rows)]
        shown = [[*row, cell] for row, cell in zip(shown, cells, strict=True)]
    if with_labels:
        labels = [_labels(row.get("object") or {}) for row in rows]
        shown = [[*row, cell] for row, cell in zip(shown, ["LABELS", *labels], strict=True)]
    return shown


def is_any_waiting(table: Body) -> bool:
    """Whether a Table of jobs has one that has not started; a new job has no phase yet."""
    columns = [str(column["name"]).upper() for column in table.get("columnDefinitions") or ()]
    if "PHASE" not in columns:
        return False
    phase = columns.index("PHASE")
    return any(row["cells"][phase] in _WAITING for row in table.get("rows") or ())


def with_positions(table: Body, cells: Sequence[str | None]) -> Body:
    """Return a Table of jobs with a wide column of their positions in the queue, one a row."""
    columns = [
        *(table.get("columnDefinitions") or ()),
        {"name": "Position", "type": "string", "priority": 1},
    ]
    rows = [
        {**row, "cells": [*row["cells"], cell]}
        for row, cell in zip(table.get("rows") or (), cells, strict=True)
    ]
    return {**table, "columnDefinitions": columns, "rows": rows}


def _label(row: Body, label: str) -> str:
    meta = (row.get("object") or {}).get("metadata") or {}
    return str((meta.get("labels") or {}).get(label, ""))


def _labels(body: Body) -> str:
    pairs = (body.get("metadata") or {}).get("labels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(pairs.items())) or "<none>"


def indented(text: str) -> str:
    """Return a text whose lines begin with two blanks."""
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


def print_object(body: Body, *, as_yaml: bool) -> None:
    sys.stdout.write(to_yaml(body) if as_yaml else to_json(body))


def print_list(items: list[Body], *, as_yaml: bool) -> None:
    """Print objects as one `List`, which kubectl and `swell apply` read."""
    print_object({"apiVersion": "v1", "kind": "List", "items": items}, as_yaml=as_yaml)


def print_names(items: Iterable[Body], suffix: str = "") -> None:
    for body in items:
        sys.stdout.write(f"{kind_and_name(body)}{suffix}\n")


def kind_and_name(body: Body) -> str:
    """Return `kind/name`, the kind in lower case and without its group."""
    return f"{str(body.get('kind', '')).lower()}/{body.get('metadata', {}).get('name', '')}"


def to_json(value: object) -> str:
    """Return JSON, indented for people, with a line end."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def to_yaml(value: object) -> str:
    """Return YAML without aliases, its keys in the order they have in the value."""
    # Imported here: tables and JSON are printed far more often.
    import yaml

    class AliasFreeDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """Writes repeated values out: an alias would puzzle a reader and some parsers."""

        def ignore_aliases(self, _: object) -> bool:
            return True

    # The width keeps messages on one line.
    return yaml.dump(value, Dumper=AliasFreeDumper, sort_keys=False, allow_unicode=True, width=1000)


def _cell(value: object) -> str:
    if value is None:
        return "<none>"
    text = "true" if value is True else "false" if value is False else str(value)
    # A cell with several lines would break the table's own.
    return text.replace("\n", " ")
