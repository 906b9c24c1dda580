"""Amounts of extended resources that nodes have by devices, where no device plugin offers any."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.core import Node
from swell.api.pod import QuantityText

Amounts = Mapping[str, Mapping[str, int]]  # by node and resource


class ProvidedAmounts:
    """Keeps the amounts of all nodes, also of those that are not there yet."""

    def __init__(self) -> None:
        self._amounts: Amounts = {}

    def replace(self, amounts: Amounts) -> list[str]:
        """Takes new amounts for all nodes; returns the nodes whose amounts are others now."""
        before, self._amounts = self._amounts, amounts
        return [name for name in {**before, **amounts} if before.get(name) != amounts.get(name)]

    def with_devices(self, node: Node) -> Mapping[str, QuantityText]:
        """Returns what a node has, with what its devices stand for."""
        own = node.status.allocatable
        provided = self._amounts.get(node.metadata.name)
        if not provided:
            return own
        added = {name: str(n) for name, n in provided.items() if not offers(node, name)}
        return {**own, **added}


def offers(node: Node, resource: str) -> bool:
    """Whether a node itself offers something of a resource."""
    return str(node.status.allocatable.get(resource, "0")) != "0"
