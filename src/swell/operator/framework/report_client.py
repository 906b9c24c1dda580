"""Asks one pod for its job's report: one short HTTP request, bounded in time and size.

It goes to the pod itself, or where a policy forbids that through the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from swell.api.injection import REPORT_PATH, REPORT_TOKEN_HEADER
from swell.api.meta import Key
from swell.api.report import REPORT_BYTES_MAX
from swell.operator.framework.reports import (
    FetchReport,
    NoReportError,
    ReportAnswer,
    ReportSource,
    ReportTarget,
)
from swell.runtime.errors import ClusterError, UnreachableError

# A program answers from memory. Who needs longer than this is asked again the next time.
ANSWER_S = 2.0
_HEAD_BYTES_MAX = 4096
# A server that cannot pass a request on says why in an answer of its own.
_PASSED_BYTES_MAX = max(REPORT_BYTES_MAX, 4096)


class AskPod(Protocol):
    """Sends a request to a port of a pod through the API server; status and content come back."""

    def __call__(
        self,
        pod: Key,
        port: int,
        path: str,
        headers: tuple[tuple[str, str], ...],
        *,
        within_s: float,
        bytes_max: int,
    ) -> Awaitable[tuple[int, bytes]]: ...


async def ask_directly(target: ReportTarget, source: ReportSource) -> ReportAnswer:
    """Ask the pod at its own address."""
    return await fetch_report(source.address, target.port, target.token)


def ask_through(server: AskPod) -> FetchReport:
    """Ask pods through the API server, which needs the right to `pods/proxy`."""

    async def ask(target: ReportTarget, source: ReportSource) -> ReportAnswer:
        pod = Key(target.namespace, source.pod)
        headers = ((REPORT_TOKEN_HEADER, target.token),)
        try:
            async with asyncio.timeout(ANSWER_S):
                status, body = await server(
                    pod,
                    target.port,
                    REPORT_PATH,
                    headers,
                    within_s=ANSWER_S,
                    bytes_max=_PASSED_BYTES_MAX,
                )
        except (OSError, ClusterError, UnreachableError) as error:
            raise NoReportError(f"{pod}: {error or type(error).__name__}") from error
        return ReportAnswer(status, body)

    return ask


async def fetch_report(address: str, port: int, token: str) -> ReportAnswer:
    """Returns a pod's answer. Raises NoReportError when there is none that can be read."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await _ask(address, port, token)
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise NoReportError(f"{address}:{port}: {error or type(error).__name__}") from error


async def _ask(address: str, port: int, token: str) -> ReportAnswer:
    reader, writer = await asyncio.open_connection(address, port, limit=_HEAD_BYTES_MAX)
    try:
        host = f"[{address}]" if ":" in address else address
        lines = (
            f"GET {REPORT_PATH} HTTP/1.1",
            f"Host: {host}:{port}",
            f"Authorization: Bearer {token}",
            "Connection: close",
        )
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *fields = head.splitlines()
        size = _content_length(fields)
        return ReportAnswer(_status(first), await reader.readexactly(size))
    finally:
        # Nothing more is said on this line, so that its end need not be waited for.
        writer.transport.abort()


def _status(line: str) -> int:
    protocol, _, rest = line.partition(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError(f"no HTTP: {line[:80]!r}")
    return int(rest[:3])


def _content_length(fields: list[str]) -> int:
    for field in fields:
        name, _, value = field.partition(":")
        if name.strip().lower() == "content-length":
            size = int(value)
            if 0 <= size <= REPORT_BYTES_MAX:
                return size
            raise ValueError(f"{size} bytes are no report")
    raise ValueError("an answer without its length")
