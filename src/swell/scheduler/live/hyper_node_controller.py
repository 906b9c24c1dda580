"""Keeps the status of HyperNodes up to date: whether they are in the tree, and how many nodes.

It is the only writer of these statuses. Which HyperNode is left out is decided in
`model.domain_tree`; the loop says when the tree may have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from swell.api.codec import to_body
from swell.api.core import EventSeverity
from swell.api.kinds import HYPER_NODES
from swell.api.meta import Condition, Key
from swell.api.times import format_time
from swell.api.topology import VALID, HyperNode
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed
from swell.runtime.controller import Controller, Reconciler
from swell.runtime.executor import EventSink, Executor
from swell.runtime.informer import Informer
from swell.runtime.metrics import Metrics
from swell.runtime.plan import NOTHING, EmitEvent, PatchStatus, Plan
from swell.runtime.queue import WorkQueue
from swell.scheduler.model.domain_tree import DomainTree

# Nodes come and go in bursts: counts are written at most once in this time.
SETTLE_S: Final = 1.0
IN_TREE: Final = "InTree"
INVALID: Final = "HyperNodeInvalid"


@dataclass(frozen=True, slots=True)
class HyperNodeView:
    """The input of one decision: the object, and what the tree says of it."""

    hyper_node: HyperNode
    n_nodes: int
    problem: tuple[str, str] | None  # reason and message, if it is left out


class HyperNodeController:
    """Reconciles HyperNodes. The caller runs the informer; `tree` returns the present tree."""

    def __init__(
        self,
        cluster: Cluster,
        hyper_nodes: Informer[HyperNode],
        tree: Callable[[], DomainTree | None],
        *,
        clock: Clock,
        random: Random,
        events: EventSink | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._hyper_nodes = hyper_nodes
        self._tree = tree
        self._clock = clock
        self._seen: DomainTree | None = None
        self._keys: WorkQueue[Key] = WorkQueue(clock=clock, random=random)
        self.loop = Controller(
            "hypernode",
            Reconciler(self._take, self._decide, _decide_malformed),
            owners=hyper_nodes,
            others=[],
            executor=Executor(cluster, informers=[hyper_nodes], events=events, meter=metrics),
            queue=self._keys,
            clock=clock,
            workers=1,
            meter=metrics,
        )

    def follow_tree(self) -> None:
        """Have the statuses written soon if the tree is another than before."""
        tree = self._tree()
        if tree is self._seen:
            return
        self._seen = tree
        known = self._hyper_nodes.keys()
        for key in known:
            self._keys.add_after(key, SETTLE_S)

    def _take(self, key: Key) -> HyperNodeView | None:
        found, tree = self._hyper_nodes.get(key), self._tree()
        if found is None or tree is None:
            return None
        left_out = tree.left_out.get(key.name)
        if left_out is not None:
            problem = (left_out.reason, left_out.message)
            return HyperNodeView(found, len(left_out.places), problem)
        place = tree.places_of_name.get(key.name)
        # The tree has not seen it yet: the next cycle follows.
        return None if place is None else HyperNodeView(found, len(tree.members[place]), None)

    def _decide(self, view: HyperNodeView, now: float) -> Plan:
        del now
        return decide(view, format_time(self._clock.now()))


def decide(view: HyperNodeView, now: str) -> Plan:
    """Returns the write of a status that is not as it should be, and the event of a refusal."""
    hyper_node = view.hyper_node
    meta, status = hyper_node.metadata, hyper_node.status
    old = next((c for c in status.conditions if c.type == VALID), None)
    reason, message = view.problem or (IN_TREE, "")
    wanted = Condition(
        type=VALID,
        status="False" if view.problem else "True",
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=meta.generation or 0,
    )
    is_same = old is not None and _content(old) == _content(wanted)
    if is_same and status.node_count == view.n_nodes:
        return NOTHING
    if old is not None and (is_same or old.status == wanted.status):
        wanted = Condition(
            type=VALID,
            status=wanted.status,
            reason=reason,
            message=message,
            last_transition_time=old.last_transition_time,
            observed_generation=wanted.observed_generation,
        )
    others = [to_body(c) for c in status.conditions if c.type != VALID]
    change = {"nodeCount": view.n_nodes, "conditions": [*others, to_body(wanted)]}
    write = PatchStatus(HYPER_NODES, meta.key, meta.resource_version, change)
    if view.problem is None or is_same:
        return Plan((write,))
    text = f"{reason}: {message}"
    return Plan(
        (write, EmitEvent(HYPER_NODES, meta.key, meta.uid, EventSeverity.WARNING, INVALID, text))
    )


def _content(condition: Condition) -> tuple[object, ...]:
    return (
        condition.status,
        condition.reason,
        condition.message,
        condition.observed_generation,
    )


def _decide_malformed(found: Malformed, now: float) -> Plan:
    """Leaves an object that cannot be decoded as it is: the tree does without it."""
    del found, now
    return NOTHING
