"""The volume controller and a provisioner for tests in virtual time, with faults to order.

They decide as those of the embedded cluster do, over all objects at a pace that the test gives.
Parameters of a StorageClass order faults: `failOn` and `hangOn` name nodes where provisioning
fails or never ends, `anywhere: "true"` makes volumes that every node reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.core import Node
from swell.api.kinds import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from swell.api.meta import Key
from swell.api.storage import (
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from swell.cluster.embedded.controllers.volumes import (
    PROVISIONER,
    ClaimSnapshot,
    VolumeSnapshot,
    decide_claim,
    decide_volume,
    keeps_claims,
)
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.executor import Executor
from swell.runtime.plan import CreateObject, Plan, patch_object


@dataclass(slots=True)
class VolumeActor:
    """Steps through all claims and volumes again and again."""

    cluster: Cluster
    clock: Clock
    pace_s: Callable[[int], float] = lambda _: 0.05

    async def run(self) -> None:
        n_steps = 0
        while True:
            n_steps += 1
            await self.clock.sleep(self.pace_s(n_steps))
            await self.step()

    async def step(self) -> None:
        executor = Executor(self.cluster)
        classes = {c.metadata.name: c for c in (await self.cluster.list(STORAGE_CLASSES)).items}
        volumes = (await self.cluster.list(PERSISTENT_VOLUMES)).items
        claims = (await self.cluster.list(PERSISTENT_VOLUME_CLAIMS)).items
        nodes = {n.metadata.name: n for n in (await self.cluster.list(NODES)).items}
        pods = (await self.cluster.list(PODS)).items
        used = {
            (pod.metadata.namespace, one.persistent_volume_claim.claim_name)
            for pod in pods
            if keeps_claims(pod)
            for one in pod.spec.volumes
            if one.persistent_volume_claim is not None
        }
        for claim in claims:
            storage_class = classes.get(claim.spec.storage_class_name or "")
            snapshot = _snapshot(claim, storage_class, volumes, nodes, claim.metadata.key in used)
            await executor.execute(_with_faults(snapshot, decide_claim(snapshot, 0.0)))
        by_key = {claim.metadata.key: claim for claim in claims}
        for volume in volumes:
            ref = volume.spec.claim_ref
            named = by_key.get(Key(ref.namespace, ref.name)) if ref is not None else None
            if ref is None or named is not None or not ref.uid:
                await executor.execute(decide_volume(VolumeSnapshot(volume, named), 0.0))


def _snapshot(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    volumes: tuple[PersistentVolume, ...],
    nodes: dict[str, Node],
    is_used: bool,
) -> ClaimSnapshot:
    key, name = claim.metadata.key, claim.spec.storage_class_name or ""
    refs = {v.metadata.name: v.spec.claim_ref for v in volumes}
    return ClaimSnapshot(
        claim,
        storage_class,
        next((v for v in volumes if v.metadata.name == claim.spec.volume_name), None),
        tuple(
            v
            for v in volumes
            if (ref := refs[v.metadata.name]) is not None and (ref.namespace, ref.name) == key
        ),
        tuple(v for v in volumes if v.spec.storage_class_name == name),
        nodes.get(claim.metadata.annotations.get(SELECTED_NODE, "")),
        is_used,
        "/volumes",
    )


def _with_faults(snapshot: ClaimSnapshot, plan: Plan) -> Plan:
    """Returns the plan with what the parameters of the class order instead of a new volume."""
    storage_class = snapshot.storage_class
    makes = any(isinstance(one, CreateObject) for one in plan.actions)
    if storage_class is None or not makes or storage_class.provisioner != PROVISIONER:
        return plan
    orders, meta = storage_class.parameters, snapshot.claim.metadata
    node = meta.annotations.get(SELECTED_NODE, "")
    if node and node in orders.get("hangOn", "").split(","):
        return Plan()
    if node and node in orders.get("failOn", "").split(","):
        body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        return Plan((patch_object(PERSISTENT_VOLUME_CLAIMS, meta.key, meta.uid, body),))
    if orders.get("anywhere") == "true":
        everywhere = ClaimSnapshot(
            **{name: getattr(snapshot, name) for name in snapshot.__slots__} | {"node": None}
        )
        notes = {k: v for k, v in meta.annotations.items() if k != SELECTED_NODE}
        immediate = replace(storage_class, volume_binding_mode="Immediate")
        claim = replace(snapshot.claim, metadata=replace(meta, annotations=notes))
        fields = {name: getattr(everywhere, name) for name in everywhere.__slots__}
        fields |= {"claim": claim, "storage_class": immediate, "open_volumes": ()}
        return decide_claim(ClaimSnapshot(**fields), 0.0)
    return plan
