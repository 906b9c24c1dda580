"""Which devices pods have by resource claims, and since when each is tainted as broken.

A driver taints a device in the ResourceSlice that offers it. The taint concerns those pods alone
that have the device, by a claim that does not tolerate it. Time is counted as in `gpuwatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from swell.api.codec import convert
from swell.api.devices import (
    DeviceResult,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from swell.api.gpu_faults import GpuFaultRules
from swell.api.matching import tolerates_of_device
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.pod import Pod
from swell.operator.framework.fault_guard import FaultGuard
from swell.operator.framework.gpu_states import PodDevices
from swell.operator.framework.gpuwatch import GpuFaultLimits
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.informer import Informer

DeviceId = tuple[str, str, str]  # driver, pool and name
_SOURCE: Final = "devices"
_PODS: Final = "pods"


def _devices_in(_: ObjectMeta, claim: ResourceClaim | None) -> Iterable[DeviceId]:
    return () if claim is None else (_id_of(one) for one in _results(claim))


# Claims by the devices that they have.
BY_DEVICE: CacheIndex[ResourceClaim] = CacheIndex("device", _devices_in)


@dataclass(frozen=True, slots=True)
class _Slice:
    """The node whose devices a slice has, whether they are GPUs, and those that are broken."""

    node: str
    has_gpus: bool
    broken: Mapping[DeviceId, tuple[DeviceTaint, ...]]


class DeviceWatch:
    """Follows slices and claims. `on_change` is given the pods that are to be looked at again."""

    def __init__(
        self,
        slices: Informer[ResourceSlice],
        claims: Informer[ResourceClaim],
        *,
        rules: GpuFaultRules,
        limits: GpuFaultLimits,
        drivers: tuple[str, ...],
        clock: Clock,
        guard: FaultGuard,
        on_change: Callable[[Key], None],
    ) -> None:
        self._slices, self._claims = slices, claims
        self._rules = rules
        self._after_s = limits.after_s
        self._drivers = drivers
        self._clock = clock
        self._guard = guard
        self._on_change = on_change
        self._of_node: dict[str, dict[str, _Slice]] = {}  # node -> slice
        self._broken: dict[DeviceId, dict[str, _Slice]] = {}  # device -> slices that say so
        self._since: dict[DeviceId, float] = {}
        self._node_of: dict[str, str] = {}  # slice -> its node
        slices.add_handler(self._note_slice)
        claims.add_handler(self._note_claim)

    def devices_of(self, pod: Pod) -> PodDevices:
        """Returns what is known of a pod's devices; `at` is of the monotonic clock."""
        has_gpu, found = False, PodDevices()
        for key in claims_of(pod) if pod.spec.node_name else ():
            claim = self._claims.get(key)
            for one in _results(claim) if claim is not None else ():
                has_gpu = has_gpu or one.driver in self._drivers
                fault = self._fault_of(one)
                if fault is not None and (not found.fault or fault.at < found.at):
                    found = fault
        return PodDevices(has_gpu, found.fault, found.at)

    def _fault_of(self, result: DeviceResult) -> PodDevices | None:
        device = _id_of(result)
        tolerations = tuple(_tolerations_of(result)) if device in self._since else ()
        for one in self._broken.get(device, {}).values():
            for taint in one.broken[device]:
                if any(tolerates_of_device(toleration, taint) for toleration in tolerations):
                    continue
                mark = f"{taint.key}={taint.value}" if taint.value else taint.key
                at = max(self._since[device] + self._after_s, self._guard.held_until(one.node))
                return PodDevices(True, f"device {'/'.join(device)} has the taint {mark}", at)
        return None

    # --- changes

    def _note_slice(self, key: Key) -> None:
        name, found = key.name, self._slices.get(key)
        after = self._read(found) if found is not None else None
        before = self._replace(name, after)
        for node in {one.node for one in (before, after) if one is not None}:
            self._count(node)
        old = before.broken if before is not None else {}
        new = after.broken if after is not None else {}
        changed = [device for device in {**old, **new} if old.get(device) != new.get(device)]
        for device in changed:
            self._follow(device)
            for claim in self._claims.by_index(BY_DEVICE.name, device):
                self._wake(claim)

    def _replace(self, name: str, after: _Slice | None) -> _Slice | None:
        """Puts a slice as it is now in the place of what was known of it, which is returned."""
        node = self._node_of.pop(name, "")
        known = self._of_node.get(node, {})
        before = known.pop(name, None)
        if not known:
            self._of_node.pop(node, None)
        for device in before.broken if before is not None else ():
            self._broken[device].pop(name)
            if not self._broken[device]:
                del self._broken[device]
        if after is not None:
            self._node_of[name] = after.node
            self._of_node.setdefault(after.node, {})[name] = after
            for device in after.broken:
                self._broken.setdefault(device, {})[name] = after
        return before

    def _follow(self, device: DeviceId) -> None:
        """Notes since when a device is broken, by any of the slices that have it."""
        found = next(iter(self._broken.get(device, {}).values()), None)
        if found is None:
            self._since.pop(device, None)
        elif device not in self._since:
            now = self._since[device] = self._clock.monotonic()
            self._guard.turned(found.node, _SOURCE, now, now + self._after_s)

    def _count(self, node: str) -> None:
        """Tells the guard whether a node has GPUs by its slices, and whether one is broken."""
        own = self._of_node.get(node, {}).values()
        self._guard.note_gpus(node, _SOURCE, has_gpus=any(one.has_gpus for one in own))
        if not any(one.broken for one in own):
            self._guard.mended(node, _SOURCE)

    def _note_claim(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or not self._guard.sees_faults:
            return  # whatever it had, no pod that lost it is concerned any more
        if any(
            one.driver in self._drivers or _id_of(one) in self._since for one in _results(claim)
        ):
            self._wake(claim)

    def _wake(self, claim: ResourceClaim) -> None:
        for one in claim.status.reserved_for:
            if one.resource == _PODS and not one.api_group:
                self._on_change(Key(claim.metadata.namespace, one.name))

    def _read(self, found: ResourceSlice) -> _Slice:
        spec = found.spec
        driver, pool = str(spec.get("driver", "")), spec.get("pool")
        name = str(pool.get("name", "")) if isinstance(pool, dict) else ""
        node = str(spec.get("nodeName") or f"{driver}/{name}")
        devices = spec.get("devices")
        broken = {
            (driver, name, str(device.get("name", ""))): taints
            for device in (devices if isinstance(devices, list) else ())
            if isinstance(device, dict) and (taints := tuple(self._faults_in(device)))
        }
        return _Slice(node, driver in self._drivers and bool(devices), broken)

    def _faults_in(self, device: Body) -> Iterator[DeviceTaint]:
        """Yields the taints of a device that say that it is broken, of those that can be read."""
        taints = device.get("taints")
        for body in taints if isinstance(taints, list) else ():
            try:
                taint = convert(body, DeviceTaint)
            except msgspec.ValidationError:
                continue
            if self._rules.is_device_fault(taint):
                yield taint


def claims_of(pod: Pod) -> Iterator[Key]:
    """Yields the keys of all resource claims of a pod that exist as far as it says."""
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    extended = pod.status.extended_resource_claim_status
    names = [one.resource_claim_name or made.get(one.name) for one in pod.spec.resource_claims]
    names.append(extended.resource_claim_name if extended is not None else None)
    yield from (Key(pod.metadata.namespace, name) for name in names if name)


def _results(claim: ResourceClaim) -> Iterator[DeviceResult]:
    """Yields the devices of a claim. Who watches over devices of others does not have them."""
    allocation = claim.status.allocation
    for one in allocation.devices.results if allocation is not None else ():
        if not one.admin_access:
            yield one


def _id_of(result: DeviceResult) -> DeviceId:
    return result.driver, result.pool, result.device


def _tolerations_of(result: DeviceResult) -> Iterator[DeviceToleration]:
    for body in result.tolerations:
        try:
            yield convert(body, DeviceToleration)
        except msgspec.ValidationError:
            continue
