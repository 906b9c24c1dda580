"""Room for deletions on a full disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key
from swell.cluster.embedded.checking import check_file
from swell.cluster.embedded.commits import Commit
from swell.cluster.embedded.database import Database
from swell.cluster.embedded.reserve import FREE_BYTES_MIN, RESERVE_BYTES, Reserve
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ServerError
from tests.unit.cluster.embedded.test_durable import Opened, on_disk

CONFIG = CONFIG_MAPS.untyped()
PLENTY = 1 << 30


class SmallDisk:
    """A disk whose room a test sets; writes fail when there is none and the reserve is held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
        self.free = PLENTY
        self.reserve_file = store.with_name("store.db.reserve")
        write = Database.write

        def write_if_room(database: Database, group: list[Commit]) -> None:
            if self.free == 0 and self.reserve_file.exists():
                raise sqlite3.OperationalError("database or disk is full")
            write(database, group)

        def room(_folder: Path) -> int:
            return self.free + (0 if self.reserve_file.exists() else RESERVE_BYTES * self.is_full)

        monkeypatch.setattr(Database, "write", write_if_room)
        monkeypatch.setattr("swell.cluster.embedded.reserve.LOOK_S", -1.0)
        monkeypatch.setattr(
            Reserve.__init__,
            "__kwdefaults__",
            {
                **(Reserve.__init__.__kwdefaults__ or {}),
                "free": room,
            },
        )

    @property
    def is_full(self) -> bool:
        return self.free == 0


def a_config(name: str) -> Body:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"v": "x" * 1000}}


def test_deletions_and_changes_work_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creations are refused with the reason; later all goes on, and nothing is lost."""
    store = tmp_path / "store.db"
    disk = SmallDisk(monkeypatch, store)

    async def act(opened: Opened) -> None:
        for n in range(10):
            await opened.cluster.create(CONFIG, a_config(f"c{n}"))
        assert disk.reserve_file.stat().st_size == RESERVE_BYTES

        disk.free = 0
        with pytest.raises(ServerError, match="database or disk is full: objects can be deleted"):
            await opened.cluster.create(CONFIG, a_config("refused"))
        await opened.cluster.delete(CONFIG, Key("default", "c1"))
        assert not disk.reserve_file.exists()
        changed = merge_patch({"metadata": {"labels": {"x": "y"}}})
        await opened.cluster.patch(CONFIG, Key("default", "c2"), changed)
        await opened.cluster.delete(CONFIG, Key("default", "c3"))
        with pytest.raises(ServerError):
            await opened.cluster.create(CONFIG, a_config("refused"))

        disk.free = PLENTY
        await opened.cluster.create(CONFIG, a_config("after"))
        assert disk.reserve_file.exists()

    on_disk(store, act)

    report = check_file(store)
    held = [row.name for row in report.rows if row.collection == "configmaps"]
    assert report.is_sound
    assert held == ["after", "c0", "c2", "c4", "c5", "c6", "c7", "c8", "c9"]


def test_cluster_starts_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that something can be deleted from it."""
    store = tmp_path / "store.db"
    disk = SmallDisk(monkeypatch, store)

    async def fill(opened: Opened) -> None:
        await opened.cluster.create(CONFIG, a_config("a"))
        disk.free = 0

    async def delete(opened: Opened) -> None:
        await opened.cluster.delete(CONFIG, Key("default", "a"))

    on_disk(store, fill)
    on_disk(store, delete)

    assert "configmaps" not in check_file(store).by_collection


def test_reserve_is_real_room(tmp_path: Path) -> None:
    """A file with holes would keep nothing free."""
    reserve = Reserve(tmp_path / "reserve")

    assert reserve.try_hold()
    found = (tmp_path / "reserve").stat()
    assert found.st_blocks * 512 >= RESERVE_BYTES
    assert found.st_mode & 0o777 == 0o600
    assert reserve.release()
    assert not reserve.release()


def test_reserve_is_not_made_of_the_last_room(tmp_path: Path) -> None:
    """It would fill the disk that it is for; nothing is created then, either."""
    low = RESERVE_BYTES + FREE_BYTES_MIN
    reserve = Reserve(tmp_path / "reserve", free=lambda _: low)

    assert not reserve.try_hold()
    assert reserve.refuses_creations()


def test_disk_that_does_not_tell_its_room_is_used(tmp_path: Path) -> None:
    """Some file systems report nothing."""
    reserve = Reserve(tmp_path / "reserve", free=lambda _: None)

    assert reserve.try_hold()
    assert not reserve.refuses_creations()
