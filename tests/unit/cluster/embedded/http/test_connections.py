"""Connections: which are accepted, which are pushed out, and how the descriptor limit is raised."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from swell.cluster.embedded.http import connections, credentials
from swell.cluster.embedded.http.connections import Connections, raise_descriptor_limit
from swell.runtime.clock import SystemClock


async def _accepting(
    folder: Path, n_max: int, act: Callable[[Connections, tuple[str, int]], Awaitable[None]]
) -> None:
    files = credentials.Files(folder)
    tls = credentials.server_tls(files)
    listener = credentials.listening_socket(files, None)
    open_ = Connections(SystemClock(), n_max)

    def never() -> object:
        raise AssertionError("no handshake was made")

    async with open_.accepting(listener, tls, never):  # type: ignore[arg-type]
        await act(open_, listener.getsockname())


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


def test_newest_silent_connections_stay(tmp_path: Path) -> None:
    """At the limit the oldest connection that has sent nothing is closed for a new one."""

    async def act(open_: Connections, address: tuple[str, int]) -> None:
        made = [socket.create_connection(address) for _ in range(5)]
        try:
            await _until(lambda: len(open_) == 3)
            made[0].settimeout(5)
            assert await asyncio.to_thread(made[0].recv, 1) == b""
        finally:
            for one in made:
                one.close()
        await _until(lambda: len(open_) == 0)

    asyncio.run(_accepting(tmp_path, 3, act))


def test_silence_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_S_MAX", 0.05)

    async def act(open_: Connections, address: tuple[str, int]) -> None:
        with socket.create_connection(address) as silent:
            silent.settimeout(5)
            assert await asyncio.to_thread(silent.recv, 1) == b""
        assert len(open_) == 0

    asyncio.run(_accepting(tmp_path, 3, act))


def test_descriptor_limit_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    try:
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(
            hard, connections.DESCRIPTORS_MAX
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
