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
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
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
            except (ClusterError, UnreachableError, TimeoutError) as error:
                log.info("garbage not collected", why=str(error))

    async def sweep(self) -> None:
        """One round. Whatever has an owner was created after it, so owners are read after it."""
        found = await self._found(PODS, JOB_UID)
        for resource in (*_WORKLOADS, POD_GROUPS):
            found += await self._found(resource, JOB_UID)
        if not found:
            return
        # The workloads are among what was found, if they carry the label: all of ours do.
        workloads = frozenset(
            one.metadata.uid for one in found if str(one.resource) in map(str, _WORKLOADS)
        )
        jobs = frozenset(one.metadata.uid for one in await self._found(TRAINING_JOBS, ""))
        for action in clean_orphans(found, workloads, jobs):
            outcome = await self._executor.execute(Plan((action,)))
            failure = outcome.gravest
            log.info(
                "garbage deleted",
                what=f"{action.resource} {action.key}",
                failure=failure.message if failure else "",
            )

    async def _found(self, resource: Resource[object], labelled: str) -> list[Labelled]:
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
                return []  # a kind this cluster does not have
            found += [Labelled(resource, item.metadata) for item in page.items]
            found += [
                Labelled(
                    resource, ObjectMeta(name=m.key.name, namespace=m.key.namespace, uid=m.uid)
                )
                for m in page.malformed
            ]
            token = page.continue_token
            if not token:
                return found
