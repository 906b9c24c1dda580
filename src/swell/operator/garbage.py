"""Sweeps up, from time to time, what jobs that are gone have left behind.

Owner references and finalizers leave nothing to do, mostly. What is left then: objects created by a
write that arrived when its job was gone, and pods on nodes that died. Decides nothing itself: see
`lifecycle.garbage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    JOBS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from swell.api.meta import ApiStruct, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.operator import labels
from swell.operator.lifecycle.garbage import Labelled, orphans, stuck_pods
from swell.operator.lifecycle.world import NodeState
from swell.operator.settings import Settings
from swell.runtime.cache import StaleListError, parse_version
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.errors import ClusterError, NotFoundError, UnreachableError
from swell.runtime.executor import Executor
from swell.runtime.logs import get_logger
from swell.runtime.plan import Action, Plan

log = get_logger(__name__)

KINDS: tuple[Resource[object], ...] = (
    PODS,
    SERVICES,
    CONFIG_MAPS,
    REPLICA_SETS,
    JOBS,
    POD_GROUPS,
)
_PAGE = 500
_READ_S = 2.0


class OnlyMetadata(ApiStruct, frozen=True):
    """Any object, as far as its identity goes."""

    metadata: ObjectMeta = ObjectMeta()


class GarbageCollector:
    """Reads consistently, decides, deletes; then waits for the next round."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings,
        clock: Clock,
        pods: Callable[[], Iterable[Pod]],
        node_states: Callable[[Iterable[str]], Mapping[str, NodeState]],
    ) -> None:
        self._cluster = cluster
        self._executor = Executor(cluster)
        self._settings = settings
        self._clock = clock
        self._pods = pods
        self._node_states = node_states

    async def run(self) -> None:
        """Sweep once a period until cancelled."""
        while True:
            await self._clock.sleep(self._settings.gc_period_s)
            try:
                await self.sweep()
            except (ClusterError, UnreachableError, StaleListError, TimeoutError) as error:
                log.info("garbage not collected", why=str(error))

    async def sweep(self) -> None:
        """One round."""
        found: list[Labelled] = []
        version = 0
        for resource in KINDS:
            some, seen = await self._labelled(resource)
            found += some
            version = max(version, seen)
        # Whatever has an owner was created after it, so the owners are read last.
        actions = orphans(found, await self._jobs(version)) if found else []
        for action in [*actions, *await self._stuck()]:
            outcome = await self._executor.execute(Plan((action,)))
            failure = outcome.gravest
            log.info(
                "garbage deleted",
                what=f"{action.resource} {action.key}",
                failure=failure.message if failure else "",
            )

    async def _stuck(self) -> list[Action]:
        """Asking for the nodes has those in doubt read, which takes a moment."""
        if not self._node_states(self._nodes_of_leaving()):
            return []
        await self._clock.sleep(_READ_S)
        leaving = [p for p in self._pods() if p.metadata.deletion_timestamp is not None]
        states = self._node_states(self._nodes_of_leaving())
        return stuck_pods(leaving, states, self._settings, self._clock.now())

    def _nodes_of_leaving(self) -> dict[str, None]:
        return dict.fromkeys(
            pod.spec.node_name
            for pod in self._pods()
            if pod.metadata.deletion_timestamp is not None and pod.spec.node_name
        )

    async def _labelled(self, resource: Resource[object]) -> tuple[list[Labelled], int]:
        selection = Selection(
            self._settings.namespace, labels=f"{labels.GROUP_NAME}={labels.GROUP_VALUE}"
        )
        try:
            listed, version = await self._metadata(resource, selection)
        except NotFoundError:
            return [], 0  # a kind this cluster does not have
        return [Labelled(resource, metadata) for metadata in listed], version

    async def _jobs(self, not_before: int) -> frozenset[Uid]:
        """The jobs there are. A server that lags behind may lack new ones: that is no answer."""
        selection = Selection(self._settings.namespace)
        listed, version = await self._metadata(AI_TRAINING_JOBS, selection)
        if version < not_before:
            raise StaleListError(version, not_before)
        return frozenset(metadata.uid for metadata in listed)

    async def _metadata(
        self, resource: Resource[object], selection: Selection
    ) -> tuple[list[ObjectMeta], int]:
        """Every object's metadata, and the version the list is of."""
        bare = Resource(
            resource.group,
            resource.version,
            resource.kind,
            resource.plural,
            OnlyMetadata,
            resource.namespaced,
        )
        found: list[ObjectMeta] = []
        token = ""
        while True:
            page = await self._cluster.list(bare, selection, limit=_PAGE, continue_token=token)
            found += [item.metadata for item in page.items]
            found += [
                ObjectMeta(name=m.key.name, namespace=m.key.namespace, uid=m.uid)
                for m in page.malformed
            ]
            token = page.continue_token
            if not token:
                return found, parse_version(page.resource_version)
