"""What our scheduler costs in a large cluster in which nothing happens.

A real kube-apiserver with 5,000 nodes and 50,000 running pods in gangs of eight. They are put into
etcd directly, as the JSON that the API server reads as well: through the API server that many
creates and status updates would take minutes. No process plays the nodes; a scheduler does not see
their leases anyway. One pod waits from the beginning, so that there is a first decision.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import itertools
import json
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench import live_cluster
from swell.api.kinds import POD_GROUPS, PODS
from swell.api.meta import Body
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from tests.testbed.control_plane import ControlPlane, running_control_plane

N_NODES = 5000
N_PODS = 50_000
GANG = 8
NAMESPACE = "idle"
DECIDED_S_MAX = 120.0
SETTLE_S = 5.0
IDLE_S = 20.0
# etcd takes no more operations in one transaction.
N_PUTS = 128
LONG_AGO = "2026-01-01T00:00:00Z"
CYCLES = "volcano_e2e_scheduling_latency_milliseconds_count"


def measure_idle() -> dict[str, object]:
    with running_control_plane(controllers=()) as plane:
        return asyncio.run(_measure(plane))


async def _measure(plane: ControlPlane) -> dict[str, object]:
    async with live_cluster.connected(plane) as cluster:
        await install_crds(cluster, SystemClock())
        await live_cluster.add_namespace(cluster, NAMESPACE)
        fill(plane, itertools.chain(nodes(N_NODES), _groups(), _pods()))
        await cluster.create(PODS.untyped(), pod(NAMESPACE, "waiting"))
        port = live_cluster.free_port()
        url = f"http://127.0.0.1:{port}"
        async with live_cluster.observing_binds(cluster, NAMESPACE) as observer:
            begun, servers_before_s = time.monotonic(), live_cluster.cpu_s(*plane.processes)
            command = live_cluster.swell_scheduler(plane, port)
            with live_cluster.running(plane, "swell-scheduler", command) as process:
                await live_cluster.until_ready(process, url, plane)
                async with asyncio.timeout(DECIDED_S_MAX):
                    while "waiting" not in observer.bound_at:  # noqa: ASYNC110
                        await asyncio.sleep(live_cluster.POLL_S)
                decided_s = observer.bound_at["waiting"] - begun
                start_cpu_s = live_cluster.cpu_s(process)
                servers_cpu_s = live_cluster.cpu_s(*plane.processes) - servers_before_s
                await asyncio.sleep(SETTLE_S)
                before = live_cluster.cpu_s(process), live_cluster.metric(url, plane, CYCLES)
                await asyncio.sleep(IDLE_S)
                spent_s = live_cluster.cpu_s(process) - before[0]
                n_cycles = live_cluster.metric(url, plane, CYCLES) - before[1]
                rss_bytes = live_cluster.rss_bytes(process)
    return {
        "idle: start to first bound pod, s": round(decided_s, 2),
        "idle: CPU until then, s": round(start_cpu_s, 2),
        "idle: CPU of the servers until then, s": round(servers_cpu_s, 2),
        "idle: cycles in 20 s": int(n_cycles),
        "idle: CPU, %": round(100 * spent_s / IDLE_S, 2),
        "idle: memory, MiB": round(rss_bytes / 2**20),
    }


def fill(plane: ControlPlane, objects: Iterator[tuple[str, Body]]) -> None:
    """Write objects into etcd by their keys, many to a transaction."""
    place = urlsplit(plane.etcd_url)
    connection = http.client.HTTPConnection(place.netloc)
    while batch := tuple(itertools.islice(objects, N_PUTS)):
        puts = [{"requestPut": {"key": _b64(k), "value": _b64(json.dumps(v))}} for k, v in batch]
        connection.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"etcd: {said.decode()}")
    connection.close()


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _meta(name: str, namespace: str = "", **more: object) -> Body:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": f"uid-{name}", "creationTimestamp": LONG_AGO, **more}


def nodes(n_nodes: int) -> Iterator[tuple[str, Body]]:
    """Yield nodes that are ready, by their keys in etcd."""
    amounts = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    for n in range(n_nodes):
        name = f"node-{n}"
        yield (
            f"/registry/minions/{name}",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": _meta(name, labels={"kubernetes.io/hostname": name}),
                "spec": {},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
            },
        )


def _groups() -> Iterator[tuple[str, Body]]:
    """As a scheduler left them that has been there for a while."""
    reason = "tasks in gang are ready to be scheduled"
    scheduled = {
        "type": "Scheduled",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": LONG_AGO,
        "transitionID": "before",
    }
    for n in range(N_PODS // GANG):
        name = f"gang-{n}"
        yield (
            f"/registry/scheduling.volcano.sh/podgroups/{NAMESPACE}/{name}",
            {
                "apiVersion": POD_GROUPS.api_version,
                "kind": POD_GROUPS.kind,
                "metadata": _meta(name, NAMESPACE, generation=1),
                "spec": {"minMember": GANG, "queue": "default"},
                "status": {"phase": "Running", "running": GANG, "conditions": [scheduled]},
            },
        )


def _pods() -> Iterator[tuple[str, Body]]:
    for n in range(N_PODS):
        gang, index = divmod(n, GANG)
        member = pod(NAMESPACE, f"gang-{gang}-{index}", f"gang-{gang}", f"node-{n % N_NODES}")
        yield f"/registry/pods/{NAMESPACE}/gang-{gang}-{index}", member


def pod(namespace: str, name: str, group: str = "", node: str = "") -> Body:
    """Return a pod of ours that runs on a node, or waits for one."""
    request = {"cpu": "1", "memory": "2Gi"}
    container = {"name": "main", "image": "local", "resources": {"requests": request}}
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    status = {"phase": "Running", "startTime": LONG_AGO} if node else {"phase": "Pending"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name, namespace, annotations=annotations),
        "spec": {"schedulerName": "swell", "nodeName": node, "containers": [container]},
        "status": status,
    }
