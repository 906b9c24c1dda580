"""The in-process store: writes in memory and on disk, lists, fan-out to watchers, memory."""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path

from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import EventType, merge_patch
from tests.plainrules import plain_registry

N_PODS = 10_000
N_ROUNDS = 3
N_EVENTS = 5_000
N_WATCHERS = 50
N_DURABLE = 2_000
N_WRITERS = 64


def run() -> dict[str, object]:
    figures: dict[str, object] = {}
    figures |= _in_memory(_store_alone, "store alone")
    figures |= _in_memory(_whole_server, "schemas and rules")
    figures |= asyncio.run(_fan_out())
    figures |= _memory()
    figures |= asyncio.run(_durable())
    return figures


def a_pod(index: int) -> Body:
    """A pod of the size our operator writes: about 2 KB of JSON."""
    role, n = "trainer", index % 64
    job = f"job-{index // 64}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{index:06d}",
            "namespace": "default",
            "labels": {
                "aitj-name": job,
                "aitj-role": role,
                "aitj-index": str(n),
                "group": "elasticdeeplearning.ai",
            },
            "annotations": {
                "scheduling.k8s.io/group-name": job,
                "elasticdeeplearning.ai/epoch": "1",
            },
            "ownerReferences": [
                {
                    "apiVersion": "elasticdeeplearning.ai/v1",
                    "kind": "AITrainingJob",
                    "name": job,
                    "uid": f"00000000-0000-0000-0000-{index // 64:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "schedulerName": "swell",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "aitj-trainer",
                    "image": "images.example/train:1.2",
                    "command": ["python", "train.py", "--epochs", "10", "--batch", "128"],
                    "env": [
                        {"name": f"VARIABLE_{i}", "value": f"value-{i}-{n}"} for i in range(12)
                    ],
                    "ports": [{"name": "aitj-7777", "containerPort": 7777, "protocol": "TCP"}],
                    "resources": {
                        "limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
                        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
                    },
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
        },
    }


def a_status(index: int) -> Body:
    started = "2026-01-01T00:00:00Z"
    return {
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{index // 250 % 250}.{index % 250}",
            "startTime": started,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [
                {
                    "name": "aitj-trainer",
                    "image": "images.example/train:1.2",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": started}},
                }
            ],
        }
    }


def _store_alone(storage: Storage) -> ApiServer:
    """All verbs of the API, for kinds that take any content."""
    rng = random.Random(1)
    api = ApiServer(
        storage,
        plain_registry(),
        SystemClock(),
        new_uid=lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        rng=rng,
    )
    api.ensure_namespaces()
    return api


def _whole_server(storage: Storage) -> ApiServer:
    """As it is served: pods are read by their schema, defaulted and validated."""
    return new_api_server(storage, SystemClock(), random.Random(1))


def _in_memory(server: Callable[[Storage], ApiServer], what: str) -> dict[str, object]:
    """The best of a few rounds: a busy machine makes a round slower, nothing makes one faster."""
    rounds = [asyncio.run(_write_and_list(server)) for _ in range(N_ROUNDS)]
    creates_s, patches_s, cold_s, warm_s = (min(times) for times in zip(*rounds, strict=True))
    return {
        f"creates/s in memory, {what}": round(N_PODS / creates_s),
        f"status patches/s in memory, {what}": round(N_PODS / patches_s),
        f"list and decode {N_PODS:,} pods, s, {what}": cold_s,
        f"the same list again, s, {what}": warm_s,
    }


async def _write_and_list(
    server: Callable[[Storage], ApiServer],
) -> tuple[float, float, float, float]:
    cluster = InProcessCluster(server(Storage(time.time)), "bench")
    bodies = [a_pod(index) for index in range(N_PODS)]
    patches = [merge_patch(a_status(index)) for index in range(N_PODS)]
    status = PODS.status
    begun = time.perf_counter()
    for body in bodies:
        await cluster.create(PODS, body)
    created = time.perf_counter()
    for index, patch in enumerate(patches):
        await cluster.patch(status, Key("default", f"pod-{index:06d}"), patch)
    patched = time.perf_counter()
    # Nothing of this version was decoded as this struct before: the honest, cold list.
    cold: Resource[_OtherPod] = Resource("", "v1", "Pod", "pods", _OtherPod)
    listed = await cluster.list(cold)
    done = time.perf_counter()
    await cluster.list(cold)
    again = time.perf_counter()
    if len(listed.items) != N_PODS:
        raise RuntimeError("the list is not complete")
    return created - begun, patched - created, done - patched, again - done


class _OtherPod(Pod, frozen=True):
    """A pod under another name, so that the cache of decoded structs is of no help."""


async def _fan_out() -> dict[str, object]:
    cluster = InProcessCluster(_store_alone(Storage(time.time)), "bench")
    start = (await cluster.list(PODS)).resource_version

    async def watcher() -> int:
        n_seen = 0
        async with cluster.watch(PODS, resource_version=start) as events:
            async for event in events:
                n_seen += event.type is not EventType.BOOKMARK
                if n_seen == N_EVENTS:
                    break
        return n_seen

    tasks = [asyncio.create_task(watcher()) for _ in range(N_WATCHERS)]
    await asyncio.sleep(0)
    bodies = [a_pod(index) for index in range(N_EVENTS)]
    begun = time.perf_counter()
    for n, body in enumerate(bodies):
        await cluster.create(PODS, body)
        if n % 50 == 49:
            await asyncio.sleep(0)
    written = time.perf_counter()
    seen = await asyncio.gather(*tasks)
    done = time.perf_counter()
    if set(seen) != {N_EVENTS}:
        raise RuntimeError("a watcher missed events")
    return {
        f"{N_EVENTS:,} events to {N_WATCHERS} watchers, s": done - begun,
        "of which after the last write, s": done - written,
        "events delivered/s": round(N_EVENTS * N_WATCHERS / (done - begun)),
    }


def _memory() -> dict[str, object]:
    gc.collect()
    tracemalloc.start()
    api = _store_alone(Storage(time.time))
    cluster = InProcessCluster(api, "bench")

    async def fill() -> None:
        for index in range(N_PODS):
            await cluster.create(PODS.untyped(), a_pod(index))

    asyncio.run(fill())
    gc.collect()
    n_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    raw = sum(len(stored.raw) for _, stored in api.storage.list("pods").items)
    return {
        f"memory of {N_PODS:,} pods, MB": n_bytes / 1e6,
        "of which their JSON, MB": raw / 1e6,
    }


async def _durable() -> dict[str, object]:
    from swell.cluster.embedded.durable import DurableStorage

    with tempfile.TemporaryDirectory() as folder:
        store = await DurableStorage.open(Path(folder) / "store.db", time.time)
        cluster = InProcessCluster(_whole_server(store.storage), "bench")
        begun = time.perf_counter()
        for index in range(200):
            await cluster.create(PODS, a_pod(index))
        alone = time.perf_counter()

        async def writer(n: int) -> None:
            for index in range(n, N_DURABLE, N_WRITERS):
                await cluster.create(PODS, a_pod(1_000 + index))

        await asyncio.gather(*(writer(n) for n in range(N_WRITERS)))
        done = time.perf_counter()
        await store.close()
    return {
        "durable writes/s, one writer": round(200 / (alone - begun)),
        f"durable writes/s, {N_WRITERS} writers": round(N_DURABLE / (done - alone)),
    }
