"""Ends gloo's collectives at once, by shutting its connections down below it.

gloo's own abort leaves a thread that waits where it is, and a thread that waits for a live member
never hears of a death elsewhere in the ring. It does hear that its connections are shut down. The
descriptors stay gloo's own: shutdown(2) works on duplicates of them.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")


def listening_ports() -> set[int]:
    """The ports at which this process listens for TCP connections."""
    return {_port(sock.getsockname()) for sock in _tcp_sockets() if _listens(sock)}


def connections_to(host_port: int) -> set[int]:
    """The local ports of this process' connections to a remote port."""
    return {
        _port(sock.getsockname())
        for sock in _tcp_sockets()
        if not _listens(sock) and _peer_port(sock) == host_port
    }


def shut_down(ports: set[int]) -> int:
    """Shut down every connection of which one end is one of these ports; returns how many."""
    n_shut = 0
    for sock in _tcp_sockets():
        if _listens(sock):
            continue
        if _port(sock.getsockname()) in ports or _peer_port(sock) in ports:
            with contextlib.suppress(OSError):  # the other end was faster
                sock.shutdown(socket.SHUT_RDWR)
                n_shut += 1
    return n_shut


def _tcp_sockets() -> Iterator[socket.socket]:
    """A duplicate of every TCP socket of this process, closed when the next one is asked for."""
    for name in [path.name for path in DESCRIPTORS.iterdir()]:
        try:
            if not str((DESCRIPTORS / name).readlink()).startswith("socket:"):
                continue
            sock = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # closed meanwhile by its owner
            continue
        with sock:
            if sock.family in {socket.AF_INET, socket.AF_INET6} and sock.type == socket.SOCK_STREAM:
                with contextlib.suppress(OSError):
                    yield sock


def _listens(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _port(address: tuple[str, int]) -> int:
    return address[1]


def _peer_port(sock: socket.socket) -> int | None:
    try:
        return _port(sock.getpeername())
    except OSError:  # not connected yet, or no more
        return None
