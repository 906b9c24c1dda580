"""Ungrouped pods: each pod of ours that names no group is a gang of one in a virtual PodGroup.

The group exists in the snapshot only: none is written, and the pod is not annotated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from swell.api.meta import ObjectMeta
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, PodGroupSpec
from swell.scheduler.model.native_groups import native_group_of
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION

# No object of the API can have a slash in its name, so a virtual group collides with no real one.
VIRTUAL_PREFIX: Final = "pod/"


def is_ungrouped(pod: Pod, scheduler_names: Collection[str]) -> bool:
    is_ours = pod.spec.scheduler_name in scheduler_names
    is_grouped = pod.metadata.annotations.get(GROUP_ANNOTATION) or native_group_of(pod)
    return is_ours and not is_grouped


def virtual_group_name(pod: Pod) -> str:
    """Returns the name of the group that stands for the pod."""
    return VIRTUAL_PREFIX + pod.metadata.name


def virtual_group(pod: Pod, queue: str) -> PodGroup:
    meta = pod.metadata
    return PodGroup(
        metadata=ObjectMeta(
            name=virtual_group_name(pod),
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
        ),
        spec=PodGroupSpec(
            min_member=1, queue=queue, priority_class_name=pod.spec.priority_class_name
        ),
    )


def with_virtual_groups(
    pods: Iterable[Pod], scheduler_names: Collection[str], queue: str
) -> tuple[list[Pod], list[PodGroup]]:
    """Returns all pods, the ungrouped ones annotated with a virtual group; and those groups."""
    named: list[Pod] = []
    groups: list[PodGroup] = []
    for pod in pods:
        if not is_ungrouped(pod, scheduler_names):
            named.append(pod)
            continue
        groups.append(virtual_group(pod, queue))
        annotations = {**pod.metadata.annotations, GROUP_ANNOTATION: virtual_group_name(pod)}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        named.append(msgspec.structs.replace(pod, metadata=metadata))
    return named, groups
