"""A server that answers with given bytes and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from swell.cluster.kube.access import Access, KubeUser

CUT = b"<the connection is closed here>"


@dataclass
class Asked:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Scripted:
    """Answers in the given order; an empty answer closes the connection without a word."""

    answers: list[bytes]
    asked: list[Asked] = field(default_factory=list)
    server: str = ""
    n_connections: int = 0

    @property
    def access(self) -> Access:
        return Access(self.server, KubeUser(token="secret"))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        try:
            while line := await reader.readline():
                headers = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(Asked(line.decode().strip(), headers, body))
                answer = self.answers.pop(0)
                writer.write(answer.removesuffix(CUT))
                if not answer or answer.endswith(CUT):
                    break
        finally:
            writer.close()


@asynccontextmanager
async def scripted(answers: Sequence[bytes]) -> AsyncIterator[Scripted]:
    script = Scripted(list(answers))
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    async with server:
        script.server = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield script


def answer(code: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
