"""The allocation of a claim as it is written, from the devices that a search has found. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from swell.api.codec import to_body
from swell.api.devices import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedDevices,
    AllocationConfiguration,
    AllocationResult,
    DeviceResult,
)
from swell.api.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from swell.scheduler.model.devices.search import Chosen
from swell.scheduler.model.devices.wanted import WantedClaim, WantedDevices


def allocation_of(
    claim: WantedClaim, devices: Sequence[Chosen], ways: Sequence[WantedDevices], node: str
) -> AllocationResult:
    """Returns the allocation for devices that were found on a node; it has no timestamp."""
    config = (*_of_classes(ways), *_of_claim(claim, ways))
    return AllocationResult(
        devices=AllocatedDevices(results=tuple(map(_result, devices)), config=config),
        node_selector=_node_selector(devices, node),
    )


def _result(chosen: Chosen) -> DeviceResult:
    driver, pool, name = chosen.found.device.id
    return DeviceResult(
        request=chosen.wanted.name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if chosen.wanted.admin_access else None,
        tolerations=tuple(map(to_body, chosen.wanted.tolerations)),
    )


def _of_classes(ways: Sequence[WantedDevices]) -> Iterator[AllocationConfiguration]:
    """Yields the settings of each class once, with all requests of the class."""
    names = dict.fromkeys(way.of_class.name for way in ways)
    for name in names:
        of_class = [way for way in ways if way.of_class.name == name]
        requests = tuple(way.name for way in of_class)
        for config in of_class[0].of_class.config:
            yield AllocationConfiguration(
                source=FROM_CLASS, requests=requests, opaque=config.opaque
            )


def _of_claim(
    claim: WantedClaim, ways: Sequence[WantedDevices]
) -> Iterator[AllocationConfiguration]:
    """Yields the settings of the claim that are about one of its requests, as it was met."""
    for config in claim.spec.devices.config:
        # As in kube-scheduler they are listed once for each request that they name.
        named = sum(way.parent in config.requests or way.name in config.requests for way in ways)
        for _ in range(named if config.requests else 1):
            yield AllocationConfiguration(
                source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
            )


def _node_selector(devices: Sequence[Chosen], node: str) -> NodeSelector | None:
    """Returns the nodes that reach all of the devices; None if every node does."""
    fields: list[NodeSelectorRequirement] = []
    labels: list[NodeSelectorRequirement] = []
    for chosen in devices:
        found = chosen.found
        spec, device = found.of_slice.spec, found.device.spec
        source = device if spec.per_device_node_selection else spec
        if source.node_name is not None or device.binds_to_node:
            return only_on(node)
        selector = source.node_selector
        for term in selector.node_selector_terms if selector is not None else ():
            _add(fields, term.match_fields)
            _add(labels, term.match_expressions)
    if not fields and not labels:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(labels), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def only_on(node: str) -> NodeSelector:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))


def _add(found: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    found.extend(one for one in more if one not in found)
