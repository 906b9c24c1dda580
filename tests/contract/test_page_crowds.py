"""The page under load and attack: bodies that are none, silent connections, and greedy users."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from swell.api.kinds import QUEUES
from swell.api.meta import Body, Key
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.history.reading import ended_lives
from swell.page import details, feed, sessions
from swell.page.feed import ObjectFeed
from swell.page.security import OWN_HEADER
from swell.page.server import BODY_BYTES_MAX, PagePlacement, serving
from swell.runtime import connections
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import merge_patch
from tests.contract.targets import embedded_server

OWN = {OWN_HEADER: "1"}
CODE = "a-code-from-the-terminal"
WITHIN_S = 60.0
SHARED: Body = {
    "apiVersion": QUEUES.api_version,
    "kind": QUEUES.kind,
    "metadata": {"name": "shared"},
    "spec": {"weight": 1},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("page")
    with embedded_server(home):
        yield home


Story = Callable[[str], Awaitable[None]]


def play(home: Path, story: Story) -> None:
    async def main() -> None:
        access = read_kubeconfig([home / "kubeconfig"])
        placement = PagePlacement(own=access, code=CODE)
        page = serving(access, placement, clock=SystemClock(), random=random.Random())
        async with page as address, asyncio.timeout(WITHIN_S):
            await story(address)

    asyncio.run(main())


@asynccontextmanager
async def visitor(address: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A browser whose user has logged in."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(base_url=address, cookie_jar=jar) as client:
        async with client.post("api/login", json={"token": CODE}, headers=OWN) as answer:
            assert answer.status == 200
        yield client


async def status(client: aiohttp.ClientSession, path: str) -> int:
    async with client.get(path) as answer:
        return answer.status


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b'{"token": "\xff"}', {}, 400),
        (b'{"token": "\\ud800"}', {}, 400),
        (b'{"a":' + b"[" * 30_000, {}, 400),
        (b"9" * 30_000, {}, 400),
        (b"[]", {}, 400),
        (b"x" * (BODY_BYTES_MAX + 1), {}, 413),
        (gzip.compress(b"{}"), {"Content-Encoding": "gzip"}, 403),
        (gzip.compress(b"x" * 50_000_000), {"Content-Encoding": "gzip"}, 403),
    ],
    ids=["no UTF-8", "surrogate", "nested", "number", "list", "long", "gzip", "gzip bomb"],
)
def test_bodies_that_are_none_are_refused(
    body: bytes,
    headers: dict[str, str],
    code: int,
    home: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before anybody has logged in, and without a traceback. Nothing is inflated."""

    async def story(address: str) -> None:
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{address}api/login", data=body, headers={**OWN, **headers}) as answer,
        ):
            assert answer.status == code

    play(home, story)
    assert "Traceback" not in caplog.text


def test_silent_connections_are_few_and_short(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes when there are too many, each after a while; users who are in stay."""
    monkeypatch.setattr(connections, "SILENT_MAX", 4)

    async def story(address: str) -> None:
        place = URL(address)
        async with visitor(address) as client, client.get("api/stream") as stream:
            await stream.content.readuntil(b"\n\n")
            made = [socket.create_connection((place.host, place.port)) for _ in range(7)]
            for one in made:
                one.setblocking(False)
            loop = asyncio.get_running_loop()
            for one in made[:3]:
                assert await closed(loop, one)
            assert await status(client, "api/me") == 200
            monkeypatch.setattr(connections, "SILENT_S_MAX", 0.0)
            for one in made[3:]:
                assert await closed(loop, one)
            assert await status(client, "api/me") == 200
            assert not stream.content.at_eof()

    play(home, story)


async def closed(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> bool:
    """Wait until the server has closed a connection."""
    with connection:
        try:
            return await loop.sock_recv(connection, 1) == b""
        except ConnectionResetError:
            return True


def test_history_keeps_nobody_waiting(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone through beside the loop, and for one user no more than twice at a time."""
    may_end, lock, running = threading.Event(), threading.Lock(), [0, 0]

    def slow(*given: Any) -> Any:
        with lock:
            running[0] += 1
            running[1] = max(running)
        assert may_end.wait(WITHIN_S)
        with lock:
            running[0] -= 1
        return ended_lives(*given)

    monkeypatch.setattr(details, "ended_lives", slow)

    async def story(address: str) -> None:
        async with visitor(address) as client:
            asked = [asyncio.create_task(status(client, "api/history")) for _ in range(5)]
            while running[0] < sessions.READINGS_EACH_MAX:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert await status(client, "api/me") == 200
            may_end.set()
            assert await asyncio.gather(*asked) == [200] * 5

    play(home, story)
    assert running == [0, sessions.READINGS_EACH_MAX]


def test_rows_are_made_once_for_all_pages(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that opens later gets the rows as they were, and what has changed since."""
    n_made = 0
    real = ObjectFeed.rows

    def counted(self: ObjectFeed) -> dict[str, list[Body]]:
        nonlocal n_made
        n_made += 1
        return real(self)

    monkeypatch.setattr(ObjectFeed, "rows", counted)

    async def story(address: str) -> None:
        access = read_kubeconfig([home / "kubeconfig"])
        async with (
            connect(access, SystemClock(), random.Random()) as cluster,
            visitor(address) as client,
        ):
            await cluster.create(QUEUES, SHARED)
            async with client.get("api/stream") as first:
                assert b"event: state" in await first.content.readuntil(b"\n\n")
                change = merge_patch({"metadata": {"labels": {"a": "b"}}, "spec": {"weight": 7}})
                await cluster.patch(QUEUES, Key("", "shared"), change)
                assert b'"weight":7' in await first.content.readuntil(b"\n\n")
                async with client.get("api/stream") as second:
                    assert b'"weight":7' not in await second.content.readuntil(b"\n\n")
                    assert b'"weight":7' in await second.content.readuntil(b"\n\n")
            assert n_made == 1
            for _ in range(3):
                assert await status(client, "api/state") == 200
            assert n_made == 2

    play(home, story)


def test_one_user_has_its_share(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pages, of logs, and of logins, of which the oldest ends."""
    monkeypatch.setattr(feed, "STREAMS_MAX", 1)
    monkeypatch.setattr(sessions, "LOGS_EACH_MAX", 0)
    monkeypatch.setattr(sessions, "SESSIONS_EACH_MAX", 2)

    async def story(address: str) -> None:
        async with visitor(address) as first, visitor(address) as second:
            async with first.get("api/stream") as stream:
                await stream.content.readuntil(b"\n\n")
                assert await status(second, "api/stream") == 429
            assert await status(second, "api/logs/default/p/c") == 429
            async with visitor(address) as third:
                codes = [await status(one, "api/me") for one in (first, second, third)]
                assert codes == [401, 200, 200]

    play(home, story)
