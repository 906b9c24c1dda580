"""Reads a whole store file, tells what is wrong with it, and makes a sound one of the rest.

Faults concern the file as SQLite sees it: damaged pages, a broken index, a missing counter.
Problems concern single rows. Neither is mended in place: a new file gets the sound rows, a table
aside gets the others, and the damaged file is kept under another name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from swell.api.meta import Body
from swell.cluster.embedded.database import (
    FORMAT,
    UNREADABLE,
    connect,
    create_tables,
    foreign_parts,
    format_of,
    has_tables,
    put_row,
    read_rows,
    sync_file,
    sync_folder,
    transaction,
)
from swell.cluster.embedded.rows import Row, RowProblem, examine, problems_between

# Versions are counted on from here after rows were lost or a backup was restored: no version that a
# client has seen of what is gone is ever used for something else. etcd advises the same number.
VERSIONS_SKIPPED = 1_000_000_000
_FAULTS_MAX = 20
# Work on a file that a person waits for is told in parts: which work, how many are done, of how
# many.
StoreProgress = Callable[[str, int, int], None]
_HEADER_BYTES = 100
_EXPECTED_BYTES_MAX = 64 << 30  # a larger number is damage, too
_QUARANTINE_TABLE = """
CREATE TABLE quarantine (collection, namespace, name, version, raw, checksum, why TEXT NOT NULL)
"""


def ignore_progress(work: str, n_done: int, n_all: int) -> None:
    """Tell nobody how far the work is."""
    del work, n_done, n_all


@dataclass(slots=True)
class StoreReport:
    """The content of a store file, and everything that is wrong with it."""

    path: Path
    format: int = 0
    version: int = 0  # of the counter; 0 when it cannot be read
    rows: list[Row] = field(default_factory=list)  # the sound ones
    problems: list[RowProblem] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.problems and not self.faults

    @property
    def by_collection(self) -> dict[str, int]:
        """The number of sound rows of each collection, the largest first."""
        return dict(Counter(row.collection for row in self.rows).most_common())


def check_file(
    path: Path, *, in_use_by_us: bool = False, progress: StoreProgress = ignore_progress
) -> StoreReport:
    """Read a whole file. It is not changed, but for the log beside a store `in_use_by_us`."""
    report = StoreReport(path)
    if not path.exists():
        report.faults.append("there is no such file")
    elif path.is_dir():
        report.faults.append("it is a folder")
    elif not path.stat().st_size:
        report.faults.append("it is empty (0 bytes)")
    if report.faults:
        return report
    try:
        with (
            _untorn(report) as readable,
            contextlib.closing(_open(readable, in_use_by_us=in_use_by_us)) as connection,
        ):
            _read(connection, report, progress)
    except UNREADABLE as error:
        _add_fault(report, str(error))
    return report


def save_sound_rows(report: StoreReport, aside: Path) -> None:
    """Replace a damaged store by one with its sound rows; the damaged file is kept at `aside`."""
    path = report.path
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with contextlib.closing(connect(draft)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with transaction(connection):
                newest = max((row.version for row in report.rows), default=1)
                create_tables(connection, max(report.version, newest) + VERSIONS_SKIPPED)
                connection.execute(_QUARANTINE_TABLE)
                for row in report.rows:
                    put_row(connection, row)
                connection.executemany(
                    "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(*problem.row, problem.why) for problem in report.problems],
                )
        sync_file(draft)
        put_aside(path, aside)
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def put_aside(path: Path, aside: Path) -> None:
    """Give a store another name, and the log beside it, too."""
    for ending in ("-wal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + ending))
    path.replace(aside)


@contextlib.contextmanager
def _untorn(report: StoreReport) -> Iterator[Path]:
    """The file, or for one that was cut short a copy of its full length, which SQLite can read."""
    path = report.path
    size, expected = path.stat().st_size, _expected_size(path)
    if size >= expected:
        yield path
        return
    _add_fault(report, f"it is cut short: {size} of {expected} bytes are there")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        os.truncate(copy, expected)
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            shutil.copyfile(log, copy.with_name(log.name))
        yield copy


def _expected_size(path: Path) -> int:
    """The size that the header tells, as SQLite's file format defines it; 0 if it is no header."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        return 0
    page_size = int.from_bytes(header[16:18])
    n_pages = int.from_bytes(header[28:32])
    # The largest page size does not fit into its field, and is written as 1.
    expected = n_pages * (65536 if page_size == 1 else page_size)
    return expected if expected <= _EXPECTED_BYTES_MAX else 0


def _open(path: Path, *, in_use_by_us: bool) -> sqlite3.Connection:
    if in_use_by_us or path.with_name(f"{path.name}-wal").exists():
        return connect(path)
    # Without a log beside it nothing has to be recovered, and SQLite need not write anything.
    return sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True, isolation_level=None)


def _read(connection: sqlite3.Connection, report: StoreReport, progress: StoreProgress) -> None:
    # A page with broken text must not end the reading.
    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    report.format = format_of(connection)
    if report.format > FORMAT:
        report.faults.append(f"its format is {report.format}; this version knows 1 to {FORMAT}")
        return
    if not has_tables(connection):
        report.faults.append("it has no tables: it is empty, or no store of ours")
        return
    report.faults += [
        f"it has a {part}, which is none of ours" for part in foreign_parts(connection)
    ]
    with _faults_of(report):
        # SQLite looks at all pages in one go, and does not say how far it is.
        (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
        progress("checking pages", 0, n_pages)
        for (line,) in connection.execute(f"PRAGMA integrity_check({_FAULTS_MAX})"):
            if line != "ok":
                _add_fault(report, line.replace("\n", " "))
    counted = False
    with _faults_of(report):
        row = connection.execute("SELECT version FROM counter").fetchone()
        counted = row is not None and isinstance(row[0], int) and row[0] > 0
        report.version = row[0] if counted else 0
    _sort_rows(_readable_rows(connection, report), report, progress)
    newest = max((row.version for row in report.rows), default=0)
    if not counted:
        report.faults.append("its counter of versions is missing")
    elif newest > report.version:
        held = next(row for row in report.rows if row.version == newest)
        report.faults.append(
            f"impossible version: {held.collection} {held.namespace}/{held.name} has {newest}, "
            f"and the counter of versions is at {report.version}"
        )


def _sort_rows(rows: list[Row], report: StoreReport, progress: StoreProgress) -> None:
    sound: list[tuple[Row, str]] = []
    for n_done, row in enumerate(rows, 1):
        examined = examine(row)
        if isinstance(examined, RowProblem):
            report.problems.append(examined)
        else:
            sound.append((row, _uid(examined)))
        progress("checking objects", n_done, len(rows))
    clashes = problems_between(sound)
    clashing = {id(problem.row) for problem in clashes}
    report.problems += clashes
    report.rows = [row for row, _ in sound if id(row) not in clashing]


def _uid(metadata: Body) -> str:
    return str(metadata.get("uid") or "")


def _readable_rows(connection: sqlite3.Connection, report: StoreReport) -> list[Row]:
    """Every row that can be read: from the first one on, and if that ends early, from the last."""
    rows: list[Row] = []
    try:
        for row in read_rows(connection):
            rows.append(row)  # noqa: PERF402 - those before an error must be kept
    except UNREADABLE as error:
        why = str(error)
    else:
        return rows
    seen = {row[:3] for row in rows}
    last = rows[-1] if rows else None
    behind: list[Row] = []
    with contextlib.suppress(*UNREADABLE):
        for row in read_rows(connection, backwards=True):
            if row[:3] in seen:
                break
            behind.append(row)
    since = f"after {last.collection} {last.namespace}/{last.name}" if last else "at the beginning"
    _add_fault(report, f"rows {since} cannot be read: {why}")
    return [*rows, *reversed(behind)]


@contextlib.contextmanager
def _faults_of(report: StoreReport) -> Iterator[None]:
    """Note what SQLite says instead of raising it."""
    try:
        yield
    except UNREADABLE as error:
        _add_fault(report, str(error))


def _add_fault(report: StoreReport, text: str) -> None:
    if text not in report.faults:
        report.faults.append(text)
