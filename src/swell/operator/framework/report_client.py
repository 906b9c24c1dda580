"""Asks one pod for its job's report: one short HTTP request, bounded in time and size."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from swell.api.injection import REPORT_PATH
from swell.api.report import REPORT_BYTES_MAX

# A program answers from memory. Who needs longer than this is asked again the next time.
ANSWER_S = 2.0
_HEAD_BYTES_MAX = 4096
_OK = 200


class NoReportError(Exception):
    """The pod cannot be reached, or does not answer as a program does that reports."""


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The status of an answer, and its content."""

    status: int
    body: bytes

    @property
    def is_report(self) -> bool:
        return self.status == _OK


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
