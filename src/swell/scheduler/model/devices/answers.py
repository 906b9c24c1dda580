"""For one combination of claims: on which nodes they can have their devices, and which.

Every view is searched once, and again only when the use of one of its devices has changed: so the
work of a session grows with the pods that it places, not with pods times nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from swell.scheduler.model.devices.offers import DeviceId, OfferedDevice
from swell.scheduler.model.devices.pools import DeviceView, DeviceViews, VisiblePool
from swell.scheduler.model.devices.search import Answer, Fit, is_tainted, search
from swell.scheduler.model.devices.selectors import DeviceSelectorError, Selectors
from swell.scheduler.model.devices.usage import DeviceUse
from swell.scheduler.model.devices.wanted import WantedClaim, WantedDevices
from swell.scheduler.model.resources import Mask, Vector

# What a node gains whose devices are those that the claims would like best.
_SCORE_MAX = 100.0


class DemandAnswers:
    """The answers for all views, kept up to date."""

    def __init__(
        self,
        wanted: Sequence[WantedClaim],
        views: DeviceViews,
        use: DeviceUse,
        selectors: Selectors,
        *,
        at_once: bool,
    ) -> None:
        self.wanted = tuple(wanted)
        self._views = views
        self._use = use
        self._selectors = selectors
        self._is_used = use.is_used if at_once else use.is_used_later
        self._answers: dict[DeviceView, Answer] = {}
        self._fits = np.zeros(0, dtype=np.int8)
        self._stamp = (-1, -1)
        self._position = 0
        self._cares: dict[VisiblePool, bool] = {}
        self._masks: dict[Fit, Mask] = {}
        self._scores: Vector | None = None

    # --- keeping up

    def refresh(self) -> None:
        views, use = self._views, self._use
        views.refresh()
        stamp = (views.version, use.epoch)
        if stamp != self._stamp:
            keeps = self._stamp[1] == use.epoch
            self._follow_views(known=self._answers if keeps else {})
            self._stamp = stamp
        elif self._position != len(use.changes):
            self._follow_use()

    def _follow_views(self, known: dict[DeviceView, Answer]) -> None:
        """Answers for views that are new; others keep their answer, unless use has changed."""
        self._cares.clear()
        stale = set(self._changed_views()) if known else set()
        self._position = len(self._use.changes)
        self._answers = {
            view: known[view] if view in known and view not in stale else self._search(view)
            for view in self._views.all
        }
        fits = [self._answers[view].fit for view in self._views.all]
        self._fits = np.array(fits, dtype=np.int8)
        self._forget_derived()

    def _follow_use(self) -> None:
        changed = self._changed_views()
        self._position = len(self._use.changes)
        for view in changed:
            answer = self._answers[view] = self._search(view)
            self._fits[view.index] = answer.fit
        if changed:
            self._forget_derived()

    def _changed_views(self) -> dict[DeviceView, None]:
        """Returns the views with devices in question whose use has changed."""
        found: dict[DeviceView, None] = {}
        for pool_id in dict.fromkeys(self._use.changes[self._position :]):
            for view in self._views.with_pool(pool_id):
                if view not in found and any(
                    pool.id == pool_id and self._cares_for(pool) for pool in view.pools
                ):
                    found[view] = None
        return found

    def _cares_for(self, pool: VisiblePool) -> bool:
        """Whether a request selects any device of a pool. The others may come and go."""
        cares = self._cares.get(pool)
        if cares is None:
            cares = self._cares[pool] = any(
                self._is_selected(one.device, wanted) is not False
                for one in pool.devices
                for wanted in self._every_request()
            )
        return cares

    def _every_request(self) -> list[WantedDevices]:
        return [way for claim in self.wanted for request in claim.requests for way in request]

    def _is_selected(self, device: OfferedDevice, wanted: WantedDevices) -> bool | None:
        """Whether a request selects a device; None if its selectors have no result."""
        if device.content is None:
            return None
        try:
            return all(
                self._selectors.admits(expression, device.content)
                for _, expression in wanted.selectors
            )
        except DeviceSelectorError:
            return None

    def _search(self, view: DeviceView) -> Answer:
        return search(view, self.wanted, self._is_used, self._selectors)

    def _forget_derived(self) -> None:
        self._masks.clear()
        self._scores = None

    # --- answers

    def at(self, place: int) -> Answer:
        """Returns the answer for one node."""
        self.refresh()
        return self._answers[self._views.all[self._views.of_node[place]]]

    def giving(self, drivers: Collection[str]) -> Mask:
        """Returns the nodes where one of the devices is of one of these drivers."""
        self.refresh()
        gives = np.zeros(len(self._views.all), dtype=np.bool_)
        for at, view in enumerate(self._views.all):
            gives[at] = any(
                chosen.found.device.id[0] in drivers and not chosen.wanted.admin_access
                for devices in self._answers[view].devices
                for chosen in devices
            )
        return gives[self._views.of_node]

    def mask(self, fit: Fit) -> Mask:
        """Returns the nodes with this answer. The mask must not be changed."""
        self.refresh()
        mask = self._masks.get(fit)
        if mask is None:
            mask = self._masks[fit] = (self._fits == fit)[self._views.of_node]
        return mask

    def has(self, fit: Fit) -> bool:
        self.refresh()
        return bool((self._fits == fit).any())

    def example(self, fit: Fit) -> Answer:
        """Returns one of the answers of a kind of which there are some."""
        self.refresh()
        return self._answers[self._views.all[int((self._fits == fit).argmax())]]

    def scores(self) -> Vector | None:
        """Returns how much the claims prefer the devices of each node, if they say so."""
        if not any(preferred for claim in self.wanted for preferred in claim.has_preferences):
            return None
        self.refresh()
        if self._scores is None:
            raw = np.array([self._answers[view].score for view in self._views.all], dtype=float)
            best = raw.max() if len(raw) else 0.0
            # Whole numbers, as kube-scheduler's.
            scaled = np.floor(raw * _SCORE_MAX / best) if best > 0 else raw
            self._scores = scaled[self._views.of_node]
        return self._scores

    # --- explaining

    def counts(self) -> tuple[int, int, int, int, int]:
        """Returns how many devices there are where none fit: in use, others, tainted, and so on.

        In use, not selected, tainted, not supported, and free ones that are too few together.
        """
        self.refresh()
        found = [0, 0, 0, 0, 0]
        for device in self._refused_devices():
            found[self._state_of(device)] += 1
        used, other, tainted, unsupported, free = found
        return used, other, tainted, unsupported, free

    def _state_of(self, device: OfferedDevice) -> int:
        ways = self._every_request()
        selecting = [way for way in ways if self._is_selected(device, way) is not False]
        if not selecting:
            return 1
        if device.unsupported:
            return 3
        if self._is_used(device.id) and not all(way.admin_access for way in selecting):
            return 0
        return 2 if all(is_tainted(device.spec, way.tolerations) for way in selecting) else 4

    def _refused_devices(self) -> Iterable[OfferedDevice]:
        """Returns the devices on nodes where nothing fits, each once."""
        found: dict[DeviceId, OfferedDevice] = {}
        for view in self._views.all:
            if self._answers[view].fit is not Fit.FITS:
                found.update((one.device.id, one.device) for _, one in view.usable)
        return found.values()

    def problems(self) -> list[str]:
        """Returns what is wrong with pools where nothing fits."""
        found = {
            f"pool {pool.id[0]}/{pool.id[1]} {pool.problem}": None
            for view in self._views.all
            if self._answers[view].fit is not Fit.FITS
            for pool in view.pools
            if pool.problem
        }
        return list(found)

    def unsupported(self) -> list[str]:
        """Returns why selected devices are not offered where nothing fits."""
        ways = self._every_request()
        return [
            f"{'/'.join(device.id)} has {device.unsupported}"
            for device in self._refused_devices()
            if device.unsupported
            and any(self._is_selected(device, way) is not False for way in ways)
        ]

    def has_incomplete(self) -> Mask:
        """Returns the nodes where nothing fits and a pool is being updated."""
        self.refresh()
        flags = np.array(
            [
                self._answers[view].fit in {Fit.NONE, Fit.INCOMPLETE}
                and any(pool.is_incomplete for pool in view.pools)
                for view in self._views.all
            ],
            dtype=np.bool_,
        )
        return flags[self._views.of_node] if len(flags) else np.zeros(0, dtype=np.bool_)
