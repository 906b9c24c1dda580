"""The data of a cluster: backups, checks, and a folder that has lost its store."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.e2e.up.machine import FLAGS, Machine, until
from tests.e2e.up.test_kills import _acknowledge


def config_maps(machine: Machine) -> set[str]:
    found = machine.swell("get", "configmaps", "-o", "name").stdout.split()
    return {name for name in found if "kept" in name}


def test_backup_of_a_running_cluster_is_restored(machine: Machine) -> None:
    """Everything up to the backup is back, what came later is not; the former store is kept."""
    file = machine.folder / "backup.db"
    machine.start()
    _acknowledge(machine, "kept-1")
    said = machine.swell("backup", str(file)).stdout
    assert "1 configmaps" in said or "configmaps" in said
    assert file.stat().st_mode & 0o777 == 0o600
    assert machine.swell("check", str(file)).stdout.startswith(f"{file} is sound: ")
    _acknowledge(machine, "kept-2")

    refused = machine.swell("backup", str(file), expect=1)
    assert f"{file} exists" in refused.stderr
    assert "swell down" in machine.swell("restore", "--force", str(file), expect=2).stderr
    assert "swell down" in machine.swell("check", expect=2).stderr

    machine.swell("down")
    assert machine.swell("check").stdout.startswith(f"{machine.home}/store.db is sound: ")
    assert "--force" in machine.swell("restore", str(file), expect=1).stderr
    said = machine.swell("restore", "--force", str(file)).stdout
    assert f"restored from {file} into {machine.home}" in said
    assert list(machine.home.glob("store.db.before-restore-*"))
    machine.start()
    assert config_maps(machine) == {"configmap/kept-1"}

    machine.swell("down")
    said = machine.swell("backup", "--force", str(file)).stdout
    assert f"written to {file}" in said
    machine.swell("backup", "--format", "1", "--force", str(file))
    assert machine.swell("check", str(file)).stdout.endswith(", format 1\n")
    assert "format 99 is unknown" in machine.swell("backup", "--format", "99", "b", expect=2).stderr


def test_lost_store_is_told_and_not_replaced(machine: Machine) -> None:
    """A used folder without a store, or with an empty one, is no new cluster."""
    machine.start()
    machine.swell("down")
    store = machine.home / "store.db"
    store.unlink()
    for command in (("up", "--detach", *FLAGS), ("server",)):
        refused = machine.swell(*command, expect=1)
        assert "its store store.db is missing" in refused.stderr
        assert "swell restore FILE" in refused.stderr
        assert "--new" in refused.stderr
        assert not store.exists()
    store.touch()
    assert "is empty (0 bytes)" in machine.swell("up", *FLAGS, expect=1).stderr
    machine.swell("up", "--detach", "--new", *FLAGS)
    machine.swell("down")
    assert "--new" in machine.swell("up", "--new", *FLAGS, expect=1).stderr


def test_bad_row_stops_a_start_until_it_is_put_aside(machine: Machine) -> None:
    """The row is named; without it the cluster starts with all the rest."""
    machine.start()
    for n in range(3):
        _acknowledge(machine, f"kept-{n}")
    machine.swell("down")
    with closing(sqlite3.connect(machine.home / "store.db")) as connection:
        connection.execute("UPDATE object SET raw = X'7B' WHERE name = 'kept-1'")
        connection.commit()

    refused = machine.swell("up", *FLAGS, expect=1)
    assert "configmaps default/kept-1: its content is not what was written" in refused.stderr
    assert "swell check" in refused.stderr
    checked = machine.swell("check", expect=1)
    assert "configmaps default/kept-1" in checked.stdout
    said = machine.swell("check", "--quarantine").stdout
    assert "1 row put aside" in said
    machine.swell("check")
    machine.start()
    assert config_maps(machine) == {"configmap/kept-0", "configmap/kept-2"}


def test_file_that_is_no_database_is_told_in_words(machine: Machine) -> None:
    """Every command says it in one sentence, and leaves the file alone."""
    machine.start()
    machine.swell("down")
    store = machine.home / "store.db"
    store.write_bytes(b"no database" * 1000)
    for command in (("check",), ("check", "--quarantine"), ("up", *FLAGS), ("backup", "b.db")):
        refused = machine.swell(*command, expect=1)
        assert "not a database" in refused.stdout + refused.stderr
    assert store.read_bytes() == b"no database" * 1000
    assert not (machine.folder / "b.db").exists()


def test_log_of_a_cluster_is_rotated(machine: Machine) -> None:
    """A log from a long life does not grow on."""
    machine.home.mkdir(mode=0o700)
    log = machine.home / "up.log"
    log.write_bytes(b"old line\n" * 500_000)
    machine.start()

    until((machine.home / "up.log.1").exists)
    assert log.stat().st_size < 100_000
