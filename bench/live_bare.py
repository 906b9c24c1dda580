"""The bare bind ceiling: binds the pods of a namespace over nodes in turn, deciding nothing.

A process of its own, as schedulers are: `python -m bench.live_bare KUBECONFIG NAMESPACE CALLS`.
Prints the processor time that the binds alone took.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path
from random import Random

from bench.live_cluster import BOUND_PODS, at_once
from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, ObjectMeta
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Selection

BINDINGS = PODS.sub("binding", dict)


async def bind_all(kubeconfig: Path, namespace: str, n_calls: int) -> float:
    async with connect(read_kubeconfig([kubeconfig]), SystemClock(), Random(1)) as cluster:
        nodes = [node.metadata.name for node in (await cluster.list(NODES)).items]
        pods = (await cluster.list(BOUND_PODS, Selection(namespace))).items
        bodies = [
            _binding(pod.metadata, node)
            for pod, node in zip(pods, itertools.cycle(nodes), strict=False)
        ]
        begun_s = time.process_time()
        await at_once(bodies, lambda body: cluster.create(BINDINGS, body), n_calls)
        return time.process_time() - begun_s


def _binding(pod: ObjectMeta, node: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


if __name__ == "__main__":
    print(asyncio.run(bind_all(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
