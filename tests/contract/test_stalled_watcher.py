"""One client that does not read, among fifty that do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body
from swell.cluster.kube.client import KubeCluster
from swell.runtime.cluster import EventType, Selection
from tests.contract.hostile import memory_bytes
from tests.contract.raw import Raw
from tests.contract.targets import embedded_server, over_https

CONFIG = CONFIG_MAPS.untyped()
N_WATCHERS = 49
N_OBJECTS = 120
OBJECT_BYTES = 50_000  # together more than the buffers on the way to a client hold
GROWTH_BYTES_MAX = 120 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    with embedded_server(tmp_path) as process:
        yield tmp_path / "kubeconfig", process.pid


def a_config(n: int) -> Body:
    meta = {"name": f"c{n}", "namespace": "default"}
    data = {"v": "x" * OBJECT_BYTES}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


async def see_all(cluster: KubeCluster, since: str) -> None:
    """Return when the last of the objects has been seen."""
    chosen = Selection("default")
    seen = 0
    async with cluster.watch(CONFIG, chosen, resource_version=since, timeout_s=120) as events:
        async for event in events:
            seen += event.type is EventType.ADDED
            if seen == N_OBJECTS:
                return
    raise AssertionError(f"the watch ended after {seen}")


def test_stalled_watcher_delays_nobody(server: tuple[Path, int]) -> None:
    """The others see everything while it does not read, and memory stays bounded."""
    kubeconfig, pid = server

    async def main() -> None:
        async with over_https(kubeconfig) as cluster:
            assert isinstance(cluster, KubeCluster)
            since = (await cluster.list(CONFIG)).resource_version
            watching = [asyncio.create_task(see_all(cluster, since)) for _ in range(N_WATCHERS)]
            for n in range(N_OBJECTS):
                await cluster.create(CONFIG, a_config(n))
            await asyncio.gather(*watching)

    with Raw(kubeconfig) as raw:
        path = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=300"
        stalled = raw.open_stream(path)  # and never read from
        before = memory_bytes(pid)
        asyncio.run(main())
        growth = memory_bytes(pid) - before
        stalled.close()

    assert growth < GROWTH_BYTES_MAX
