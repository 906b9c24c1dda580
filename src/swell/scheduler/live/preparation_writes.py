"""Carries out the writes that prepare gangs, and reads their objects after one that failed.

Each write has the UID of its object, and the version where it replaces something. What it met is
for the caller to decide on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from swell.api.codec import to_body
from swell.api.devices import DELETE_PROTECTION
from swell.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
)
from swell.api.meta import Body, Key
from swell.api.times import format_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Patch, PatchKind
from swell.runtime.executor import Executor, Failure, Observer
from swell.runtime.logs import get_logger
from swell.runtime.plan import PatchObject, Plan, Together, patch_object
from swell.scheduler.live.cache import READ_FAILURES
from swell.scheduler.live.informers import SchedulerInformers
from swell.scheduler.model.devices.extended import status_body
from swell.scheduler.model.devices.preparation import (
    TAKEN_OVER,
    AllocateClaim,
    DeviceWrite,
    FenceClaim,
    FreeClaim,
    NameClaim,
    ProtectClaim,
    ReserveClaim,
    UnprotectClaim,
    UnreserveClaim,
)
from swell.scheduler.model.volumes.preparation import (
    ReserveVolume,
    SelectNode,
    VolumeWrite,
    body_of,
)

log = get_logger(__name__)

PreparationWrite = VolumeWrite | DeviceWrite

# Kubernetes asks for this right when devices are given, for the whole cluster, and says so in a
# refusal of the content (422), not of the request (403).
BINDING_RIGHT: Final = "resourceclaims/binding"
_RIGHT_HELP: Final = (
    f"patch {BINDING_RIGHT} in resource.k8s.io is needed for the whole cluster: by a ClusterRole "
    "and a ClusterRoleBinding, a Role is not enough"
)


class _Refreshing(Protocol):
    async def refresh(self, key: Key) -> None: ...


class PreparationWriter:
    """Writes what belongs to one step together, and shows the answers to the informers."""

    def __init__(
        self, cluster: Cluster, informers: SchedulerInformers, *, workers: int, clock: Clock
    ) -> None:
        self._informers = informers
        self._clock = clock
        observed: list[Observer] = [
            informers.claims,
            informers.volumes,
            informers.resource_claims,
            informers.pods,
        ]
        self._executor = Executor(cluster, informers=observed, concurrency=workers)
        # Resource claims that are being freed: nobody may count on them until that is over.
        self.freeing: set[Key] = set()
        # Those that an earlier process may still be writing: until that is over any device may
        # turn out to be given away.
        self.fencing: set[Key] = set()

    async def write(self, writes: Sequence[PreparationWrite]) -> Failure | None:
        """Do the writes of one step. Returns the worst failure, after which some are not begun."""
        actions = tuple(action_of(write, self._clock.now()) for write in writes)
        outcome = await self._executor.execute(Plan((Together(actions),)))
        for failure in outcome.failures:
            if BINDING_RIGHT in failure.message:
                claim = str(failure.action.key)
                log.error("right missing", claim=claim, right=_RIGHT_HELP, why=failure.message)
        return outcome.worst

    async def read(self, writes: Sequence[PreparationWrite]) -> bool:
        """Read the objects of writes consistently; whether all could be read."""
        try:
            for write in writes:
                for informer, key in self._objects_of(write):
                    await informer.refresh(key)
        except READ_FAILURES as error:
            log.info("not read", why=str(error))
            return False
        return True

    def _objects_of(self, write: PreparationWrite) -> Iterator[tuple[_Refreshing, Key]]:
        match write:
            case ReserveVolume(volume, claim):
                yield self._informers.claims, claim.metadata.key
                yield self._informers.volumes, volume.metadata.key
            case SelectNode(claim):
                yield self._informers.claims, claim.metadata.key
            case NameClaim(_, pod):
                yield self._informers.pods, pod.metadata.key
            case _:
                yield self._informers.resource_claims, write.claim.metadata.key


def action_of(write: PreparationWrite, now: float) -> PatchObject:
    """Returns the patch for a write. A version keeps it from undoing what others have done."""
    match write:
        case ReserveVolume(volume):
            meta = volume.metadata
            return patch_object(
                PERSISTENT_VOLUMES,
                meta.key,
                meta.uid,
                body_of(write),
                version=meta.resource_version,
            )
        case SelectNode(claim):
            meta = claim.metadata
            return patch_object(
                PERSISTENT_VOLUME_CLAIMS,
                meta.key,
                meta.uid,
                body_of(write),
                version=meta.resource_version,
            )
        case _:
            return _device_action(write, now)


def _device_action(write: DeviceWrite, now: float) -> PatchObject:
    """Returns the patch of a resource claim.

    Reservations are a list with the UID as its key: a strategic merge adds entries whatever else is
    in it, so it needs no version and may be repeated.
    """
    meta, status = write.claim.metadata, RESOURCE_CLAIMS.status
    match write:
        case NameClaim(_, pod, requests):
            named: Body = {"status": status_body(meta.name, requests)}
            return patch_object(PODS.status, pod.metadata.key, pod.metadata.uid, named)
        case ProtectClaim():
            body: Body = {"metadata": {"uid": meta.uid, "finalizers": [DELETE_PROTECTION]}}
            return PatchObject(RESOURCE_CLAIMS, meta.key, Patch(PatchKind.STRATEGIC, body))
        case AllocateClaim(_, allocation, pods):
            # An allocation is immutable, and kube-scheduler wants one that says when it was made.
            dated = replace(allocation, allocation_timestamp=format_time(now))
            body = {"allocation": to_body(dated), "reservedFor": [to_body(one) for one in pods]}
        case FreeClaim():
            body = {"allocation": None, "reservedFor": None}
        case ReserveClaim(_, pods):
            return _reservations(write, [to_body(one) for one in pods])
        case UnreserveClaim(_, uids):
            return _reservations(write, [{"$patch": "delete", "uid": uid} for uid in uids])
        case FenceClaim():
            mark: Body = {"metadata": {"annotations": {TAKEN_OVER: meta.resource_version}}}
            version = meta.resource_version
            return patch_object(RESOURCE_CLAIMS, meta.key, meta.uid, mark, version=version)
        case UnprotectClaim(claim):
            left = [one for one in claim.metadata.finalizers if one != DELETE_PROTECTION]
            note: Body = {"metadata": {"finalizers": left}}
            version = meta.resource_version
            return patch_object(RESOURCE_CLAIMS, meta.key, meta.uid, note, version=version)
    version = meta.resource_version
    return patch_object(status, meta.key, meta.uid, {"status": body}, version=version)


def _reservations(write: ReserveClaim | UnreserveClaim, entries: list[Body]) -> PatchObject:
    meta = write.claim.metadata
    named: Body = {"uid": meta.uid}
    if isinstance(write, UnreserveClaim):
        # A late answer to it must not take off a pod that was added anew.
        named["resourceVersion"] = meta.resource_version
    body: Body = {"metadata": named, "status": {"reservedFor": entries}}
    return PatchObject(RESOURCE_CLAIMS.status, meta.key, Patch(PatchKind.STRATEGIC, body))
