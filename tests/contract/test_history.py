"""History that is no longer kept: a watch or a page from before the log gets 410."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import GoneError
from tests.contract.targets import embedded_server, over_https
from tests.contract.world import CONFIG
from tests.testbed.control_plane import running_control_plane

N_OBJECTS = 5


async def write(cluster: Cluster) -> str:
    """Some objects, and the version before them."""
    version = (await cluster.list(CONFIG, Selection("default"))).resource_version
    for n in range(N_OBJECTS):
        body: Body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"c{n}", "namespace": "default"},
        }
        await cluster.create(CONFIG, body)
    return version


async def expect_gone(cluster: Cluster, version: str) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(GoneError):
            async with cluster.watch(
                CONFIG, Selection("default"), resource_version=version, timeout_s=15
            ) as events:
                await anext(aiter(events))


def test_compacted_store_answers_gone() -> None:
    """In the store: watches and pages from before the compaction are refused."""

    async def main() -> None:
        clock = SystemClock()
        storage = Storage(clock.now)
        api = new_api_server(storage, clock, random.Random(1))
        cluster = InProcessCluster(api, "test")
        version = await write(cluster)
        page = await cluster.list(CONFIG, Selection("default"), limit=2)
        await cluster.delete_collection(CONFIG, Selection("default"))
        storage.compact(storage.version)

        await expect_gone(cluster, version)
        token = page.continue_token
        with pytest.raises(GoneError):
            await cluster.list(CONFIG, Selection("default"), limit=2, continue_token=token)

    asyncio.run(main())


def test_restarted_server_answers_gone(tmp_path: Path) -> None:
    """Over HTTPS: a server that was started anew remembers objects, not their past."""

    async def first() -> str:
        async with over_https(tmp_path / "kubeconfig") as cluster:
            return await write(cluster)

    async def second(version: str) -> None:
        async with over_https(tmp_path / "kubeconfig") as cluster:
            assert len((await cluster.list(CONFIG, Selection("default"))).items) == N_OBJECTS
            await expect_gone(cluster, version)

    with embedded_server(tmp_path):
        version = asyncio.run(first())
    with embedded_server(tmp_path):
        asyncio.run(second(version))


def test_restarted_kubernetes_answers_gone(testbed_binaries: None, tmp_path: Path) -> None:
    """A real server does the same."""

    async def first(kubeconfig: Path) -> str:
        async with over_https(kubeconfig) as cluster:
            return await write(cluster)

    async def second(kubeconfig: Path, version: str) -> None:
        async with over_https(kubeconfig) as cluster:
            await expect_gone(cluster, version)

    with running_control_plane(controllers=(), data_dir=tmp_path) as plane:
        version = asyncio.run(first(plane.kubeconfig))
    with running_control_plane(controllers=(), data_dir=tmp_path) as plane:
        asyncio.run(second(plane.kubeconfig, version))
