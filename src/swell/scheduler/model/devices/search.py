"""The search for devices: the first full solution, in the order of kube-scheduler.

Claims come as in the pod, requests and their alternatives as they are written, pools by driver and
name, slices by name, devices as they are listed. All claims of a pod get their devices, or none.
The search goes depth first; inside a request only increasing positions are tried. It keeps a stack
of generators, each of which makes one step, yields, and takes it back: no depth is too deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from swell.api.devices import RESULTS_MAX, Device, DeviceConstraint, DeviceToleration
from swell.api.matching import tolerates_of_device
from swell.scheduler.model.devices.offers import DeviceId, OfferedDevice
from swell.scheduler.model.devices.pools import (
    DeviceView,
    PoolDevice,
    VisiblePool,
    consumption_of,
)
from swell.scheduler.model.devices.selectors import DeviceSelectorError, Selectors
from swell.scheduler.model.devices.wanted import WantedClaim, WantedDevices

# How many devices are tried for one pod on one node. kube-scheduler counts seconds instead, which
# would make the answer depend on the machine.
STEPS_MAX: Final = 100_000
# What the first of several alternatives is worth; each further one is worth one less.
_PREFERENCE: Final = 8
_FORBIDDING: Final = frozenset({"NoSchedule", "NoExecute"})
IsUsed = Callable[[DeviceId], bool]


class Fit(IntEnum):
    """The result for the nodes of one view."""

    FITS = 0
    NONE = 1
    INCOMPLETE = 2  # all devices are wanted, and not all of a pool are there yet
    ERROR = 3  # a selector has no result
    TOO_LONG = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """A device for a request."""

    wanted: WantedDevices
    found: PoolDevice


@dataclass(frozen=True, slots=True)
class Answer:
    """The devices of each claim in the order of the claims, or why there are none."""

    fit: Fit
    devices: tuple[tuple[Chosen, ...], ...] = ()
    ways: tuple[tuple[WantedDevices, ...], ...] = ()  # of each claim, the chosen alternatives
    score: int = 0
    why: str = ""


class _TooLongError(Exception):
    """The search has tried as many devices as it may."""


class _IncompleteError(Exception):
    """All devices of a pool are wanted that is being updated."""


# Claim, request, alternative (or -1), devices chosen for it, position to go on from.
_State = tuple[int, int, int, int, int]


def search(
    view: DeviceView, claims: Sequence[WantedClaim], is_used: IsUsed, selectors: Selectors
) -> Answer:
    """Returns the devices for claims on the nodes of a view."""
    one = _DeviceSearch(view, claims, is_used, selectors)
    try:
        found = one.run()
    except DeviceSelectorError as error:
        return Answer(Fit.ERROR, why=str(error))
    except _IncompleteError as error:
        return Answer(Fit.INCOMPLETE, why=str(error))
    except _TooLongError:
        return Answer(Fit.TOO_LONG)
    return found or Answer(Fit.NONE)


class _DeviceSearch:
    def __init__(
        self,
        view: DeviceView,
        claims: Sequence[WantedClaim],
        is_used: IsUsed,
        selectors: Selectors,
    ) -> None:
        self._view = view
        self._claims = claims
        self._is_used = is_used
        self._selectors = selectors
        self._devices = view.usable
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._ways = [[0] * len(claim.requests) for claim in claims]
        self._taking: dict[DeviceId, list[int]] = {}  # device -> claims of this attempt
        # By claim and constraint: the values of the devices that were chosen.
        self._values: list[list[list[object]]] = [[[] for _ in c.constraints] for c in claims]
        # By pool: what this attempt leaves of its counters.
        self._counters: dict[int, dict[tuple[str, str], int]] = {}
        self._all: dict[tuple[int, int, int], list[tuple[VisiblePool, PoolDevice]]] = {}
        self._n_steps = 0

    def run(self) -> Answer | None:
        self._list_all()
        stack = [self._moves((0, 0, -1, 0, 0))]
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
            elif state[0] == len(self._claims):
                return self._answer()
            else:
                stack.append(self._moves(state))
        return None

    def _answer(self) -> Answer:
        ways = tuple(
            tuple(request[at] for request, at in zip(claim.requests, indexes, strict=True))
            for claim, indexes in zip(self._claims, self._ways, strict=True)
        )
        score = sum(
            _PREFERENCE - at
            for claim, indexes in zip(self._claims, self._ways, strict=True)
            for preferred, at in zip(claim.has_preferences, indexes, strict=True)
            if preferred
        )
        return Answer(Fit.FITS, tuple(map(tuple, self._chosen)), ways, score)

    def _list_all(self) -> None:
        """Finds the devices of requests for all of them. Selectors decide, use does not."""
        for c, claim in enumerate(self._claims):
            for r, request in enumerate(claim.requests):
                for w, wanted in enumerate(request):
                    if wanted.is_all:
                        self._all[c, r, w] = list(self._admitted(wanted))

    def _admitted(self, wanted: WantedDevices) -> Iterator[tuple[VisiblePool, PoolDevice]]:
        for pool in self._view.pools:
            if pool.problem:
                raise _IncompleteError(f"pool {pool.id[0]}/{pool.id[1]} {pool.problem}")
            for one in pool.devices:
                # A device that cannot be read may be one of them: it stands in the way.
                if one.device.content is None or self._admits(wanted, one.device):
                    yield pool, one

    def _moves(self, state: _State) -> Iterator[_State]:
        """Yields the states that follow; each step is taken back before the next."""
        c, r, w, n, start = state
        claim = self._claims[c]
        if r == len(claim.requests):
            yield c + 1, 0, -1, 0, 0
            return
        if w < 0:
            for at in range(len(claim.requests[r])):
                self._ways[c][r] = at
                yield c, r, at, 0, 0
            return
        wanted = claim.requests[r][w]
        all_devices = self._all.get((c, r, w))
        n_wanted = wanted.count if all_devices is None else len(all_devices)
        if all_devices is not None and not all_devices:
            return
        if n == n_wanted:
            yield c, r + 1, -1, 0, 0
            return
        if len(self._chosen[c]) + n_wanted - n > RESULTS_MAX:
            return
        candidates: Sequence[tuple[VisiblePool, PoolDevice]] = self._devices
        last = len(candidates)
        if all_devices is not None:
            # Which ones is settled, so there is one to try.
            candidates, start, last = all_devices, n, n + 1
        for at in range(start, last):
            pool, found = candidates[at]
            if self._take(c, wanted, pool, found, is_admitted=all_devices is not None):
                yield c, r, w, n + 1, at + 1
                self._give_back(c, wanted, pool, found)

    def _take(
        self,
        c: int,
        wanted: WantedDevices,
        pool: VisiblePool,
        found: PoolDevice,
        *,
        is_admitted: bool,
    ) -> bool:
        """Takes a device for a request, if it can be taken."""
        self._n_steps += 1
        if self._n_steps > STEPS_MAX:
            raise _TooLongError
        device = found.device
        taking = self._taking.get(device.id, ())
        if device.unsupported or (c in taking if wanted.admin_access else taking):
            return False
        if not wanted.admin_access and self._is_used(device.id):
            return False
        if not is_admitted and not self._admits(wanted, device):
            return False
        if is_tainted(device.spec, wanted.tolerations):
            return False
        values = self._constrained(c, wanted, device)
        if values is None or not self._consume(pool, device, 1):
            return False
        for stack, value in values:
            stack.append(value)
        self._taking.setdefault(device.id, []).append(c)
        self._chosen[c].append(Chosen(wanted, found))
        return True

    def _give_back(
        self, c: int, wanted: WantedDevices, pool: VisiblePool, found: PoolDevice
    ) -> None:
        self._chosen[c].pop()
        claims = self._taking[found.device.id]
        claims.remove(c)
        if not claims:
            del self._taking[found.device.id]
        for constraint, stack in zip(self._claims[c].constraints, self._values[c], strict=True):
            if concerns(constraint, wanted):
                stack.pop()
        self._consume(pool, found.device, -1)

    def _admits(self, wanted: WantedDevices, device: OfferedDevice) -> bool:
        if device.content is None:
            return False
        for origin, expression in wanted.selectors:
            try:
                if not self._selectors.admits(expression, device.content):
                    return False
            except DeviceSelectorError as error:
                name = "/".join(device.id)
                text = f"the selector {expression!r} of {origin} fails on device {name}: {error}"
                raise DeviceSelectorError(text) from error
        return True

    def _constrained(
        self, c: int, wanted: WantedDevices, device: OfferedDevice
    ) -> list[tuple[list[object], object]] | None:
        """Returns the values to be noted for each constraint; None if one forbids the device."""
        noted: list[tuple[list[object], object]] = []
        for constraint, values in zip(self._claims[c].constraints, self._values[c], strict=True):
            if not concerns(constraint, wanted):
                continue
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            value = attribute_of(device, name)
            if value is None:
                return None
            if constraint.match_attribute is not None:
                if values and values[0] != value:
                    return None
            elif value in values:
                return None
            noted.append((values, value))
        return noted

    def _consume(self, pool: VisiblePool, device: OfferedDevice, sign: int) -> bool:
        """Takes what a device needs from the counters of its pool, or gives it back."""
        if not device.spec.consumes_counters:
            return True
        left = self._counters.get(id(pool))
        if left is None:
            left = self._counters[id(pool)] = self._counted(pool)
        amounts = consumption_of(device.spec.consumes_counters)
        # As in kube-scheduler a counter below zero closes the whole pool, not only its own set.
        if sign > 0 and any(amount - amounts.get(key, 0) < 0 for key, amount in left.items()):
            return False
        for key, amount in amounts.items():
            left[key] -= sign * amount
        return True

    def _counted(self, pool: VisiblePool) -> dict[tuple[str, str], int]:
        left = dict(pool.counters)
        for device in pool.consumers:
            if self._is_used(device.id):
                for key, amount in consumption_of(device.spec.consumes_counters).items():
                    left[key] -= amount
        return left


def concerns(constraint: DeviceConstraint, wanted: WantedDevices) -> bool:
    """Whether a constraint is about a request; one that names none is about all."""
    names = constraint.requests
    return not names or wanted.parent in names or wanted.name in names


def attribute_of(device: OfferedDevice, name: str) -> tuple[str, object] | None:
    """Returns type and value of an attribute by its full name, or by its own for the driver's."""
    attributes = device.spec.attributes
    found = attributes.get(name)
    if found is None:
        domain, _, key = name.partition("/")
        found = attributes.get(key) if domain == device.id[0] else None
    if found is None:
        return None
    for kind, value in (
        ("string", found.text), ("int", found.number), ("bool", found.flag),
        ("version", found.version),
    ):  # fmt: skip
        if value is not None:
            return kind, value
    return None


def is_tainted(device: Device, tolerations: Sequence[DeviceToleration]) -> bool:
    """Whether a taint keeps the device from claims with these tolerations."""
    return any(
        taint.effect in _FORBIDDING
        and not any(tolerates_of_device(one, taint) for one in tolerations)
        for taint in device.taints
    )
