"""The clusters that behaviours are run on, each with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from swell.api.meta import Body
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.manager import Manager
from tests.contract.definitions import establish
from tests.contract.world import NAMESPACE, Behaviour, World

STOP_S_MAX = 30.0
# Far enough from 1 that a watch from version 1 begins before the log does.
FIRST_VERSION = 1000
_numbers = itertools.count()


class ContractTarget:
    """A cluster that many behaviours are run on; its event loop stops between two of them."""

    def __init__(self, opened: AbstractAsyncContextManager[Cluster]) -> None:
        self._runner = asyncio.Runner()
        self._stack = contextlib.AsyncExitStack()
        self.cluster = self._runner.run(self._stack.enter_async_context(opened))
        self._runner.run(establish(self.cluster))

    def play(self, behaviour: Behaviour) -> None:
        """Run a behaviour in a namespace of its own, which is not deleted afterwards."""
        self._runner.run(self._play(behaviour))

    async def _play(self, behaviour: Behaviour) -> None:
        name = f"c{next(_numbers)}"
        body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.cluster.create(NAMESPACE, body)
        await behaviour.act(World(self.cluster, name))

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()


@asynccontextmanager
async def in_process() -> AsyncIterator[Cluster]:
    """The store in this process, with its controllers."""
    clock, rng = SystemClock(), random.Random(7)
    api = new_api_server(Storage(clock.now, version=FIRST_VERSION), clock, rng)
    manager = Manager(clock=clock)
    add_services(manager, api, rng)
    running = asyncio.create_task(manager.run())
    try:
        yield InProcessCluster(api, "contract")
    finally:
        manager.stop()
        await running


@asynccontextmanager
async def over_https(kubeconfig: Path) -> AsyncIterator[Cluster]:
    """The server of a kubeconfig."""
    access = read_kubeconfig([kubeconfig])
    async with connect(access, SystemClock(), random.Random(7)) as cluster:
        yield cluster


@contextlib.contextmanager
def embedded_server(home: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """The embedded server in a process of its own, ready for requests."""
    command = [sys.executable, "-m", "swell.cluster.embedded.http", "--home", str(home), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the server ended before it was ready"
            yield process
        finally:
            process.terminate()
            process.wait(STOP_S_MAX)
