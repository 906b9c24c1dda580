"""Nodes with room to fill, a scheduler that fills it gang by gang, and trainers that share work.

A job has so many trainer-seconds of work: the more of its trainers run, the sooner it is done, and
then all of them succeed. Pods that nobody has work for run until they are deleted. Everything is
read from the store, so the ground never lags and never errs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from swell.api.kinds import NODES, POD_GROUPS, PODS
from swell.api.meta import Body, Key, Uid
from swell.api.node import Node
from swell.api.pod import Pod, PodPhase
from swell.api.podgroup import PodGroup
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import ConflictError, InvalidError, NotFoundError
from swell.sim.world import World
from tests.sim.autoscaler.placing import place

SCHEDULER, KUBELET, CLOUD = "scheduler", "kubelet", "cloud"
WORK = "sim/work-s"  # trainer-seconds until a job is done
GANG = "scheduling.k8s.io/group-name"
START_S = 2.0
STOP_S = 3.0
LOOK_S = 1.0
_ALIVE = frozenset({PodPhase.PENDING, PodPhase.RUNNING})


class Ground:
    """All nodes of a world. `start` it from a scenario."""

    def __init__(self, world: World, nodes: Mapping[str, int]) -> None:
        self._world = world
        self._nodes = nodes
        self._scheduler = world.connect(SCHEDULER)
        self._kubelet = world.connect(KUBELET)
        self._cloud = world.connect(CLOUD)
        self._done_s: dict[Uid, float] = {}
        self.used_s = 0.0  # cpu-seconds that ran
        world.storage.on_commit.append(self._on_commit)

    async def start(self) -> None:
        for name, n_cpus in self._nodes.items():
            body: Body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "allocatable": {"cpu": str(n_cpus), "memory": "64Gi", "pods": "110"},
                },
            }
            await self._cloud.create(NODES, body)
            # A node begins with a taint that the node controller takes off when it is ready.
            untainted = merge_patch({"spec": {"taints": None}})
            await self._cloud.patch(NODES, Key("", name), untainted)
        self._world.spawn(self._live())

    async def _live(self) -> None:
        while True:
            await self._world.clock.sleep(LOOK_S)
            await self._bind_gangs()
            await self._work()

    # -- the scheduler ------------------------------------------------------------------------

    async def _bind_gangs(self) -> None:
        """Gangs in the order of their age, each as a whole; who does not fit is passed over."""
        pods = self.pods()
        nodes = [s.typed(Node) for _, s in self._world.storage.list(str(NODES)).items]
        while True:
            placed = place(nodes, pods, "swell")
            short = self._incomplete(pods, placed)
            if not short:
                break
            pods = [pod for pod in pods if pod.spec.node_name or group_of(pod) != short]
        for pod, node in placed:
            await self._bind(pod, node)

    def _incomplete(self, pods: list[Pod], placed: list[tuple[Pod, str]]) -> Key | None:
        """The youngest group of which fewer pods would run than must."""
        n_bound: dict[Key, int] = {}
        for pod in pods:
            if pod.spec.node_name and pod.status.phase in _ALIVE:
                n_bound[group_of(pod)] = n_bound.get(group_of(pod), 0) + 1
        for pod, _ in placed:
            n_bound[group_of(pod)] = n_bound.get(group_of(pod), 0) + 1
        for pod, _ in reversed(placed):
            group = self._group(group_of(pod))
            if group is not None and n_bound[group_of(pod)] < group.spec.min_member:
                return group_of(pod)
        return None

    async def _bind(self, pod: Pod, node: str) -> None:
        key = pod.metadata.key
        body: Body = {
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await self._scheduler.create(PODS.sub("binding", dict), body)
        except (NotFoundError, ConflictError):
            return

    def _group(self, key: Key) -> PodGroup | None:
        stored = self._world.storage.get(str(POD_GROUPS), key)
        return stored.typed(PodGroup) if stored else None

    # -- the kubelets -------------------------------------------------------------------------

    def _on_commit(self, commit: Commit) -> None:
        if commit.collection != str(PODS) or commit.after is None:
            return
        pod = commit.after.typed(Pod)
        before = commit.before.typed(Pod) if commit.before else None
        if pod.spec.node_name and not (before and before.spec.node_name):
            self._world.spawn(self._run(pod))
        if pod.metadata.deletion_timestamp and not (before and before.metadata.deletion_timestamp):
            self._world.spawn(self._stop(pod))

    async def _run(self, pod: Pod) -> None:
        await self._world.clock.sleep(START_S)
        await self._report(pod, "Running", {"running": {}})

    async def _stop(self, pod: Pod) -> None:
        await self._world.clock.sleep(STOP_S if pod.spec.node_name else 0.1)
        try:
            deletion = Deletion(uid=pod.metadata.uid, grace_s=0)
            await self._kubelet.delete(PODS, pod.metadata.key, deletion)
        except (NotFoundError, ConflictError):
            return

    async def _work(self) -> None:
        """Let a second of work be done, and end the pods of jobs that are through."""
        running = [p for p in self.pods() if p.status.phase is PodPhase.RUNNING]
        for owner, pods in _by_owner(running):
            here = [pod for pod in pods if not pod.metadata.deletion_timestamp]
            self.used_s += len(pods) * LOOK_S
            self._done_s[owner] = self._done_s.get(owner, 0.0) + len(here) * LOOK_S
            work_s = float(pods[0].metadata.annotations.get(WORK, "inf"))
            if self._done_s[owner] >= work_s:
                for pod in here:
                    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
                    await self._report(pod, "Succeeded", ended)

    async def _report(self, pod: Pod, phase: str, state: Body) -> None:
        containers = [{"name": c.name, "state": state} for c in pod.spec.containers]
        status: Body = {"phase": phase, "containerStatuses": containers}
        patch = merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": status})
        try:
            current = await self._kubelet.get(PODS, pod.metadata.key)
            if not current.metadata.deletion_timestamp:
                await self._kubelet.patch(PODS.status, pod.metadata.key, patch)
        except (NotFoundError, ConflictError, InvalidError):
            return

    def pods(self) -> list[Pod]:
        return [stored.typed(Pod) for _, stored in self._world.storage.list(str(PODS)).items]


def group_of(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.annotations.get(GANG, pod.metadata.name))


def _by_owner(pods: Sequence[Pod]) -> Iterator[tuple[Uid, list[Pod]]]:
    owned: dict[Uid, list[Pod]] = {}
    for pod in pods:
        owner = pod.metadata.controller
        if owner is not None:
            owned.setdefault(owner.uid, []).append(pod)
    yield from owned.items()
