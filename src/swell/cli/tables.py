"""Aligned text tables. Plain by design: what a pipe reads is what a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.meta import Body

GAP = 3


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; nothing trails the last one."""
    if not rows:
        return ""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = (
        "".join(cell.ljust(width + GAP) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def rows_of(table: Body, *, wide: bool, with_namespace: bool) -> list[list[str]]:
    """Heading and rows of a server's Table; columns of lower priority only when wide."""
    columns = table.get("columnDefinitions") or []
    shown = [at for at, column in enumerate(columns) if wide or not column.get("priority")]
    lead = ["NAMESPACE"] if with_namespace else []
    rows = [[*lead, *(str(columns[at]["name"]).upper() for at in shown)]]
    for row in table.get("rows") or []:
        meta = (row.get("object") or {}).get("metadata") or {}
        lead = [str(meta.get("namespace", ""))] if with_namespace else []
        rows.append([*lead, *(_cell(row["cells"][at]) for at in shown)])
    return rows


def _cell(value: object) -> str:
    if value is None:
        return "<none>"
    text = "true" if value is True else "false" if value is False else str(value)
    return text.replace("\n", " ")
