"""Backups of the store: taken from a running server or from the file, and put back into a folder.

A running server has its file to itself, so it sends what it holds, as of one version, as lines:

    {"version": 4711, "objects": 2}
    ["configmaps", "default", "a", 17, {"metadata": ...}]
    ["pods", "default", "b", 4711, {"metadata": ...}]

A backup is a store file of its own, for its owner alone, since it holds Secrets.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from swell.api.codec import encode
from swell.cluster.embedded.checking import (
    VERSIONS_SKIPPED,
    StoreProgress,
    StoreReport,
    check_file,
    ignore_progress,
    put_aside,
)
from swell.cluster.embedded.database import (
    FORMAT,
    UNREADABLE,
    WrongFormatError,
    connect,
    create_tables,
    downgrade,
    format_of,
    put_row,
    set_counter,
    sync_file,
    sync_folder,
    transaction,
)
from swell.cluster.embedded.rows import Row
from swell.cluster.embedded.storage import Storage

_PIECE_BYTES = 256 << 10
# Parts in which files are copied, so that it can be told how far a copy is.
_COPIED_BYTES = 1 << 20
_COPIED_PAGES = 256
_LINE = msgspec.json.Decoder(tuple[str, str, str, int, msgspec.Raw])


class IncompleteCopyError(Exception):
    """The lines of a running server ended too soon, or are no backup."""


class UnsoundCopyError(Exception):
    """A file is not a sound store; the report says why."""

    def __init__(self, report: StoreReport) -> None:
        wrong = [*report.faults, *map(str, report.problems)]
        more = f", and {len(wrong) - 1} more" if wrong[1:] else ""
        super().__init__(f"{wrong[0]}{more}")
        self.report = report


def backup_pieces(storage: Storage) -> Iterator[bytes]:
    """The lines of a backup in pieces, as of the newest version on disk at the first piece."""
    version, collections = storage.durable_version, storage.durable_objects()
    n_objects = sum(len(snapshot.items) for snapshot in collections.values())
    parts = [encode({"version": version, "objects": n_objects}), b"\n"]
    size = 0
    for collection, snapshot in collections.items():
        for key, stored in snapshot.items:
            parts += (encode([collection, *key, stored.version])[:-1], b",")
            if len(stored.raw) > _PIECE_BYTES:  # by itself: all who read the store share its bytes
                yield b"".join(parts)
                yield stored.raw
                parts, size = [], 0
            else:
                parts.append(stored.raw)
                size += len(stored.raw)
            parts.append(b"]\n")
            if size > _PIECE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
    yield b"".join(parts)


def write_lines(
    lines: Iterable[bytes],
    target: Path,
    wanted: int = FORMAT,
    progress: StoreProgress = ignore_progress,
) -> StoreReport:
    """Make a backup of the lines of a running server; IncompleteCopyError, sqlite3.Error."""
    with _draft_of(target) as draft:
        with contextlib.closing(connect(draft)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with transaction(connection):
                _put_lines(connection, iter(lines), progress)
            _to_format(connection, wanted)
        return _finished(draft, target, progress)


def write_copy(
    store: Path,
    target: Path,
    wanted: int = FORMAT,
    progress: StoreProgress = ignore_progress,
) -> StoreReport:
    """Make a backup of a store that no server uses; UnsoundCopyError, sqlite3.Error."""
    found = check_file(store, in_use_by_us=True, progress=progress)
    if not found.is_sound:
        raise UnsoundCopyError(found)
    with _draft_of(target) as draft:
        with (
            contextlib.closing(connect(store)) as source,
            contextlib.closing(connect(draft)) as copy,
        ):
            source.backup(
                copy,
                pages=_COPIED_PAGES,
                progress=lambda _, n_left, n_all: progress("copying pages", n_all - n_left, n_all),
            )
            copy.execute("PRAGMA journal_mode = DELETE")
            _to_format(copy, wanted)
        return _finished(draft, target, progress)


def restore_copy(
    source: Path, store: Path, aside: Path, progress: StoreProgress = ignore_progress
) -> StoreReport:
    """Put a backup in the place of a store, which is kept at `aside` if there is one.

    UnsoundCopyError when the backup is not sound; then nothing has changed.
    """
    with _draft_of(store) as draft:
        _copy_file(source, draft, progress)
        log = source.with_name(f"{source.name}-wal")
        draft_log = draft.with_name(f"{draft.name}-wal")
        try:
            if log.exists():  # a copy of a store whose server was killed
                _copy_file(log, draft_log, progress)
            with contextlib.suppress(*UNREADABLE):  # the check tells what is wrong
                _recover(draft)
            report = check_file(draft, progress=progress)
            if not report.is_sound:
                raise UnsoundCopyError(report)
            with contextlib.closing(connect(draft)) as connection:
                set_counter(connection, report.version + VERSIONS_SKIPPED)
        finally:
            for ending in ("-wal", "-shm"):
                draft.with_name(draft.name + ending).unlink(missing_ok=True)
        sync_file(draft)
        if store.exists():
            put_aside(store, aside)
        # A log without its file would be taken for that of the new one.
        store.with_name(f"{store.name}-wal").unlink(missing_ok=True)
        draft.replace(store)
        sync_folder(store.parent)
    return report


def _copy_file(source: Path, target: Path, progress: StoreProgress) -> None:
    """Copy what is in a file. The target keeps its mode, and a new one is for its owner alone."""
    size = source.stat().st_size
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with source.open("rb") as reading, os.fdopen(descriptor, "wb") as writing:
        while piece := reading.read(_COPIED_BYTES):
            writing.write(piece)
            progress("copying KiB", writing.tell() >> 10, size >> 10)


def _put_lines(
    connection: sqlite3.Connection, lines: Iterator[bytes], progress: StoreProgress
) -> None:
    try:
        head = msgspec.json.decode(next(lines, b""))
        n_expected = int(head["objects"])
        create_tables(connection, int(head["version"]))
        n_objects = 0
        for line in lines:
            collection, namespace, name, version, raw = _LINE.decode(line)
            put_row(connection, Row(collection, namespace, name, version, bytes(raw), None))
            n_objects += 1
            progress("receiving objects", n_objects, n_expected)
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise IncompleteCopyError(f"the server sent something else: {error}") from error
    if n_objects != n_expected:
        raise IncompleteCopyError(f"the server sent {n_objects} of {n_expected} objects")


def _to_format(connection: sqlite3.Connection, wanted: int) -> None:
    found = format_of(connection)
    if wanted < found <= FORMAT:
        downgrade(connection, wanted)
    elif wanted > FORMAT:
        raise WrongFormatError(Path(str(wanted)), wanted)


def _recover(draft: Path) -> None:
    """Bring the log of a copied store into its file."""
    with contextlib.closing(connect(draft)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def _finished(draft: Path, target: Path, progress: StoreProgress) -> StoreReport:
    report = check_file(draft, progress=progress)
    if not report.is_sound:
        raise UnsoundCopyError(report)
    sync_file(draft)
    draft.replace(target)
    sync_folder(target.parent)
    return report


@contextlib.contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """An empty private file beside the target, which is removed unless it has been renamed."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
