"""Connections of endpoints: those that say nothing use nothing up."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from swell.cluster.embedded.http.credentials import Files, server_tls
from swell.runtime import connections
from swell.runtime.health import Endpoints, HealthChecks

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def _with_endpoints(
    story: Callable[[int], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> None:
    async def main() -> None:
        endpoints = Endpoints(HealthChecks(), port=0, tls=tls)
        task = asyncio.create_task(endpoints.run())
        await asyncio.wait_for(endpoints.serving.wait(), 10)
        try:
            await story(endpoints.port)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


async def _asked(opened: Opened, head: str = "GET /livez HTTP/1.1", body: bytes = b"") -> bytes:
    reader, writer = opened
    writer.write(f"{head}\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return await asyncio.wait_for(reader.readline(), 10)


async def _ended(opened: Opened) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        return await asyncio.wait_for(opened[0].read(1), 10)
    return b""


def test_silent_connections_are_pushed_out_by_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_MAX", 3)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL_S", 0.02)

    async def story(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        assert await _ended(silent[0]) == b""
        probe = await asyncio.open_connection("127.0.0.1", port)
        assert b"200" in await _asked(probe)
        for _, writer in [*silent, probe]:
            writer.close()

    _with_endpoints(story)


def test_silent_connections_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a request is silence, too."""
    monkeypatch.setattr(connections, "SILENT_S_MAX", 0.1)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL_S", 0.02)

    async def story(port: int) -> None:
        silent = await asyncio.open_connection("127.0.0.1", port)
        half = await asyncio.open_connection("127.0.0.1", port)
        half[1].write(b"GET /livez HTTP/1.1\r\nHost:")
        assert await _ended(silent) == await _ended(half) == b""
        for _, writer in (silent, half):
            writer.close()

    _with_endpoints(story)


def test_handshake_that_never_begins_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_S_MAX", 0.1)

    async def story(port: int) -> None:
        silent = await asyncio.open_connection("127.0.0.1", port)
        assert await _ended(silent) == b""
        silent[1].close()

    _with_endpoints(story, server_tls(Files(tmp_path)))


def test_nothing_is_inflated() -> None:
    """A body of a few bytes would otherwise become gigabytes before anybody is known."""

    async def story(port: int) -> None:
        opened = await asyncio.open_connection("127.0.0.1", port)
        body = gzip.compress(b"\0" * 50_000_000)
        head = "GET /livez HTTP/1.1\r\nContent-Encoding: gzip"
        assert b"200" in await _asked(opened, head, body)
        opened[1].close()

    _with_endpoints(story)
