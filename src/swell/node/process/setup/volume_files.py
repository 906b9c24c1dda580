"""Writes the volumes that show API objects, so that readers never see half an update.

The layout is a kubelet's: the files are in a folder of their own, `..data` is a link to it, and
each name is a link through `..data`. An update makes a new folder and replaces `..data` at once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from swell.cluster.private import FILE_MODE, make_private_folder, open_private
from swell.node.process.setup.volumes import Files

DATA = "..data"


def write_volume(folder: Path, files: Files) -> bool:
    """Write the files of a volume; False when they were there already."""
    make_private_folder(folder)
    link = folder / DATA
    former = folder / link.readlink() if link.is_symlink() else None
    if former is not None and _holds(former, files):
        return False
    number = int(former.name.removeprefix("..")) + 1 if former else 0
    fresh = folder / f"..{number}"
    shutil.rmtree(fresh, ignore_errors=True)
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
        shutil.rmtree(former, ignore_errors=True)
    return True


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
    return found == set(files) and all(
        (folder / path).read_bytes() == content.text.encode(errors="surrogateescape")
        for path, content in files.items()
    )


def _link_names(folder: Path, files: Files) -> None:
    """Make a link through `..data` for the first part of every path, and remove all others."""
    wanted = {path.split("/")[0] for path in files}
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
    for name in sorted(wanted):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{DATA}/{name}")
