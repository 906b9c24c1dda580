"""The asyncio client against a server whose every byte is chosen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cluster.kube.access import Access, KubeUser
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.policy import LIMITS, ClientLimits
from swell.runtime.cluster import EventType, Malformed, merge_patch
from swell.runtime.errors import (
    GoneError,
    NotFoundError,
    OutcomeUnknownError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from tests.unit.cluster.kube.scripted import Scripted, answer, scripted

R = TypeVar("R")
KEY = Key("ns", "a")
POD = b'{"kind":"Pod","metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}}'
BODY = {"metadata": {"name": "a", "namespace": "ns"}}


class Clock:
    """Does not wait, but remembers for how long it should have."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)


def play(
    answers: Sequence[bytes],
    act: Callable[[KubeCluster], Awaitable[R]],
    *,
    clock: Clock | None = None,
    limits: ClientLimits = LIMITS,
) -> tuple[R | Exception, Scripted]:
    """What the client made of the answers, and what it asked for."""

    async def main() -> tuple[R | Exception, Scripted]:
        async with scripted(answers) as server:
            made = connect(server.access, clock or Clock(), random.Random(1), limits)
            async with made as cluster:
                try:
                    return await act(cluster), server
                except Exception as error:
                    return error, server

    return asyncio.run(main())


def status(code: int, reason: str, details: str = "{}") -> bytes:
    text = f'{{"kind":"Status","code":{code},"reason":"{reason}","details":{details}}}'
    return text.encode()


async def get_pod(cluster: KubeCluster) -> object:
    return await cluster.get(PODS, KEY)


async def update_pod(cluster: KubeCluster) -> object:
    return await cluster.update(PODS, BODY)


def test_get_decodes_and_names_us() -> None:
    """A read asks for the object's path with our token and decodes the answer."""
    pod, server = play([answer(200, POD)], get_pod)

    assert getattr(pod, "metadata", None) is not None
    assert server.asked[0].line == "GET /api/v1/namespaces/ns/pods/a HTTP/1.1"
    assert server.asked[0].headers["authorization"] == "Bearer secret"
    assert "accept-encoding" not in server.asked[0].headers


def test_connection_is_reused() -> None:
    """Calls one after the other share a connection."""

    async def two(cluster: KubeCluster) -> None:
        await cluster.get(PODS, KEY)
        await cluster.get(PODS, KEY)

    _, server = play([answer(200, POD), answer(200, POD)], two)

    assert len(server.asked) == 2


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_read_is_repeated_after_a_server_error(code: int) -> None:
    """A 5xx answer to a read is tried again."""
    pod, server = play([answer(code, b"oops"), answer(200, POD)], get_pod)

    assert not isinstance(pod, Exception)
    assert len(server.asked) == 2


def test_what_is_not_implemented_is_not_asked_for_again() -> None:
    """501 will not pass by itself."""
    error, server = play([answer(501, status(501, "NotImplemented"))] * 2, get_pod)

    assert isinstance(error, ServerError)
    assert len(server.asked) == 1


def test_read_gives_up_after_some_attempts() -> None:
    """A server that stays broken is reported, not asked for ever."""
    error, server = play([answer(503, b"")] * 9, get_pod)

    assert isinstance(error, ServerError)
    assert len(server.asked) == 5


@pytest.mark.parametrize("code", [500, 502, 504])
def test_write_answered_by_a_server_error_is_of_unknown_outcome(code: int) -> None:
    """A write that a failing server may have done is neither repeated nor called failed."""
    error, server = play([answer(code, status(code, "InternalError"))], update_pod)

    assert isinstance(error, OutcomeUnknownError)
    assert len(server.asked) == 1


def test_write_is_repeated_when_the_server_asks_to_wait() -> None:
    """429 means not done: the write is sent again after the time the server asked for."""
    clock = Clock()
    answers = [answer(429, status(429, "TooManyRequests"), "Retry-After: 3"), answer(200, POD)]
    pod, server = play(answers, update_pod, clock=clock)

    assert not isinstance(pod, Exception)
    assert len(server.asked) == 2
    assert 3.0 <= clock.slept_s[0] <= 3.1


def test_refusal_by_a_disruption_budget_is_an_answer() -> None:
    """An eviction refused by a budget is reported at once, not repeated."""
    details = '{"causes":[{"reason":"DisruptionBudget"}],"retryAfterSeconds":10}'
    body = status(429, "TooManyRequests", details)
    eviction = PODS.sub("eviction", dict)
    error, server = play([answer(429, body)], lambda c: c.create(eviction, BODY))

    assert isinstance(error, TooManyRequestsError)
    assert error.retry_after_s == 10
    assert len(server.asked) == 1


@pytest.mark.parametrize("act", [update_pod, lambda c: c.delete(PODS, KEY)])
def test_write_whose_answer_is_lost_is_sent_once(
    act: Callable[[KubeCluster], Awaitable[object]],
) -> None:
    """When the connection breaks after a write, even a kept one, nobody sends it again."""

    async def after_a_read(cluster: KubeCluster) -> object:
        await cluster.get(PODS, KEY)
        return await act(cluster)

    error, server = play([answer(200, POD), b"", answer(200, POD)], after_a_read)

    assert isinstance(error, OutcomeUnknownError)
    assert len(server.asked) == 2


def test_write_whose_answer_is_cut_is_of_unknown_outcome() -> None:
    """Half an answer to a write says nothing about it."""
    cut = answer(200, POD)[:-20]
    error, _ = play([cut], update_pod, limits=ClientLimits(connect_s=0.1, answer_s=0.1))

    assert isinstance(error, OutcomeUnknownError)


def test_unreachable_server_is_its_own_error() -> None:
    """No connection means that nothing happened."""

    async def main() -> None:
        access = Access("http://127.0.0.1:1", KubeUser())
        async with connect(access, Clock(), random.Random(1)) as cluster:
            await cluster.update(PODS, BODY)

    with pytest.raises(UnreachableError):
        asyncio.run(main())


def test_redirect_is_not_followed() -> None:
    """Credentials never go to another place than the one configured."""
    error, server = play([answer(302, b"", "Location: http://127.0.0.1:1/")], get_pod)

    assert isinstance(error, ServerError)
    assert len(server.asked) == 1


def test_answer_beyond_the_cap_is_refused() -> None:
    """An answer may not fill our memory."""
    error, _ = play([answer(200, b" " * 5000)], get_pod, limits=ClientLimits(answer_bytes_max=1000))

    assert isinstance(error, ServerError)


def test_unauthorized_is_tried_once_more() -> None:
    """A token may just have been rotated: one more attempt with a fresh one, then the error."""
    error, server = play([answer(401, status(401, "Unauthorized"))] * 3, get_pod)

    assert isinstance(error, UnauthorizedError)
    assert len(server.asked) == 2


def test_status_becomes_its_error() -> None:
    """A refusal is raised as the exception of its code."""
    error, _ = play([answer(404, status(404, "NotFound"))], get_pod)

    assert isinstance(error, NotFoundError)


def test_list_hands_over_what_it_cannot_decode() -> None:
    """One object of a wrong shape does not hide the others."""
    odd = b'{"metadata":{"name":"b","namespace":"ns","uid":"u","resourceVersion":"8"},"spec":3}'
    body = b'{"metadata":{"resourceVersion":"9"},"items":[' + POD + b"," + odd + b"]}"
    listed, _ = play([answer(200, body)], lambda c: c.list(PODS))

    assert not isinstance(listed, Exception)
    assert [pod.metadata.name for pod in listed.items] == ["a"]
    assert [(m.key, m.uid, m.resource_version) for m in listed.malformed] == [
        (Key("ns", "b"), "u", "8")
    ]
    assert listed.resource_version == "9"


def test_patch_carries_its_content_type() -> None:
    """A patch says which kind it is."""
    _, server = play([answer(200, POD)], lambda c: c.patch(PODS, KEY, merge_patch({"a": 1})))

    assert server.asked[0].headers["content-type"] == "application/merge-patch+json"
    assert server.asked[0].body == b'{"a":1}'


def watch_answer(*lines: bytes) -> bytes:
    chunks = [b"%x\r\n%s\r\n" % (len(line), line) for line in lines]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(chunks) + b"0\r\n\r\n"


async def watch_all(cluster: KubeCluster) -> list[tuple[EventType, object, str]]:
    async with cluster.watch(PODS, resource_version="5") as events:
        return [(event.type, event.object, event.resource_version) async for event in events]


def test_watch_decodes_lines_however_they_are_cut() -> None:
    """Chunks are not lines: an event may come in pieces, or several at once."""
    added = b'{"type":"ADDED","object":' + POD + b"}\n"
    mark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}\n'
    odd = b'{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"8"},"spec":3}}\n'
    seen, server = play([watch_answer(added[:9], added[9:] + odd, mark)], watch_all)

    assert not isinstance(seen, Exception)
    assert [(kind, version) for kind, _, version in seen] == [
        (EventType.ADDED, "7"),
        (EventType.MODIFIED, "8"),
        (EventType.BOOKMARK, "9"),
    ]
    assert isinstance(seen[1][1], Malformed)
    assert "resourceVersion=5" in server.asked[0].line
    assert "allowWatchBookmarks=true" in server.asked[0].line


def test_watch_passes_over_what_is_known() -> None:
    """An echo of a write is not decoded: only its version counts. What is gone is always told."""
    held = Key("ns", "p")
    lines = [
        b'{"type":"%s","object":{"metadata":{"namespace":"ns","name":"%s","resourceVersion":"%s"}}}'
        % parts
        for parts in (
            (b"ADDED", b"p", b"7"),
            (b"MODIFIED", b"p", b"8"),
            (b"MODIFIED", b"q", b"9"),
            (b"MODIFIED", b"p", b"10"),
            (b"DELETED", b"p", b"8"),
        )
    ]

    async def watch(cluster: KubeCluster) -> list[tuple[str, bool]]:
        async with cluster.watch(
            PODS,
            resource_version="5",
            is_known=lambda key, version: key == held and int(version) <= 8,
        ) as events:
            return [(e.resource_version, e.object is not None) async for e in events]

    seen, _ = play([watch_answer(b"\n".join(lines) + b"\n")], watch)

    assert seen == [("7", False), ("8", False), ("9", True), ("10", True), ("8", True)]


def test_watch_raises_an_error_event() -> None:
    """A compacted version is told inside the stream, and raised as what it is."""
    line = b'{"type":"ERROR","object":' + status(410, "Expired") + b"}\n"
    error, _ = play([watch_answer(line)], watch_all)

    assert isinstance(error, GoneError)


def test_watch_bounds_a_line() -> None:
    """A line without end is an error before it fills the memory."""
    error, _ = play(
        [watch_answer(b"x" * 900, b"x" * 900)], watch_all, limits=ClientLimits(line_bytes_max=1000)
    )

    assert isinstance(error, ServerError)


def test_watch_leaves_the_callers_time_out_alone() -> None:
    """A deadline of the caller inside the watch is not taken for a lost connection."""

    async def impatient(cluster: KubeCluster) -> None:
        async with cluster.watch(PODS, resource_version="5") as events, asyncio.timeout(0.05):
            await anext(aiter(events))

    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    error, _ = play([head], impatient)

    assert isinstance(error, TimeoutError)
