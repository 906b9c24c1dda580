"""Commands in containers and ports of pods: the server and the command line's client, in one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key
from swell.cli.command_line import CommandError
from swell.cli.pods.execution import RemoteCommand, run_remote
from swell.cli.pods.forwarding import PortPair, forward
from swell.cli.pods.sockets import V4, StreamRefusedError, pod_socket, stream_path
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.http.credentials import Files, server_tls
from swell.cluster.embedded.http.logs import LogRequest, LogSource
from swell.cluster.embedded.http.node_agents import NodeAgents
from swell.cluster.embedded.http.node_commands import NodeCommands
from swell.cluster.embedded.http.options import parse_query
from swell.cluster.embedded.http.serving import listening
from swell.cluster.embedded.http.streams import ExecCommand, exec_command, run_command
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.access import Access
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.process.logserver import listening_socket
from swell.runtime.clock import SystemClock
from swell.runtime.errors import BadRequestError
from tests.raw_reads import read_raw

POD, NODE = Key("default", "p"), "far"
WITHIN_S = 60.0


class Shouting:
    """A command that writes its input in capitals, then its arguments to stderr, and ends."""

    def __init__(self, command: ExecCommand) -> None:
        self._command = command
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self.size = (0, 0)
        self.closed = asyncio.Event()
        self.exit_code = 7 if "fail" in command.argv else 0
        self.start_problem = "cannot start it" if "missing" in command.argv else ""

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        while self._command.stdin and (piece := await self._input.get()):
            yield 1, piece.upper()
        yield 2, " ".join(self._command.argv).encode()

    async def write(self, data: bytes) -> None:
        await self._input.put(data)

    async def close_input(self) -> None:
        self._input.put_nowait(b"")

    async def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)

    async def close(self) -> None:
        self.closed.set()


class ShoutingSource:
    """Starts such commands, and remembers the last one."""

    def __init__(self) -> None:
        self.last: Shouting | None = None

    def execute(self, pod: Body, container: str, command: ExecCommand) -> Shouting:
        if container != "main" or pod["metadata"]["name"] != POD.name:
            raise LookupError(container)
        self.last = Shouting(command)
        return self.last


def run_with_pod(
    folder: Path,
    act: Callable[[Access, KubeCluster], Awaitable[None]],
    source: ShoutingSource | None = None,
    at_node: Callable[[NodeAgents], NodeCommands] | None = None,
    logs: LogSource | None = None,
) -> None:
    """Run with a server and a running pod; `at_node` makes commands those of another process."""

    async def main() -> None:
        clock, rng = SystemClock(), random.Random(1)
        api = new_api_server(Storage(clock.now), clock, rng)
        agents = NodeAgents(api, Files(folder))
        commands = source if at_node is None else at_node(agents)
        async with listening(
            api, folder, clock=clock, rng=rng, commands=commands, logs=logs
        ) as served:
            access = read_kubeconfig([served.kubeconfig])
            async with (
                asyncio.timeout(WITHIN_S),
                connect(access, clock, random.Random(1)) as cluster,
            ):
                containers = [{"name": "main", "image": "i"}]
                metadata = {"name": POD.name, "namespace": POD.namespace}
                spec = {"containers": containers, "nodeName": NODE}
                body: Body = {"metadata": metadata, "spec": spec}
                made = await cluster.create(PODS.untyped(), body)
                status = {"phase": "Running", "podIP": "127.0.0.1"}
                await cluster.update(PODS.untyped().status, {**made, "status": status})
                await act(access, cluster)

    asyncio.run(main())


async def pieces(*parts: bytes) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part


def command(*argv: str, stdin: bool = False, container: str = "") -> RemoteCommand:
    return RemoteCommand(POD, container, argv, stdin)


def test_streams_of_a_command_reach_its_user(tmp_path: Path) -> None:
    """Input and its end, both outputs apart, and the exit code; the command is closed after."""
    source = ShoutingSource()

    async def act(access: Access, _: KubeCluster) -> None:
        out, err = bytearray(), bytearray()
        code = await run_remote(
            access,
            command("some", "fail", stdin=True),
            pieces=pieces(b"one ", b"two", b"\x00" * 300_000),
            stdout=out.extend,
            stderr=err.extend,
        )
        assert (code, bytes(err)) == (7, b"some fail")
        assert out == b"ONE TWO" + b"\x00" * 300_000
        assert await run_remote(access, command("ok"), stdout=out.extend, stderr=err.extend) == 0

    run_with_pod(tmp_path, act, source)
    assert source.last is not None
    assert source.last.closed.is_set()


def test_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The words of the node reach the user."""

    async def act(access: Access, _: KubeCluster) -> None:
        with pytest.raises(CommandError, match="cannot start it"):
            await run_remote(access, command("missing"), stdout=_drop, stderr=_drop)

    run_with_pod(tmp_path, act, ShoutingSource())


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("", "at least 1 command"),
        ("?command=ls", "at least 1 of stdin, stdout, stderr"),
        ("?command=ls&stdout=true&container=other", "container other is not valid for pod p"),
        ("?command=ls&stdout=true", "Upgrade request required"),
    ],
)
def test_wrong_requests_are_refused(tmp_path: Path, query: str, part: str) -> None:
    """Without a command, a stream or an upgrade, and for a container that is not there."""

    async def act(access: Access, cluster: KubeCluster) -> None:
        path = "/api/v1/namespaces/default/pods/p/exec"
        with pytest.raises(BadRequestError, match=part):
            await read_raw(cluster, path + query)
        if "other" in query:
            wrong = command("ls", container="other")
            with pytest.raises(StreamRefusedError):
                await run_remote(access, wrong, stdout=_drop, stderr=_drop)

    run_with_pod(tmp_path, act, ShoutingSource())


def test_client_that_leaves_ends_its_command(tmp_path: Path) -> None:
    """A command without a user is closed, though it has not ended."""
    source = ShoutingSource()

    async def act(access: Access, _: KubeCluster) -> None:
        async with pod_socket(access, command("waits", stdin=True).path, (V4,)):
            pass
        assert source.last is not None
        await source.last.closed.wait()

    run_with_pod(tmp_path, act, source)


def test_ports_of_a_pod_are_reached(tmp_path: Path) -> None:
    """Bytes go both ways, on a local port that was free."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1000):
            writer.write(piece.upper())
        writer.close()

    async def act(access: Access, _: KubeCluster) -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        work = forward(
            access, POD, [PortPair(0, port)], "127.0.0.1", lambda local, _: ready.set_result(local)
        )
        forwarding = asyncio.create_task(work)
        reader, writer = await asyncio.open_connection("127.0.0.1", await ready)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        writer.close()
        await writer.wait_closed()
        forwarding.cancel()
        await asyncio.gather(forwarding, return_exceptions=True)
        server.close()
        await server.wait_closed()

    run_with_pod(tmp_path, act, ShoutingSource())


@pytest.mark.parametrize("address", ["", "10.0.0.1", "2001:db8::1"])
def test_pod_elsewhere_is_not_reached(tmp_path: Path, address: str) -> None:
    """An address that is not of this machine's pods, or none, is refused before any connection."""

    async def act(_: Access, cluster: KubeCluster) -> None:
        pod = await cluster.get(PODS.untyped(), POD)
        status = {"phase": "Running", "podIP": address}
        await cluster.update(PODS.untyped().status, {**pod, "status": status})
        path = stream_path(POD, "portforward", [("ports", "80")])
        with pytest.raises(BadRequestError, match=r"pod (is not running|has the address)"):
            await read_raw(cluster, path)

    run_with_pod(tmp_path, act, ShoutingSource())


@pytest.mark.parametrize(
    "ports", ["", "0", "70000", "x", "80,-1", "9" * 5000, ",".join(["80"] * 129)]
)
def test_wrong_ports_are_refused(tmp_path: Path, ports: str) -> None:
    """A port is a number from 1 to 65535."""

    async def act(_: Access, cluster: KubeCluster) -> None:
        path = stream_path(POD, "portforward", [("ports", ports)] if ports else [])
        with pytest.raises(BadRequestError, match="port"):
            await read_raw(cluster, path)

    run_with_pod(tmp_path, act, ShoutingSource())


class Printing:
    """The log of a container that prints two lines while it is followed, and ends."""

    async def read(self, pod: Body, request: LogRequest) -> AsyncGenerator[bytes]:
        if pod["metadata"]["name"] != POD.name or request.container != "main":
            raise bad_request("nothing is printed")
        assert (request.follow, request.tail_lines) == (True, 0)
        yield b"one\n"
        yield b"two\n"


def test_attached_client_sees_what_is_printed(tmp_path: Path) -> None:
    """From then on, until the container ends, which is a success; input is dropped."""

    async def act(access: Access, _: KubeCluster) -> None:
        path = stream_path(POD, "attach", [("stdout", "true"), ("stdin", "true")])
        seen = b""
        async with pod_socket(access, path, (V4,)) as socket:
            await socket.send_bytes(b"\x00typed")
            async for message in socket:
                seen += message.data
        assert seen == b"\x01one\n\x01two\n" + b'\x03{"metadata":{},"status":"Success"}'

    run_with_pod(tmp_path, act, logs=Printing())


def test_attaching_without_a_stream_is_refused(tmp_path: Path) -> None:
    """As a real server does."""

    async def act(_: Access, cluster: KubeCluster) -> None:
        with pytest.raises(BadRequestError, match="at least 1 of stdin, stdout, stderr"):
            await read_raw(cluster, stream_path(POD, "attach", []))

    run_with_pod(tmp_path, act, logs=Printing())


def test_commands_reach_the_agent_of_another_process(tmp_path: Path) -> None:
    """Input, output and exit code pass through; the words of an agent that refuses do, too."""
    source = ShoutingSource()

    async def handle(http: web.BaseRequest) -> web.StreamResponse:
        kind, namespace, name, container = http.path.strip("/").split("/")
        if kind != "exec" or "refused" in http.query_string:
            return web.Response(status=400, text="not with me\n")
        pod: Body = {"metadata": {"name": name, "namespace": namespace}}
        asked = exec_command(parse_query(http.query_string))
        return await run_command(http, pod, container, asked, source)

    async def act(access: Access, cluster: KubeCluster) -> None:
        listener = listening_socket()
        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        await web.SockSite(runner, listener, ssl_context=server_tls(Files(tmp_path))).start()
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": listener.getsockname()[1]}},
        }
        await cluster.create(NODES.untyped(), {"metadata": {"name": NODE}, "status": status})
        out, err = bytearray(), bytearray()
        asked = command("some", "fail", stdin=True)
        given = pieces(b"one ", b"two")
        code = await run_remote(access, asked, pieces=given, stdout=out.extend, stderr=err.extend)
        assert (code, bytes(out), bytes(err)) == (7, b"ONE TWO", b"some fail")
        for word, part in (("missing", "cannot start it"), ("refused", "not with me")):
            with pytest.raises(CommandError, match=part):
                await run_remote(access, command(word), stdout=_drop, stderr=_drop)
        await runner.cleanup()
        with pytest.raises(CommandError, match="no answer from the node"):
            await run_remote(access, command("ok"), stdout=_drop, stderr=_drop)

    run_with_pod(tmp_path, act, at_node=NodeCommands)


def _drop(_: bytes) -> None:
    """Do nothing with output."""
