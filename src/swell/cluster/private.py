"""Files and folders that only their owner can use, whatever the umask and the mode they had.

A state folder holds Secrets, credentials and the output of jobs. It is tightened when a process
begins to serve it, and refused when it belongs to another user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import struct
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077  # the bits of a mode that concern group and others
# Below these folders are files of containers, which choose the modes of what they make themselves.
# Nobody else gets there: the folders of pods are private.
CONTAINERS_OWN = ("pods/*/volumes/*", "pods/*/containers/*/*/work")
# An access control list that new entries of a folder inherit, in place of the umask: all for the
# owner and nothing for others. The format is that of linux/posix_acl_xattr.h.
_ACL = "system.posix_acl_default"
_ACL_ENTRIES = ((0x01, 7), (0x04, 0), (0x20, 0))  # owner, group, others


class ForeignFolderError(PermissionError):
    """A state folder that belongs to another user."""

    def __init__(self, folder: Path, owner: int) -> None:
        own = os.geteuid()
        why = f"it belongs to {_user(owner)}, and you are {_user(own)}"
        super().__init__(errno.EPERM, why, str(folder))


def claim_home(home: Path) -> None:
    """Make a state folder, or tighten it; ForeignFolderError when it belongs to another user."""
    make_private_folder(home)
    owner = home.stat().st_uid
    if owner != os.geteuid():
        raise ForeignFolderError(home, owner)
    _tighten(home, FOLDER_MODE)


def tighten_content(home: Path) -> None:
    """Take all rights of others away from everything in a state folder.

    An earlier version may have made it, or someone may have put it there.
    """
    for place, folders, files in os.walk(home):
        here = Path(place)
        for name in files:
            if not (here / name).is_symlink():
                _tighten(here / name, FILE_MODE)
        for name in list(folders):
            folder = here / name
            if folder.is_symlink():
                continue
            if _is_containers_own(folder.relative_to(home)):
                folders.remove(name)
            else:
                _tighten(folder, FOLDER_MODE)


def make_private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner alone."""
    missing: list[Path] = []
    place = folder
    while not place.exists():
        missing.append(place)
        place = place.parent
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process may make it at the same time
            place.mkdir(mode=FOLDER_MODE)
            place.chmod(FOLDER_MODE)  # a umask can take rights of the owner away


def open_private(path: Path, flags: int) -> int:
    """Returns a descriptor of a file that is made, or made private, if need be."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    if os.fstat(descriptor).st_mode & 0o777 != FILE_MODE:
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def write_private(path: Path, text: str) -> None:
    """Write a private file in one step."""
    # The pid keeps two processes from writing the same draft.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(open_private(draft, os.O_WRONLY | os.O_TRUNC), "w") as file:
        file.write(text)
    draft.replace(path)


def keep_entries_private(folder: Path) -> None:
    """Have files that containers make in a folder be private, where the file system can do that.

    Their umask is not changed for it: that would concern folders of the user as well.
    """
    raw = struct.pack("<I", 2)
    for tag, rights in _ACL_ENTRIES:
        raw += struct.pack("<HHI", tag, rights, 0xFFFFFFFF)
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(folder, _ACL, raw)


def _is_containers_own(folder: Path) -> bool:
    n_parts = len(folder.parts)
    return any(
        folder.match(pattern) and n_parts == pattern.count("/") + 1 for pattern in CONTAINERS_OWN
    )


def _tighten(path: Path, mode: int) -> None:
    """Take the rights of others away, and none of the owner's; a folder is made usable."""
    with contextlib.suppress(FileNotFoundError):  # a process may have removed it meanwhile
        found = path.stat().st_mode & 0o777
        wanted = FOLDER_MODE if mode == FOLDER_MODE else found & ~OTHERS
        if found != wanted:
            path.chmod(wanted)


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
