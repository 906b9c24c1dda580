"""Sweeps up, from time to time, what jobs that are gone have left behind.

Owner references and finalizers leave nothing to do, mostly. What is left then: objects created by a
write that arrived when its job was gone, and pods on nodes that died. Decides nothing itself: see
`leftovers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.orphans import Labelled, Litter, stuck_pods
from swell.runtime.cache import StaleListError, parse_version
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed, Selection
from swell.runtime.errors import ClusterError, NotFoundError, UnreachableError
from swell.runtime.executor import Executor
from swell.runtime.logs import get_logger
from swell.runtime.plan import Action, Plan

log = get_logger(__name__)

_PAGE = 500
_READ_S = 2.0


class OnlyMetadata(ApiStruct, frozen=True):
    """Any object, as far as its identity goes."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class Rounds:
    """Where a collector looks, how often, and when it takes a silent node for dead."""

    namespace: str
    period_s: float
    fence_after_s: float


class GarbageCollector:
    """Reads consistently, decides, deletes; then waits for the next round."""

    def __init__(
        self,
        cluster: Cluster,
        litter: Litter,
        rounds: Rounds,
        *,
        clock: Clock,
        pods: Callable[[], Iterable[Pod]],
        node_states: Callable[[Iterable[str]], Mapping[str, NodeState]],
    ) -> None:
        self._cluster = cluster
        self._executor = Executor(cluster)
        self._litter = litter
        self._rounds = rounds
        self._clock = clock
        self._pods = pods
        self._node_states = node_states

    async def run(self) -> None:
        """Sweep once a period until cancelled."""
        while True:
            await self._clock.sleep(self._rounds.period_s)
            try:
                await self.sweep()
            except (ClusterError, UnreachableError, StaleListError, TimeoutError) as error:
                log.info("garbage not collected", why=str(error))

    async def sweep(self) -> None:
        """One round."""
        for action in [*await self._orphans(), *await self._stuck()]:
            outcome = await self._executor.execute(Plan((action,)))
            failure = outcome.worst
            log.info(
                "garbage deleted",
                what=f"{action.resource} {action.key}",
                failure=failure.message if failure else "",
            )

    async def _orphans(self) -> Iterable[Action]:
        """Whatever has an owner was created after it, so owners are read after it, jobs last."""
        found: list[Labelled] = []
        version = 0
        for resource in self._litter.kinds:
            try:
                some, version = await self._found(resource, self._litter.label, version)
            except NotFoundError:
                continue  # a kind this cluster does not have
            found += some
        if not found:
            return ()
        # A server that does not serve the jobs does not say that there are none.
        jobs, _ = await self._found(self._litter.jobs, "", version)
        return self._litter.orphans(found, frozenset(one.metadata.uid for one in jobs))

    async def _found(
        self, resource: Resource[object], label: str, after: int
    ) -> tuple[list[Labelled], int]:
        """What there is of a kind, and as of which version, which is none before `after`."""
        bare = Resource(
            resource.group,
            resource.version,
            resource.kind,
            resource.plural,
            OnlyMetadata,
            resource.namespaced,
        )
        selection = Selection(self._rounds.namespace, labels=label)
        found: list[Labelled] = []
        token = ""
        while True:
            page = await self._cluster.list(bare, selection, limit=_PAGE, continue_token=token)
            version = parse_version(page.resource_version)
            if version < after:
                # From a server that lags behind: what it lacks may merely be new to it.
                raise StaleListError(version, after)
            found += [Labelled(resource, item.metadata) for item in page.items]
            found += [Labelled(resource, _identity(one)) for one in page.malformed]
            token = page.continue_token
            if not token:
                return found, version

    async def _stuck(self) -> Iterable[Action]:
        """Asking for the nodes has those in doubt read, which takes a moment."""
        if not self._node_states(self._nodes_of_leaving()):
            return ()
        await self._clock.sleep(_READ_S)
        states = self._node_states(self._nodes_of_leaving())
        ours = filter(self._litter.is_ours, self._pods())
        return stuck_pods(ours, states, self._rounds.fence_after_s, self._clock.now())

    def _nodes_of_leaving(self) -> dict[str, None]:
        return dict.fromkeys(
            pod.spec.node_name
            for pod in filter(self._litter.is_ours, self._pods())
            if pod.metadata.deletion_timestamp is not None and pod.spec.node_name
        )


def _identity(malformed: Malformed) -> ObjectMeta:
    key = malformed.key
    return ObjectMeta(name=key.name, namespace=key.namespace, uid=malformed.uid)
