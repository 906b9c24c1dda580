"""Calls of the Linux kernel that Python has no names for."""

from __future__ import annotations

import ctypes
import os
import sys

LINUX = sys.platform.startswith("linux")

# From linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36

_loaded: list[ctypes.CDLL] = []


def set_name(name: str) -> None:
    """What process lists call us."""
    if LINUX:
        _libc().prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def control(option: int, value: int) -> None:
    if LINUX:
        _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def unshare(flags: int) -> None:
    _check(_libc().unshare(flags))


def mount(source: str, target: str, flags: int, kind: str = "") -> None:
    names = (source.encode(), target.encode(), kind.encode() or None)
    _check(_libc().mount(*names, ctypes.c_ulong(flags), None), f"{source} at {target}")


def _libc() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(ctypes.CDLL(None, use_errno=True))
    return _loaded[0]


def _check(result: int, what: str = "") -> None:
    if result != 0:
        number = ctypes.get_errno()
        text = os.strerror(number)
        raise OSError(number, f"{text} ({what})" if what else text)
