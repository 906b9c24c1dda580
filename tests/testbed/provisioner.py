"""A provisioner of volumes for real nodes: folders of this machine that stand for disks of a node.

It does what external provisioners do for classes that wait for their first consumer, and nothing
about volumes made by hand. Parameters of a StorageClass order faults: `failOn` and `hangOn` name
nodes where provisioning fails or never ends, `delay` seconds that it takes, and `anywhere: "true"`
makes volumes that every node reaches.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.core import EventSeverity
from swell.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from swell.api.meta import Body, Uid
from swell.api.storage import (
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from swell.runtime.cluster import Cluster
from swell.runtime.errors import AlreadyExistsError, ClusterError
from swell.runtime.executor import EventSink, Executor
from swell.runtime.plan import EmitEvent, Plan, patch_object
from tests.storage_objects import HOST, PROVISIONER

_PACE_S = 0.2


@dataclass(slots=True)
class DiskProvisioner:
    """Looks at all claims and volumes again and again. Disks are folders below `root`/NODE."""

    cluster: Cluster
    root: Path
    events: EventSink
    _seen_at: dict[Uid, float] = field(default_factory=dict)

    def disk(self, node: str, claim_uid: Uid) -> Path:
        return self.root / (node or "anywhere") / f"pvc-{claim_uid}"

    async def run(self) -> None:
        while True:
            with suppress(ClusterError):  # it has changed meanwhile: the next look sees it
                await self.step()
            await asyncio.sleep(_PACE_S)

    async def step(self) -> None:
        classes = {
            one.metadata.name: one for one in (await self.cluster.list(STORAGE_CLASSES)).items
        }
        for claim in (await self.cluster.list(PERSISTENT_VOLUME_CLAIMS)).items:
            of_class = classes.get(claim.spec.storage_class_name or "")
            if of_class is not None and _is_asked_for(claim):
                await self._provision(claim, of_class)
        for volume in (await self.cluster.list(PERSISTENT_VOLUMES)).items:
            if volume.status.phase == "Released" and _is_ours(volume):
                await self._delete(volume)

    async def _provision(self, claim: PersistentVolumeClaim, of_class: StorageClass) -> None:
        meta, orders = claim.metadata, of_class.parameters
        node = meta.annotations[SELECTED_NODE]
        now = asyncio.get_running_loop().time()
        delay_s = float(orders.get("delay", "0s").removesuffix("s"))
        if node in orders.get("hangOn", "").split(","):
            return
        if now < self._seen_at.setdefault(meta.uid, now) + delay_s:
            return
        if node in orders.get("failOn", "").split(","):
            text = f"no disk can be made on {node}"
            warning = EventSeverity.WARNING
            key = meta.key
            self.events.record(
                EmitEvent(
                    PERSISTENT_VOLUME_CLAIMS, key, meta.uid, warning, "ProvisioningFailed", text
                )
            )
            body: Body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            change = patch_object(
                PERSISTENT_VOLUME_CLAIMS, key, meta.uid, body, version=meta.resource_version
            )
            await Executor(self.cluster).execute(Plan((change,)))
            return
        where = "" if orders.get("anywhere") == "true" else node
        disk = self.disk(where, meta.uid)
        disk.mkdir(parents=True, exist_ok=True)
        with suppress(AlreadyExistsError):
            await self.cluster.create(PERSISTENT_VOLUMES.untyped(), volume_for(claim, disk, where))

    async def _delete(self, volume: PersistentVolume) -> None:
        path = volume.spec.host_path.path if volume.spec.host_path is not None else ""
        if path and Path(path).is_relative_to(self.root):
            shutil.rmtree(path, ignore_errors=True)
        await self.cluster.delete(PERSISTENT_VOLUMES, volume.metadata.key)


def volume_for(claim: PersistentVolumeClaim, disk: Path, node: str) -> Body:
    """The volume of a claim, which only one node reaches if that is named."""
    meta, spec = claim.metadata, claim.spec
    made: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta.uid}", "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": str(spec.resources.requests["storage"])},
            "accessModes": list(spec.access_modes),
            "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": str(disk)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
        },
    }
    if node:
        term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
        made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return made


def _is_asked_for(claim: PersistentVolumeClaim) -> bool:
    notes = claim.metadata.annotations
    return (
        not claim.spec.volume_name
        and notes.get(STORAGE_PROVISIONER) == PROVISIONER
        and bool(notes.get(SELECTED_NODE))
    )


def _is_ours(volume: PersistentVolume) -> bool:
    return volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
