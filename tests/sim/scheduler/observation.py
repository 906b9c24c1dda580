"""Reads gangs, nodes and queues of the simulated world, and what a scheduler knew as it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swell.api.core import Node
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    NATIVE_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
)
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.requests import pod_requests
from swell.api.scheduling import PodGroup
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.model.native_groups import NATIVE_PREFIX, native_job_name, translated
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.sim.observation import ENDED, NAMESPACE, all_of, one_of, owner_of, pods_in
from tests.sim.operator.observation import replica_of

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

SCHEDULER = "scheduler"
BINDING = f"create {PODS}/binding"
DELETION = f"delete {PODS}"


def group_key(pod: Pod) -> str:
    """Which group a pod is in, empty if none or not ours; one of Kubernetes has a prefix."""
    name = pod.metadata.annotations.get(GROUP_ANNOTATION, "")
    if not name and pod.spec.scheduling_group is not None:
        name = native_job_name(pod.spec.scheduling_group.pod_group_name)
    return f"{pod.metadata.namespace}/{name}" if name and is_ours(pod) else ""


def key_of(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)


def is_ours(pod: Pod) -> bool:
    return pod.spec.scheduler_name == "swell"


def members(world: SimulatedWorld, key: str) -> list[Pod]:
    return [pod for pod in pods_in(world) if group_key(pod) == key]


def is_native(key: str) -> bool:
    return key.partition("/")[2].startswith(NATIVE_PREFIX)


def group_at(world: SimulatedWorld, key: str) -> PodGroup | None:
    """The group with this key, one of Kubernetes in the terms of the others."""
    name = key.partition("/")[2]
    if not is_native(key):
        return one_of(world, POD_GROUPS, name)
    own = name.removeprefix(NATIVE_PREFIX)
    found = one_of(world, NATIVE_GROUPS, own)
    return None if found is None else translated(Key(NAMESPACE, own), found, "default")


def all_groups(world: SimulatedWorld) -> list[PodGroup]:
    return [
        *all_of(world, POD_GROUPS),
        *(translated(g.metadata.key, g, "default") for g in all_of(world, NATIVE_GROUPS)),
    ]


def cpu_of(pod: Pod) -> int:
    return int(pod_requests(pod.spec)["cpu"].value())


def is_live(pod: Pod) -> bool:
    return pod.status.phase not in ENDED


def is_bound(pod: Pod) -> bool:
    """Holds a node and is to keep it."""
    return bool(pod.spec.node_name) and not pod.metadata.deletion_timestamp


def mark_of(pod: Pod) -> str:
    """What a scheduler wrote on a pod that it makes leave; empty where it did not."""
    return next(
        (
            f"{c.reason}: {c.message}"
            for c in pod.status.conditions
            if c.type == "DisruptionTarget" and c.status == "True"
        ),
        "",
    )


def is_surplus(world: SimulatedWorld, pod: Pod) -> bool:
    """Whether its training job has no place for it any more."""
    role, index = replica_of(pod)
    owner = owner_of(pod)
    for job in all_of(world, AI_TRAINING_JOBS):
        if job.metadata.uid == owner:
            return index >= job.status.target_replicas.get(role, 0)
    return False


def priority_of(world: SimulatedWorld, group: PodGroup) -> int:
    found = one_of(world, PRIORITY_CLASSES, group.spec.priority_class_name)
    return found.value if found else 0


def nodes_in(world: SimulatedWorld) -> dict[str, Node]:
    return {node.metadata.name: node for node in all_of(world, NODES)}


def cpus_of(node: Node) -> int:
    return int(node.status.allocatable["cpu"])


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


@dataclass(frozen=True, slots=True)
class Sent:
    """What a scheduler knew when it sent a binding."""

    uid: Uid
    node: str
    n_cpus: int
    version: int


def schedulers(world: SimulatedWorld) -> Iterator[Scheduler]:
    """Those that are alive and have been put together."""
    for process in world.processes:
        found = process.exposed.get(SCHEDULER)
        if isinstance(found, Scheduler):
            yield found


def scheduler_of(world: SimulatedWorld, actor: str) -> Scheduler | None:
    process = next((one for one in world.processes if one.name == actor), None)
    found = process.exposed.get(SCHEDULER) if process else None
    return found if isinstance(found, Scheduler) else None


def pod_key(site: str) -> Key:
    """Which pod a call was about."""
    return Key(NAMESPACE, site.rpartition("/")[2])
