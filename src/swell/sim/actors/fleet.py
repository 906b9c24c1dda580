"""Nodes with their kubelets, and a simple scheduler where none is under test.

Nodes become unreachable and come back, report broken accelerators, and fail to pull images. An
unreachable node goes on running its pods, but neither receives nor reports anything. A node whose
object is deleted has died with all its pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import ClusterError, NotFoundError
from swell.sim.actors import pod_lifecycle
from swell.sim.actors.pod_lifecycle import PodBehavior

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

KUBELET, SCHEDULER, CLOUD = "kubelet", "scheduler", "cloud"
GPU_CONDITION = "GPUUnhealthy"
_LOOK_S = 1.0  # between two looks at a node that is down
_NOTICE_S = 5.0  # until the control plane notices that a node is silent


@dataclass(slots=True)
class SimulatedMachine:
    """The real state of a node, reported or not. Times are of the monotonic clock."""

    name: str
    life: int = 0  # changes when the machine dies and is replaced
    is_up: bool = True
    exists: bool = True
    unready: list[tuple[float, float]] = field(default_factory=list)  # from, until
    absent: list[tuple[float, float]] = field(default_factory=list)


class Fleet:
    """All nodes of a world. It reads the commit log, so it never lags."""

    def __init__(
        self,
        world: SimulatedWorld,
        behavior_of: Callable[[SimulatedWorld, Pod], PodBehavior],
        names: Sequence[str],
        *,
        n_cpus: int = 64,
        n_pods: int = 110,
        binds: bool = True,
    ) -> None:
        self._world = world
        self._behavior_of = behavior_of
        self.n_cpus = n_cpus
        self.n_pods = n_pods
        self._binds = binds
        self._kubelet = world.connect(KUBELET)
        self._scheduler = world.connect(SCHEDULER)
        self._cloud = world.connect(CLOUD)
        self.machines = {name: SimulatedMachine(name) for name in names}
        self.images_broken_until_s = 0.0
        world.storage.on_commit.append(self._on_commit)

    async def start(self) -> None:
        """Register the nodes."""
        for machine in self.machines.values():
            await self._register(machine)

    # --- nodes

    def lose(self, name: str, for_s: float, *, dies: bool) -> bool:
        """Make a node unreachable, or let it die. Returns False if it was not up."""
        machine = self.machines[name]
        if not machine.is_up:
            return False
        machine.is_up = False
        self._world.spawn(self._die(machine, for_s) if dies else self._fall_silent(machine, for_s))
        return True

    async def set_condition(self, name: str, kind: str, holds: bool) -> None:
        conditions = [{"type": "Ready", "status": "True", **self._dated()}]
        if holds:
            conditions.append({"type": kind, "status": "True", **self._dated()})
        await self._write_conditions(self.machines[name], conditions)

    async def set_allocatable(self, name: str, n_cpus: int) -> None:
        await self._patch_node(name, {"allocatable": _allocatable(n_cpus, self.n_pods)})

    def was_unready_for(self, name: str, at_s: float) -> float:
        """Returns for how long a node had been unready at a moment."""
        for begin_s, end_s in self.machines[name].unready:
            if begin_s <= at_s < end_s:
                return at_s - begin_s
        return 0.0

    def was_absent(self, name: str, at_s: float) -> bool:
        return any(begin_s <= at_s < end_s for begin_s, end_s in self.machines[name].absent)

    async def _fall_silent(self, machine: SimulatedMachine, for_s: float) -> None:
        await self._world.clock.sleep(_NOTICE_S)
        begin_s = self._world.clock.monotonic()
        machine.unready.append((begin_s, float("inf")))
        await self._write_conditions(
            machine, [{"type": "Ready", "status": "Unknown", **self._dated()}]
        )
        await self._world.clock.sleep(for_s)
        machine.unready[-1] = (begin_s, self._world.clock.monotonic())
        machine.is_up = True
        await self.set_condition(machine.name, GPU_CONDITION, False)

    async def _die(self, machine: SimulatedMachine, for_s: float) -> None:
        machine.life += 1  # pods of the old machine must not report any more
        begin_s = self._world.clock.monotonic()
        machine.absent.append((begin_s, float("inf")))
        machine.exists = False
        await self._cloud.delete(NODES, Key("", machine.name))
        await self._world.clock.sleep(for_s)
        machine.absent[-1] = (begin_s, self._world.clock.monotonic())
        machine.exists = machine.is_up = True
        await self._register(machine)

    async def _register(self, machine: SimulatedMachine) -> None:
        body: Body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": machine.name,
                "labels": {"kubernetes.io/hostname": machine.name},
            },
            "status": {
                "conditions": [{"type": "Ready", "status": "True", **self._dated()}],
                "allocatable": _allocatable(self.n_cpus, self.n_pods),
            },
        }
        await self._cloud.create(NODES, body)
        await self._patch_node(machine.name, body["status"])
        # A node begins with a taint that the node controller takes off when it is ready.
        untainted = merge_patch({"spec": {"taints": None}})
        await self._cloud.patch(NODES, Key("", machine.name), untainted)

    async def _write_conditions(self, machine: SimulatedMachine, conditions: list[Body]) -> None:
        await self._patch_node(machine.name, {"conditions": conditions})

    async def _patch_node(self, name: str, status: Body) -> None:
        try:
            await self._cloud.patch(NODES.status, Key("", name), merge_patch({"status": status}))
        except NotFoundError:
            return

    def _dated(self) -> Body:
        return {"lastTransitionTime": format_time(self._world.clock.now())}

    # --- pods

    def _on_commit(self, commit: Commit) -> None:
        if commit.collection != str(PODS) or commit.after is None:
            return
        pod = commit.after.typed(Pod)
        if self._binds and commit.before is None and not pod.spec.node_name:
            self._world.spawn(self._bind(pod))
        if pod_lifecycle.bound_by(commit):
            self._world.spawn(self._run(pod))
        if pod_lifecycle.stopped_by(commit):
            self._world.spawn(self._stop(pod))

    async def _bind(self, pod: Pod) -> None:
        world = self._world
        await world.clock.sleep(world.chance.between(0.05, 2, "bind", pod.metadata.uid))
        while not (fit := self._fitting(pod)):
            await world.clock.sleep(_LOOK_S)
            if not self._is_current(pod):
                return
        name = world.chance.pick(fit, "node", pod.metadata.uid)
        await pod_lifecycle.bind(self._scheduler, pod, name)

    def _fitting(self, pod: Pod) -> list[str]:
        avoided = set(_avoided(pod))
        return [
            m.name for m in self.machines.values() if m.is_up and m.exists and m.name not in avoided
        ]

    async def _run(self, pod: Pod) -> None:
        world, behavior = self._world, self._behavior_of(self._world, pod)
        machine = self.machines[pod.spec.node_name]
        life = machine.life
        await world.clock.sleep(behavior.start_s)
        # A disturbance of some subjects: no image can be pulled for a while.
        while world.clock.monotonic() < self.images_broken_until_s:
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            if not await self._report(pod, machine, life, "Pending", waiting):
                return
            await world.clock.sleep(_NOTICE_S)
        if not await self._report(pod, machine, life, "Running", {"running": {}}):
            return
        await world.clock.sleep(behavior.run_s)
        at = format_time(world.clock.now())
        ended = {
            "terminated": {"exitCode": behavior.exit_code, "reason": "Ended", "finishedAt": at}
        }
        await self._report(pod, machine, life, behavior.end, ended)

    async def _report(
        self, pod: Pod, machine: SimulatedMachine, life: int, phase: str, state: Body
    ) -> bool:
        """Report a state when the node is up. Returns whether the pod goes on running."""
        while not machine.is_up:
            await self._world.clock.sleep(_LOOK_S)
        if machine.life != life:
            phase, state = "Failed", {"terminated": {"exitCode": 137, "reason": "NodeReplaced"}}
        status = pod_lifecycle.phase(pod, phase, state)
        if phase == "Running":
            status["startTime"] = format_time(self._world.clock.now())
        return await pod_lifecycle.report(self._kubelet, pod, status) and machine.life == life

    async def _stop(self, pod: Pod) -> None:
        """Stop a pod as soon as its node is up."""
        await self._world.clock.sleep(self._behavior_of(self._world, pod).stop_s)
        machine = self.machines.get(pod.spec.node_name)
        while machine is not None and not machine.is_up:
            await self._world.clock.sleep(_LOOK_S)
            if not self._is_current(pod):
                return
        await pod_lifecycle.remove(self._kubelet, pod)

    async def evict(self, pod: Pod) -> bool:
        """Evict a pod as a node under pressure does: it fails as disrupted, then is deleted."""
        disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            **self._dated(),
        }
        status: Body = {"phase": "Failed", "reason": "Evicted", "conditions": [disrupted]}
        patch = merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": status})
        try:
            await self._kubelet.patch(PODS.status, pod.metadata.key, patch)
            await self._kubelet.delete(PODS, pod.metadata.key, Deletion(uid=pod.metadata.uid))
        except ClusterError:
            return False
        return True

    def _is_current(self, pod: Pod) -> bool:
        return self._uid_at(pod.metadata.key) == pod.metadata.uid

    def _uid_at(self, key: Key) -> Uid | None:
        stored = self._world.storage.get(str(PODS), key)
        return stored.typed(Pod).metadata.uid if stored else None


def _allocatable(n_cpus: int, n_pods: int) -> Body:
    return {"cpu": str(n_cpus), "memory": "64Gi", "pods": str(n_pods)}


def _avoided(pod: Pod) -> Sequence[str]:
    """Returns the nodes that the affinity of a pod excludes."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return [
        name
        for term in (required.node_selector_terms if required else ())
        for field_ in term.match_fields
        if field_.operator == "NotIn"
        for name in field_.values
    ]
