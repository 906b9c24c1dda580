"""The store on disk: every acknowledged commit survives a crash of the process or the machine.

SQLite in WAL mode with full synchronisation. Commits are applied in memory at once and written in
groups: one transaction has all commits that arrived while the last one was being flushed. Commits
that are not flushed are not visible to clients. A group is on disk whole or not at all. When the
disk refuses a group (full, broken), this group and everything after it is rolled back in memory:
the store goes on from what the disk holds, and the writes fail.

    append() --> pending --- one transaction a group --+--> flushed --> Storage.mark_durable
                                                       +--> refused --> Storage.roll_back

On a full disk a group without creations is written once more, with the room of the `reserve`.

The log is not written: after a start it is empty, and watches from before the start are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from swell.cluster.embedded.commits import Commit
from swell.cluster.embedded.database import (
    DamagedStoreError,
    Database,
    ExpectedStore,
    StoreExistsError,
    StoreMissingError,
    WrongFormatError,
    is_disk_full,
    is_io_error,
)
from swell.cluster.embedded.reserve import Reserve
from swell.cluster.embedded.storage import Storage
from swell.cluster.home import has_been_used

__all__ = [
    "DamagedStoreError",
    "Database",
    "DurableStorage",
    "ExpectedStore",
    "StoreExistsError",
    "StoreMissingError",
    "WrongFormatError",
    "expected_store",
]

RESERVE = "reserve"  # the file's name is the store's with this ending


def expected_store(home: Path, *, new: bool) -> ExpectedStore:
    """The store that a start in a state folder counts on; `new` is what the user has said."""
    if new:
        return ExpectedStore.NEW
    return ExpectedStore.EXISTING if has_been_used(home) else ExpectedStore.ANY


class DurableStorage:
    """A Storage and the task that writes its commits. Only one process can have a file open."""

    def __init__(self, storage: Storage, database: Database, reserve: Reserve) -> None:
        self.storage = storage
        self._database = database
        self._reserve = reserve
        self._pending: list[Commit] = []
        self._wake = asyncio.Event()
        self._closing = False
        # SQLite blocks, so it runs in a thread of its own and the event loop does not.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.writer: asyncio.Task[None] | None = None  # must not end before `close`

    @classmethod
    async def open(
        cls,
        path: Path,
        now: Callable[[], float],
        expected: ExpectedStore = ExpectedStore.ANY,
    ) -> DurableStorage:
        """Open or create a file and start its writer.

        sqlite3.Error, WrongFormatError or DamagedStoreError when it is unusable, StoreMissingError
        or StoreExistsError when it is not the expected one.
        """
        reserve = Reserve(path.with_name(f"{path.name}.{RESERVE}"))
        # A start writes as well: on a full disk it takes the room that is kept for that.
        if not reserve.try_hold() or reserve.refuses_creations():
            reserve.release()
        with contextlib.ExitStack() as on_failure:
            database = Database(path, expected)
            on_failure.callback(database.close)
            storage = database.load(now)
            on_failure.pop_all()
        durable = cls(storage, database, reserve)
        storage.attach_journal(durable)
        durable.writer = asyncio.create_task(durable._write_groups(), name="store-writer")
        return durable

    def append(self, commit: Commit) -> None:
        self._pending.append(commit)
        self._wake.set()

    def refuses_creations(self) -> bool:
        return self._reserve.refuses_creations()

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
                await loop.run_in_executor(self._thread, self._write, group)
            except sqlite3.Error as error:
                # Commits that arrived meanwhile build on the refused ones: they go as well.
                self._pending = []
                self.storage.roll_back(error)
            else:
                self.storage.mark_durable(group[-1].version)

    def _write(self, group: list[Commit]) -> None:
        """Write a group, if need be with the reserve; sqlite3.Error when the disk refuses it."""
        try:
            self._database.write(group)
        except sqlite3.Error as error:
            if not self._release_for(error) or any(commit.before is None for commit in group):
                raise
            with contextlib.suppress(sqlite3.Error):  # without it the log needs more room
                self._database.recycle_log()
            self._database.write(group)
        if not self._reserve.is_held:
            if any(commit.after is None for commit in group):
                with contextlib.suppress(sqlite3.Error):  # it is tried again after the next group
                    self._database.shrink()
            self._reserve.try_hold()

    def _release_for(self, error: sqlite3.Error) -> bool:
        """Release the reserve if an error means that the disk is full; False when it is used up."""
        is_full = is_disk_full(error) or (is_io_error(error) and self._reserve.refuses_creations())
        return is_full and self._reserve.release()
