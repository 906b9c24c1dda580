"""Nodes whose kubelets start and stop pods at once; what that costs is the programs' physics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from swell.api.kinds import NODES
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.cluster.embedded.storage import Commit
from swell.replay.live.manifests import address_of, node_body
from swell.replay.live.programs import ReplayedProgram
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, merge_patch
from swell.scheduler.model.elastic import JOB_LABEL
from swell.sim.actors import pod_lifecycle

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class HollowNodes:
    """The nodes of a replay. They read the commit log, so they never lag."""

    def __init__(
        self, cluster: Cluster, clock: Clock, spawn: Spawn, programs: dict[str, ReplayedProgram]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._spawn = spawn
        self._programs = programs  # by the name of the job's object
        self._running: dict[str, dict[str, Pod]] = {}  # pods by job

    async def register(self, n_nodes: int, per_node: int) -> None:
        for index in range(n_nodes):
            body = node_body(index, per_node, self._clock.now())
            key = Key("", body["metadata"]["name"])
            await self._cluster.create(NODES, body)
            await self._cluster.patch(NODES.status, key, merge_patch({"status": body["status"]}))
            # A node begins with a taint that the node controller takes off when it is ready.
            await self._cluster.patch(NODES, key, merge_patch({"spec": {"taints": None}}))

    def on_commit(self, commit: Commit) -> None:
        if pod := pod_lifecycle.bound_by(commit):
            self._spawn(self._start(pod))
        if pod := pod_lifecycle.stopped_by(commit):
            self._spawn(self._stop(pod))

    async def end(self, job: str) -> None:
        """Let all pods of a job succeed."""
        ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        for pod in list(self._running.get(job, {}).values()):
            status = pod_lifecycle.phase(pod, "Succeeded", ended)
            await pod_lifecycle.report(self._cluster, pod, status)

    async def _start(self, pod: Pod) -> None:
        job = pod.metadata.labels.get(JOB_LABEL, "")
        status = {"podIP": address_of(job), **pod_lifecycle.phase(pod, "Running", {"running": {}})}
        if await pod_lifecycle.report(self._cluster, pod, status):
            self._running.setdefault(job, {})[pod.metadata.name] = pod
            self._programs[job].start_pod(pod.metadata.name, pod.spec.node_name)

    async def _stop(self, pod: Pod) -> None:
        job = pod.metadata.labels.get(JOB_LABEL, "")
        self._running.get(job, {}).pop(pod.metadata.name, None)
        self._programs[job].stop_pod(pod.metadata.name)
        await pod_lifecycle.remove(self._cluster, pod)
