"""Takes snapshots of claims and volumes, and removes the folders of volumes that are gone.

A claim that a volume names is read from the store: a cache that lags would call it gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swell.api import codec
from swell.api.core import Node
from swell.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from swell.api.meta import Key, ObjectMeta
from swell.api.pod import Pod
from swell.api.storage import (
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.controllers.volumes import (
    ClaimSnapshot,
    VolumeSnapshot,
    keeps_claims,
)
from swell.cluster.trees import discard_tree
from swell.runtime.cache import CacheIndex
from swell.runtime.informer import Informer

_VOLUMES: Final = str(PERSISTENT_VOLUMES)
_CLAIMS: Final = str(PERSISTENT_VOLUME_CLAIMS)
_PREFIX: Final = "pvc-"  # of the names of provisioned volumes, and so of their folders


def _claims_of(_: ObjectMeta, pod: object) -> Iterator[Key]:
    if not isinstance(pod, Pod):
        return
    meta = pod.metadata
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield Key(meta.namespace, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            yield Key(meta.namespace, f"{meta.name}-{volume.name}")


def _claim_of(_: ObjectMeta, volume: object) -> Iterator[Key]:
    if isinstance(volume, PersistentVolume) and volume.spec.claim_ref is not None:
        yield Key(volume.spec.claim_ref.namespace, volume.spec.claim_ref.name)


def _class_of(_: ObjectMeta, volume: object) -> Iterator[str]:
    if isinstance(volume, PersistentVolume):
        yield volume.spec.storage_class_name


PODS_BY_CLAIM: Final[CacheIndex[object]] = CacheIndex("claims", _claims_of)
VOLUMES_BY_CLAIM: Final[CacheIndex[object]] = CacheIndex("claim", _claim_of)
VOLUMES_BY_CLASS: Final[CacheIndex[object]] = CacheIndex("class", _class_of)


@dataclass(frozen=True, slots=True)
class VolumeSnapshots:
    """Reads the caches and the store."""

    api: ApiServer
    claims: Informer[PersistentVolumeClaim]
    volumes: Informer[PersistentVolume]
    classes: Informer[StorageClass]
    pods: Informer[Pod]
    nodes: Informer[Node]
    folders: str

    def claim(self, key: Key) -> ClaimSnapshot | None:
        claim = self.claims.get(key)
        if claim is None:
            return None
        name = claim.spec.storage_class_name or ""
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        return ClaimSnapshot(
            claim,
            self.classes.get(Key("", name)),
            self._volume(claim.spec.volume_name) if claim.spec.volume_name else None,
            self.volumes.by_index(VOLUMES_BY_CLAIM.name, key),
            self.volumes.by_index(VOLUMES_BY_CLASS.name, name),
            self.nodes.get(Key("", node)) if node else None,
            any(map(keeps_claims, self.pods.by_index(PODS_BY_CLAIM.name, key))),
            self.folders,
        )

    def volume(self, key: Key) -> VolumeSnapshot | None:
        volume = self.volumes.get(key)
        if volume is None:
            return None
        reference, claim = volume.spec.claim_ref, None
        if reference is not None:
            stored = self.api.storage.get(_CLAIMS, Key(reference.namespace, reference.name))
            if stored is not None:
                claim = codec.convert(stored.copy(), PersistentVolumeClaim)
        return VolumeSnapshot(volume, claim)

    def _volume(self, name: str) -> PersistentVolume | None:
        stored = self.api.storage.get(_VOLUMES, Key("", name))
        return None if stored is None else codec.convert(stored.copy(), PersistentVolume)

    def wake_volumes(self, wake: Callable[[Key], object]) -> Callable[[Key], None]:
        """Returns a handler that wakes the volumes of the claim that it is given."""

        def handle(key: Key) -> None:
            for volume in self.volumes.by_index(VOLUMES_BY_CLAIM.name, key):
                wake(volume.metadata.key)

        return handle

    def wake_class(self, wake: Callable[[Key], object]) -> Callable[[Key], None]:
        """Returns a handler that wakes the claims that wait for a volume of a class."""

        def handle(_: Key) -> None:
            for claim in self.claims.all():
                if not claim.spec.volume_name:
                    wake(claim.metadata.key)

        return handle


class RemovedFolders:
    """Removes the folder of each provisioned volume that is gone. Run `run` as a service.

    A name is never used twice, since it has the UID of its claim.
    """

    def __init__(self, api: ApiServer, volumes: Informer[PersistentVolume], folders: Path) -> None:
        self._api = api
        self._folders = folders
        self._gone: dict[str, None] = {}
        self._wake = asyncio.Event()
        for place in sorted(folders.glob(f"{_PREFIX}*")) if folders.is_dir() else ():
            self._note(Key("", place.name))
        volumes.add_handler(self._note)

    async def run(self) -> None:
        """Remove folders for ever, in a thread: there may be millions of files in one."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._gone:
                name, _ = self._gone.popitem()
                await asyncio.to_thread(discard_tree, self._folders / name)

    def _note(self, key: Key) -> None:
        # Only names that a provisioned volume has: a volume made by hand keeps its folder. The
        # store is asked, since a cache may lag behind a volume that was just made.
        if key.name.startswith(_PREFIX) and self._api.storage.get(_VOLUMES, key) is None:
            self._gone[key.name] = None
            self._wake.set()
