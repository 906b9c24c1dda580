"""What the node controller sees: nodes, and for how long each has been silent.

Silence is measured from the moment a renewal was seen here, on a clock that stands still while the
machine sleeps: a laptop that wakes up must not take all its nodes for lost. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from swell.api.lease import Lease
from swell.api.meta import Key
from swell.api.node import Node
from swell.cluster.embedded.controllers.nodelifecycle import NodeView
from swell.runtime.clock import Clock
from swell.runtime.informer import Informer

LEASE_NAMESPACE = "kube-node-lease"


class NodeSight:
    """Snapshots for `decide_node`."""

    def __init__(
        self, nodes: Informer[Node], leases: Informer[Lease], clock: Clock, grace_s: float
    ) -> None:
        self._nodes = nodes
        self._leases = leases
        self._clock = clock
        self._grace_s = grace_s
        # By node: the renewal last seen, and when.
        self._seen: dict[str, tuple[tuple[str, str | None], float]] = {}

    def watch_leases(self, wake: Callable[[Key], None]) -> None:
        """Note when renewals are seen, and wake nodes whose Lease is new.

        A renewal needs no pass: the node's next one is due when it would be late, and not before.
        """

        def on_lease(key: Key) -> None:
            lease = self._leases.get(key)
            if lease is None:
                self._seen.pop(key.name, None)
                return
            renewal = (lease.metadata.uid, lease.spec.renew_time)
            seen = self._seen.get(key.name)
            if seen is None or seen[0] != renewal:
                self._seen[key.name] = (renewal, self._clock.monotonic())
            if seen is None:
                wake(Key("", key.name))

        self._leases.add_handler(on_lease)

    def snapshot(self, key: Key) -> NodeView | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        seen = self._seen.get(key.name)
        silent_s = self._clock.monotonic() - seen[1] if seen else None
        return NodeView(node, silent_s, self._grace_s)
