"""Makes pods leave: says why on the pod first, then deletes it, and goes on until it is gone.

Pods that leave for one reason leave together: all of them are marked before the first is deleted,
so that whoever comes after a crash finds what was intended. Always by UID. Decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from swell.api.core import EventSeverity
from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.times import format_time
from swell.runtime.cache import StaleListError
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, DeleteRequest, Patch, PatchKind
from swell.runtime.errors import (
    ClusterError,
    MalformedError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)
from swell.runtime.executor import EventSink
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.model.tasks import Task, TaskStatus

log = get_logger(__name__)

DISRUPTED: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
RELEASED: Final = "GangIncomplete"
OUR_REASONS: Final = frozenset({PREEMPTED, RELEASED})
_FAILURES = (
    ClusterError,
    UnreachableError,
    OutcomeUnknownError,
    MalformedError,
    StaleListError,
    TimeoutError,
)
_FINISHED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
_WRITE_S = 15.0
_WORKERS = 8


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Why pods leave: a word of the API, and a sentence."""

    reason: str
    message: str


@dataclass(eq=False, slots=True)
class _EvictionBatch:
    """Pods that leave together; those not marked yet hold up the deletion of the others."""

    why: EvictionCause
    pods: dict[Uid, Key]
    unmarked: dict[Uid, Key] = field(default_factory=dict)


class Evictor:
    """See the module's docstring. `run` does the work; `evict` only takes note."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        events: EventSink,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._events = events
        self._clock = clock
        self._queue = WorkQueue[Uid](clock=clock, random=random)
        self._parties: dict[Uid, _EvictionBatch] = {}

    def evict(self, tasks: Iterable[Task], why: EvictionCause) -> None:
        """Have pods deleted that the snapshot has as leaving already."""
        pods = {
            task.pod.metadata.uid: task.pod.metadata.key
            for task in tasks
            if task.pod.metadata.uid not in self._parties
        }
        party = _EvictionBatch(why, pods, dict(pods))
        for uid in pods:
            self._parties[uid] = party
            self._queue.add(uid)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._parties

    async def run(self) -> None:
        await asyncio.gather(*(self._queue.serve(self._advance) for _ in range(_WORKERS)))

    def stop(self) -> None:
        self._queue.close()

    async def _advance(self, uid: Uid) -> None:
        """One step for one pod: mark it, or delete it."""
        party = self._parties[uid]
        key = party.pods[uid]
        try:
            async with asyncio.timeout(_WRITE_S):
                pod = self._present(uid, key)
                if pod is not None and uid in party.unmarked:
                    pod = await self._mark(pod, party.why)
                self._note_marked(party, uid)
                if pod is not None and not party.unmarked:
                    await self._delete(pod)
                    pod = None
        except _FAILURES as error:
            log.info("not evicted", pod=str(key), why=str(error))
            await self._read(uid, key)
            self._queue.retry(uid)
            return
        self._queue.forget(uid)
        if pod is None:
            del self._parties[uid]

    def _present(self, uid: Uid, key: Key) -> Pod | None:
        """The pod, unless nothing is left to do about it."""
        task = self._cache.task_of(key, uid)
        if task is None or task.pod.metadata.deletion_timestamp is not None:
            return None
        # What it held is free by now, and how it ended is its job's to know.
        return None if task.status in _FINISHED else task.pod

    def _note_marked(self, party: _EvictionBatch, uid: Uid) -> None:
        """When the last one is marked, all of them are deleted."""
        if party.unmarked.pop(uid, None) is not None and not party.unmarked:
            for other in party.pods:
                if other in self._parties and other != uid:
                    self._queue.add(other)

    async def _mark(self, pod: Pod, why: EvictionCause) -> Pod | None:
        meta = pod.metadata
        self._events.record(
            EmitEvent(PODS, meta.key, meta.uid, EventSeverity.WARNING, "Evicted", why.message)
        )
        if is_marked(pod):
            return pod
        now = format_time(self._clock.now())
        conditions = [
            {"type": kind, "status": status, "reason": why.reason, "message": why.message}
            | {"lastTransitionTime": now}
            for kind, status in ((DISRUPTED, "True"), ("Ready", "False"))
        ]
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": conditions}}
        try:
            marked = await self._cluster.patch(
                PODS.status, meta.key, Patch(PatchKind.STRATEGIC, body)
            )
        except NotFoundError:
            self._cache.informers.pods.observe_deleted(meta.key, meta.uid)
            return None
        self._cache.informers.pods.observe(marked)
        return self._present(meta.uid, meta.key)

    async def _delete(self, pod: Pod) -> None:
        meta, pods = pod.metadata, self._cache.informers.pods
        try:
            left = await self._cluster.delete(PODS, meta.key, DeleteRequest(uid=meta.uid))
        except NotFoundError:
            left = None
        if left is None:
            pods.observe_deleted(meta.key, meta.uid)
        else:
            pods.observe(left)

    async def _read(self, uid: Uid, key: Key) -> None:
        """Learn what became of the pod; if that fails, the next attempt finds out."""
        try:
            await self._cache.informers.pods.refresh(key)
        except _FAILURES as error:
            log.info("not read", pod=str(key), uid=uid, why=str(error))


def is_marked(pod: Pod) -> bool:
    """Whether one of us decided that the pod has to leave."""
    return any(
        c.type == DISRUPTED and c.status == "True" and c.reason in OUR_REASONS
        for c in pod.status.conditions
    )
