"""What each queue may have, deserves and is guaranteed, flat or along a tree of queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from swell.scheduler.model.jobs import QueueEntry
from swell.scheduler.model.resources import Mask, Vector, excess

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Entitlement:
    limit: Vector
    deserved: Vector
    given: Mask  # which resources `deserved` says anything about
    guarantee: Vector

    @property
    def has_any(self) -> bool:
        return bool((self.deserved[self.given] > 0).any())


def entitlements(
    queues: Mapping[str, QueueEntry], total: Vector, *, is_tree: bool
) -> dict[str, Entitlement]:
    """For every queue; in a tree the root is bound by nothing but its own limits."""
    nothing = np.zeros_like(total)
    if not is_tree:
        guaranteed = sum((queue.guarantee for queue in queues.values()), nothing)
        free = excess(total, guaranteed)
        return {name: _entitlement(queue, free) for name, queue in queues.items()}
    found: dict[str, Entitlement] = {}
    for queue in sorted(queues.values(), key=lambda q: len(q.lineage)):
        if len(queue.lineage) == 1:
            found[queue.name] = _of_root(queue, queues)
            continue
        parent = queue.lineage[1]
        siblings = (q.guarantee for q in queues.values() if q.lineage[1:2] == (parent,))
        free = excess(found[parent.name].limit, sum(siblings, nothing))
        found[queue.name] = _entitlement(queue, free)
    return found


def tree_problem(queues: Mapping[str, QueueEntry]) -> str | None:
    """What is wrong with the tree, if anything."""
    if ROOT not in queues:
        return "there is no queue named root"
    parents: set[str] = set()
    for queue in queues.values():
        if queue.lineage[-1].name != ROOT:
            return f"queue {queue.name} does not descend from root"
        parents.update(ancestor.name for ancestor in queue.lineage[1:])
    for name in sorted(parents):
        if queues[name].jobs:
            return f"queue {name} has both jobs and child queues"
    return None


def _entitlement(queue: QueueEntry, free: Vector) -> Entitlement:
    limit = np.minimum(free + queue.guarantee, queue.capability)
    return Entitlement(
        limit=limit,
        deserved=np.maximum(np.minimum(queue.deserved, limit), queue.guarantee),
        given=queue.deserved_given | (queue.guarantee > 0),
        guarantee=queue.guarantee,
    )


def _of_root(root: QueueEntry, queues: Mapping[str, QueueEntry]) -> Entitlement:
    children = [queue for queue in queues.values() if queue.lineage[1:2] == (root,)]
    nothing = np.zeros_like(root.deserved)
    given = np.zeros_like(root.deserved_given)
    for child in children:
        given = given | child.deserved_given
    return Entitlement(
        limit=root.capability,
        deserved=sum((child.deserved for child in children), nothing),
        given=given,
        guarantee=sum((child.guarantee for child in children), nothing),
    )
