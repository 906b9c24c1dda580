"""Turns into somebody with no rights and no network, then runs a command: see `test_stranger`.

Root only. Folders above the interpreter and this repository that others may not enter are replaced,
in a view of the file system of our own, by ones that show nothing but the way there.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_NO_NEW_PRIVS = 38
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
UID = GID = 65534  # nobody
ROOT = Path(__file__).parents[3]

_libc = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def cut_network() -> None:
    """A network of our own, in which there is only this machine."""
    check(_libc.unshare(CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def open_ways(places: list[Path]) -> None:
    """Let everybody come to some places, though folders above them are closed to others."""
    shut = {place: outermost for place in places if (outermost := _outermost_closed(place))}
    held = {place: os.open(place, os.O_PATH) for place in shut}
    for outermost in sorted(set(shut.values())):
        mount("tmpfs", outermost, 0, "tmpfs")
        outermost.chmod(0o755)
    for place, descriptor in held.items():
        place.mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", place, MS_BIND | MS_REC)
        os.close(descriptor)


def _outermost_closed(place: Path) -> Path | None:
    closed = [one for one in place.parents if not one.stat().st_mode & stat.S_IXOTH]
    return closed[-1] if closed else None


def mount(source: str, target: Path, flags: int, kind: str = "") -> None:
    names = (source.encode(), str(target).encode(), kind.encode() or None)
    check(_libc.mount(*names, ctypes.c_ulong(flags), None))


def give_up_rights() -> None:
    os.setgroups([])
    os.setresgid(GID, GID, GID)
    os.setresuid(UID, UID, UID)
    check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def main() -> None:
    check(_libc.unshare(CLONE_NEWNS))
    mount("none", Path("/"), MS_REC | MS_PRIVATE)
    open_ways([Path(place).resolve() for place in (ROOT, sys.prefix, sys.base_prefix)])
    cut_network()
    give_up_rights()
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
