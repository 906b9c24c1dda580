"""Linux calls that Python has no names for, and the identity of a process.

A process is identified by its pid together with the time it started, so that a later process with
the same pid is never taken for it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import sys

LINUX = sys.platform.startswith("linux")

# From linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
# From linux/mount.h and linux/fcntl.h; the number of the call is the same on every architecture.
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
# Fields of /proc/PID/stat behind the name, counted from 0; see proc(5).
_STATE_FIELD, _START_TICK_FIELD = 0, 19

# Opens a place without reading it, which needs no right to do so.
_PLACE = os.O_CLOEXEC | (os.O_PATH if LINUX else os.O_RDONLY)

_loaded: list[ctypes.CDLL] = []


def start_mark(pid: int) -> str:
    """Returns a text that no later process with this pid has; empty when there is no process.

    On Linux it is the boot and the clock tick the process started at. Elsewhere it only says that
    the process exists.
    """
    try:
        if not LINUX:
            os.kill(pid, 0)
            return "alive"
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name before it is in brackets and may contain brackets and spaces itself.
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read(8)
    except (OSError, IndexError):
        return ""
    if fields[_STATE_FIELD] in {b"Z", b"X"}:  # a zombie has ended, although it still has its pid
        return ""
    return f"{boot}.{fields[_START_TICK_FIELD].decode()}"


def signal_exactly(pid: int, mark: str, number: int) -> bool:
    """Send a signal to the process with this pid and mark; False when it is gone."""
    held = -1
    try:
        if hasattr(os, "pidfd_open"):
            # Opened before the mark is compared: the descriptor stays with the process, even if
            # it ends and its pid is given to another one between the check and the signal.
            held = os.pidfd_open(pid)
        if not mark or start_mark(pid) != mark:
            return False
        if held >= 0:
            signal.pidfd_send_signal(held, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    finally:
        if held >= 0:
            os.close(held)
    return True


def set_name(name: str) -> None:
    """Set the name that process lists show."""
    if LINUX:
        _libc().prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def control(option: int, value: int) -> None:
    """Call prctl(2); does nothing where there is none."""
    if LINUX:
        _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def unshare(flags: int) -> None:
    _check(_libc().unshare(flags))


def mount(source: str, target: str, flags: int, kind: str = "") -> None:
    names = (source.encode(), target.encode(), kind.encode() or None)
    _check(_libc().mount(*names, ctypes.c_ulong(flags), None), f"{source} at {target}")


def open_beneath(root: str, inner: str, *, make: bool = False) -> int:
    """Returns a descriptor of what is at a path below a folder, going through no link.

    Each step is taken from the folder that is open already: whoever may write below the root can
    exchange a folder for a link at any time, but not lead the way out of the root. Missing folders
    are made if asked. OSError, with the step, when something on the way is a link.
    """
    held = os.open(root, _PLACE)
    for step in inner.split("/"):
        outer = held
        try:
            held = _step(outer, step, make=make)
        finally:
            os.close(outer)
        if stat.S_ISLNK(os.fstat(held).st_mode):
            os.close(held)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), step)
    return held


def _step(folder: int, name: str, *, make: bool) -> int:
    flags = _PLACE | os.O_NOFOLLOW
    if name in {"", ".", ".."}:
        raise OSError(errno.EINVAL, "no name of a file", name)
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        # Somebody else made it, or put something in its place, which the caller looks at.
        return os.open(name, flags, dir_fd=folder)
    return os.open(name, flags, dir_fd=folder)


def set_writable(target: str, *, writable: bool, recursive: bool = False) -> None:
    """Make a mount writable or read only, with those below it if asked; OSError on old kernels."""
    # struct mount_attr: the flags to set, those to clear, and two fields of no use here.
    flags = (0, _MOUNT_ATTR_RDONLY) if writable else (_MOUNT_ATTR_RDONLY, 0)
    attributes = (ctypes.c_uint64 * 4)(*flags, 0, 0)
    result = _libc().syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(target.encode()),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        attributes,
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, target)


def _libc() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(ctypes.CDLL(None, use_errno=True))
    return _loaded[0]


def _check(result: int, subject: str = "") -> None:
    if result != 0:
        number = ctypes.get_errno()
        text = os.strerror(number)
        raise OSError(number, f"{text} ({subject})" if subject else text)
