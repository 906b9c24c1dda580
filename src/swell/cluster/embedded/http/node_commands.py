"""Commands in containers whose node agent is another process, by a WebSocket to that agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlencode

import aiohttp
import msgspec

from swell.api.codec import decode, encode
from swell.api.meta import Body
from swell.cluster.embedded.http.logs import CONNECT_S, REFUSAL_BYTES_MAX
from swell.cluster.embedded.http.node_agents import NodeAgents
from swell.cluster.embedded.http.streams import (
    CLOSE,
    ERROR,
    MESSAGE_BYTES_MAX,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    V5,
    ExecCommand,
)

_LOST = "the connection to the node has ended before the command did"


class NodeCommands:
    """Starts commands at the agents of nodes."""

    def __init__(self, agents: NodeAgents) -> None:
        self._agents = agents

    def execute(self, pod: Body, container: str, command: ExecCommand) -> NodeSession:
        """Returns a command that begins when its output is asked for; ClusterError."""
        url = self._agents.url(pod, "exec", container)
        query = [("command", part) for part in command.argv]
        wanted = {
            "stdin": command.stdin,
            "stdout": command.stdout,
            "stderr": command.stderr,
            "tty": command.tty,
        }
        query += [(name, "true") for name, is_wanted in wanted.items() if is_wanted]
        return NodeSession(self._agents, f"{url}?{urlencode(query)}")


class NodeSession:
    """One command at another process. Input waits until the agent has taken the command."""

    def __init__(self, agents: NodeAgents, url: str) -> None:
        self._agents = agents
        self._url = url
        self._stack = AsyncExitStack()
        self._to_send: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        self._sending: asyncio.Task[None] | None = None
        self.exit_code = 0
        self.start_problem = ""

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """The output in pieces, each with its stream, until the command has ended."""
        try:
            socket = await self._open()
        except (aiohttp.ClientError, OSError) as error:
            self.start_problem = f"no answer from the node: {error}"
            return
        if socket is None:
            return
        self._sending = asyncio.create_task(self._send(socket))
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == ERROR:
                self._end(data)
                return
            if channel in {STDOUT, STDERR} and data:
                yield channel, data
        self.start_problem = _LOST

    async def _open(self) -> aiohttp.ClientWebSocketResponse | None:
        """Connect; None, with the problem kept, when the agent refuses."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        connector = aiohttp.TCPConnector(ssl=self._agents.tls())
        session = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=timeout)
        )
        try:
            socket = await session.ws_connect(
                self._url, protocols=(V5,), max_msg_size=MESSAGE_BYTES_MAX
            )
        except aiohttp.WSServerHandshakeError:
            # The words of a refusal are in the answer to a plain request, which is refused alike.
            async with session.get(self._url, allow_redirects=False) as answer:
                text = (await answer.content.read(REFUSAL_BYTES_MAX)).decode(errors="replace")
            self.start_problem = text.strip() or f"the node answers {answer.status}"
            return None
        self._stack.push_async_callback(socket.close)
        return socket

    def _end(self, data: bytes) -> None:
        """Take over how the command ended, from the Status at its end."""
        try:
            status: Body = decode(data, dict)
        except msgspec.DecodeError:
            self.start_problem = "the node's answer cannot be read"
            return
        if status.get("status") == "Success":
            return
        causes = (status.get("details") or {}).get("causes") or ()
        codes = [str(one.get("message")) for one in causes if one.get("reason") == "ExitCode"]
        if codes and codes[0].isdecimal():
            self.exit_code = int(codes[0])
        else:
            message = str(status.get("message") or "the command could not be run")
            self.start_problem = message.removeprefix("Internal error occurred: ")

    async def _send(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            await socket.send_bytes(await self._to_send.get())

    async def write(self, data: bytes) -> None:
        await self._to_send.put(bytes([STDIN]) + data)

    async def close_input(self) -> None:
        await self._to_send.put(bytes([CLOSE, STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        size = encode({"Width": columns, "Height": rows})
        await self._to_send.put(bytes([RESIZE]) + size)

    async def close(self) -> None:
        """Leave, by which the agent ends the command."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._stack.aclose()
