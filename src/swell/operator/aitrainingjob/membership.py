"""Who belongs to a job, as its pods are told: a ConfigMap of hosts by role, and an epoch.

Environment variables cannot change in a running pod; a mounted ConfigMap can. The epoch is part of
the job's status and grows with every restart and resize; the ConfigMap follows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.core import ConfigMap
from swell.api.meta import Body
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.ports import our_ports
from swell.operator.aitrainingjob.world import World

EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class Members:
    """What a members ConfigMap says."""

    epoch: int
    sizes: dict[str, int]


def read_members(held: ConfigMap | None, world: World) -> Members | None:
    """The membership pods have been told of; None when there is none that makes sense."""
    epoch = held.data.get(EPOCH, "") if held else ""
    if held is None or not epoch.isdecimal():
        return None
    sizes = {role: len(_hosts_in(held.data.get(role, ""))) for role in world.roles}
    return Members(int(epoch), sizes)


def with_epoch(
    world: World, status: AITrainingJobStatus, members: Members | None
) -> AITrainingJobStatus:
    """The status with a new epoch if the sizes are no longer those pods have been told of.

    If somebody took the record away while there are pods, nobody knows what they have been told:
    that is a new epoch as well, but only once, should the record be impossible to create.
    """
    if members is None:
        is_new = bool(world.replicas) and world.refused is None
    else:
        sizes = {role: status.target_replicas.get(role, 0) for role in world.roles}
        is_new = members.epoch == status.epoch and members.sizes != sizes
    return replace(status, epoch=status.epoch + 1) if is_new else status


def members_data(world: World, status: AITrainingJobStatus) -> dict[str, str]:
    """The ConfigMap's content: one `host[:port]` a line for each role."""
    data = {
        role: "".join(f"{host}\n" for host in _hosts(world, role, target))
        for role, target in sorted(status.target_replicas.items())
        if role in world.roles
    }
    return {**data, EPOCH: str(status.epoch)}


def members_body(world: World, status: AITrainingJobStatus, owner: Body) -> Body:
    meta = world.job.metadata
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": labels.members_name(meta.name),
            "namespace": meta.namespace,
            "labels": {
                labels.GROUP_NAME: labels.GROUP_VALUE,
                labels.TRAINING_JOB_NAME: meta.name,
                labels.JOB_NAME: meta.name,
            },
            "ownerReferences": [owner],
        },
        "data": members_data(world, status),
    }


def _hosts(world: World, role: str, target: int) -> list[str]:
    meta = world.job.metadata
    ports = our_ports(world.roles[role].template)
    tail = f":{ports[0]}" if ports else ""
    names = (labels.pod_name(meta.name, role, index) for index in range(target))
    return [f"{name}.{meta.namespace}{tail}" for name in names]


def _hosts_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
