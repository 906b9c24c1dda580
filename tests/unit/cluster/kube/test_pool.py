"""Single calls over connections of our own, against answers cut and broken in every way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

import pytest

from swell.cluster.kube import calls
from swell.cluster.kube.answers import HttpAnswer, LostError, NotSentError, TooLargeError
from swell.cluster.kube.connection import KubeEndpoint
from swell.cluster.kube.policy import ServerAddress
from swell.cluster.kube.pool import ConnectionPool

TLS = ssl.create_default_context()  # once: it reads all certificates of the machine
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"
)
PLAIN = b"HTTP/1.1 201 Created\r\nContent-Length: 7\r\nRetry-After: 3\r\n\r\nabcdefg"


def address(port: int) -> ServerAddress:
    return ServerAddress(f"http://127.0.0.1:{port}")


REQUEST = address(1).request(calls.raw("/x"), "")


def play(
    answers: Sequence[Sequence[bytes]],
    *,
    n_calls: int = 1,
    size_max: int = 1000,
    keep_alive_s: float = 30.0,
    answer_s: float = 30.0,
    closes: bool = False,
) -> tuple[list[HttpAnswer | Exception], int]:
    """What calls one after the other are answered by given pieces; and on how many connections."""
    left = [list(pieces) for pieces in answers]
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while await reader.readline():
                while (await reader.readline()).strip():
                    pass
                for piece in left.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if closes:
                    break
        finally:
            writer.close()

    async def main() -> list[HttpAnswer | Exception]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            asked = KubeEndpoint(address(port), TLS, connect_s=5.0)
            pool = ConnectionPool(
                asked, keep_alive_s=keep_alive_s, answer_s=answer_s, answer_bytes_max=size_max
            )
            found = [await one(pool) for _ in range(n_calls)]
            await asked.close()
        return found

    async def one(pool: ConnectionPool) -> HttpAnswer | Exception:
        try:
            async with asyncio.timeout(2.0):
                return await pool.exchange(REQUEST)
        except (LostError, TooLargeError, TimeoutError) as error:
            return error

    return asyncio.run(main()), connections


@pytest.mark.parametrize("whole", [CHUNKED, PLAIN])
def test_answer_is_read_however_it_is_cut(whole: bytes) -> None:
    """Pieces are not lines, nor chunks: every cut gives the same answer."""
    for cut in range(1, len(whole), 3):
        (found,), _ = play([[whole[:cut], whole[cut:]]])
        assert isinstance(found, HttpAnswer)
        assert found.body == b"abcdefg"
    (found,), _ = play([[bytes([byte]) for byte in whole]])
    assert isinstance(found, HttpAnswer)
    assert found.body == b"abcdefg"


def test_answer_that_does_not_come_is_a_lost_one() -> None:
    """Nobody waits for ever; and the late answer is not taken for that of the next call."""
    found, connections = play([[], [PLAIN]], n_calls=2, answer_s=0.05)

    assert isinstance(found[0], LostError)
    assert isinstance(found[1], HttpAnswer)
    assert connections == 2


def test_headers_are_found_by_small_letters() -> None:
    """Servers spell them as they like."""
    (found,), _ = play([[PLAIN]])

    assert isinstance(found, HttpAnswer)
    assert (found.head.status, found.head.headers[b"retry-after"]) == (201, b"3")


def test_connection_is_kept_and_after_a_while_not() -> None:
    """One that has been idle for long may be about to be closed by the server."""
    assert play([[PLAIN], [CHUNKED]], n_calls=2)[1] == 1
    assert play([[PLAIN], [CHUNKED]], n_calls=2, keep_alive_s=-1.0)[1] == 2


def test_connection_that_is_to_be_closed_is_not_used_again() -> None:
    """The server says so."""
    last = PLAIN.replace(b"Retry-After: 3", b"Connection: close")

    assert play([[last], [PLAIN]], n_calls=2)[1] == 2


def test_what_comes_before_the_answer_is_passed_over() -> None:
    """An informational answer is not the answer."""
    (found,), _ = play([[b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", PLAIN]])

    assert isinstance(found, HttpAnswer)
    assert found.head.status == 201


def test_answer_without_a_length_ends_with_the_connection() -> None:
    """As HTTP/1.0 had it."""
    (found,), _ = play([[b"HTTP/1.1 200 OK\r\n\r\nabc", b"defg"]], closes=True)

    assert isinstance(found, HttpAnswer)
    assert found.body == b"abcdefg"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        PLAIN[:-2],
        CHUNKED[:-9],
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + b"x" * 2000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+7\r\nabcdefg\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x7\r\nabcdefg\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (70 << 10),
    ],
)
def test_broken_answer_is_a_lost_one(broken: bytes) -> None:
    """The request was sent, and nobody knows what came of it."""
    (found,), _ = play([[broken]], closes=True)

    assert isinstance(found, LostError)


@pytest.mark.parametrize(
    "large",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000,
    ],
)
def test_large_answer_is_refused_before_it_has_come(large: bytes) -> None:
    """By what it says of itself, or by what has come already."""
    (found,), _ = play([[large]])

    assert isinstance(found, TooLargeError)


def test_server_that_is_not_there_was_sent_nothing() -> None:
    """Nothing can have happened."""

    async def main() -> None:
        nobody = KubeEndpoint(address(1), TLS, connect_s=1.0)
        pool = ConnectionPool(nobody, keep_alive_s=1.0, answer_s=1.0, answer_bytes_max=1)
        with pytest.raises(NotSentError):
            await pool.exchange(REQUEST)

    asyncio.run(main())
