"""Whether the volume claims of a pod are bound. Which nodes reach them is left to Kubernetes.

A claim that waits for its first consumer is bound once the pod has a node, so it is no obstacle.
Nor is a claim that the cache has not seen.
"""

from __future__ import annotations

from typing import Final

from swell.api.storage import PersistentVolumeClaim, StorageClass
from swell.scheduler.model.tasks import Task

_BOUND_WITH_POD: Final = "WaitForFirstConsumer"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


class Volumes:
    """The claims and storage classes of a cluster."""

    def __init__(self) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}

    def are_ready_for(self, task: Task) -> bool:
        namespace = task.pod.metadata.namespace
        return all(
            self._is_ready(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
            for volume in task.pod.spec.volumes
            if volume.persistent_volume_claim is not None
        )

    def _is_ready(self, key: str) -> bool:
        claim = self.claims.get(key)
        # An unknown claim is no obstacle: the cache may not follow claims, or not have seen it yet.
        if claim is None or claim.status.phase == "Bound":
            return True
        storage_class = self._class_of(claim)
        return storage_class is not None and storage_class.volume_binding_mode == _BOUND_WITH_POD

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        if claim.spec.storage_class_name is not None:
            return self.classes.get(claim.spec.storage_class_name)
        defaults = (
            c for c in self.classes.values() if c.metadata.annotations.get(_DEFAULT_CLASS) == "true"
        )
        return next(defaults, None)
