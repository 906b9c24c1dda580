"""Removes and measures folders that programs of others have filled, however deep, wide or closed.

`shutil.rmtree` goes down by recursion, with a descriptor for every level: a few thousand nested
folders are beyond it. Here folders are moved to the top one after the other, and removed there.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNERS = 0o700


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it; OSError when something is left.

    A container may have made folders that their owner cannot write to. Links are not followed.
    """
    try:
        top = _opened(str(folder))
    except FileNotFoundError:
        return
    try:
        mark = uuid.uuid4().hex  # no entry has such a name
        names = (f".{mark}-{n}" for n in count())
        waiting = _emptied(top, top, names)
        while waiting:
            name = waiting.pop()
            place = _opened(name, top)
            try:
                waiting += _emptied(place, top, names)
            finally:
                os.close(place)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def discard_tree(folder: Path) -> None:
    """Remove a folder as far as that is possible."""
    with contextlib.suppress(OSError):
        remove_tree(folder)


def tree_bytes(folder: Path) -> int:
    """The bytes of all files in a folder, of those that can be reached by a path.

    What is removed meanwhile counts as nothing, and a link as little as what it leads to.
    """
    total, waiting = 0, [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _opened(name: str, parent: int | None = None) -> int:
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except PermissionError:
        os.chmod(name, _OWNERS, dir_fd=parent)
        return os.open(name, _OPEN_FOLDER, dir_fd=parent)


def _emptied(place: int, top: int, names: Iterator[str]) -> list[str]:
    """Remove the files of a folder and put its folders at the top; returns their names there."""
    if os.fstat(place).st_mode & _OWNERS != _OWNERS:
        os.fchmod(place, _OWNERS)
    found: list[str] = []
    # An entry that is taken away meanwhile does not hide another one (readdir(3p)).
    with os.scandir(place) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=place)
            elif place == top:
                found.append(entry.name)
            else:
                found.append(_moved(entry.name, place, top, next(names)))
    return found


def _moved(name: str, place: int, top: int, wanted: str) -> str:
    try:
        os.rename(name, wanted, src_dir_fd=place, dst_dir_fd=top)
    except PermissionError:  # a folder that is moved must be writable itself
        os.chmod(name, _OWNERS, dir_fd=place)
        os.rename(name, wanted, src_dir_fd=place, dst_dir_fd=top)
    return wanted
