"""What is certain about nodes: how long each has not been ready, and which do not exist any more.

Time is counted from when *this process* first saw a node unready, by its monotonic clock, because
nodes' clocks and ours may differ and be set. And since a lagging cache must never cost a live pod
its record, a node that looks lost is read from the server itself before anybody may say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from swell.api.core import Node
from swell.api.meta import Key
from swell.operator.aitrainingjob.nodes import is_ready
from swell.operator.framework.fencing import NodeState
from swell.runtime.cache import StaleListError
from swell.runtime.clock import Clock
from swell.runtime.errors import ClusterError, UnreachableError
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.queue import WorkQueue

log = get_logger(__name__)

# For so long a consistent read counts as the present.
CERTAIN_S = 5.0


class NodeWatch:
    """`states` answers at once with what is certain; `run` finds out about the rest, and has
    whoever is waiting told by `on_known`."""

    def __init__(
        self,
        nodes: Informer[Node],
        queue: WorkQueue[Key],
        clock: Clock,
        on_known: Callable[[str], None],
    ) -> None:
        self._nodes = nodes
        self._queue = queue
        self._clock = clock
        self._on_known = on_known
        # Since when, and which change of the node's that was: one that was ready in between, while
        # nobody looked, names another.
        self._unready_s: dict[str, float] = {}
        self._changes: dict[str, str] = {}
        # What a consistent read found, a node that exists or not, and when it last did.
        self._found: dict[str, bool] = {}
        self._read_s: dict[str, float] = {}
        nodes.add_handler(self._note)

    def states(self, names: Iterable[str]) -> dict[str, NodeState]:
        """The nodes of which something is certain. The others are looked into."""
        known: dict[str, NodeState] = {}
        if not self._nodes.synced or not self._nodes.is_served:
            return known
        for name in names:
            node = self._nodes.get(Key("", name))
            if node is not None and is_ready(node):
                known[name] = NodeState(node)
                continue
            is_fresh = self._clock.monotonic() - self._read_s.get(name, -CERTAIN_S) < CERTAIN_S
            if not is_fresh:
                self._queue.add(Key("", name))
            if self._found.get(name) is (node is not None):
                since = self._unready_since(name) if node else None
                known[name] = NodeState(node, since, is_fresh)
        return known

    async def run(self) -> None:
        """Read doubtful nodes until cancelled."""
        while True:
            key = await self._queue.get()
            try:
                await self._nodes.refresh(key)
            except (ClusterError, UnreachableError, StaleListError, TimeoutError) as error:
                log.info("node not read", node=key.name, why=str(error))
                self._queue.done(key)
                self._queue.retry(key)
                continue
            self._queue.forget(key)
            self._queue.done(key)
            self._note(key)
            if key.name in self._unready_s or self._nodes.get(key) is None:
                self._found[key.name] = self._nodes.get(key) is not None
                self._read_s[key.name] = self._clock.monotonic()
            self._on_known(key.name)

    def _note(self, key: Key) -> None:
        node = self._nodes.get(key)
        if node is not None and not is_ready(node):
            change = _last_change(node)
            if self._changes.get(key.name) != change:
                self._unready_s.pop(key.name, None)
            self._changes[key.name] = change
            self._unready_s.setdefault(key.name, self._clock.monotonic())
            return
        self._unready_s.pop(key.name, None)
        self._changes.pop(key.name, None)
        if node is not None:
            self._found.pop(key.name, None)
            self._read_s.pop(key.name, None)

    def _unready_since(self, name: str) -> float:
        """In wall time, as decisions have it."""
        since_s = self._unready_s.get(name, self._clock.monotonic())
        return self._clock.now() - (self._clock.monotonic() - since_s)


def _last_change(node: Node) -> str:
    """When the node says it last became ready or not; by its own clock, so only good to compare."""
    ready = (c.last_transition_time for c in node.status.conditions if c.type == "Ready")
    return next(ready, None) or ""
