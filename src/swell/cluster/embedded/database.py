"""The SQLite file under the store: its format, the upgrade of older formats, and its writes.

    format 1: object(collection, namespace, name, version, raw), counter(version)
    format 2: every object has a checksum of its JSON; pages that deletions free can be given back

SQLite keeps the format's number in the header (`user_version`). An older format is upgraded when
the file is opened, in one transaction; a copy of the file as it was stays beside it. A newer format
is refused, and the file is left as it is. A damaged row is never loaded: the whole store is refused
with the row's name, and `swell check` tells all (see `checking`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path

from swell.api.meta import Key
from swell.cluster.embedded.commits import Commit, Stored
from swell.cluster.embedded.rows import Row, RowProblem, examine
from swell.cluster.embedded.storage import Storage
from swell.cluster.private import open_private

# Errors of a file that is no sound database. The text of SQLite's own may quote broken text of it,
# which Python cannot decode.
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
_OWN = frozenset({("table", "object"), ("table", "counter"), ("table", "quarantine")})
FORMAT = 2
OBJECT_TABLE = """
CREATE TABLE IF NOT EXISTS object (
    collection TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    raw        BLOB NOT NULL,
    checksum   INTEGER NOT NULL,
    PRIMARY KEY (collection, namespace, name)
) WITHOUT ROWID
"""
COUNTER_TABLE = """
CREATE TABLE IF NOT EXISTS counter (
    id      INTEGER PRIMARY KEY CHECK (id = 0),
    version INTEGER NOT NULL
)
"""
OBJECT_TABLE_1 = """
CREATE TABLE object (
    collection TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    raw        BLOB NOT NULL,
    PRIMARY KEY (collection, namespace, name)
) WITHOUT ROWID
"""
LOCK_WAIT_S = 0.5  # for a predecessor that is just closing the file
# Free pages that stay in the file for the next objects; 4 KiB each. Above that, each group gives
# some back: a store that was large once does not stay so.
FREE_PAGES_KEPT = 4096
FREE_PAGES_A_GROUP = 256
# SQLite's primary result codes.
_FULL, _IO_ERROR = 13, 10
_PUT = "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM object WHERE collection = ? AND namespace = ? AND name = ?"
_COUNT = "INSERT OR REPLACE INTO counter VALUES (0, ?)"


class ExpectedStore(Enum):
    """The store that a start counts on to find."""

    ANY = "any"
    EXISTING = "existing"  # the folder has had a cluster: no store would be a loss
    NEW = "new"  # a user wants to begin anew: a store with content must not be touched


class WrongFormatError(Exception):
    """The file has a format that this version of Swell does not understand."""

    def __init__(self, path: Path, found: int) -> None:
        super().__init__(f"{path}: format {found}; this version of Swell knows 1 to {FORMAT}")
        self.path = path
        self.found = found


class StoreMissingError(Exception):
    """The folder of a cluster has no store, or one without content; `why` says which."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path
        self.why = why


class StoreExistsError(Exception):
    """A new cluster was asked for where there is a store with content."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is there already, with what an earlier cluster has stored")
        self.path = path


class DamagedStoreError(Exception):
    """Rows of the file cannot be what a server wrote."""

    def __init__(self, path: Path, problems: list[RowProblem]) -> None:
        more = f", and {len(problems) - 1} more" if problems[1:] else ""
        super().__init__(f"{path}: {problems[0]}{more}")
        self.path = path
        self.problems = problems


class Database:
    """The SQLite file. Every method blocks."""

    def __init__(self, path: Path, expected: ExpectedStore = ExpectedStore.ANY) -> None:
        self.path = path
        self._expected = expected
        must_exist = expected is ExpectedStore.EXISTING
        # Before SQLite sees the file: it would drop the write-ahead log beside an empty one.
        if must_exist and not path.exists():
            raise StoreMissingError(path, "is missing")
        if must_exist and not path.stat().st_size:
            raise StoreMissingError(path, "is empty (0 bytes)")
        with contextlib.ExitStack() as on_failure:
            self._connection = connect(path)
            on_failure.callback(self._connection.close)
            self._prepare()
            on_failure.pop_all()

    def _prepare(self) -> None:
        execute = self._connection.execute
        # Two servers on one store would both trust their memory, so the lock is never given up.
        execute("PRAGMA locking_mode = EXCLUSIVE")
        found = format_of(self._connection)
        if found > FORMAT:
            raise WrongFormatError(self.path, found)
        is_used = has_tables(self._connection)
        if is_used and self._expected is ExpectedStore.NEW:
            raise StoreExistsError(self.path)
        if not is_used and self._expected is ExpectedStore.EXISTING:
            raise StoreMissingError(self.path, "is empty (it has no tables)")
        # Has an effect on a file without tables only; an older format gets it by its upgrade.
        execute("PRAGMA auto_vacuum = INCREMENTAL")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        if is_used and found < FORMAT:
            keep_copy(self._connection, self.path.with_name(f"{self.path.name}.format-{found}"))
            upgrade(self._connection, found)
        elif not is_used:
            with transaction(self._connection):
                execute(OBJECT_TABLE)
                execute(COUNTER_TABLE)
                execute(f"PRAGMA user_version = {FORMAT}")

    def load(self, now: Callable[[], float]) -> Storage:
        """The stored objects in memory; DamagedStoreError when a row is not as it was written."""
        row = self._connection.execute("SELECT version FROM counter").fetchone()
        if row is None and self._expected is ExpectedStore.EXISTING:
            raise StoreMissingError(self.path, "is empty (no version was ever written)")
        storage = Storage(now, version=row[0] if row else 1)
        problems: list[RowProblem] = []
        for found in read_rows(self._connection):
            metadata = examine(found)
            if isinstance(metadata, RowProblem):
                problems.append(metadata)
                continue
            stored = Stored(found.raw, found.version, metadata)
            storage.load(found.collection, [(Key(found.namespace, found.name), stored)])
        if problems:
            raise DamagedStoreError(self.path, problems)
        return storage

    def write(self, group: list[Commit]) -> None:
        """Write a group in one transaction; sqlite3.Error when it did not get to disk.

        Of several commits of one object only the last state is written.
        """
        latest = {(commit.collection, *commit.key): commit.after for commit in group}
        puts = [
            (*k, after.version, after.raw, zlib.crc32(after.raw))
            for k, after in latest.items()
            if after is not None
        ]
        removes = [k for k, after in latest.items() if after is None]
        with transaction(self._connection):
            self._connection.executemany(_REMOVE, removes)
            self._connection.executemany(_PUT, puts)
            self._connection.execute(_COUNT, (group[-1].version,))
        if removes:
            self._give_back(FREE_PAGES_KEPT, FREE_PAGES_A_GROUP)

    def shrink(self) -> None:
        """Give everything back to the disk that the file does not need; sqlite3.Error."""
        self._give_back(0, 0)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def recycle_log(self) -> None:
        """Move the write-ahead log into the file, so that its room can be used again."""
        self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def close(self) -> None:
        self._connection.close()

    def _give_back(self, n_kept: int, n_pages_max: int) -> None:
        """Cut free pages off the end of the file, beyond those kept; 0 as the bound means all."""
        free = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        if free > n_kept:
            # It frees a page with every row that is fetched.
            self._connection.execute(f"PRAGMA incremental_vacuum({n_pages_max})").fetchall()


def connect(path: Path) -> sqlite3.Connection:
    """A connection that begins no transaction by itself, to a file that is private."""
    # SQLite gives the files beside it, with the latest writes, the mode of this one.
    os.close(open_private(path, os.O_RDWR))
    return sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing of what is done inside."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:  # SQLite may have rolled back by itself
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def is_disk_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == _FULL or "full" in str(error)


def is_io_error(error: sqlite3.Error) -> bool:
    """Whether the disk refused something; a full one sometimes says no more than that."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == _IO_ERROR


def format_of(connection: sqlite3.Connection) -> int:
    """The format's number; 0 for a file that has none, which is a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def foreign_parts(connection: sqlite3.Connection) -> list[str]:
    """The tables, views and triggers that no store has: a trigger may delete what is written."""
    query = (
        "SELECT type, name FROM sqlite_master WHERE type != 'index' AND name NOT LIKE 'sqlite_%'"
    )
    return [
        f"{kind} {name}" for kind, name in connection.execute(query) if (kind, name) not in _OWN
    ]


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether a server has begun to use the file."""
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'object'"
    return bool(connection.execute(query).fetchone()[0])


def read_rows(connection: sqlite3.Connection, *, backwards: bool = False) -> Iterator[Row]:
    """All objects in key order, of any known format."""
    order = "DESC" if backwards else "ASC"
    checksum = "checksum" if format_of(connection) >= 2 else "NULL"
    yield from map(
        Row._make,
        connection.execute(
            f"SELECT collection, namespace, name, version, raw, {checksum} FROM object"  # noqa: S608
            f" ORDER BY collection {order}, namespace {order}, name {order}"
        ),
    )


def create_tables(connection: sqlite3.Connection, version: int) -> None:
    """Make a new file a store of today's format, with its counter at a version."""
    connection.execute(OBJECT_TABLE)
    connection.execute(COUNTER_TABLE)
    connection.execute(_COUNT, (version,))
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def put_row(connection: sqlite3.Connection, row: Row) -> None:
    connection.execute(_PUT, (*row[:5], zlib.crc32(row.raw)))


def set_counter(connection: sqlite3.Connection, version: int) -> None:
    connection.execute(_COUNT, (version,))


def upgrade(connection: sqlite3.Connection, found: int) -> None:
    """Bring an older file to today's format, step by step, in one transaction."""
    # Formats before the first number had the tables of format 1.
    with transaction(connection):
        for step in range(max(found, 1), FORMAT):
            _UPGRADES[step](connection)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    # A change of auto_vacuum takes effect when the file is written anew. WAL must be left for it.
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("VACUUM")
    connection.execute("PRAGMA journal_mode = WAL")


def downgrade(connection: sqlite3.Connection, wanted: int) -> None:
    """Bring a file of today's format to an older one, for an older version of Swell."""
    with transaction(connection):
        for step in range(FORMAT, wanted, -1):
            _DOWNGRADES[step](connection)
        connection.execute(f"PRAGMA user_version = {wanted}")


def keep_copy(connection: sqlite3.Connection, target: Path) -> None:
    """Write a copy of an open store beside it, for its owner alone, in one step."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with contextlib.closing(connect(draft)) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        sync_file(draft)
        draft.replace(target)
        sync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _add_checksums(connection: sqlite3.Connection) -> None:
    """From format 1 to 2."""
    connection.create_function("checksum_of", 1, zlib.crc32, deterministic=True)
    connection.execute("ALTER TABLE object RENAME TO object_1")
    connection.execute(OBJECT_TABLE)
    connection.execute(
        "INSERT INTO object SELECT collection, namespace, name, version, raw,"
        " checksum_of(CAST(raw AS BLOB)) FROM object_1"
    )
    connection.execute("DROP TABLE object_1")


def _drop_checksums(connection: sqlite3.Connection) -> None:
    """From format 2 to 1."""
    connection.execute("ALTER TABLE object RENAME TO object_2")
    connection.execute(OBJECT_TABLE_1)
    connection.execute(
        "INSERT INTO object SELECT collection, namespace, name, version, raw FROM object_2"
    )
    connection.execute("DROP TABLE object_2")


_UPGRADES: dict[int, Callable[[sqlite3.Connection], None]] = {1: _add_checksums}
_DOWNGRADES: dict[int, Callable[[sqlite3.Connection], None]] = {2: _drop_checksums}
