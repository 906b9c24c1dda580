"""The rows of the store's file, and what can be wrong with one. Pure.

A row is wrong when no server can have written it: its checksum or its JSON is broken, its key is
not that of the object in it, or its version is none.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from swell.api.codec import decode
from swell.api.meta import Body


class Row(NamedTuple):
    """One object as the file holds it. Format 1 has no checksums: None.

    In a damaged file a column can have any type, whatever is said here.
    """

    collection: str
    namespace: str
    name: str
    version: int
    raw: bytes
    checksum: int | None


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be what a server wrote, and why."""

    row: Row
    why: str

    def __str__(self) -> str:
        return f"{place_of(self.row)}: {self.why}"


def place_of(row: Row) -> str:
    """A row's key as people write it, whatever is in its columns."""
    address = f"{row.namespace}/{row.name}" if row.namespace else f"{row.name}"
    return f"{row.collection} {address}"


def examine(row: Row) -> Body | RowProblem:
    """The metadata of the object in a row, or the reason why the row cannot be loaded."""
    why = _wrong_columns(row)
    if why:
        return RowProblem(row, why)
    try:
        metadata = decode(row.raw, dict).get("metadata")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return RowProblem(row, f"its content is not JSON: {error}")
    if not isinstance(metadata, dict):
        return RowProblem(row, "its content has no metadata")
    why = _wrong_metadata(row, metadata)
    return RowProblem(row, why) if why else metadata


def problems_between(rows: Iterable[tuple[Row, str]]) -> list[RowProblem]:
    """The rows, each with its UID, that cannot be there together: two of one key, UID or version.

    The first of two is taken for the right one.
    """
    keys: set[tuple[str, str, str]] = set()
    uids: dict[str, Row] = {}
    versions: dict[int, Row] = {}
    found: list[RowProblem] = []
    for row, uid in rows:
        if row[:3] in keys:
            found.append(RowProblem(row, "a duplicate: another row has the same key"))
        elif uid and uid in uids:
            other = place_of(uids[uid])
            found.append(RowProblem(row, f"a duplicate: {other} has the same uid {uid}"))
        elif row.version in versions:
            # Every commit has a version of its own and changes one object.
            other = place_of(versions[row.version])
            found.append(RowProblem(row, f"its version {row.version} is also that of {other}"))
        else:
            keys.add(row[:3])
            versions[row.version] = row
            if uid:
                uids[uid] = row
    return found


def _wrong_columns(row: Row) -> str:
    types = [type(column) for column in row[:5]]
    if types[:3] != [str, str, str]:
        return "its key is not text"
    if not row.collection or not row.name:
        return "its key is not complete"
    if types[3] is not int or row.version < 1:
        return f"its version {row.version!r} is impossible"
    if types[4] is not bytes:
        return "its content is not stored as bytes"
    if row.checksum is not None and row.checksum != zlib.crc32(row.raw):
        return "its content is not what was written: the checksum differs"
    return ""


def _wrong_metadata(row: Row, metadata: Body) -> str:
    held = (metadata.get("namespace") or "", metadata.get("name"))
    if held != (row.namespace, row.name):
        return f"its key is wrong: the object in it is {'/'.join(filter(None, map(str, held)))}"
    version = metadata.get("resourceVersion")
    if version != str(row.version):
        return f"its version {row.version} is impossible: the object in it has {version!r}"
    return ""
