"""Writes the volumes that show API objects, so that readers never see half an update.

The layout is a kubelet's: the files are in a folder of their own, `..data` is a link to it, and
each name is a link through `..data`. An update makes a new folder and replaces `..data` at once.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from swell.cluster.private import FILE_MODE, make_private_folder, open_private
from swell.cluster.trees import discard_tree, remove_tree
from swell.node.process.setup.volumes import Files

DATA = "..data"
_OURS = re.compile(r"\.\.[0-9]{1,9}")


def write_volume(folder: Path, files: Files) -> bool:
    """Write the files of a volume; False when they were there already."""
    make_private_folder(folder)
    link = folder / DATA
    former = _former(folder)
    if former is not None and _holds(former, files):
        return False
    number = int(former.name.removeprefix("..")) + 1 if former else 0
    fresh = folder / f"..{number}"
    _clear(fresh)
    make_private_folder(fresh)
    for path, content in files.items():
        place = fresh / path
        make_private_folder(place.parent)
        with os.fdopen(open_private(place, os.O_WRONLY), "wb") as file:
            file.write(content.text.encode(errors="surrogateescape"))
        # The mode that the manifest asks for, which containers see. The way to it is closed above.
        place.chmod(content.mode)
    draft = folder / "..draft"
    draft.unlink(missing_ok=True)
    draft.symlink_to(fresh.name)
    draft.replace(link)
    _link_names(folder, files)
    if former is not None:
        discard_tree(former)
    return True


def _former(folder: Path) -> Path | None:
    """The folder that holds the files now; None without one.

    Where a container sees this folder itself, the link may lead anywhere: what it leads to is
    compared and removed, so that nothing but a folder of ours may be taken for it.
    """
    link = folder / DATA
    name = str(link.readlink()) if link.is_symlink() else ""
    former = folder / name
    return former if _OURS.fullmatch(name) and not former.is_symlink() else None


def give_volume(folder: Path, uid: int) -> None:
    """Let a user read a volume that the agent has written; the agent must be root.

    The way to the volume is closed to everybody, so that its folders can be open.
    """
    os.chown(folder, uid, -1)
    folder.chmod(0o755)
    for place, folders, files in os.walk(folder):
        for name in folders:
            if not (Path(place) / name).is_symlink():
                (Path(place) / name).chmod(0o755)
        for name in (*folders, *files):
            os.chown(Path(place) / name, uid, -1, follow_symlinks=False)


def write_in_place(path: Path, text: str, mode: int = FILE_MODE) -> None:
    """Change the content of a file without replacing it.

    It is bind-mounted into containers, which would go on seeing the replaced file.
    """
    make_private_folder(path.parent)
    data = text.encode()
    descriptor = open_private(path, os.O_RDWR)
    try:
        if os.pread(descriptor, len(data) + 1, 0) != data:
            # One write, so that a reader sees either text; only the length follows a moment later.
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))
        if mode != FILE_MODE:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _holds(folder: Path, files: Files) -> bool:
    # Python writes compiled modules beside its sources: that is no change of the volume.
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_dir() and path.parent.name != "__pycache__"
    }
    wanted = {p: content.text.encode(errors="surrogateescape") for p, content in files.items()}
    return found == set(files) and all(
        _content(folder / path, len(data)) == data for path, data in wanted.items()
    )


def _content(path: Path, n_bytes: int) -> bytes | None:
    """The bytes of a file of this size; None for anything else.

    A pipe would be waited for without end, and a file may be as large as the disk.
    """
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size != n_bytes:
        return None
    return path.read_bytes()


def _clear(place: Path) -> None:
    """Remove whatever has this path."""
    if place.is_dir() and not place.is_symlink():
        remove_tree(place)
    else:
        place.unlink(missing_ok=True)


def _link_names(folder: Path, files: Files) -> None:
    """Make a link through `..data` for the first part of every path, and remove all others."""
    wanted = {path.split("/")[0] for path in files}
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            _clear(entry)
    for name in sorted(wanted):
        if not (folder / name).is_symlink():
            _clear(folder / name)
            (folder / name).symlink_to(f"{DATA}/{name}")
