"""Folders are removed whatever a program has made in them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from swell.cluster.trees import discard_tree, remove_tree, tree_bytes

DEPTH = 3 * sys.getrecursionlimit()


def _nested(top: Path, depth: int) -> None:
    """Make folders in each other; the deepest have no path that could be written down."""
    top.mkdir()
    place = os.open(top, os.O_RDONLY)
    for n in range(depth):
        os.mkdir("d", dir_fd=place)
        if n % 100 == 0:
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=place))
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


def test_folders_nested_by_thousands_are_removed(tmp_path: Path) -> None:
    """`shutil.rmtree` ends with a RecursionError here, and the pod was never gone."""
    _nested(tmp_path / "top", DEPTH)
    remove_tree(tmp_path / "top")

    assert not (tmp_path / "top").exists()


def test_odd_entries_are_removed(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "line\nfeed").write_text("x")
    (top / "a" / "link").symlink_to(outside)
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "a" / "pipe")
    (top / os.fsdecode(b"\xff")).mkdir()
    for place in ("a/b", "a"):
        (top / place).chmod(0)
    remove_tree(top)

    assert not top.exists()
    assert (outside / "kept").read_text() == "x"


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(OSError, match=name):
            remove_tree(tmp_path / name)
        discard_tree(tmp_path / name)

    assert (tmp_path / "file").exists()
    remove_tree(tmp_path / "nothing")


def test_bytes_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"x" * 1_000)
    (tmp_path / "g").write_bytes(b"x" * 10)
    (tmp_path / "link").symlink_to("/dev/zero")
    _nested(tmp_path / "deep", DEPTH)

    assert tree_bytes(tmp_path) == 1_010
    remove_tree(tmp_path / "deep")
