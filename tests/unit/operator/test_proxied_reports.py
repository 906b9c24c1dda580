"""Reports that come through the API server, where the operator cannot reach pods by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from swell.api.meta import Uid
from swell.cluster.kube.access import Access, KubeUser
from swell.cluster.kube.client import connect
from swell.operator.framework.report_client import ask_through
from swell.operator.framework.reports import (
    NoReportError,
    ReportAnswer,
    ReportSource,
    ReportTarget,
)
from swell.runtime.clock import SystemClock
from swell.train.bus.shell.reporting import answer_request, report_token

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PASSED_ON = ReportTarget(
    Uid("u"), report_token(b"secret"), 23232, (ReportSource("trainer", 1, "", pod="p-1"),), "team"
)


def saying(raw: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    return handle


def passed_on(handler: Handler) -> ReportAnswer:
    """What comes back by an API server that handles a connection so."""

    async def main() -> ReportAnswer:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        access = Access(f"http://127.0.0.1:{port}", KubeUser(token="operator"))
        async with server, connect(access, SystemClock(), Random(1)) as cluster:
            return await ask_through(cluster.ask_pod)(PASSED_ON, PASSED_ON.sources[0])

    return asyncio.run(main())


def test_report_comes_through_the_api_server() -> None:
    """The server keeps the operator's own credentials; the program knows the job's token."""
    heard: list[bytes] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heard.append(head)
        first, *lines = head.split(b"\r\n")
        kept = [line for line in lines if not line.startswith(b"Authorization:")]
        method, path, protocol = first.split(b" ")
        _, _, inner = path.partition(b"/proxy")
        request = b"\r\n".join([b" ".join((method, inner, protocol)), *kept])
        writer.write(answer_request(request, b"secret", b'{"step": 1}', 0) or b"")
        await writer.drain()
        writer.close()

    assert passed_on(pass_on) == ReportAnswer(200, b'{"step": 1}')
    assert heard[0].startswith(b"GET /api/v1/namespaces/team/pods/p-1:23232/proxy/report HTTP/1.1")
    assert b"Authorization: Bearer operator\r\n" in heard[0]


def test_refusal_of_the_api_server_is_no_report() -> None:
    answer = passed_on(saying(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}"))

    assert not answer.is_report


@pytest.mark.parametrize(
    "raw", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90_000]
)
def test_answer_without_bounds_is_no_report(raw: bytes) -> None:
    """A program's answer may be of any length, and the server passes it on."""
    with pytest.raises(NoReportError):
        passed_on(saying(raw))


def test_program_that_is_silent_behind_the_server_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swell.operator.framework.report_client.ANSWER_S", 0.05)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    with pytest.raises(NoReportError):
        passed_on(silent)
