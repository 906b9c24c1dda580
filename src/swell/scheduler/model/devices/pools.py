"""The pools of devices, and which of them each node reaches.

Nodes that reach the same devices have one view in common, so that whatever is worked out for one
of them holds for all. A view stays the same object while its pools do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from swell.api import codec, quantity
from swell.api.devices import CounterConsumption, DeviceCounter, ResourceSlice
from swell.api.matching import node_selector_matches
from swell.api.pod import NodeSelector
from swell.api.quantity import QuantityError
from swell.scheduler.model.devices.offers import OfferedDevice, OfferedSlice, PoolId, read_slice
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.resources import Mask, Places

INCOMPLETE: Final = "is being updated: not all of its slices are there"
_Amounts = dict[tuple[str, str], int]  # counter set and counter -> billionths


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device with the slice that says which nodes reach it."""

    device: OfferedDevice
    of_slice: OfferedSlice


@dataclass(frozen=True, eq=False)
class VisiblePool:
    """The part of a pool that some nodes reach. With a `problem` nothing of it is given away."""

    id: PoolId
    devices: tuple[PoolDevice, ...]
    problem: str
    # What the devices of the pool share, and all of its devices that take some of it.
    counters: Mapping[tuple[str, str], int]
    consumers: tuple[OfferedDevice, ...]

    @property
    def is_incomplete(self) -> bool:
        return self.problem == INCOMPLETE


@dataclass(eq=False)
class DeviceView:
    """The pools that some nodes reach, ordered by driver and name."""

    pools: tuple[VisiblePool, ...]
    index: int = 0

    @cached_property
    def usable(self) -> tuple[tuple[VisiblePool, PoolDevice], ...]:
        """The devices in the order in which they are tried."""
        return tuple((p, one) for p in self.pools if not p.problem for one in p.devices)


@dataclass(eq=False)
class _Pool:
    """All slices of one pool, whichever nodes they are for."""

    slices: dict[str, OfferedSlice] = field(default_factory=dict)
    serial: int = 0

    def current(self) -> list[OfferedSlice]:
        """Returns the slices of the highest generation, by name."""
        highest = max(one.spec.pool.generation for one in self.slices.values())
        return [
            self.slices[name]
            for name in sorted(self.slices)
            if self.slices[name].spec.pool.generation == highest
        ]


class PoolTable:
    """Follows the slices of a cluster."""

    def __init__(self) -> None:
        self.version = 0
        self.slices: dict[str, OfferedSlice] = {}
        self.pools: dict[PoolId, _Pool] = {}
        self._raw: dict[str, ResourceSlice] = {}
        self._n_changes = 0

    def put(self, found: ResourceSlice) -> bool:
        """Adds or replaces a slice; whether anything about its devices has changed."""
        name = found.metadata.name
        known = self._raw.get(name)
        if known is not None and known.spec == found.spec:
            return False
        self.remove(name)
        self._raw[name] = found
        one = self.slices[name] = read_slice(found)
        self._pool(one.pool).slices[name] = one
        self._changed(one.pool)
        return True

    def remove(self, name: str) -> None:
        self._raw.pop(name, None)
        one = self.slices.pop(name, None)
        if one is None:
            return
        pool = self.pools[one.pool]
        del pool.slices[name]
        self._changed(one.pool)
        if not pool.slices:
            del self.pools[one.pool]

    def _pool(self, key: PoolId) -> _Pool:
        return self.pools.setdefault(key, _Pool())

    def _changed(self, key: PoolId) -> None:
        self._n_changes += 1
        self.version += 1
        self.pools[key].serial = self._n_changes


class DeviceViews:
    """The views of all nodes, in step with the pools and the nodes."""

    def __init__(self, nodes: NodeTable, table: PoolTable) -> None:
        self._nodes = nodes
        self._table = table
        self._stamp = (-1, -1)
        self._known: dict[tuple[object, ...], DeviceView] = {}
        self.version = 0
        self.all: list[DeviceView] = []
        self.of_node: Places = np.zeros(0, dtype=np.intp)  # place -> index of its view
        self._with_pool: dict[PoolId, list[DeviceView]] = {}

    def refresh(self) -> None:
        """Brings the views up to date. They cost nothing while no slice and no node changes."""
        stamp = (self._table.version, self._nodes.layout)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        self.version += 1
        known, self._known, self.all, self._with_pool = self._known, {}, [], {}
        reached = _Visibility(self._nodes, self._table).by_place()
        self.of_node = np.array([self._view(key, known).index for key in reached], dtype=np.intp)
        for view in self.all:
            for pool in view.pools:
                self._with_pool.setdefault(pool.id, []).append(view)

    def with_pool(self, pool: PoolId) -> Iterable[DeviceView]:
        return self._with_pool.get(pool, ())

    def _view(
        self, key: tuple[_Seen, ...], known: dict[tuple[object, ...], DeviceView]
    ) -> DeviceView:
        view = self._known.get(key)
        if view is None:
            view = known.get(key) or DeviceView(tuple(map(self._visible, key)))
            view.index = len(self.all)
            self.all.append(view)
            self._known[key] = view
        return view

    def _visible(self, seen: _Seen) -> VisiblePool:
        pool = self._table.pools[seen.pool]
        current = pool.current()
        devices = tuple(
            PoolDevice(device, one)
            for one in current
            for at, device in enumerate(one.devices)
            if (one.name, at) in seen.parts or (one.name, -1) in seen.parts
        )
        counters, why = _counters_of(current)
        problem = _problem_of(current, devices) or why
        consumers = tuple(d for one in current for d in one.devices if d.spec.consumes_counters)
        return VisiblePool(seen.pool, devices, problem, counters, consumers)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The slices of a pool, at one state of it, that a node reaches; -1 stands for all devices."""

    pool: PoolId
    serial: int
    parts: frozenset[tuple[str, int]]


class _Visibility:
    """Finds out for each node which devices it reaches."""

    def __init__(self, nodes: NodeTable, table: PoolTable) -> None:
        self._nodes = nodes
        self._table = table
        self._masks: dict[bytes, Mask] = {}

    def by_place(self) -> Iterator[tuple[_Seen, ...]]:
        """Yields for each place what its node reaches, ordered by pool."""
        local: dict[str, list[_Seen]] = {}
        shared: list[tuple[_Pool, PoolId, list[tuple[tuple[str, int], Mask]]]] = []
        for key in sorted(self._table.pools):
            pool = self._table.pools[key]
            current = pool.current()
            if all(one.is_local for one in current):
                by_node: dict[str, set[tuple[str, int]]] = {}
                for one in current:
                    by_node.setdefault(one.spec.node_name or "", set()).add((one.name, -1))
                for node, parts in by_node.items():
                    local.setdefault(node, []).append(_Seen(key, pool.serial, frozenset(parts)))
            else:
                shared.append((pool, key, [part for one in current for part in self._parts(one)]))
        reached = _patterns(shared, len(self._nodes))
        for place, name in enumerate(self._nodes.names):
            own = local.get(name, [])
            others = reached[place] if reached else ()
            yield tuple(sorted((*own, *others), key=lambda seen: seen.pool))

    def _parts(self, one: OfferedSlice) -> Iterator[tuple[tuple[str, int], Mask]]:
        """Yields the parts of a slice that have nodes of their own, with these nodes."""
        spec = one.spec
        if spec.shared_counters:
            # What its devices share is needed wherever any of them is.
            yield (one.name, -1), np.ones(len(self._nodes), dtype=np.bool_)
        elif spec.per_device_node_selection:
            for at, device in enumerate(one.devices):
                found = device.spec
                mask = self._reaching(found.node_name, found.all_nodes, found.node_selector)
                yield (one.name, at), mask
        else:
            yield (one.name, -1), self._reaching(spec.node_name, spec.all_nodes, spec.node_selector)

    def _reaching(
        self, name: str | None, all_nodes: bool | None, selector: NodeSelector | None
    ) -> Mask:
        nodes = self._nodes
        key = codec.encode((name, all_nodes, selector))
        mask = self._masks.get(key)
        if mask is None:
            mask = np.zeros(len(nodes), dtype=np.bool_)
            if name:
                if (place := nodes.find(name)) >= 0:
                    mask[place] = True
            elif all_nodes:
                mask[:] = True
            elif selector is not None:
                mask = nodes.where(lambda node: node_selector_matches(selector, node))
            self._masks[key] = mask
        return mask


def _patterns(
    shared: list[tuple[_Pool, PoolId, list[tuple[tuple[str, int], Mask]]]], n_nodes: int
) -> list[tuple[_Seen, ...]]:
    """Returns for each place what its node reaches of pools that several nodes reach."""
    rows = [mask for _, _, parts in shared for _, mask in parts]
    if not rows:
        return []
    columns = np.ascontiguousarray(np.array(rows).T)
    known: dict[bytes, tuple[_Seen, ...]] = {}
    found: list[tuple[_Seen, ...]] = []
    for place in range(n_nodes):
        pattern = columns[place].tobytes()
        if pattern not in known:
            known[pattern] = tuple(_seen_of(shared, place))
        found.append(known[pattern])
    return found


def _seen_of(
    shared: list[tuple[_Pool, PoolId, list[tuple[tuple[str, int], Mask]]]], place: int
) -> Iterator[_Seen]:
    for pool, key, parts in shared:
        seen = frozenset(part for part, mask in parts if mask[place])
        if seen:
            yield _Seen(key, pool.serial, seen)


def _problem_of(current: list[OfferedSlice], devices: tuple[PoolDevice, ...]) -> str:
    for one in current:
        if one.problem:
            return one.problem
    if len(current) != current[0].spec.pool.resource_slice_count:
        return INCOMPLETE
    names: set[str] = set()
    for entry in devices:
        name = entry.device.id[2]
        if name in names:
            return f"has two devices named {name!r}"
        names.add(name)
    return ""


def _counters_of(current: list[OfferedSlice]) -> tuple[_Amounts, str]:
    """Returns the counters of a pool, and what is wrong with them or with their use."""
    amounts: _Amounts = {}
    names: set[str] = set()
    for one in current:
        for counters in one.spec.shared_counters:
            if counters.name in names:
                return {}, f"has two sets of counters named {counters.name!r}"
            names.add(counters.name)
            for name, counter in counters.counters.items():
                amounts[counters.name, name] = _billionths(counter)
    for one in current:
        for device in one.devices:
            for key in consumption_of(device.spec.consumes_counters):
                if key not in amounts:
                    return {}, f"lacks the counter {key[1]!r} of {key[0]!r}, which a device takes"
    return amounts, ""


def consumption_of(consumed: Iterable[CounterConsumption]) -> _Amounts:
    """Returns what a device takes from the counters of its pool."""
    found: _Amounts = {}
    for one in consumed:
        for name, counter in one.counters.items():
            key = one.counter_set, name
            found[key] = found.get(key, 0) + _billionths(counter)
    return found


def _billionths(counter: DeviceCounter) -> int:
    try:
        return quantity.parse(str(counter.value)).nano
    except QuantityError:
        return 0
