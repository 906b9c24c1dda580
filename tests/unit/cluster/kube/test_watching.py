"""Objects followed by a command: one list and one watch, resumed when it ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

import pytest

from swell.api.kinds import PODS
from swell.api.pod import Pod
from swell.cluster.kube import watching
from swell.cluster.kube.access import Access
from swell.cluster.kube.oneshot import OneShot
from swell.cluster.kube.watching import WatchedObjects
from swell.runtime.cluster import Selection
from swell.runtime.errors import UnreachableError
from tests.unit.cluster.kube.scripted import CUT, Scripted, answer, scripted

OPEN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def pod(version: int) -> bytes:
    return b'{"metadata":{"name":"a","namespace":"ns","resourceVersion":"%d"}}' % version


def listed(version: int, *pods: bytes) -> bytes:
    body = b'{"metadata":{"resourceVersion":"%d"},"items":[%s]}' % (version, b",".join(pods))
    return answer(200, body, "Connection: close")


def event(kind: str, version: int) -> bytes:
    line = b'{"type":"%s","object":%s}\n' % (kind.encode(), pod(version))
    return b"%x\r\n%s\r\n" % (len(line), line)


def gone_event() -> bytes:
    line = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
    return b"%x\r\n%s\r\n" % (len(line), line)


def play(answers: Sequence[bytes], act: Callable[[WatchedObjects[Pod]], None]) -> Scripted:
    """What was asked for while something was done with the objects."""

    def run(access: Access) -> None:
        client = OneShot(access, random.Random(1), sleep=lambda _: None)
        selection = Selection("ns", fields="metadata.name=a")
        with WatchedObjects(client, PODS, selection, random.Random(1)) as objects:
            act(objects)

    async def main() -> Scripted:
        async with scripted(answers) as server:
            await asyncio.to_thread(run, server.access)
            return server

    return asyncio.run(main())


def versions(objects: WatchedObjects[Pod]) -> list[str]:
    return [found.metadata.resource_version for found in objects.objects.values()]


def poll_until(objects: WatchedObjects[Pod], expected: list[str]) -> None:
    deadline = time.monotonic() + 5.0
    while versions(objects) != expected:
        assert time.monotonic() < deadline
        objects.poll(0.02)


def watches(server: Scripted) -> list[str]:
    """The version each watch began from."""
    lines = [asked.line for asked in server.asked if "watch=1" in asked.line]
    return [line.partition("resourceVersion=")[2].partition("&")[0] for line in lines]


def test_events_change_the_objects() -> None:
    """An event of the watch changes or removes an object."""

    def act(objects: WatchedObjects[Pod]) -> None:
        poll_until(objects, ["1"])
        poll_until(objects, [])

    body = OPEN + event("MODIFIED", 6) + event("DELETED", 7)
    server = play([listed(5, pod(1)), body], act)

    assert len(server.asked) == 2
    assert watches(server) == ["5"]


def test_quiet_watch_is_one_connection() -> None:
    """However often it is polled."""

    def act(objects: WatchedObjects[Pod]) -> None:
        for _ in range(60):
            objects.poll(0.01)

    server = play([listed(5, pod(1)), OPEN], act)

    assert len(server.asked) == 2
    assert server.n_connections == 2


def test_watch_that_ends_is_resumed_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list, and no event is missed or asked for twice."""
    monkeypatch.setattr(watching, "REOPEN_S", 0.0)
    answers = [listed(5, pod(1)), OPEN + event("MODIFIED", 6) + END, OPEN + event("MODIFIED", 7)]
    server = play(answers, lambda objects: poll_until(objects, ["7"]))

    assert watches(server) == ["5", "6"]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "refusal", [OPEN + gone_event(), answer(410, b'{"kind":"Status","code":410}')]
)
def test_expired_version_is_listed_again(monkeypatch: pytest.MonkeyPatch, refusal: bytes) -> None:
    """Whether it is said with the answer or inside the stream."""
    monkeypatch.setattr(watching, "REOPEN_S", 0.0)
    answers = [listed(5, pod(1)), refusal, listed(9, pod(8)), OPEN + event("MODIFIED", 10)]
    server = play(answers, lambda objects: poll_until(objects, ["10"]))

    assert watches(server) == ["5", "9"]


def test_broken_connection_is_an_error_and_then_listed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events may have been missed."""
    monkeypatch.setattr(watching, "REOPEN_S", 0.0)

    def act(objects: WatchedObjects[Pod]) -> None:
        poll_until(objects, ["1"])
        with pytest.raises(UnreachableError):
            poll_until(objects, ["8"])
        poll_until(objects, ["8"])

    server = play([listed(5, pod(1)), OPEN + CUT, listed(9, pod(8))], act)

    assert "watch=1" not in server.asked[-1].line


def test_watch_that_ends_at_once_is_not_reopened_at_once() -> None:
    """A server that ends every watch is not asked as fast as it answers."""

    def act(objects: WatchedObjects[Pod]) -> None:
        for _ in range(20):
            objects.poll(0.01)

    server = play([listed(5, pod(1)), *[OPEN + END] * 20], act)

    assert len(watches(server)) == 1


def test_silent_watch_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that outlives what the server was asked for is on a dead connection."""
    monkeypatch.setattr(watching, "REOPEN_S", 0.0)
    monkeypatch.setattr(watching, "WATCH_S", (-40.0, -40.0))
    answers = [listed(5, pod(1)), OPEN, OPEN + event("MODIFIED", 6)]
    server = play(answers, lambda objects: poll_until(objects, ["6"]))

    assert watches(server) == ["5", "5"]
