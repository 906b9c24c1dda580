"""The slices, classes and claims of a cluster, and which claim has which device."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api import codec
from swell.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from swell.scheduler.model.devices.offers import DeviceId
from swell.scheduler.model.devices.pools import PoolTable
from swell.scheduler.model.devices.selectors import Selectors
from swell.scheduler.model.devices.usage import DeviceUse
from swell.scheduler.model.devices.wanted import (
    ClaimProblem,
    ReadClass,
    WantedClaim,
    read_claim,
    read_class,
)

# Specs of claims that are remembered as they were read; it only bounds memory.
_KEPT = 4096


class DeviceObjects:
    """Every object of resource.k8s.io by its key."""

    def __init__(self) -> None:
        # Off where nothing is known of devices, as in a plan from files without any such object.
        self.are_known = True
        self.are_served = True
        self.claims: dict[str, ResourceClaim] = {}
        self.classes: dict[str, ReadClass] = {}
        self.classes_version = 0
        self.pools = PoolTable()
        self.use = DeviceUse()
        self.selectors = Selectors()
        # Claims that may have any device, each with the reason why that is not known.
        self.unreadable: dict[str, str] = {}
        self._specs: dict[str, bytes] = {}  # claim -> its spec, equal for equal specs
        self._wanted: dict[bytes, WantedClaim | ClaimProblem] = {}

    # --- objects in and out

    def put_slice(self, found: ResourceSlice) -> None:
        self.pools.put(found)

    def remove_slice(self, name: str) -> None:
        self.pools.remove(name)

    def put_class(self, found: DeviceClass) -> None:
        self.classes[found.metadata.name] = read_class(found)
        self.classes_version += 1
        self._wanted.clear()

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self.classes_version += 1
        self._wanted.clear()

    def put_claim(self, claim: ResourceClaim, unreadable: str = "") -> None:
        """Adds or replaces a claim. `unreadable` says why it is not known which devices it has."""
        key = str(claim.metadata.key)
        if unreadable:
            self.unreadable[key] = unreadable
        else:
            self.unreadable.pop(key, None)
        old = self.claims.get(key)
        self.claims[key] = claim
        if old is None or old.spec != claim.spec:
            self._specs[key] = codec.encode_stable(claim.spec)
        self.use.write(key, claim.status.allocation)

    def remove_claim(self, key: str) -> None:
        if self.claims.pop(key, None) is not None:
            del self._specs[key]
            self.unreadable.pop(key, None)
            self.use.write(key, None)

    # --- questions

    @property
    def is_empty(self) -> bool:
        return not (self.claims or self.classes or self.pools.slices)

    def wanted_of(self, key: str) -> WantedClaim | ClaimProblem:
        """Returns what a claim asks for: the same object for claims that ask for the same."""
        spec = self._specs[key]
        found = self._wanted.get(spec)
        if found is None:
            if len(self._wanted) >= _KEPT:
                self._wanted.clear()
            body = self.claims[key].spec
            found = self._wanted[spec] = read_claim(body, self.classes, self.selectors)
        return found

    def doubly_used(self) -> Mapping[DeviceId, tuple[str, ...]]:
        """Returns the devices that several claims have, with the claims."""
        return self.use.doubly_used()
