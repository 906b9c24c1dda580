"""Answers that go on: read as they come, in gulps when much comes, and never left open."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from swell.cluster.kube import calls
from swell.cluster.kube.answers import LostError
from swell.cluster.kube.connection import KubeEndpoint
from swell.cluster.kube.policy import ServerAddress
from swell.cluster.kube.stream import REST_S, AnswerStream

TLS = ssl.create_default_context()  # once: it reads all certificates of the machine
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
Send = Callable[[bytes], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def streaming(
    script: Callable[[Send], Awaitable[None]], life_s: float = 5.0
) -> AsyncIterator[AnswerStream]:
    """A stream whose server does as the script says, and then closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            await script(send)
        except ConnectionError:
            pass  # the stream was closed, as some tests do
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        address = ServerAddress(f"http://127.0.0.1:{port}")
        server = KubeEndpoint(address, TLS, connect_s=5.0)
        stream = await server.connect(lambda: AnswerStream(life_s))
        head = await stream.ask(address.request(calls.raw("/x"), ""))
        assert head.status == 200
        yield stream
        await server.close()
        assert stream.is_gone.is_set()


async def all_of(stream: AnswerStream) -> list[bytes]:
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    return pieces


def run(main: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10.0):
            await main

    asyncio.run(bounded())


def test_every_cut_gives_the_same_bytes() -> None:
    """Pieces are not chunks."""
    whole = HEAD + chunk(b"abc") + chunk(b"defg\n") + END

    async def main() -> None:
        for cut in range(1, len(whole)):

            async def script(send: Send, cut: int = cut) -> None:
                await send(whole[:cut])
                await asyncio.sleep(0)
                await send(whole[cut:])

            async with streaming(script) as stream:
                assert b"".join(await all_of(stream)) == b"abcdefg\n"

    run(main())


def test_first_piece_is_read_at_once_and_a_busy_stream_in_gulps() -> None:
    """Whoever waits is not kept waiting; whoever is flooded wakes up seldom."""
    n_chunks = 200

    async def script(send: Send) -> None:
        await send(HEAD + chunk(b"first"))
        await asyncio.sleep(10 * REST_S)
        for _ in range(n_chunks):
            await send(chunk(b"x"))
            await asyncio.sleep(REST_S / 10)
        await send(END)

    async def main() -> None:
        async with streaming(script) as stream:
            pieces = await all_of(stream)
        assert pieces[0] == b"first"
        assert b"".join(pieces[1:]) == b"x" * n_chunks
        assert len(pieces) < n_chunks / 2

    run(main())


def test_what_nobody_reads_does_not_pile_up() -> None:
    """The server waits; what it sends is all there in the end."""
    size, sent = 24 << 20, 0

    async def script(send: Send) -> None:
        nonlocal sent
        await send(HEAD)
        for _ in range(size >> 16):
            await send(chunk(b"x" * (1 << 16)))
            sent += 1 << 16
        await send(END)

    async def main() -> None:
        async with streaming(script) as stream:
            await asyncio.sleep(0.2)
            assert sent < size
            assert sum(map(len, await all_of(stream))) == size

    run(main())


@pytest.mark.parametrize("rest", [b"", chunk(b"abc"), b"5\r\nab", b"xyz\r\n", b"1" * 2000])
def test_end_before_the_end_is_a_loss(rest: bytes) -> None:
    """Whoever watches has to know that it was not all."""

    async def script(send: Send) -> None:
        await send(HEAD + rest)

    async def main() -> None:
        async with streaming(script) as stream:
            with pytest.raises(LostError):
                await all_of(stream)

    run(main())


def test_stream_that_lasts_too_long_is_ended() -> None:
    """A server that forgets its own time-out, or has vanished, is not waited for."""

    async def script(send: Send) -> None:
        await send(HEAD)
        await asyncio.sleep(5.0)

    async def main() -> None:
        async with streaming(script, life_s=0.05) as stream:
            with pytest.raises(LostError, match="longer than"):
                await stream.read()

    run(main())


def test_body_that_ends_with_the_connection_is_whole() -> None:
    """As HTTP/1.0 had it."""

    async def script(send: Send) -> None:
        await send(b"HTTP/1.0 200 OK\r\n\r\nabc")

    async def main() -> None:
        async with streaming(script) as stream:
            assert b"".join(await all_of(stream)) == b"abc"

    run(main())
