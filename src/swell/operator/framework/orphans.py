"""What may be left behind by jobs that are gone, and pods whose node will never report their end.

Pure. What counts as an orphan is each kind of job's own affair: `lifecycle.garbage` and
`trainingjob.updater.orphans` say.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from swell.api.kinds import PODS
from swell.api.meta import ObjectMeta, OwnerReference, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.times import parse_time
from swell.operator.framework.fencing import NodeState, is_fenced
from swell.runtime.plan import DeleteObject


@dataclass(frozen=True, slots=True)
class Labelled:
    """An object that carries a label of ours."""

    resource: Resource[object]
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class Litter:
    """Where to look for what one kind of job has left behind.

    `orphans` is given what was found, and the UIDs of the jobs there are, read after it: then an
    object whose job is not among them has outlived it, and is not merely newer than the list.
    """

    jobs: Resource[object]
    kinds: tuple[Resource[object], ...]  # read in this order: what owns others comes after them
    label: str
    orphans: Callable[[Sequence[Labelled], Container[Uid]], Sequence[DeleteObject]]
    pod_owners: tuple[Resource[object], ...]

    def is_ours(self, pod: Pod) -> bool:
        """Of pods with the label, those that something of ours made."""
        owner = pod.metadata.controller
        return owner is not None and any(is_kind(owner, kind) for kind in self.pod_owners)


def stuck_pods(
    pods: Iterable[Pod], states: Mapping[str, NodeState], fence_after_s: float, now: float
) -> list[DeleteObject]:
    """Drop the records of pods that should be gone, on nodes that certainly do not run them."""
    return [
        DeleteObject(PODS, pod.metadata.key, pod.metadata.uid, grace_s=0)
        for pod in pods
        if pod.metadata.deletion_timestamp is not None
        and now > parse_time(pod.metadata.deletion_timestamp) + fence_after_s
        and is_fenced(pod, states, fence_after_s, now)
    ]


def is_kind(owner: OwnerReference, resource: Resource[object]) -> bool:
    """Whether an owner is of a kind, in whatever version it was written down."""
    group = owner.api_version.partition("/")[0]
    return owner.kind == resource.kind and group == resource.group
