"""The members ConfigMap of a job: the hosts of each role, and the epoch of this membership.

Environment variables cannot change in a running pod; a mounted ConfigMap can. The epoch is part of
the job's status and grows with every restart and resize; the ConfigMap follows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus, RestartsRecord
from swell.api.codec import decode, encode_stable
from swell.api.core import ConfigMap
from swell.api.injection import INSTANCES_FILE
from swell.api.meta import Body
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.environment import our_ports
from swell.operator.aitrainingjob.instances import FIRST, Instances, instances_text
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, is_number
from swell.operator.framework.recovery import sound_counts

EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class Members:
    """The content of a members ConfigMap."""

    epoch: int
    sizes: dict[str, int]
    restarts: RestartsRecord


def read_members(held: ConfigMap | None, snapshot: AITrainingJobSnapshot) -> Members | None:
    """The membership that pods can read now; None when there is none, or none that is valid."""
    epoch = held.data.get(EPOCH, "") if held else ""
    if held is None or not is_number(epoch):
        return None
    sizes = {role: len(_hosts_in(held.data.get(role, ""))) for role in snapshot.roles}
    return Members(int(epoch), sizes, _read_restarts(held))


def with_epoch(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, members: Members | None
) -> AITrainingJobStatus:
    """The status with a new epoch if the sizes are no longer those of the members ConfigMap.

    If the ConfigMap was deleted while there are pods, it is unknown what they have read: that is a
    new epoch as well. Once the API server has refused a write, the epoch does not grow again: it
    would in every pass if the ConfigMap could not be created.
    """
    if members is None:
        is_new = bool(snapshot.replicas) and not snapshot.refused
    else:
        # If the epochs differ, the status has a new one already, and the ConfigMap follows.
        sizes = {role: status.target_replicas.get(role, 0) for role in snapshot.roles}
        is_new = members.epoch == status.epoch and members.sizes != sizes
    return replace(status, epoch=status.epoch + 1) if is_new else status


def members_data(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, numbers: Instances | None
) -> dict[str, str]:
    """The ConfigMap's data: for each role one `host[:port]` a line, the epoch, the instances."""
    data = {
        role: "".join(f"{host}\n" for host in _hosts(snapshot, role, target))
        for role, target in sorted(status.target_replicas.items())
        if role in snapshot.roles
    }
    if numbers is not None:
        data[INSTANCES_FILE] = instances_text(numbers)
    return {**data, EPOCH: str(status.epoch)}


def members_notes(status: AITrainingJobStatus, numbers: Instances | None) -> dict[str, str]:
    """The ConfigMap's annotations, which keep what its data does not tell."""
    notes = {labels.RESTARTS: _restarts_record(status)}
    return {**notes, FIRST: str(numbers.first)} if numbers and numbers.first else notes


def _restarts_record(status: AITrainingJobStatus) -> str:
    record = RestartsRecord(
        status.restart_counts, status.uncharged, status.restart, status.creation_restarts
    )
    return encode_stable(record).decode()


def _read_restarts(held: ConfigMap) -> RestartsRecord:
    """The record in the annotation; an empty one if it is missing or cannot be read."""
    text = held.metadata.annotations.get(labels.RESTARTS, "{}")
    try:
        found = decode(text.encode(), RestartsRecord)
    except msgspec.DecodeError:
        return RestartsRecord()
    return replace(
        found,
        restart_counts=sound_counts(found.restart_counts),
        uncharged=sound_counts(found.uncharged),
        creation_restarts=sound_counts(found.creation_restarts),
    )


def members_body(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    numbers: Instances | None,
    owner: Body,
) -> Body:
    meta = snapshot.job.metadata
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": labels.members_name(meta.name),
            "namespace": meta.namespace,
            "labels": labels.of_job(meta.name),
            "annotations": members_notes(status, numbers),
            "ownerReferences": [owner],
        },
        "data": members_data(snapshot, status, numbers),
    }


def _hosts(snapshot: AITrainingJobSnapshot, role: str, target: int) -> list[str]:
    meta = snapshot.job.metadata
    ports = our_ports(snapshot.roles[role].template)
    tail = f":{ports[0]}" if ports else ""
    names = (labels.pod_name(meta.name, role, index) for index in range(target))
    return [f"{name}.{meta.namespace}{tail}" for name in names]


def _hosts_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
