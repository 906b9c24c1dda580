"""Sweeps up, from time to time, what TrainingJobs that are gone have left behind.

Owner references and finalizers leave nothing to do, mostly. What is left then was created by a
write that arrived when its owner was gone. Decides nothing itself: see `updater.orphans`.
"""

from __future__ import annotations

from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.resource import Resource
from swell.operator.trainingjob.labels import JOB_UID
from swell.operator.trainingjob.settings import Settings
from swell.operator.trainingjob.updater.orphans import Labelled, clean_orphans
from swell.runtime.cache import StaleListError, parse_version
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed, Selection
from swell.runtime.errors import ClusterError, NotFoundError, UnreachableError
from swell.runtime.executor import Executor
from swell.runtime.logs import get_logger
from swell.runtime.plan import Plan

log = get_logger(__name__)

_WORKLOADS: tuple[Resource[object], ...] = (REPLICA_SETS, JOBS)
_PAGE = 500


class OnlyMetadata(ApiStruct, frozen=True):
    """Any object, as far as its identity goes."""

    metadata: ObjectMeta = ObjectMeta()


class GarbageCollector:
    """Reads consistently, decides, deletes; then waits for the next round."""

    def __init__(self, cluster: Cluster, *, settings: Settings, clock: Clock) -> None:
        self._cluster = cluster
        self._executor = Executor(cluster)
        self._settings = settings
        self._clock = clock

    async def run(self) -> None:
        """Sweep once a period until cancelled."""
        while True:
            await self._clock.sleep(self._settings.gc_period_s)
            try:
                await self.sweep()
            except (ClusterError, UnreachableError, StaleListError, TimeoutError) as error:
                log.info("garbage not collected", why=str(error))

    async def sweep(self) -> None:
        """One round. Whatever has an owner was created after it, so owners are read after it."""
        found: list[Labelled] = []
        version = 0
        for resource in (PODS, *_WORKLOADS, POD_GROUPS):
            some, version = await self._found(resource, JOB_UID, version)
            found += some
        if not found:
            return
        # The workloads are among what was found: all of ours carry the label.
        workloads = frozenset(
            one.metadata.uid for one in found if str(one.resource) in map(str, _WORKLOADS)
        )
        owners, _ = await self._found(TRAINING_JOBS, "", version)
        jobs = frozenset(one.metadata.uid for one in owners)
        for action in clean_orphans(found, workloads, jobs):
            outcome = await self._executor.execute(Plan((action,)))
            failure = outcome.gravest
            log.info(
                "garbage deleted",
                what=f"{action.resource} {action.key}",
                failure=failure.message if failure else "",
            )

    async def _found(
        self, resource: Resource[object], labelled: str, after: int
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
        selection = Selection(self._settings.namespace, labels=labelled)
        found: list[Labelled] = []
        token = ""
        while True:
            try:
                page = await self._cluster.list(bare, selection, limit=_PAGE, continue_token=token)
            except NotFoundError:
                return [], after  # a kind this cluster does not have
            version = parse_version(page.resource_version)
            if version < after:
                # From a server that lags behind: what it lacks may merely be new to it.
                raise StaleListError(version, after)
            found += [Labelled(resource, item.metadata) for item in page.items]
            found += [Labelled(resource, _identity(one)) for one in page.malformed]
            token = page.continue_token
            if not token:
                return found, version


def _identity(malformed: Malformed) -> ObjectMeta:
    key = malformed.key
    return ObjectMeta(name=key.name, namespace=key.namespace, uid=malformed.uid)
