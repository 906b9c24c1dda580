"""The index labels by which pods of a role are told apart.

A trainer has the index its Job gave it. Pservers are numbered here: an index belongs to one pod
until that pod is gone or finished, and then to the one that has waited longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.operator.trainingjob.labels import Role, index_label
from swell.operator.trainingjob.world import (
    World,
    completion_index,
    is_finished,
    is_leaving,
)
from swell.runtime.plan import PatchObject, Step, Together, patch_object

_DIGITS_MAX = 9


def trace_labels_of_pods(world: World) -> list[Step]:
    """Give every pod the index it should show. Indexes are taken away before they are given on."""
    job = world.job.metadata.name
    changes = [
        (pod, index_label(job, Role.TRAINER), index)
        for pod, index in _trainer_indexes(world.trainers, index_label(job, Role.TRAINER))
    ]
    if world.indexes_pservers and world.pserver is not None:
        label = index_label(job, Role.PSERVER)
        changes += [
            (pod, label, index)
            for pod, index in free_indexes(world.pservers, label, world.pserver.spec.replicas)
        ]
    taken = [_labelled(pod, label, None) for pod, label, index in changes if index is None]
    given = [_labelled(pod, label, index) for pod, label, index in changes if index is not None]
    return [Together(tuple(some)) for some in (taken, given) if some]


def free_indexes(pods: Iterable[Pod], label: str, count: int) -> list[tuple[Pod, int | None]]:
    """What has to change so that indexes below `count` are unique, and none is free while a pod
    waits for one. None takes a label away."""
    ordered = sorted(pods, key=_seniority)
    held = _holders(ordered, label, count)
    free = iter([index for index in range(count) if index not in held])
    changes: list[tuple[Pod, int | None]] = []
    for pod in ordered:
        if held.get(_shown(pod, label)) is pod:
            continue
        can_have = not is_finished(pod) and not is_leaving(pod.metadata)
        index = next(free, None) if can_have else None
        if index is not None or label in pod.metadata.labels:
            changes.append((pod, index))
    return changes


def _holders(ordered: Iterable[Pod], label: str, count: int) -> Mapping[int, Pod]:
    """Who has which index by right: the eldest of those that show it and are not finished."""
    held: dict[int, Pod] = {}
    for pod in ordered:
        index = _shown(pod, label)
        if 0 <= index < count and not is_finished(pod):
            held.setdefault(index, pod)
    return held


def _trainer_indexes(pods: Iterable[Pod], label: str) -> list[tuple[Pod, int | None]]:
    """The trainers at work that do not show their index yet."""
    return [
        (pod, index)
        for pod in sorted(pods, key=_seniority)
        if (index := completion_index(pod)) is not None
        and index != _shown(pod, label)
        and not is_finished(pod)
        and not is_leaving(pod.metadata)
    ]


def _shown(pod: Pod, label: str) -> int:
    text = pod.metadata.labels.get(label, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if is_number and str(int(text)) == text else -1


def _seniority(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def _labelled(pod: Pod, label: str, index: int | None) -> PatchObject:
    """The version keeps a patch that arrives late from giving away an index a second time."""
    meta = pod.metadata
    body: Body = {"metadata": {"labels": {label: None if index is None else str(index)}}}
    return patch_object(PODS, meta.key, meta.uid, body, version=meta.resource_version)
