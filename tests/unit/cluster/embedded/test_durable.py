"""The store on disk: what is acknowledged survives, what fails never happened."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.durable import Database, DurableStorage, WrongFormatError
from swell.cluster.embedded.storage import Commit
from swell.cluster.embedded.verbs.requests import ListOptions, WatchOptions
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import GoneError, NotFoundError, ServerError
from tests.unit.cluster.embedded.world import NOON, World, event_names, names

KEY = Key("default", "a")


def a_pod(name: str = "a", **metadata: object) -> Body:
    metadata |= {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"containers": []}}


def limit_pages(durable: DurableStorage, n_pages: int) -> None:
    durable._database._connection.execute(f"PRAGMA max_page_count = {n_pages}")


class Opened:
    """A server on a file, with a client of it."""

    def __init__(self, durable: DurableStorage) -> None:
        self.durable = durable
        self.storage = durable.storage
        self.world = World(durable.storage)
        self.cluster = InProcessCluster(self.world.api, "tester")


def on_disk(path: Path, act: Callable[[Opened], Awaitable[None]]) -> None:
    """Open the store, do something, close it."""

    async def life() -> None:
        durable = await DurableStorage.open(path, lambda: NOON)
        try:
            await act(Opened(durable))
        finally:
            await durable.close()

    asyncio.run(life())


def break_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: Database, group: list[Commit]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Database, "write", fail)


def test_acknowledged_objects_and_version_survive(tmp_path: Path) -> None:
    """A reopened store holds the same objects and goes on counting where it was."""
    path = tmp_path / "store.db"
    versions: list[int] = []

    async def write(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod("a"))
        await opened.cluster.create(PODS, a_pod("b"))
        await opened.cluster.patch(PODS, KEY, merge_patch({"metadata": {"labels": {"x": "y"}}}))
        await opened.cluster.delete(PODS, Key("default", "b"))
        versions.append(opened.storage.version)

    async def read(opened: Opened) -> None:
        assert opened.storage.version == versions[0]
        listed = await opened.cluster.list(PODS)
        assert [pod.metadata.labels for pod in listed.items] == [{"x": "y"}]
        created = await opened.cluster.create(PODS, a_pod("c"))
        assert int(created.metadata.resource_version) == versions[0] + 1

    on_disk(path, write)
    on_disk(path, read)


def test_watch_from_before_the_start_is_gone(tmp_path: Path) -> None:
    """The past is not kept on disk; the version it ended with is a valid start."""
    path = tmp_path / "store.db"

    async def write(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod())

    async def read(opened: Opened) -> None:
        version = opened.storage.version
        with pytest.raises(GoneError):
            opened.world.watch("pods", WatchOptions(resource_version=str(version - 1))).poll()
        watch = opened.world.watch("pods", WatchOptions(resource_version=str(version)))
        await opened.cluster.delete(PODS, KEY)
        assert event_names(watch.poll()) == [("MODIFIED", "a"), ("DELETED", "a")]

    on_disk(path, write)
    on_disk(path, read)


def test_nothing_is_visible_before_it_is_on_disk(tmp_path: Path) -> None:
    """Watchers see a commit only when it is durable, and answers wait for it."""

    async def act(opened: Opened) -> None:
        await opened.world.api.wait_durable(opened.storage.version)
        watch = opened.world.watch("pods", WatchOptions())
        opened.world.pod("a")

        assert watch.poll() == []
        await opened.world.api.wait_durable(opened.storage.version)
        assert event_names(watch.poll()) == [("ADDED", "a")]

    on_disk(tmp_path / "store.db", act)


def test_failed_write_is_an_error_and_never_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk refuses, the write fails, and memory is what the disk holds."""
    path = tmp_path / "store.db"

    async def act(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod("kept"))
        start = opened.storage.version
        watch = opened.world.watch("pods", WatchOptions(resource_version=str(start)))
        with monkeypatch.context() as patched:
            break_writes(patched)
            results = await asyncio.gather(
                opened.cluster.create(PODS, a_pod("a")),
                opened.cluster.delete(PODS, Key("default", "kept")),
                opened.cluster.patch(PODS, KEY, merge_patch({"metadata": {"labels": {"x": "y"}}})),
                return_exceptions=True,
            )
        assert [type(result) for result in results] == [ServerError] * 3
        assert opened.storage.version == start
        assert names(opened.world.list("pods")) == ["kept"]
        assert watch.poll() == []

        await opened.cluster.create(PODS, a_pod("after"))
        assert event_names(watch.poll()) == [("ADDED", "after")]

    async def read(opened: Opened) -> None:
        assert names(opened.world.list("pods")) == ["after", "kept"]

    on_disk(path, act)
    on_disk(path, read)


def test_full_disk_is_an_error_until_there_is_room(tmp_path: Path) -> None:
    """What fits is kept, what does not is undone; the database's limit stands for the disk's."""
    path = tmp_path / "store.db"
    kept: list[str] = []

    async def act(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod("first"))
        limit_pages(opened.durable, 40)
        for n in range(200):
            big = {"filling": "x" * 4_000}
            try:
                pod = await opened.cluster.create(PODS, a_pod(f"p{n:03d}", annotations=big))
            except ServerError:
                continue
            kept.append(pod.metadata.name)
        assert 0 < len(kept) < 200
        assert names(opened.world.list("pods")) == ["first", *kept]
        limit_pages(opened.durable, 1_000_000)
        await opened.cluster.create(PODS, a_pod("last"))

    async def read(opened: Opened) -> None:
        assert names(opened.world.list("pods")) == sorted(["first", *kept, "last"])

    on_disk(path, act)
    on_disk(path, read)


def test_refusal_based_on_a_lost_write_is_an_error_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that is gone in memory alone is not gone: no client gets a 404 for it."""

    async def act(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod())
        with monkeypatch.context() as patched:
            break_writes(patched)
            results = await asyncio.gather(
                opened.cluster.delete(PODS, KEY),
                opened.cluster.get(PODS, KEY),
                return_exceptions=True,
            )
        assert [type(result) for result in results] == [ServerError] * 2
        assert (await opened.cluster.get(PODS, KEY)).metadata.name == "a"

    on_disk(tmp_path / "store.db", act)


def test_watch_begun_on_a_lost_write_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch does not begin with what was never there; the next one sees all that follows."""

    async def act(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod("kept"))
        with monkeypatch.context() as patched:
            break_writes(patched)
            opened.world.pod("lost")
            with pytest.raises(ServerError):
                async with opened.cluster.watch(PODS, resource_version=""):
                    pytest.fail("it must not begin")
        async with opened.cluster.watch(PODS, resource_version="") as events:
            await opened.cluster.create(PODS, a_pod("after"))
            seen = [await anext(events) for _ in range(2)]
        assert [event.object.metadata.name for event in seen if isinstance(event.object, Pod)] == [
            "kept",
            "after",
        ]

    on_disk(tmp_path / "store.db", act)


def test_hooks_see_what_is_undone_reversed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks see a rolled-back commit reversed, so they can undo what they derived from it."""

    async def act(opened: Opened) -> None:
        await opened.world.api.wait_durable(opened.storage.version)
        seen: list[Commit] = []
        opened.storage.on_commit.append(seen.append)
        break_writes(monkeypatch)
        with pytest.raises(ServerError):
            await opened.cluster.create(PODS, a_pod())

        done, undone = seen
        assert (done.undone, undone.undone) == (False, True)
        assert (undone.before, undone.after) == (done.after, done.before)
        with pytest.raises(NotFoundError):
            opened.world.get("pods", "a")

    on_disk(tmp_path / "store.db", act)


def test_torn_tail_is_dropped_whole(tmp_path: Path) -> None:
    """Whatever the last bytes of the log are cut to, the store opens and holds whole groups."""
    path = tmp_path / "store.db"
    copies: list[tuple[bytes, bytes]] = []

    async def write(opened: Opened) -> None:
        for name in ("a", "b", "c"):
            await opened.cluster.create(PODS, a_pod(name))
        wal = path.with_name(path.name + "-wal")
        copies.append((path.read_bytes(), wal.read_bytes()))

    on_disk(path, write)
    database, wal = copies[0]
    counts: list[int] = []
    for n_cut in range(0, 20_000, 1_237):
        torn = tmp_path / f"torn-{n_cut}.db"
        torn.write_bytes(database)
        torn.with_name(torn.name + "-wal").write_bytes(wal[: len(wal) - n_cut])

        async def read(opened: Opened) -> None:
            page = opened.world.api.list(opened.world.kind("pods"), ListOptions())
            assert names(page) == ["a", "b", "c"][: len(page.items)]
            counts.append(len(page.items))

        on_disk(torn, read)

    assert counts[0] == 3
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 3


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    """A store of a later version is left alone."""
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(WrongFormatError):
        Database(path)


def test_file_in_use_is_refused(tmp_path: Path) -> None:
    """Two servers on one file would each believe their own memory."""
    path = tmp_path / "store.db"

    async def act(opened: Opened) -> None:
        await opened.cluster.create(PODS, a_pod())
        with pytest.raises(sqlite3.OperationalError):
            Database(path)

    on_disk(path, act)
