"""Decides when a PodGroup that is being deleted may go: when all pods that name it have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from swell.api.kinds import NATIVE_GROUPS
from swell.api.meta import Key, ObjectMeta
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.cluster.embedded.builtin.podgroups import PROTECTION
from swell.cluster.embedded.controllers.pods import is_finished
from swell.runtime.cache import CacheIndex
from swell.runtime.informer import Informer
from swell.runtime.plan import Plan, patch_object


def _group_of(_: ObjectMeta, pod: object) -> tuple[Key, ...]:
    if not isinstance(pod, Pod) or pod.spec.scheduling_group is None:
        return ()
    return (Key(pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name),)


BY_POD_GROUP: Final[CacheIndex[object]] = CacheIndex("podgroup", _group_of)


@dataclass(frozen=True, slots=True)
class PodGroupSnapshot:
    """A group and the pods that name it."""

    group: NativeGroup
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class PodGroupSnapshots:
    """Takes snapshots from the caches."""

    groups: Informer[NativeGroup]
    pods: Informer[Pod]

    def snapshot(self, key: Key) -> PodGroupSnapshot | None:
        group = self.groups.get(key)
        if group is None:
            return None
        return PodGroupSnapshot(group, self.pods.by_index(BY_POD_GROUP.name, key))


def decide_pod_group(snapshot: PodGroupSnapshot, now: float) -> Plan:
    """Plan the removal of the protection."""
    del now
    meta = snapshot.group.metadata
    if meta.deletion_timestamp is None or PROTECTION not in meta.finalizers:
        return Plan()
    if not all(map(is_finished, snapshot.pods)):
        return Plan()
    left = [one for one in meta.finalizers if one != PROTECTION]
    body = {"metadata": {"finalizers": left}}
    version = meta.resource_version
    return Plan((patch_object(NATIVE_GROUPS, meta.key, meta.uid, body, version=version),))
