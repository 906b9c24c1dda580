"""The client for single calls against a server whose every byte is chosen."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access, KubeUser
from swell.cluster.kube.oneshot import PATIENCE, OneShot, Patience
from swell.runtime.cluster import EVERYTHING
from swell.runtime.errors import (
    NotFoundError,
    OutcomeUnknownError,
    ServerError,
    UnreachableError,
)
from tests.unit.cluster.kube.scripted import Scripted, answer, scripted

R = TypeVar("R")
GET = calls.get(PODS, Key("ns", "a"))
UPDATE = calls.update(PODS, {"metadata": {"name": "a", "namespace": "ns"}})
POD = b'{"kind":"Pod","metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}}'


def play(
    answers: Sequence[bytes], act: Callable[[OneShot], R], patience: Patience = PATIENCE
) -> tuple[R | Exception, Scripted]:
    """What the client made of the answers, and what it asked for."""

    def run(access: Access) -> R | Exception:
        with OneShot(access, random.Random(1), patience, sleep=lambda _: None) as cluster:
            try:
                return act(cluster)
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
def test_failure_is_told_by_type(
    given: bytes, call: calls.KubeCall[object], expected: type[Exception]
) -> None:
    """Each way to fail has the error that says what may have happened; one attempt each."""
    error, server = play([given], lambda c: c.send(call), Patience(answer_bytes_max=1000))

    assert isinstance(error, expected)
    assert len(server.asked) == 1


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
    seen, _ = play([body], lambda c: [e.resource_version for e in c.watch(call, PODS)])

    assert seen == ["7"]
