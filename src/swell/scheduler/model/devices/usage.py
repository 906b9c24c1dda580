"""Which claims have which devices: by what is written in them, and by what was chosen since.

The two are kept apart, so that a choice that is written is counted once, and one that is given back
leaves what others have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from swell.api.devices import AllocationResult
from swell.scheduler.model.devices.offers import DeviceId, PoolId

# Who has a device: the claims.
_Holders = dict[DeviceId, dict[str, None]]
# Changes that are remembered for those who follow them; it only bounds memory.
_KEPT = 65536


def devices_of(allocation: AllocationResult | None) -> tuple[DeviceId, ...]:
    """Returns the devices that nobody else may have. Admin access takes none."""
    if allocation is None:
        return ()
    return tuple(
        (one.driver, one.pool, one.device)
        for one in allocation.devices.results
        if not one.admin_access
    )


class DeviceUse:
    """Counts the devices in use, and remembers of which pools the use has changed."""

    def __init__(self) -> None:
        self._written: _Holders = {}
        self._chosen: _Holders = {}
        self._written_for: dict[str, tuple[DeviceId, ...]] = {}
        self._chosen_for: dict[str, tuple[DeviceId, ...]] = {}
        self._doubly: dict[DeviceId, None] = {}
        # Claims whose last pods are leaving: their devices are free later.
        self._leaving: dict[str, None] = {}
        self.changes: list[PoolId] = []
        self.epoch = 0

    # --- changes

    def write(self, claim: str, allocation: AllocationResult | None) -> None:
        """Records what is written in a claim."""
        self._replace(self._written, self._written_for, claim, devices_of(allocation))
        for device in devices_of(allocation):
            if len(self._written.get(device, ())) > 1:
                self._doubly[device] = None

    def choose(self, claim: str, allocation: AllocationResult | None) -> None:
        """Records what placed tasks or an unfinished write count on for a claim."""
        self._replace(self._chosen, self._chosen_for, claim, devices_of(allocation))

    def set_leaving(self, claim: str, *, is_leaving: bool) -> None:
        if is_leaving == (claim in self._leaving):
            return
        if is_leaving:
            self._leaving[claim] = None
        else:
            del self._leaving[claim]
        self.changes.extend(device[:2] for device in self._written_for.get(claim, ()))

    def _replace(
        self,
        holders: _Holders,
        by_claim: dict[str, tuple[DeviceId, ...]],
        claim: str,
        devices: tuple[DeviceId, ...],
    ) -> None:
        old = by_claim.get(claim, ())
        if old == devices:
            return
        for device in old:
            claims = holders[device]
            del claims[claim]
            if not claims:
                del holders[device]
        for device in devices:
            holders.setdefault(device, {})[claim] = None
        if devices:
            by_claim[claim] = devices
        else:
            del by_claim[claim]
        self.changes.extend({device[:2]: None for device in (*old, *devices)})

    def forget_changes(self) -> None:
        """Begins the record of changes anew when it is long; who follows it has to start over."""
        if len(self.changes) > _KEPT:
            self.changes.clear()
            self.epoch += 1

    # --- questions

    @property
    def has_leaving(self) -> bool:
        return bool(self._leaving)

    def is_used(self, device: DeviceId) -> bool:
        return device in self._written or device in self._chosen

    def is_used_later(self, device: DeviceId) -> bool:
        """Whether a device is in use once all pods that are leaving have left."""
        if device in self._chosen:
            return True
        return any(claim not in self._leaving for claim in self._written.get(device, ()))

    def is_used_by_others(self, claim: str, devices: Sequence[DeviceId]) -> bool:
        """Whether other claims have one of these devices."""
        return any(
            other != claim
            for device in devices
            for holders in (self._written, self._chosen)
            for other in holders.get(device, ())
        )

    def doubly_used(self) -> Mapping[DeviceId, tuple[str, ...]]:
        """Returns the devices that are written in several claims, with the claims."""
        return dict(self._doubly_used())

    def _doubly_used(self) -> Iterator[tuple[DeviceId, tuple[str, ...]]]:
        for device in list(self._doubly):
            claims = tuple(sorted(self._written.get(device, ())))
            if len(claims) > 1:
                yield device, claims
            else:
                del self._doubly[device]
