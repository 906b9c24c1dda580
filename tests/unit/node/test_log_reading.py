"""Parts of a log: found by seeking, read in pieces, without harm to other clients."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.times import format_micro_time
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.http.logs import LogRequest
from swell.cluster.embedded.http.serving import Served, listening
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.credentials import client_tls
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.process import logreading
from swell.node.process.logreading import LogQuery, LogReader, read_log
from swell.node.supervisor import output
from swell.runtime.clock import SystemClock
from tests.figures import Figure
from tests.raw_reads import read_raw

LOG = "/api/v1/namespaces/default/pods/p/log"
SEGMENTS_BYTES = 5 * output.LOG_BYTES_MAX
# Printed, it is some milliseconds. The tests share the machine with others: here the bound only
# tells a log that is read on the loop, which takes ten seconds and more.
GROWTH_BYTES_MAX = 24 << 20
STALL_S = 0.5


def write_log(
    path: Path, pieces: list[tuple[float, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write pieces of output that came at these times."""
    log = output.Log(str(path))
    for at, data in pieces:
        monkeypatch.setattr(time, "time", lambda at=at: at)
        log.write(data)
    monkeypatch.undo()


def whole(path: Path, query: LogQuery) -> bytes:
    reader = LogReader(path, query)
    try:
        return b"".join(iter(reader.read, b""))
    finally:
        reader.close()


def expected(pieces: list[tuple[float, bytes]], query: LogQuery) -> bytes:
    """The same part, by taking the whole output to lines."""
    text = b"".join(data for _, data in pieces)
    times = [at for at, data in pieces for _ in data]
    lines: list[tuple[float, bytes]] = []
    start = 0
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        lines.append((times[start], text[start:end]))
        start = end
    if query.since is not None:
        lines = [line for line in lines if line[0] >= query.since]
    if query.tail_lines is not None:
        lines = lines[max(0, len(lines) - query.tail_lines) :]
    stamped = [
        format_micro_time(at).encode() + b" " + data if query.timestamps else data
        for at, data in lines
    ]
    return b"".join(stamped)[: query.limit_bytes]


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(st.text("ab\n\r", min_size=1, max_size=12), max_size=20),
    n_max=st.integers(8, 60),
    query=st.builds(
        LogQuery,
        timestamps=st.booleans(),
        tail_lines=st.none() | st.integers(0, 12) | st.just(2**63 - 1),
        limit_bytes=st.none() | st.integers(1, 40) | st.just(2**63 - 1),
        since=st.none() | st.floats(0.0, 22.0) | st.just(-1e30),
    ),
    small=st.booleans(),
)
def test_part_is_the_same_as_by_taking_lines(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[str],
    n_max: int,
    query: LogQuery,
    small: bool,
) -> None:
    """Whatever the pieces, the files and the buffers are; only a line feed ends a line."""
    timed = [(float(at), piece.encode()) for at, piece in enumerate(pieces)]
    path = tmp_path_factory.mktemp("log") / "l"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "LOG_BYTES_MAX", n_max)
        patch.setattr(output, "LOG_FILES_MAX", 99)
        patch.setattr("swell.node.process.logfiles.LOG_FILES_MAX", 99)
        if small:
            patch.setattr(logreading, "PIECE_BYTES", 3)
            patch.setattr(logreading, "STAMPED_BYTES", 3)
            patch.setattr(logreading, "INDEX_BYTES", 32)
        with pytest.MonkeyPatch.context() as clock:
            write_log(path, timed, clock)

        assert whole(path, query) == expected(timed, query)


def test_followed_log_survives_rotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything arrives once and in order, however often the files are renamed meanwhile."""
    monkeypatch.setattr(output, "LOG_BYTES_MAX", 20)
    log = output.Log(str(tmp_path / "l"))
    reader = LogReader(tmp_path / "l", LogQuery(follow=True))
    written, read = b"", b""
    for turn in range(60):
        for n in range(turn % 4):
            line = f"{turn}.{n}\n".encode()
            log.write(line)
            written += line
        while piece := reader.read():
            read += piece
        assert len(reader._segments) <= 1
    reader.close()

    assert read == written


def test_follow_keeps_to_its_limit(tmp_path: Path) -> None:
    """limitBytes holds for what is written later, too."""

    async def act() -> bytes:
        log = output.Log(str(tmp_path / "l"))
        log.write(b"one\n")
        query = LogQuery(follow=True, limit_bytes=6)
        pieces = read_log(tmp_path / "l", query, lambda: True, SystemClock())
        first = await anext(pieces)
        log.write(b"two\n")
        async with asyncio.timeout(5):
            return first + b"".join([piece async for piece in pieces])

    assert asyncio.run(act()) == b"one\ntw"


def test_time_is_searched_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last moments of a long log are found with few reads of its index and text."""
    pieces = [(float(at), b"x" * 99 + b"\n") for at in range(50_000)]
    write_log(tmp_path / "l", pieces, monkeypatch)
    n_bytes = 0
    honest = os.pread

    def counted(descriptor: int, n: int, offset: int) -> bytes:
        nonlocal n_bytes
        data = honest(descriptor, n, offset)
        n_bytes += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    text = whole(tmp_path / "l", LogQuery(since=49_998.0))
    n_since, n_bytes = n_bytes, 0
    last = whole(tmp_path / "l", LogQuery(tail_lines=3))

    assert text == (b"x" * 99 + b"\n") * 2
    assert last == (b"x" * 99 + b"\n") * 3
    assert n_since < 64 << 10
    assert n_bytes <= logreading.PIECE_BYTES + 1024


# -- a server with a large log ----------------------------------------------------------------


class FileLogs:
    """The log source of a server whose pods all have one log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, _: Body, request: LogRequest) -> AsyncGenerator[bytes]:
        since = None if request.since_seconds is None else time.time() - request.since_seconds
        query = LogQuery(
            request.follow, request.timestamps, request.tail_lines, request.limit_bytes, since
        )
        return read_log(self._path, query, lambda: True, SystemClock())


def serve(folder: Path, path: Path, act: Callable[[KubeCluster, Served], Awaitable[None]]) -> None:
    folder.mkdir()

    async def main() -> None:
        clock, rng = SystemClock(), random.Random(1)
        api = new_api_server(Storage(clock.now), clock, rng)
        logs = FileLogs(path)
        async with listening(api, folder, clock=clock, rng=rng, logs=logs, stall_s=STALL_S) as got:
            access = read_kubeconfig([got.kubeconfig])
            async with connect(access, clock, rng) as cluster:
                meta = {"name": "p", "namespace": "default"}
                spec = {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]}
                body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
                await cluster.create(PODS.untyped(), body)
                await act(cluster, got)

    asyncio.run(main())


async def harm(cluster: KubeCluster, reading: asyncio.Task[int]) -> tuple[float, int]:
    """How long another client waited at most while a log was read, and how memory grew."""
    longest, before, most = 0.0, resident_bytes(), 0
    while not reading.done():
        began = time.monotonic()
        await read_raw(cluster, "/api/v1/namespaces/default/pods/p")
        longest, most = max(longest, time.monotonic() - began), max(most, resident_bytes())
        await asyncio.sleep(0)
    return longest, most - before


async def open_log(served: Served, query: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for a log over a connection of its own, and return once the answer begins."""
    access = read_kubeconfig([served.kubeconfig])
    tls: ssl.SSLContext = client_tls(access)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=tls, limit=1 << 16)
    head = [f"GET {LOG}?{query} HTTP/1.1", "Host: x", f"Authorization: Bearer {access.user.token}"]
    writer.write("\r\n".join([*head, "", ""]).encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def swallow(served: Served, query: str) -> int:
    """Read a log to its end without keeping it; returns the number of bytes on the wire."""
    reader, writer = await open_log(served, query)
    n_bytes, end = 0, b""
    while not end.endswith(b"0\r\n\r\n"):
        data = await reader.read(1 << 18)
        if not data:
            break
        n_bytes += len(data)
        end = (end + data)[-8:]
    writer.close()
    return n_bytes


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("what", ["newlines", "one line"])
@pytest.mark.parametrize(
    "query", ["", "tailLines=3", "tailLines=1000000", "sinceSeconds=1", "limitBytes=1000"]
)
def test_large_log_delays_nobody(tmp_path: Path, what: str, query: str, figure: Figure) -> None:
    """Another client is answered soon, and memory does not grow with the log."""
    log = output.Log(str(tmp_path / "l"))
    letter = b"\n" if what == "newlines" else b"x"
    for _ in range(SEGMENTS_BYTES // 65536):
        log.write(letter * 65536)

    async def act(cluster: KubeCluster, served: Served) -> None:
        await swallow(served, "limitBytes=1")
        reading = asyncio.create_task(swallow(served, query))
        wait_s, growth = await harm(cluster, reading)
        figure(
            f"{SEGMENTS_BYTES / 1e6:.0f} MB log, {what}, {query or 'whole'}: {reading.result()} "
            f"bytes sent, another client waited {wait_s * 1e3:.0f} ms at most, "
            f"memory grew by {growth / 1e6:.1f} MB"
        )

        assert growth < GROWTH_BYTES_MAX
        if not query:
            assert reading.result() > SEGMENTS_BYTES

    serve(tmp_path / "home", tmp_path / "l", act)


def test_times_of_a_large_log_delay_nobody(tmp_path: Path, figure: Figure) -> None:
    """A time before every empty line makes the answer 29 times as long, and nothing else."""
    log = output.Log(str(tmp_path / "l"))
    for _ in range(40):
        log.write(b"\n" * 65536)

    async def act(cluster: KubeCluster, served: Served) -> None:
        await swallow(served, "limitBytes=1")
        reading = asyncio.create_task(swallow(served, "timestamps=true"))
        wait_s, growth = await harm(cluster, reading)
        figure(f"times of empty lines: waited {wait_s * 1e3:.0f} ms, grew {growth / 1e6:.1f} MB")

        assert reading.result() > 40 * 65536 * 28
        assert growth < GROWTH_BYTES_MAX

    serve(tmp_path / "home", tmp_path / "l", act)


@pytest.mark.parametrize("leaves", ["while it is quiet", "while it is sent", "by not reading"])
def test_nothing_is_left_of_a_client_that_left(tmp_path: Path, leaves: str) -> None:
    """No task and no descriptor, whether it closes its connection or only stops reading."""
    log = output.Log(str(tmp_path / "l"))
    n_pieces = 1 if leaves == "while it is quiet" else 300
    for _ in range(n_pieces):
        log.write(b"line\n" * 13000)

    async def act(_: KubeCluster, served: Served) -> None:
        await (await left_over(served, "limitBytes=1"))()
        before = remains()
        waits = [await left_over(served, "follow=true", leaves) for _ in range(5)]
        async with asyncio.timeout(20):
            for wait in waits:
                await wait()
            while remains() > before:  # noqa: ASYNC110 (there is no event to wait for)
                await asyncio.sleep(0.05)

    async def left_over(served: Served, query: str, how: str = "") -> Callable[[], Awaitable[None]]:
        _, writer = await open_log(served, query)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        if how == "by not reading":
            await asyncio.sleep(3 * STALL_S)

        async def leave() -> None:
            writer.transport.abort()

        if how != "by not reading":
            await leave()
        return leave

    def remains() -> tuple[int, int]:
        gc.collect()
        log_files = sum(
            1 for fd in Path("/proc/self/fd").iterdir() if str(tmp_path / "l") in _target(fd)
        )
        return log_files, len(asyncio.all_tasks())

    serve(tmp_path / "home", tmp_path / "l", act)


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""
