"""The client for single calls against a server whose every byte is chosen."""

from __future__ import annotations

import asyncio
import random
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cluster.decoding import decode_event
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access, KubeUser
from swell.cluster.kube.oneshot import OneShot
from swell.cluster.kube.policy import LIMITS, ClientLimits
from swell.runtime.cluster import EVERYTHING
from swell.runtime.errors import (
    GoneError,
    NotFoundError,
    OutcomeUnknownError,
    ServerError,
    UnauthorizedError,
    UnreachableError,
)
from tests.unit.cluster.kube.scripted import CUT, Scripted, answer, scripted

R = TypeVar("R")
GET = calls.get(PODS, Key("ns", "a"))
UPDATE = calls.update(PODS, {"metadata": {"name": "a", "namespace": "ns"}})
POD = b'{"kind":"Pod","metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}}'


def play(
    answers: Sequence[bytes],
    act: Callable[[OneShot], R],
    limits: ClientLimits = LIMITS,
    *,
    user: KubeUser | None = None,
    sleep: Callable[[float], None] = lambda _: None,
) -> tuple[R | Exception, Scripted]:
    """What the client made of the answers, and what it asked for."""

    def run(access: Access) -> R | Exception:
        try:
            access = replace(access, user=user or access.user)
            return act(OneShot(access, random.Random(1), limits, sleep=sleep))
        except Exception as error:
            return error

    async def main() -> tuple[R | Exception, Scripted]:
        async with scripted(answers) as server:
            return await asyncio.to_thread(run, server.access), server

    return asyncio.run(main())


def test_import_is_light() -> None:
    """A command of one call does not pay for asyncio, aiohttp or the official client."""
    code = (
        "import sys, swell.cluster.kube.oneshot, swell.cluster.kube.kubeconfig;"
        "sys.exit(bool({'asyncio', 'aiohttp', 'kubernetes'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_get_decodes_and_names_us() -> None:
    """A read asks with our token and decodes the answer."""
    pod, server = play([answer(200, POD)], lambda c: c.send(GET).metadata.name)

    assert pod == "a"
    assert server.asked[0].headers["authorization"] == "Bearer secret"


def test_read_is_repeated_after_a_server_error() -> None:
    """A 5xx answer to a read is tried again."""
    pod, _ = play([answer(503, b""), answer(200, POD)], lambda c: c.send(GET).metadata.name)

    assert pod == "a"


@pytest.mark.parametrize(
    ("given", "call", "expected"),
    [
        (answer(404, b'{"kind":"Status","code":404}'), GET, NotFoundError),
        (answer(302, b"", "Location: /"), GET, ServerError),
        (answer(200, b" " * 2000), GET, ServerError),
        (answer(500, b""), UPDATE, OutcomeUnknownError),
        (b"", UPDATE, OutcomeUnknownError),
        (answer(200, b" " * 2000), UPDATE, OutcomeUnknownError),
    ],
)
def test_failure_is_reported_by_type(
    given: bytes, call: calls.KubeCall[object], expected: type[Exception]
) -> None:
    """Each way to fail has the error that says what may have happened; one attempt each."""
    error, server = play([given], lambda c: c.send(call), ClientLimits(answer_bytes_max=1000))

    assert isinstance(error, expected)
    assert len(server.asked) == 1


def test_expired_token_is_renewed_once(tmp_path: Path) -> None:
    """After a 401 the credentials are fetched again; a second 401 is the answer."""
    token_file = tmp_path / "token"
    token_file.write_text("one")

    def twice(client: OneShot) -> str:
        client.send(GET)
        token_file.write_text("two")
        return client.send(GET).metadata.name

    refused = answer(401, b'{"kind":"Status","code":401}')
    user = KubeUser(token_file=token_file)
    pod, server = play([answer(200, POD), refused, answer(200, POD)], twice, user=user)

    assert pod == "a"
    sent = [asked.headers["authorization"] for asked in server.asked]
    assert sent == ["Bearer one", "Bearer one", "Bearer two"]

    error, server = play([refused] * 3, lambda c: c.send(GET))

    assert isinstance(error, UnauthorizedError)
    assert len(server.asked) == 2


def test_pause_is_as_long_as_the_server_asks() -> None:
    """Retry-After is kept by this client as well, and a write that was not done is repeated."""
    slept: list[float] = []
    busy = answer(429, b'{"kind":"Status","code":429}', "Retry-After: 3")
    pod, _ = play([busy, answer(200, POD)], lambda c: c.send(UPDATE), sleep=slept.append)

    assert not isinstance(pod, Exception)
    assert 3.0 <= slept[0] <= 3.1


def test_lines_keep_empty_ones_and_an_unfinished_last_one() -> None:
    """A log is given as it was written."""
    call = calls.raw("/log")
    lines, _ = play([answer(200, b"one\n\ntwo")], lambda c: list(c.lines(call)))

    assert lines == [b"one", b"", b"two"]


def test_refused_stream_is_an_error() -> None:
    """A watch that is refused raises the refusal; a busy server is asked again."""
    gone = answer(410, b'{"kind":"Status","code":410}')
    error, server = play([answer(503, b""), gone], lambda c: list(c.lines(calls.raw("/log"))))

    assert isinstance(error, GoneError)
    assert len(server.asked) == 2


def test_unreachable_server_is_its_own_error() -> None:
    """No connection means that nothing happened."""
    cluster = OneShot(
        Access("http://127.0.0.1:1", KubeUser()), random.Random(1), sleep=lambda _: None
    )

    with pytest.raises(UnreachableError):
        cluster.send(UPDATE)


def test_watch_yields_events() -> None:
    """A watch is read line by line."""
    line = b'{"type":"ADDED","object":' + POD + b"}\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line)
    call = calls.watch(PODS, EVERYTHING, "5", 60)
    seen, _ = play(
        [body], lambda c: [decode_event(line, PODS).resource_version for line in c.lines(call)]
    )

    assert seen == ["7"]


def twice(access: Access) -> list[object]:
    """Send two updates over one client that keeps its connection."""
    client = OneShot(access, random.Random(1), sleep=lambda _: None, keeps_connection=True)
    try:
        return [client.send(UPDATE), client.send(UPDATE)]
    finally:
        client.close()


@pytest.mark.parametrize(
    ("first", "n_connections"),
    [
        (answer(200, POD), 1),
        (answer(200, POD, "Connection: close"), 2),
        (answer(200, POD) + b"HTTP/1.1 200 OK", 2),
    ],
    ids=["kept", "said to be the last", "more than the answer"],
)
def test_connection_is_kept_where_that_is_safe(first: bytes, n_connections: int) -> None:
    """A write never goes onto a connection that was closed, or that holds other bytes."""

    async def main() -> tuple[list[object], int]:
        async with scripted([first, answer(200, POD)]) as server:
            return await asyncio.to_thread(twice, server.access), server.n_connections

    answers, n_opened = asyncio.run(main())

    assert (len(answers), n_opened) == (2, n_connections)


def test_connection_that_the_server_has_closed_is_not_written_to() -> None:
    """The write would be of unknown outcome."""

    def act(access: Access) -> None:
        client = OneShot(access, random.Random(1), keeps_connection=True)
        client.send(UPDATE)
        assert client._kept is not None
        select.select([client._kept[0]], [], [], 60)
        client.send(UPDATE)
        client.close()

    async def main() -> int:
        async with scripted([answer(200, POD) + CUT, answer(200, POD)]) as server:
            await asyncio.to_thread(act, server.access)
            return server.n_connections

    assert asyncio.run(main()) == 2


def test_warnings_of_an_answer_are_told() -> None:
    """Each has a header of its own, and quotes in it are escaped; an error may have some, too."""
    warned: list[str] = []
    headers = ('Warning: 299 - "a \\"b\\" \\\\ c"', 'Warning: 299 who "d, e"', "Warning: nonsense")
    told = answer(200, POD, *headers)
    refused = answer(404, b"{}", 'Warning: 299 - "gone"')

    async def main() -> None:
        async with scripted([told, refused]) as server:

            def run() -> None:
                client = OneShot(server.access, random.Random(1), warn=warned.append)
                client.send(GET)
                with pytest.raises(NotFoundError):
                    client.send(GET)

            await asyncio.to_thread(run)

    asyncio.run(main())

    assert warned == ['a "b" \\ c', "d, e", "gone"]
