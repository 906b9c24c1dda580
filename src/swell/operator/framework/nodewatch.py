"""Which nodes are certainly unready, and for how long, and which are certainly gone.

Time is counted from when *this process* first saw a node unready, by its monotonic clock: the
clocks of nodes and ours may differ and may be set. A stale cache must never cost a live pod its
record, so a node that looks lost is read from the API server itself before it counts as lost
(docs/adr/0040).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from swell.api.core import Node
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.operator.framework.fencing import NodeState, is_ready
from swell.operator.framework.gpu_drops import GpuDropWatch
from swell.operator.framework.gpu_states import GpuDrop
from swell.operator.framework.gpuwatch import GpuFaultWatch
from swell.operator.framework.mass_failure import MassFailure, MassFailureWatch
from swell.runtime.cache import StaleListError
from swell.runtime.clock import Clock
from swell.runtime.errors import ClusterError, UnreachableError
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.queue import WorkQueue

log = get_logger(__name__)

# A consistent read counts as the present for this long.
CERTAIN_S = 5.0
# Reads are remembered for longer, since `states` compares the cache with the last one.
_KEPT_S = 600.0


@dataclass(frozen=True, slots=True)
class NodeFaultWatches:
    """The watches of broken GPUs, and the pods on a node that is named."""

    gpus: GpuFaultWatch
    drops: GpuDropWatch
    pods_on: Callable[[str], Iterable[Pod]]


class NodeWatch:
    """Answers what is certain about nodes.

    `states` answers at once and queues the nodes about which it cannot be certain. `run` reads
    those from the API server and then calls `on_known` with the node's name.
    """

    def __init__(
        self,
        nodes: Informer[Node],
        queue: WorkQueue[Key],
        clock: Clock,
        on_known: Callable[[str], None],
        faults: NodeFaultWatches | None = None,
    ) -> None:
        self._faults = faults
        self._nodes = nodes
        self._queue = queue
        self._clock = clock
        self._on_known = on_known
        # When each node was first seen unready, and the transition time it reported then. A node
        # that was ready in between, unseen by us, reports another transition time.
        self._unready_s: dict[str, float] = {}
        self._transitions: dict[str, str] = {}
        # Whether a consistent read found each node, and when that was.
        self._exists: dict[str, bool] = {}
        self._read_s: dict[str, float] = {}
        self._mass = MassFailureWatch()
        nodes.add_handler(self._note)

    def states(self, names: Iterable[str]) -> dict[str, NodeState]:
        """The nodes about which something is certain. The others are queued to be read."""
        known: dict[str, NodeState] = {}
        if not self._nodes.synced or not self._nodes.is_served:
            return known
        for name in names:
            node = self._nodes.get(Key("", name))
            # Of a node that cannot be decoded nothing is certain, so no pod is given up for it.
            if self._nodes.malformed(Key("", name)) is not None:
                continue
            if node is not None and is_ready(node):
                known[name] = NodeState(
                    node, gpu_fault_at=self._fault_at(name), gpu_drop=self._drop_of(node)
                )
                continue
            is_fresh = self._clock.monotonic() - self._read_s.get(name, -CERTAIN_S) < CERTAIN_S
            if not is_fresh:
                self._queue.add(Key("", name))
            # Only what cache and consistent read agree on is certain.
            if self._exists.get(name) is (node is not None):
                since = self._unready_since(name) if node else None
                known[name] = NodeState(node, since, is_fresh, self._fault_at(name))
        return known

    def mass_failure(self) -> MassFailure | None:
        """The mass failure of nodes for which restarts are held back now."""
        return self._mass.current(self._clock.monotonic(), self._clock.now())

    async def run(self) -> None:
        """Read the queued nodes until cancelled."""
        while True:
            key = await self._queue.get()
            # The answer says how things were when it was asked for. It may come late, above all
            # to a process that was stopped meanwhile.
            asked_s = self._clock.monotonic()
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
                self._exists[key.name] = self._nodes.get(key) is not None
                self._read_s[key.name] = asked_s
            self._on_known(key.name)
            self._forget_old()

    def _forget_old(self) -> None:
        """Drop reads that are too old to count: a node that is gone may never be asked for again.

        `states` has the node read again if it is.
        """
        oldest = self._clock.monotonic() - _KEPT_S
        for name in [name for name, read_s in self._read_s.items() if read_s < oldest]:
            del self._read_s[name]
            del self._exists[name]

    def _note(self, key: Key) -> None:
        node = self._nodes.get(key)
        if self._nodes.malformed(key) is not None:
            return
        self._mass.note(
            key.name,
            is_there=node is not None,
            is_ready=node is not None and is_ready(node),
            now_s=self._clock.monotonic(),
        )
        if self._faults is not None:
            self._faults.gpus.note(key.name, node)
            self._faults.drops.note(key.name, node)
        if node is not None and not is_ready(node):
            transition = _last_transition(node)
            if self._transitions.get(key.name) != transition:
                self._unready_s.pop(key.name, None)
            self._transitions[key.name] = transition
            self._unready_s.setdefault(key.name, self._clock.monotonic())
            return
        self._unready_s.pop(key.name, None)
        self._transitions.pop(key.name, None)
        if node is not None:
            self._exists.pop(key.name, None)
            self._read_s.pop(key.name, None)

    def _fault_at(self, name: str) -> float | None:
        at = None if self._faults is None else self._faults.gpus.counts_at(name)
        return None if at is None else self._wall(at)

    def _drop_of(self, node: Node) -> GpuDrop | None:
        if self._faults is None:
            return None
        pods = self._faults.pods_on(node.metadata.name)
        drop = self._faults.drops.drop_of(node, pods)
        return None if drop is None else replace(drop, at=self._wall(drop.at))

    def _wall(self, at: float) -> float:
        return self._clock.now() + (at - self._clock.monotonic())

    def _unready_since(self, name: str) -> float:
        """The time in wall time, which is what decisions compare."""
        since_s = self._unready_s.get(name, self._clock.monotonic())
        return self._clock.now() - (self._clock.monotonic() - since_s)


def _last_transition(node: Node) -> str:
    """The transition time of the Ready condition: by the node's clock, so only good to compare."""
    ready = (c.last_transition_time for c in node.status.conditions if c.type == "Ready")
    return next(ready, None) or ""
