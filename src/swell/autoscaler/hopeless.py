"""Which pending jobs can never start on this cluster as it is, and so must not squeeze others."""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.podgroup import PodGroup
from swell.autoscaler.needs import Needs
from swell.autoscaler.views import JobView, NodeView

# Conditions of a group that is refused for its queue, not for want of room.
REFUSED_FOR_QUEUE = frozenset(
    {"QueueNotFound", "QueueClosed", "QueueQuotaExceeded", "QueueTreeInvalid"}
)


class Places:
    """The nodes that count, by name, and what they offer when they are empty."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.nodes = tuple(nodes)
        self.totals: dict[str, int] = {}
        for node in nodes:
            for name, amount in node.allocatable.items():
                self.totals[name] = self.totals.get(name, 0) + amount
        self._fits: dict[Needs, bool] = {}

    def fit(self, needs: Needs) -> bool:
        """Whether some node, were it empty, would take one replica."""
        found = self._fits.get(needs)
        if found is None:
            found = self._fits[needs] = any(
                needs.fit_in(node.allocatable) and needs.constraints.accept(node.node)
                for node in self.nodes
            )
        return found


def is_hopeless(job: JobView, places: Places, *, is_refused: bool) -> bool:
    """Whether a pending job cannot start, however much room others make."""
    if is_refused or not all(places.fit(role.needs) for role in job.roles):
        return True
    minimum: dict[str, int] = {}
    for role in job.roles:
        for name, amount in role.needs.requests.items():
            minimum[name] = minimum.get(name, 0) + role.gang_minimum * amount
    return any(amount > places.totals.get(name, 0) for name, amount in minimum.items())


def is_refused_for_queue(group: PodGroup) -> bool:
    return any(
        condition.type == "Unschedulable"
        and condition.status == "True"
        and condition.reason in REFUSED_FOR_QUEUE
        for condition in group.status.conditions
    )
