"""The server in this process: streams, logs, shutdown, and where it listens."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from swell.api.kinds import CONFIG_MAPS, PODS
from swell.api.meta import Body, Key
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.http import credentials
from swell.cluster.embedded.http.logs import LogRequest, LogSource
from swell.cluster.embedded.http.serving import Served, listening
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.credentials import client_tls
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.private import write_private
from swell.runtime.clock import SystemClock
from swell.runtime.errors import BadRequestError, ClusterError, NotFoundError
from tests.raw_reads import read_raw

CONFIG = CONFIG_MAPS.untyped()
POD = PODS.untyped()
STALL_S = 0.3


class SomeLogs:
    """Says what it was asked for."""

    async def read(self, pod: Body, request: LogRequest) -> AsyncGenerator[bytes]:
        yield f"{pod['metadata']['name']} {request.container}".encode()
        yield f" {request.tail_lines} {request.follow}".encode()


@asynccontextmanager
async def serving(folder: Path, logs: LogSource | None = None) -> AsyncGenerator[Served]:
    clock, rng = SystemClock(), random.Random(1)
    api = new_api_server(Storage(clock.now), clock, rng)
    opened = listening(api, folder, clock=clock, rng=rng, logs=logs, stall_s=STALL_S)
    async with opened as served:
        yield served


def run_with_server(
    folder: Path,
    act: Callable[[KubeCluster, Served], Awaitable[None]],
    logs: LogSource | None = None,
) -> None:
    async def main() -> None:
        async with serving(folder, logs) as served:
            access = read_kubeconfig([served.kubeconfig])
            async with connect(access, SystemClock(), random.Random(1)) as cluster:
                await act(cluster, served)

    asyncio.run(main())


async def make_pod(cluster: KubeCluster, *containers: str) -> None:
    body: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": c, "image": "i"} for c in containers]},
    }
    await cluster.create(POD, body)


def test_server_listens_on_loopback_only(tmp_path: Path) -> None:
    """No other machine reaches it."""

    async def act(_: KubeCluster, served: Served) -> None:
        other = socket.gethostbyname(socket.gethostname())
        if other.startswith("127."):
            return
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            socket.create_connection((other, served.port), timeout=1).close()

    run_with_server(tmp_path, act)


def test_log_is_streamed_from_its_source(tmp_path: Path) -> None:
    """The source is asked for the one container there is, with the options given."""

    async def act(cluster: KubeCluster, _: Served) -> None:
        await make_pod(cluster, "main")
        path = "/api/v1/namespaces/default/pods/p/log?tailLines=5&follow=true"
        assert await read_raw(cluster, path) == b"p main 5 True"

    run_with_server(tmp_path, act, SomeLogs())


def test_log_needs_a_container_of_several(tmp_path: Path) -> None:
    """With several containers one has to be named, and it has to exist."""

    async def act(cluster: KubeCluster, _: Served) -> None:
        await make_pod(cluster, "one", "two")
        path = "/api/v1/namespaces/default/pods/p/log"
        assert await read_raw(cluster, f"{path}?container=two") == b"p two None False"
        for query in ("", "?container=three"):
            with pytest.raises(BadRequestError):
                await read_raw(cluster, path + query)

    run_with_server(tmp_path, act, SomeLogs())


def test_log_without_a_source_is_not_found(tmp_path: Path) -> None:
    """A server without nodes of its own knows no logs."""

    async def act(cluster: KubeCluster, _: Served) -> None:
        await make_pod(cluster, "main")
        with pytest.raises(NotFoundError):
            await read_raw(cluster, "/api/v1/namespaces/default/pods/p/log")

    run_with_server(tmp_path, act)


def test_commands_without_a_node_agent_are_refused(tmp_path: Path) -> None:
    """What is not there says so in a sentence."""

    async def act(cluster: KubeCluster, _: Served) -> None:
        await make_pod(cluster, "main")
        path = "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true"
        with pytest.raises(ClusterError, match="is not implemented by") as refusal:
            await read_raw(cluster, path)
        assert refusal.value.status.code == 501

    run_with_server(tmp_path, act)


def test_watch_ends_when_the_server_does(tmp_path: Path) -> None:
    """A server that stops ends its watches in good order, and soon."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            access = read_kubeconfig([served.kubeconfig])
            cluster_open = connect(access, SystemClock(), random.Random(1))
            cluster = await cluster_open.__aenter__()
            watching = cluster.watch(CONFIG, resource_version="0", timeout_s=300)
            events = await watching.__aenter__()
            reading = asyncio.create_task(anext(aiter(events), None))
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await asyncio.gather(reading, return_exceptions=True)
        await watching.__aexit__(None, None, None)
        await cluster_open.__aexit__(None, None, None)
        assert reading.done()

    asyncio.run(main())


def test_stalled_watcher_is_cut(tmp_path: Path) -> None:
    """A client that reads nothing is disconnected, so that nothing is kept for it."""

    async def act(cluster: KubeCluster, served: Served) -> None:
        access = read_kubeconfig([served.kubeconfig])
        reader, writer = await open_watch(client_tls(access), served.port, access.user.token)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for n in range(60):
            meta = {"name": f"c{n}", "namespace": "default"}
            data = {"k": "x" * 200_000}
            await cluster.create(
                CONFIG, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            )
        await asyncio.sleep(3 * STALL_S)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = 0
        async with asyncio.timeout(10):
            while chunk := await _read(reader):
                received += len(chunk)
        writer.close()

        assert received < 60 * 200_000
        assert (await cluster.get(CONFIG, Key("default", "c0")))["metadata"]["name"] == "c0"

    run_with_server(tmp_path, act)


def test_watch_ends_with_its_client(tmp_path: Path) -> None:
    """Clients come and go; nothing stays behind of those that went."""

    async def act(_: KubeCluster, served: Served) -> None:
        access = read_kubeconfig([served.kubeconfig])
        for _n in range(5):
            reader, writer = await open_watch(client_tls(access), served.port, access.user.token)
            await reader.readuntil(b"\r\n\r\n")
            assert len(served.watches) > 0
            writer.transport.abort()
        async with asyncio.timeout(5):
            while len(served.watches):  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)

    run_with_server(tmp_path, act)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1 << 20)
    except (ConnectionError, ssl.SSLError):
        return b""


async def open_watch(
    tls: ssl.SSLContext, port: int, token: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=1 << 16)
    lines = [
        "GET /api/v1/configmaps?watch=true HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await writer.drain()
    return reader, writer


def test_port_is_kept_and_refused_when_taken(tmp_path: Path) -> None:
    """The last port is tried first; one that was asked for must be had."""
    files = credentials.Files(tmp_path)
    with credentials.listening_socket(files, None) as first:
        port = first.getsockname()[1]
        with credentials.listening_socket(files, None) as second:
            assert second.getsockname()[1] != port
        with pytest.raises(credentials.PortError, match=str(port)):
            credentials.listening_socket(files, port)
    write_private(files.port_file, str(port))
    with credentials.listening_socket(files, None) as again:
        assert again.getsockname()[1] == port
