"""Ports of pods inside SPDY, by a small client and by kubectl itself."""

from __future__ import annotations

import asyncio
import random
import socket as socket_module
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from swell.cli.pods.sockets import pod_socket, stream_path
from swell.cluster.embedded.http.spdy import (
    DICTIONARY,
    GoAway,
    OpenedStream,
    PingFrame,
    ResetStream,
    SpdyDecoder,
    SpdyEncoder,
    SpdyError,
    StreamData,
)
from swell.cluster.embedded.http.tunnels import TUNNEL
from swell.cluster.kube.access import Access
from swell.cluster.kube.client import KubeCluster
from tests.testbed import binaries
from tests.unit.cluster.embedded.http.test_streams import POD, Printing, run_with_pod

WITHIN_S = 60.0


class ClientFrames:
    """Makes the frames of a client."""

    def __init__(self) -> None:
        self._headers = zlib.compressobj(zdict=DICTIONARY)

    def opened(self, stream: int, headers: Mapping[str, str]) -> bytes:
        texts = [text.encode() for pair in headers.items() for text in pair]
        plain = struct.pack(">I", len(headers))
        plain += b"".join(struct.pack(">I", len(text)) + text for text in texts)
        block = self._headers.compress(plain) + self._headers.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", stream, 0, 0) + block)


def control(kind: int, body: bytes, version: int = 3) -> bytes:
    return struct.pack(">II", 1 << 31 | version << 16 | kind, len(body)) + body


def test_dictionary_is_that_of_the_protocol() -> None:
    """Both sides name it by this sum."""
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_frames_are_read_in_any_pieces() -> None:
    """Streams, data, resets, pings and the end; what has no effect is left out."""
    client, encoder = ClientFrames(), SpdyEncoder()
    sent = b"".join(
        (
            client.opened(1, {"streamtype": "error", "port": "80"}),
            control(4, struct.pack(">I", 0)),  # settings
            client.opened(3, {"StreamType": "data", "port": "80"}),
            encoder.data(3, b"hello"),
            encoder.data(3, b"", is_over=True),
            control(3, struct.pack(">II", 3, 5)),
            encoder.ping(7),
            control(7, struct.pack(">II", 3, 0)),
        )
    )
    wanted = [
        OpenedStream(1, {"streamtype": "error", "port": "80"}, False),
        OpenedStream(3, {"streamtype": "data", "port": "80"}, False),
        StreamData(3, b"hello", False),
        StreamData(3, b"", True),
        ResetStream(3),
        PingFrame(7),
        GoAway(),
    ]
    for size in (1, 7, len(sent)):
        decoder = SpdyDecoder()
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert [frame for piece in pieces for frame in decoder.feed(piece)] == wanted


@pytest.mark.parametrize(
    "sent",
    [
        control(1, b"\x00" * 12, version=2),
        control(1, b"\x00" * 40),
        control(1, b"\x00"),
        struct.pack(">II", 1, 0xFFFFFF),
        ClientFrames().opened(1, {"streamtype": "x" * 100_000}),
        ClientFrames().opened(1, {f"h{n}": "" for n in range(65)}),
    ],
)
def test_wrong_bytes_are_refused(sent: bytes) -> None:
    """Another version, headers that cannot be read, frames and headers beyond their bounds."""
    with pytest.raises(SpdyError):
        list(SpdyDecoder().feed(sent))


def test_random_bytes_are_frames_or_refused() -> None:
    """Nothing else becomes of them."""
    rng = random.Random(1)
    for _ in range(300):
        sent = bytearray(ClientFrames().opened(1, {"streamtype": "data", "port": "80"}))
        for _ in range(rng.randint(1, 4)):
            sent[rng.randrange(len(sent))] = rng.randrange(256)
        try:
            list(SpdyDecoder().feed(bytes(sent)))
        except SpdyError:
            continue


@asynccontextmanager
async def echoing() -> AsyncIterator[int]:
    """A server that sends back in capitals what it gets, up to the client's end."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


async def until_ended(socket: aiohttp.ClientWebSocketResponse, *streams: int) -> dict[int, bytes]:
    """Returns what came on each stream, once all of these have ended."""
    decoder, seen, ended = SpdyDecoder(), dict.fromkeys(streams, b""), set[int]()
    async for message in socket:
        for frame in decoder.feed(message.data):
            if isinstance(frame, StreamData):
                seen[frame.stream] += frame.data
                ended |= {frame.stream} if frame.is_over else set()
        if ended.issuperset(streams):
            break
    return seen


def test_connections_share_a_tunnel(tmp_path: Path) -> None:
    """Bytes go both ways after the client's end, and a port where nothing listens is said so."""

    async def act(access: Access, _: KubeCluster) -> None:
        client, encoder = ClientFrames(), SpdyEncoder()
        with socket_module.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # taken, and not listened on
            closed = int(bound.getsockname()[1])
            await exchange(access, client, encoder, closed)

    async def exchange(
        access: Access, client: ClientFrames, encoder: SpdyEncoder, closed: int
    ) -> None:
        async with (
            echoing() as port,
            pod_socket(access, stream_path(POD, "portforward", []), (TUNNEL,)) as socket,
        ):
            assert socket.protocol == TUNNEL
            for request, (stream, to) in enumerate({1: port, 5: closed}.items()):
                pair = {"port": str(to), "requestid": str(request)}
                await socket.send_bytes(
                    client.opened(stream, {**pair, "streamtype": "error"})
                    + client.opened(stream + 2, {**pair, "streamtype": "data"})
                )
            await socket.send_bytes(encoder.data(3, b"hello "))
            await socket.send_bytes(encoder.data(3, b"you", is_over=True))
            seen = await until_ended(socket, 1, 3, 5, 7)
        assert seen == {
            1: b"",
            3: b"HELLO YOU",
            5: f"port {closed} of the pod: Connection refused".encode(),
            7: b"",
        }

    run_with_pod(tmp_path, act)


def test_reset_ends_the_connection_and_its_error_stream(tmp_path: Path) -> None:
    """A client that gives up waits for the end of the error stream."""

    async def act(access: Access, _: KubeCluster) -> None:
        client = ClientFrames()
        async with (
            echoing() as port,
            pod_socket(access, stream_path(POD, "portforward", []), (TUNNEL,)) as socket,
        ):
            pair = {"port": str(port), "requestid": "0"}
            await socket.send_bytes(client.opened(1, {**pair, "streamtype": "error"}))
            await socket.send_bytes(client.opened(3, {**pair, "streamtype": "data"}))
            await socket.send_bytes(control(3, struct.pack(">II", 3, 5)))
            assert await until_ended(socket, 1) == {1: b""}
            await socket.send_bytes(b"no frame at all")
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE

    run_with_pod(tmp_path, act)


def test_kubectl_forwards_ports_and_attaches(tmp_path: Path) -> None:
    """Two connections through one tunnel; then the output of a container."""
    binaries.require(("kubectl",))

    async def act(_: Access, __: KubeCluster) -> None:
        base = (str(binaries.binary("kubectl")), f"--kubeconfig={tmp_path}/kubeconfig")
        pipe, environment = asyncio.subprocess.PIPE, {"HOME": str(tmp_path)}
        async with echoing() as port:
            forward = await asyncio.create_subprocess_exec(
                *base, "port-forward", "pod/p", f":{port}", stdout=pipe, env=environment
            )
            try:
                assert forward.stdout is not None
                line = (await forward.stdout.readline()).decode()
                local = int(line.split()[2].rpartition(":")[2])
                for text in (b"one", b"x" * 1_000_000):
                    reader, writer = await asyncio.open_connection("127.0.0.1", local)
                    writer.write(text)
                    writer.write_eof()
                    assert await reader.read() == text.upper()
                    writer.close()
                    await writer.wait_closed()
            finally:
                forward.terminate()
                await forward.communicate()
        attach = await asyncio.create_subprocess_exec(
            *base, "attach", "p", stdout=pipe, stderr=pipe, env=environment
        )
        out, _err = await attach.communicate()
        assert (attach.returncode, out) == (0, b"one\ntwo\n")

    run_with_pod(tmp_path, act, logs=Printing())
