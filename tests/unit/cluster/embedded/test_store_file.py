"""The store's file: formats, damage, backups, and a start without it."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key
from swell.cluster.embedded.checking import VERSIONS_SKIPPED, check_file, save_sound_rows
from swell.cluster.embedded.copies import (
    IncompleteCopyError,
    UnsoundCopyError,
    backup_pieces,
    restore_copy,
    write_copy,
    write_lines,
)
from swell.cluster.embedded.database import (
    FORMAT,
    DamagedStoreError,
    Database,
    ExpectedStore,
    StoreExistsError,
    StoreMissingError,
    WrongFormatError,
)
from swell.cluster.embedded.verbs.requests import WatchOptions
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import GoneError
from tests.unit.cluster.embedded.test_durable import Opened, on_disk
from tests.unit.cluster.embedded.world import NOON

OLD = Path(__file__).parents[3] / "data" / "stores" / "format-1.db"
CONFIG = CONFIG_MAPS.untyped()


def a_config(name: str, value: str = "x") -> Body:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"v": value}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with fifty objects, closed."""
    path = tmp_path / "store.db"

    async def fill(opened: Opened) -> None:
        for n in range(50):
            await opened.cluster.create(CONFIG, a_config(f"c{n:02d}", "x" * 500))

    on_disk(path, fill)
    return path


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def loaded(path: Path) -> dict[str, str]:
    """The values of all objects, as a server would load them."""
    database = Database(path)
    try:
        storage = database.load(lambda: NOON)
    finally:
        database.close()
    return {k.name: s.body["data"]["v"] for k, s in storage.list("configmaps").items}


# -- formats -------------------------------------------------------------------------------------


def test_store_of_the_former_release_is_upgraded(tmp_path: Path) -> None:
    """Its objects and its counter are the same, and a copy stays for the way back."""
    path = tmp_path / "store.db"
    shutil.copyfile(OLD, path)
    before = check_file(OLD)

    async def read(opened: Opened) -> None:
        assert opened.storage.version == before.version
        found = await opened.cluster.list(CONFIG)
        assert [(c["metadata"]["name"], c["data"]["n"]) for c in found.items] == [
            ("c0", "0"),
            ("c1", "changed"),
        ]
        change = merge_patch({"data": {"n": "changed again"}})
        await opened.cluster.patch(CONFIG, Key("default", "c1"), change)

    on_disk(path, read)

    after = check_file(path)
    assert (before.format, after.format) == (1, FORMAT)
    assert after.is_sound
    assert after.version == before.version + 1
    kept = check_file(tmp_path / "store.db.format-1")
    assert (kept.format, kept.rows, kept.is_sound) == (1, before.rows, True)
    assert (tmp_path / "store.db.format-1").stat().st_mode & 0o777 == 0o600


def test_upgrade_that_is_cut_short_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the old format until it has the whole new one."""
    path = tmp_path / "store.db"
    shutil.copyfile(OLD, path)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE object")
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("swell.cluster.embedded.database._UPGRADES", {1: fail})
        with pytest.raises(sqlite3.OperationalError):
            Database(path)

    assert check_file(path).rows == check_file(OLD).rows
    Database(path).close()
    assert check_file(path).format == FORMAT


def test_unknown_format_is_refused_and_left_as_it_is(store: Path) -> None:
    """A later version wrote it: not one byte changes."""
    alter(store, f"PRAGMA user_version = {FORMAT + 1}")
    before = store.read_bytes()

    with pytest.raises(WrongFormatError, match=f"format {FORMAT + 1}"):
        Database(store)

    assert store.read_bytes() == before
    assert f"its format is {FORMAT + 1}" in check_file(store).faults[0]


def test_backup_for_an_older_version_is_one_of_its_format(store: Path, tmp_path: Path) -> None:
    """The way back: its table is that of format 1."""
    target = tmp_path / "old.db"
    report = write_copy(store, target, 1)

    assert (report.format, len(report.rows)) == (1, 50 + 4)
    with closing(sqlite3.connect(target)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(object)")]
    assert columns == ["collection", "namespace", "name", "version", "raw"]


# -- checks --------------------------------------------------------------------------------------

_RAW = "UPDATE object SET raw = {raw}, checksum = {sum} WHERE name = 'c07'"


def with_raw(raw: bytes) -> str:
    return _RAW.format(raw=f"X'{raw.hex()}'", sum=zlib.crc32(raw))


BAD_ROWS: dict[str, tuple[str, str]] = {
    "no JSON": (with_raw(b'{"metadata": '), "c07: its content is not JSON"),
    "deep JSON": (with_raw(b"[" * 100_000), "c07: its content is not JSON"),
    "not an object": (with_raw(b"[1]"), "c07: its content is not JSON"),
    "no metadata": (with_raw(b"{}"), "c07: its content has no metadata"),
    "other content": ("UPDATE object SET raw = raw || ' ' WHERE name = 'c07'", "c07: its content"),
    "wrong key": (
        "UPDATE object SET name = 'c99' WHERE name = 'c07'",
        "c99: its key is wrong: the object in it is default/c07",
    ),
    "no key": ("UPDATE object SET name = '' WHERE name = 'c07'", "its key is not complete"),
    "wrong version": ("UPDATE object SET version = 9999 WHERE name = 'c07'", "9999 is impossible"),
    "negative version": ("UPDATE object SET version = -1 WHERE name = 'c07'", "-1 is impossible"),
    "text as version": ("UPDATE object SET version = 'x' WHERE name = 'c07'", "is impossible"),
}


@pytest.mark.parametrize("damage", BAD_ROWS)
def test_bad_row_is_named_and_put_aside(store: Path, tmp_path: Path, damage: str) -> None:
    """A server refuses the store with the row's name; without the row it starts with the rest."""
    statement, expected = BAD_ROWS[damage]
    alter(store, statement)

    report = check_file(store)
    assert not report.is_sound
    assert expected in str(report.problems[0])
    with pytest.raises(DamagedStoreError, match="configmaps"):
        loaded(store)

    save_sound_rows(check_file(store, in_use_by_us=True), tmp_path / "aside.db")

    assert check_file(store).is_sound
    assert sorted(loaded(store)) == [f"c{n:02d}" for n in range(50) if n != 7]
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT count(*) FROM quarantine").fetchone() == (1,)
    assert (tmp_path / "aside.db").exists()


def test_duplicates_are_found(store: Path) -> None:
    """Two rows of one key, of one UID, or of one version cannot both be right."""
    alter(
        store,
        "CREATE TABLE loose AS SELECT * FROM object",
        "INSERT INTO loose SELECT * FROM object WHERE name = 'c07'",
        "DROP TABLE object",
        "ALTER TABLE loose RENAME TO object",
    )

    report = check_file(store)

    assert "configmaps default/c07: a duplicate: another row has the same key" in map(
        str, report.problems
    )
    assert len(report.rows) == 54


def test_second_object_with_a_uid_is_a_duplicate(store: Path) -> None:
    """A UID belongs to one object for ever."""
    with closing(sqlite3.connect(store)) as connection:
        (raw,) = connection.execute("SELECT raw FROM object WHERE name = 'c07'").fetchone()
        version = 10**6
        other = raw.replace(b'"c07"', b'"zz"')
        begin = other.index(b'"resourceVersion":"') + len(b'"resourceVersion":"')
        end = other.index(b'"', begin)
        other = other[:begin] + str(version).encode() + other[end:]
        row = ("configmaps", "default", "zz", version, other, zlib.crc32(other))
        connection.execute("INSERT INTO object VALUES (?, ?, ?, ?, ?, ?)", row)
        connection.execute(f"UPDATE counter SET version = {version}")
        connection.commit()

    assert "zz: a duplicate: configmaps default/c07 has the same uid" in str(
        check_file(store).problems[0]
    )


def test_lost_counter_is_counted_on(store: Path, tmp_path: Path) -> None:
    """No version that a client may have seen is used again."""
    newest = check_file(store).version
    alter(store, "DELETE FROM counter")
    report = check_file(store)
    assert report.faults == ["its counter of versions is missing"]

    save_sound_rows(report, tmp_path / "aside.db")

    assert check_file(store).version == newest + VERSIONS_SKIPPED
    assert len(loaded(store)) == 50


def test_counter_behind_a_sound_row_is_a_fault(store: Path) -> None:
    """The row is what a server wrote, so the counter is wrong."""
    alter(store, "UPDATE counter SET version = 3")

    assert "impossible version" in check_file(store).faults[0]


def test_broken_index_is_named(store: Path) -> None:
    """SQLite's own check is part of ours."""
    alter(
        store,
        "CREATE INDEX by_version ON object(version)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE INDEX by_version ON object(version, raw)'"
        " WHERE name = 'by_version'",
    )

    report = check_file(store)

    assert any("index" in fault for fault in report.faults)
    assert len(report.rows) == 54


@pytest.mark.parametrize("spoil", ["torn", "page", "header", "garbage", "empty"])
def test_damaged_file_is_told_in_words(store: Path, tmp_path: Path, spoil: str) -> None:
    """Whatever happened to the bytes, there is a sentence, and what can be read is saved."""
    raw = bytearray(store.read_bytes())
    if spoil == "torn":
        del raw[-2 * 4096 :]
    elif spoil == "page":
        raw[5 * 4096 : 6 * 4096] = b"\xff" * 4096
    elif spoil == "header":
        raw[:100] = b"x" * 100
    elif spoil == "garbage":
        raw = bytearray(b"no database" * 1000)
    else:
        raw.clear()
    store.write_bytes(raw)

    report = check_file(store)

    assert report.faults
    assert bool(report.rows) == (spoil in {"torn", "page"})
    if report.rows:
        save_sound_rows(report, tmp_path / "aside.db")
        assert check_file(store).is_sound
        assert (tmp_path / "aside.db").read_bytes() == bytes(raw)
        assert len(report.rows) > 10


def test_every_flipped_bit_of_content_is_found(store: Path) -> None:
    """SQLite has no checksums, so the rows have: no flipped bit in an object goes unnoticed."""
    whole = store.read_bytes()
    at = whole.index(b"x" * 400)
    for offset in range(0, 400, 37):
        spoilt = bytearray(whole)
        spoilt[at + offset] ^= 1 << (offset % 8)
        store.write_bytes(spoilt)

        assert len(check_file(store).problems) == 1


# -- backups -------------------------------------------------------------------------------------


def test_backup_of_a_running_store_is_of_one_version(tmp_path: Path) -> None:
    """It holds what is on disk at its beginning, whatever is written while it is taken."""
    target = tmp_path / "backup.db"

    async def act(opened: Opened) -> None:
        for n in range(30):
            await opened.cluster.create(CONFIG, a_config(f"c{n}", "y" * 50_000))
        version = opened.storage.version
        pieces = backup_pieces(opened.storage)
        taken = [next(pieces)]
        await opened.cluster.delete(CONFIG, Key("default", "c1"))
        await opened.cluster.create(CONFIG, a_config("late"))
        taken += pieces

        report = write_lines(b"".join(taken).splitlines(), target)

        assert report.version == version
        assert report.by_collection["configmaps"] == 30
        with pytest.raises(IncompleteCopyError, match="objects"):
            write_lines(b"".join(taken).splitlines()[:-1], tmp_path / "cut.db")

    on_disk(tmp_path / "store.db", act)
    assert target.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "cut.db").exists()
    assert not list(tmp_path.glob(".*"))


def test_restored_store_never_repeats_a_version(store: Path, tmp_path: Path) -> None:
    """Clients that saw versions after the backup are told to list again."""
    backup = tmp_path / "backup.db"
    write_copy(store, backup)

    async def go_on(opened: Opened) -> None:
        await opened.cluster.create(CONFIG, a_config("later"))

    on_disk(store, go_on)
    seen = check_file(store).version
    restore_copy(backup, store, tmp_path / "aside.db")

    async def read(opened: Opened) -> None:
        with pytest.raises(GoneError):
            opened.world.watch("configmaps", WatchOptions(resource_version=str(seen))).poll()
        created = await opened.cluster.create(CONFIG, a_config("other"))
        assert int(created["metadata"]["resourceVersion"]) > seen

    on_disk(store, read)
    assert sorted(loaded(store)) == [*(f"c{n:02d}" for n in range(50)), "other"]
    assert "later" in loaded(tmp_path / "aside.db")


def test_unsound_backup_is_not_restored(store: Path, tmp_path: Path) -> None:
    """The store that is there stays as it is."""
    backup = tmp_path / "backup.db"
    backup.write_bytes(store.read_bytes()[:9000])
    before = store.read_bytes()

    with pytest.raises(UnsoundCopyError):
        restore_copy(backup, store, tmp_path / "aside.db")

    assert store.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON object BEGIN DELETE FROM object; END",
            "it has a trigger t",
        ),
        ("CREATE VIEW v AS SELECT * FROM object", "it has a view v"),
        ("CREATE TABLE more (a)", "it has a table more"),
    ],
)
def test_backup_that_would_change_the_store_is_not_restored(
    store: Path, tmp_path: Path, spoil: str, said: str
) -> None:
    """A trigger in it would take away what the restored cluster acknowledges."""
    backup = tmp_path / "backup.db"
    write_copy(store, backup)
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute(spoil)

    with pytest.raises(UnsoundCopyError, match=said):
        restore_copy(backup, store, tmp_path / "aside.db")


def test_backup_whose_schema_is_no_text_is_not_restored(store: Path, tmp_path: Path) -> None:
    """SQLite quotes the broken name in its error, which Python cannot decode."""
    backup = tmp_path / "backup.db"
    write_copy(store, backup)
    raw = backup.read_bytes()
    assert b"CREATE TABLE object" in raw
    for spoilt in (b"CREATE TABLE ob\xc7ect", b"CREATE T\xc7BLE object", b"\xc7REATE TABLE object"):
        backup.write_bytes(raw.replace(b"CREATE TABLE object", spoilt))
        with pytest.raises(UnsoundCopyError):
            restore_copy(backup, store, tmp_path / "aside.db")


def test_backup_of_the_former_release_can_be_restored(tmp_path: Path) -> None:
    """It is upgraded by the next start."""
    store = tmp_path / "store.db"
    restore_copy(OLD, store, tmp_path / "aside.db")
    Database(store).close()

    assert check_file(store).format == FORMAT


# -- a folder without its store -------------------------------------------------------------------


def no_file(path: Path) -> None:
    path.unlink(missing_ok=True)


def no_bytes(path: Path) -> None:
    path.write_bytes(b"")


def no_tables(path: Path) -> None:
    path.unlink()
    alter(path, "CREATE TABLE t (x)", "DROP TABLE t")


def no_rows(path: Path) -> None:
    alter(path, "DELETE FROM object", "DELETE FROM counter")


@pytest.mark.parametrize("lose", [no_file, no_bytes, no_tables, no_rows])
def test_lost_store_is_not_a_new_one(store: Path, lose: Callable[[Path], None]) -> None:
    """A start that counts on a store says that it is gone, and a new one can be asked for."""
    lose(store)

    with pytest.raises(StoreMissingError):
        Database(store, ExpectedStore.EXISTING).load(lambda: NOON)

    if lose is not no_rows:
        Database(store, ExpectedStore.NEW).close()


def test_new_cluster_does_not_take_over_a_store(store: Path) -> None:
    """Nothing is lost by a flag."""
    with pytest.raises(StoreExistsError):
        Database(store, ExpectedStore.NEW)

    assert len(loaded(store)) == 50
