"""What jobs that are gone have left behind, and pods whose node will never report their end.

By UID alone: a namesake of a job that is gone owns none of this.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from swell.api.aitrainingjob import AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.times import parse_time
from swell.operator import labels
from swell.operator.lifecycle import nodes
from swell.operator.lifecycle.world import NodeState, Replica, World
from swell.operator.settings import Settings
from swell.runtime.plan import Action, DeleteObject


@dataclass(frozen=True, slots=True)
class Labelled:
    """An object that carries our label."""

    resource: Resource[object]
    metadata: ObjectMeta


def orphans(found: Iterable[Labelled], jobs: Container[Uid]) -> list[Action]:
    """Delete what belongs to a job that does not exist.

    `jobs` must have been read after `found`: then an object whose job is not among them has
    outlived it, and is not merely newer than the list.
    """
    return [
        DeleteObject(one.resource, one.metadata.key, one.metadata.uid)
        for one in found
        if _is_ours(one.metadata)
        and one.metadata.deletion_timestamp is None
        and one.metadata.controller is not None
        and one.metadata.controller.uid not in jobs
    ]


def stuck_pods(
    pods: Iterable[Pod], states: Mapping[str, NodeState], settings: Settings, now: float
) -> list[Action]:
    """Drop the records of pods that should be gone, on nodes that certainly do not run them."""
    world = World(job=AITrainingJob(), nodes=states, settings=settings)
    return [
        DeleteObject(PODS, pod.metadata.key, pod.metadata.uid, grace_s=0)
        for pod in pods
        if _is_ours(pod.metadata)
        and pod.metadata.deletion_timestamp is not None
        and now > parse_time(pod.metadata.deletion_timestamp) + settings.node_fence_after_s
        and nodes.is_fenced(Replica(pod, "", 0, 0), world, now)
    ]


def _is_ours(meta: ObjectMeta) -> bool:
    owner = meta.controller
    return (
        meta.labels.get(labels.GROUP_NAME) == labels.GROUP_VALUE
        and owner is not None
        and owner.kind == AI_TRAINING_JOBS.kind
        and owner.api_version.partition("/")[0] == AI_TRAINING_JOBS.group
    )
