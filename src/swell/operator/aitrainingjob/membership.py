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
from swell.api.injection import FORMER_FILE, INSTANCES_FILE, SUCCEEDED_FILE
from swell.api.meta import Body
from swell.api.pod import PodPhase
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.environment import our_ports
from swell.operator.aitrainingjob.instances import FIRST, Instances, instances_text
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, current, is_number
from swell.operator.framework.recovery import sound_counts
from swell.operator.framework.training import INSTANCE

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
    """The ConfigMap's data: for each role one `host[:port]` a line, the epoch, the instances.

    Programs that train together read as well which pods may live that are not listed, and which
    have ended with success.
    """
    data = {
        role: "".join(f"{host}\n" for host in _hosts(snapshot, role, target))
        for role, target in sorted(status.target_replicas.items())
        if role in snapshot.roles
    }
    if numbers is not None:
        data[INSTANCES_FILE] = instances_text(numbers)
        data[FORMER_FILE] = _former_text(snapshot, status)
        data[SUCCEEDED_FILE] = _succeeded_text(snapshot, status)
    return {**data, EPOCH: str(status.epoch)}


def _former_text(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> str:
    """The pods beyond each role's size that may still live.

    A new process must not begin anew beside one of them that holds the state. They are named by
    address: their services are deleted before them.
    """
    lines: dict[str, list[str]] = {role: [role] for role in snapshot.roles}
    for one in snapshot.replicas:
        is_given_up = one.index >= status.target_replicas.get(one.role, 0)
        if is_given_up and one.is_bound and not one.is_finished:
            host = one.pod.status.pod_ip or f"{one.name}.{snapshot.job.metadata.namespace}"
            lines[one.role].append(f"{one.index}={host}")
    return "".join(f"{' '.join(line)}\n" for line in lines.values())


def _succeeded_text(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> str:
    """The first pods of each role that ended with success, while others of it run.

    One that was cut off from them learns by it that there is nothing left to train. The first are
    enough for that: a line that is there is kept, so that the end of a large role costs one write.
    """
    held = snapshot.members.data.get(SUCCEEDED_FILE, "") if snapshot.members else ""
    lines = {line.split(" ")[0]: line for line in held.splitlines() if " " in line}
    for role in snapshot.roles:
        pods = [one for one in current(snapshot, status) if one.role == role]
        done = [one for one in pods if one.phase is PodPhase.SUCCEEDED]
        if not done or len(done) == len(pods):
            lines.pop(role, None)
        elif role not in lines:
            numbers = ((one.index, one.pod.metadata.annotations.get(INSTANCE, "")) for one in done)
            pairs = [f"{index}={own}" for index, own in numbers if is_number(own)]
            lines[role] = " ".join([role, *pairs])
    return "".join(f"{lines[role]}\n" for role in sorted(lines) if role in snapshot.roles)


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
