"""The storage objects of a cluster: claims, volumes, classes, drivers, capacities, attachments.

`version` changes with every object, so that readers can tell whether what they remember is right.
"""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from swell.scheduler.model.volumes.claims import class_name, is_bound, selected_node


class StorageObjects:
    """Every storage object by its key, with indexes by class, driver, node and claim."""

    def __init__(self) -> None:
        # Off where nothing is known of storage, as in a plan from files without any such object.
        self.are_known = True
        self.are_claims_served = True
        self.version = 0
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_drivers: dict[str, CsiDriver] = {}
        # Claims that are to be provisioned on a node, with its name.
        self.pinned: dict[str, str] = {}
        self._limits: dict[str, dict[str, int]] = {}  # CSI driver -> node -> volumes
        self._csi_nodes: dict[str, CsiNode] = {}
        self._capacities: dict[str, CsiStorageCapacity] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._attached: dict[str, dict[str, str]] = {}  # node -> attachment -> volume
        self._volumes_of: dict[str, dict[str, None]] = {}  # class -> volumes
        self._capacities_of: dict[str, dict[str, None]] = {}  # class -> capacities

    # --- objects in and out

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        key = str(claim.metadata.key)
        self.claims[key] = claim
        self.version += 1
        node = selected_node(claim)
        if node and not is_bound(claim):
            self.pinned[key] = node
        else:
            self.pinned.pop(key, None)

    def remove_claim(self, key: str) -> None:
        self.claims.pop(key, None)
        self.pinned.pop(key, None)
        self.version += 1

    def put_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        self.remove_volume(name)
        self.volumes[name] = volume
        self._volumes_of.setdefault(class_name(volume), {})[name] = None

    def remove_volume(self, name: str) -> None:
        old = self.volumes.pop(name, None)
        if old is not None:
            _drop(self._volumes_of, class_name(old), name)
        self.version += 1

    def put_class(self, storage_class: StorageClass) -> None:
        self.classes[storage_class.metadata.name] = storage_class
        self.version += 1

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self.version += 1

    def put_csi_node(self, csi_node: CsiNode) -> None:
        node = csi_node.metadata.name
        self.remove_csi_node(node)
        self._csi_nodes[node] = csi_node
        for driver in csi_node.spec.drivers or ():
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self._limits.setdefault(driver.name, {})[node] = driver.allocatable.count

    def remove_csi_node(self, name: str) -> None:
        old = self._csi_nodes.pop(name, None)
        for driver in (old.spec.drivers or ()) if old is not None else ():
            limits = self._limits.get(driver.name, {})
            limits.pop(name, None)
            if not limits:
                self._limits.pop(driver.name, None)
        self.version += 1

    def put_csi_driver(self, driver: CsiDriver) -> None:
        self.csi_drivers[driver.metadata.name] = driver
        self.version += 1

    def remove_csi_driver(self, name: str) -> None:
        self.csi_drivers.pop(name, None)
        self.version += 1

    def put_capacity(self, capacity: CsiStorageCapacity) -> None:
        key = str(capacity.metadata.key)
        self.remove_capacity(key)
        self._capacities[key] = capacity
        self._capacities_of.setdefault(capacity.storage_class_name, {})[key] = None

    def remove_capacity(self, key: str) -> None:
        old = self._capacities.pop(key, None)
        if old is not None:
            _drop(self._capacities_of, old.storage_class_name, key)
        self.version += 1

    def put_attachment(self, attachment: VolumeAttachment) -> None:
        name, spec = attachment.metadata.name, attachment.spec
        self.remove_attachment(name)
        self._attachments[name] = attachment
        if spec.source.persistent_volume_name:
            on_node = self._attached.setdefault(spec.node_name, {})
            on_node[name] = spec.source.persistent_volume_name

    def remove_attachment(self, name: str) -> None:
        old = self._attachments.pop(name, None)
        if old is not None:
            on_node = self._attached.get(old.spec.node_name, {})
            on_node.pop(name, None)
            if not on_node:
                self._attached.pop(old.spec.node_name, None)
        self.version += 1

    # --- questions

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a claim nor a volume nor a class."""
        return not (self.claims or self.volumes or self.classes)

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self.classes.get(class_name(claim))

    def volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Returns the volume of a bound claim, unless it is gone."""
        return self.volumes.get(claim.spec.volume_name)

    def volumes_of(self, name: str) -> Iterable[PersistentVolume]:
        """Returns the volumes of a class."""
        return (self.volumes[volume] for volume in self._volumes_of.get(name, ()))

    def capacities_of(self, name: str) -> Iterable[CsiStorageCapacity]:
        """Returns what is known of the storage left for a class."""
        return (self._capacities[key] for key in self._capacities_of.get(name, ()))

    def limits_of(self, driver: str) -> dict[str, int]:
        """Returns how many volumes of a CSI driver the nodes take; others take any number."""
        return self._limits.get(driver, {})

    def attached_to(self, node: str) -> Iterable[str]:
        """Returns the names of volumes that are attached to a node by a VolumeAttachment."""
        return self._attached.get(node, {}).values()


def _drop(index: dict[str, dict[str, None]], value: str, key: str) -> None:
    entries = index.get(value, {})
    entries.pop(key, None)
    if not entries:
        index.pop(value, None)
