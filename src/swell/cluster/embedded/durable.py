"""The store on disk: every acknowledged commit survives a crash of the process or the machine.

SQLite in WAL mode with full synchronisation. Commits are applied in memory at once and written in
groups: one transaction has all commits that arrived while the last one was being flushed. Commits
that are not flushed are not visible to clients. A group is on disk whole or not at all. When the
disk refuses a group (full, broken), this group and everything after it is rolled back in memory:
the store goes on from what the disk holds, and the writes fail.

    append() --> pending --- one transaction a group --+--> flushed --> Storage.mark_durable
                                                       +--> refused --> Storage.roll_back

The log is not written: after a start it is empty, and watches from before the start are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from swell.api.meta import Key
from swell.cluster.embedded.storage import Commit, Storage, Stored
from swell.cluster.private import open_private

_SCHEMA = """
CREATE TABLE IF NOT EXISTS object (
    collection TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    raw        BLOB NOT NULL,
    PRIMARY KEY (collection, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (
    id      INTEGER PRIMARY KEY CHECK (id = 0),
    version INTEGER NOT NULL
);
"""
_FORMAT = 1
LOCK_WAIT_S = 0.5  # for a predecessor that is just closing the file
_PUT = "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM object WHERE collection = ? AND namespace = ? AND name = ?"
_COUNT = "INSERT OR REPLACE INTO counter VALUES (0, ?)"


class WrongFormatError(Exception):
    """The file has a format that this version of Swell does not understand."""

    def __init__(self, path: Path, found: int) -> None:
        super().__init__(f"{path}: format {found}, expected {_FORMAT}")
        self.path = path
        self.found = found


class DurableStorage:
    """A Storage and the task that writes its commits. Only one process can have a file open."""

    def __init__(self, storage: Storage, database: Database) -> None:
        self.storage = storage
        self._database = database
        self._pending: list[Commit] = []
        self._wake = asyncio.Event()
        self._closing = False
        # SQLite blocks, so it runs in a thread of its own and the event loop does not.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.writer: asyncio.Task[None] | None = None  # must not end before `close`

    @classmethod
    async def open(cls, path: Path, now: Callable[[], float]) -> DurableStorage:
        """Open or create a file and start its writer; sqlite3.Error when it is unusable."""
        database = Database(path)
        storage = database.load(now)
        durable = cls(storage, database)
        storage.attach_journal(durable)
        durable.writer = asyncio.create_task(durable._write_groups(), name="store-writer")
        return durable

    def append(self, commit: Commit) -> None:
        self._pending.append(commit)
        self._wake.set()

    async def close(self) -> None:
        """Write what is pending, then close the file."""
        self._closing = True
        self._wake.set()
        if self.writer is not None:
            await self.writer
        self._thread.shutdown()
        self._database.close()

    async def _write_groups(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending or not self._closing:
            if not self._pending:
                self._wake.clear()
                await self._wake.wait()
                continue
            group, self._pending = self._pending, []
            try:
                await loop.run_in_executor(self._thread, self._database.write, group)
            except sqlite3.Error as error:
                # Commits that arrived meanwhile build on the refused ones: they go as well.
                self._pending = []
                self.storage.roll_back(error)
            else:
                self.storage.mark_durable(group[-1].version)


class Database:
    """The SQLite file. Every method blocks."""

    def __init__(self, path: Path) -> None:
        # SQLite gives the files beside it, with the latest writes, the mode of this one.
        os.close(open_private(path, os.O_RDWR))
        self._connection = sqlite3.connect(
            path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False
        )
        # Two servers on one store would both trust their memory, so the lock is never given up.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        found = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in {0, _FORMAT}:
            self._connection.close()
            raise WrongFormatError(path, found)
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA user_version = {_FORMAT}")

    def load(self, now: Callable[[], float]) -> Storage:
        row = self._connection.execute("SELECT version FROM counter").fetchone()
        storage = Storage(now, version=row[0] if row else 1)
        rows = self._connection.execute(
            "SELECT collection, namespace, name, version, raw FROM object"
            " ORDER BY collection, namespace, name"
        )
        for collection, namespace, name, version, raw in rows:
            stored = Stored.from_raw(raw, version)
            storage.load(collection, [(Key(namespace, name), stored)])
        return storage

    def write(self, group: list[Commit]) -> None:
        """Write a group in one transaction; sqlite3.Error when it did not get to disk.

        Of several commits of one object only the last state is written.
        """
        latest = {(commit.collection, *commit.key): commit.after for commit in group}
        puts = [(*k, after.version, after.raw) for k, after in latest.items() if after is not None]
        removes = [k for k, after in latest.items() if after is None]
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(_REMOVE, removes)
            self._connection.executemany(_PUT, puts)
            execute(_COUNT, (group[-1].version,))
            execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()
