"""State folders and their files are for their owner alone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.cluster.embedded.durable import Database
from swell.cluster.home import hold_lock
from swell.cluster.private import (
    ForeignFolderError,
    keep_entries_private,
    make_private_folder,
    open_private,
    write_private,
)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_are_private_at_every_level(tmp_path: Path) -> None:
    """Also those above that were missing."""
    make_private_folder(tmp_path / "a" / "b" / "c")

    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_files_are_private_from_the_first_moment(tmp_path: Path) -> None:
    """New ones, replaced ones, and those that were there with another mode."""
    old = tmp_path / "old"
    old.touch()
    old.chmod(0o666)
    os.close(open_private(old, os.O_WRONLY))
    write_private(tmp_path / "new", "text")

    assert mode(old) == 0o600
    assert mode(tmp_path / "new") == 0o600


def test_loose_home_is_tightened(tmp_path: Path) -> None:
    """With all that an earlier version, or someone else, left there."""
    home = tmp_path / "home"
    make_private_folder(home / "logs" / "n")
    for name in ("store.db", "store.db-wal", "logs/n/main.log"):
        os.close(open_private(home / name, os.O_WRONLY))
        (home / name).chmod(0o666)
    for name in ("logs/n", "logs", "."):
        (home / name).chmod(0o777)
    with hold_lock(home):
        found = {str(p.relative_to(home)): mode(p) for p in sorted(home.rglob("*"))}

    assert mode(home) == 0o700
    assert found == {
        "lock": 0o600,
        "logs": 0o700,
        "logs/n": 0o700,
        "logs/n/main.log": 0o600,
        "store.db": 0o600,
        "store.db-wal": 0o600,
    }


def test_volumes_keep_the_modes_of_their_pods(tmp_path: Path) -> None:
    """What manifests and containers choose below a private folder is theirs."""
    os.umask(0)
    volume = tmp_path / "pods" / "u" / "volumes" / "v"
    volume.mkdir(parents=True)
    (volume / "f").touch(0o644)
    with hold_lock(tmp_path):
        pass

    assert (mode(volume), mode(volume / "f")) == (0o777, 0o644)
    assert mode(tmp_path / "pods" / "u") == mode(tmp_path / "pods" / "u" / "volumes") == 0o700


def test_foreign_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sentence that says whose it is."""
    home = tmp_path / "home"
    make_private_folder(home)
    owner = home.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 12345)
    with pytest.raises(ForeignFolderError) as refusal:
        hold_lock(home).__enter__()

    assert f"uid {owner}), and you are uid {owner + 12345}" in str(refusal.value)
    assert list(home.iterdir()) == []


def test_store_and_its_log_are_private(tmp_path: Path) -> None:
    """SQLite gives the file of the latest writes the mode of its database."""
    path = tmp_path / "store.db"
    path.touch()
    path.chmod(0o666)
    database = Database(path)
    found = {p.name: mode(p) for p in tmp_path.iterdir()}
    database.close()

    assert found["store.db-wal"] == 0o600
    assert set(found.values()) == {0o600}
    sqlite3.connect(path).close()


def test_files_of_containers_are_private_without_their_doing(tmp_path: Path) -> None:
    """Whatever their umask is, in a folder that says so."""
    folder = tmp_path / "work"
    make_private_folder(folder)
    keep_entries_private(folder)
    os.umask(0)
    (folder / "f").touch()
    (folder / "d").mkdir()
    (folder / "d" / "f").touch()

    found = {str(p.relative_to(folder)): mode(p) for p in sorted(folder.rglob("*"))}
    assert found == {"d": 0o700, "d/f": 0o600, "f": 0o600}
