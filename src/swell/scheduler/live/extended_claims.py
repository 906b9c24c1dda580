"""Makes the claims of pods for extended resources that devices stand for.

A claim is made when its pod's group is admitted and some node has devices for it; the pod waits
until it is seen. It has a name that follows from the pod, so a claim that was made although the
answer was lost is found again. Claims go with their pods.
"""

from __future__ import annotations

from random import Random

from swell.api.kinds import RESOURCE_CLAIMS
from swell.api.meta import Key
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.executor import Executor, FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.plan import CreateObject, Plan
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.model.devices.extended import claim_body
from swell.scheduler.model.tasks import Task, TaskStatus

log = get_logger(__name__)


class ExtendedClaims:
    """Works off pods that lack their claim. `check` only queues them."""

    def __init__(
        self, cluster: Cluster, cache: SchedulerCache, *, clock: Clock, random: Random
    ) -> None:
        self._cache = cache
        self._claims = cache.informers.resource_claims
        self._executor = Executor(cluster, informers=[self._claims])
        self._queue = WorkQueue[Key](clock=clock, random=random)

    def check(self, *, admits_all: bool) -> None:
        """Queue the pods that are to have a claim made; of groups that are admitted, or of all."""
        for task in self._cache.snapshot.devices.lacking.values():
            if self._is_due(task, admits_all=admits_all):
                self._queue.add(task.pod.metadata.key)

    async def run(self) -> None:
        await self._queue.serve(self._work)

    def stop(self) -> None:
        self._queue.close()

    def _is_due(self, task: Task, *, admits_all: bool) -> bool:
        return (
            task.job is not None
            and not task.is_foreign
            and task.status is TaskStatus.PENDING
            and (admits_all or task.job.is_admitted)
            and self._cache.snapshot.devices.room.is_provided(task)
        )

    async def _work(self, key: Key) -> None:
        task = self._cache.snapshot.task(str(key)) if self._cache.is_filled else None
        if task is None or task.key not in self._cache.snapshot.devices.lacking:
            self._queue.forget(key)
            return
        requests = self._cache.snapshot.devices.extended.requests_of(task.pod.spec)
        body = claim_body(task.pod, requests)
        action = CreateObject(RESOURCE_CLAIMS.untyped(), body)
        outcome = await self._executor.execute(Plan((action,)))
        failure = outcome.worst
        if failure is None or failure.kind is FailureKind.STALE:
            self._queue.forget(key)  # once it is seen the pod does not lack it any more
        else:
            log.warning("claim not made", pod=str(key), why=failure.message)
            self._queue.retry(key, failure.retry_after_s)
