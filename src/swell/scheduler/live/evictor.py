"""Evicts pods: writes the reason on the pod first, then deletes it, until it is gone.

Pods that are evicted for one cause form a batch. All of them are marked before the first is
deleted, so that after a crash the next process finds the whole intent on the pods. A native group
that leaves as a whole is marked as well. Every write is by UID.

A victim whose program saves when it is asked (`saving`) is left alone until its deadline, which is
on the pod. One of an AITrainingJob is left to the operator, which asks it and deletes it; if it is
still there some time after that, it is deleted here. Any other is asked here, and deleted at its
answer or at the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from swell.api.core import EventSeverity
from swell.api.injection import EVICTION_ANNOTATION
from swell.api.kinds import NATIVE_GROUPS, PODS
from swell.api.meta import Key, Uid
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.saving import eviction_of, has_answered
from swell.api.times import format_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Deletion, Patch, PatchKind, merge_patch
from swell.runtime.errors import (
    MalformedError,
    NotFoundError,
)
from swell.runtime.executor import EventSink
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import READ_FAILURES, SchedulerCache
from swell.scheduler.live.eviction_records import (
    PREEMPTED,
    RELEASED,
    EvictionCause,
    EvictionRecords,
    groups_of,
)
from swell.scheduler.live.saving import (
    departure_notes,
    is_asked_by_operator,
    patience_s,
    save_seconds,
)
from swell.scheduler.live.unrecorded_victims import UnrecordedVictims
from swell.scheduler.model.tasks import Task, TaskStatus

log = get_logger(__name__)

# The condition of Kubernetes for pods that are evicted.
DISRUPTED: Final = "DisruptionTarget"
OUR_REASONS: Final = frozenset({PREEMPTED, RELEASED})
NO_GROUPS: Final[Mapping[Key, Uid]] = {}
_FAILURES = (*READ_FAILURES, MalformedError)
_FINISHED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
# Longer than one attempt of the client; then the result counts as unknown.
_WRITE_S = 15.0
_WORKERS = 8


@dataclass(eq=False, slots=True)
class _EvictionBatch:
    """Pods that are evicted together.

    Their groups have the record of it before the first is marked, and all are marked before the
    first is deleted.
    """

    why: dict[Uid, EvictionCause]
    pods: dict[Uid, Key]
    unmarked: dict[Uid, Key] = field(default_factory=dict)
    groups: dict[Key, Uid] = field(default_factory=dict)  # native ones, not marked yet
    marking: asyncio.Lock = field(default_factory=asyncio.Lock)
    unrecorded: dict[Key, tuple[Uid, EvictionCause]] = field(default_factory=dict)  # groups


class Evictor:
    """Marks and deletes pods. `evict` only queues them."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        events: EventSink,
        victims: UnrecordedVictims,
        *,
        clock: Clock,
        random: Random,
        save_s_max: float = 120.0,
    ) -> None:
        self._cluster = cluster
        self._save_s_max = save_s_max
        self._cache = cache
        self._events = events
        self._victims = victims
        self._clock = clock
        self._records = EvictionRecords(cluster, cache, clock)
        self._queue = WorkQueue[Uid](clock=clock, random=random)
        self._batches: dict[Uid, _EvictionBatch] = {}
        cache.informers.pods.add_handler(self._on_pod)

    def evict(
        self,
        parts: Iterable[tuple[Sequence[Task], EvictionCause]],
        groups: Mapping[Key, Uid] = NO_GROUPS,
    ) -> None:
        """Queue pods that are leaving in the snapshot already, and native groups left empty.

        They are one batch; the causes are those of its parts.
        """
        batch = _EvictionBatch({}, {}, groups=dict(groups))
        for tasks, why in parts:
            new = [task for task in tasks if task.pod.metadata.uid not in self._batches]
            self._victims.add(batch, new)
            for task in new:
                batch.pods[task.pod.metadata.uid] = task.pod.metadata.key
                batch.why[task.pod.metadata.uid] = why
            batch.unrecorded |= {key: (uid, why) for key, uid in groups_of(new).items()}
        batch.unmarked.update(batch.pods)
        for uid in batch.pods:
            self._batches[uid] = batch
            self._queue.add(uid)

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._batches

    def _on_pod(self, key: Key) -> None:
        """Look again at a victim that has saved: its deadline need not be awaited."""
        pod = self._cache.informers.pods.get(key)
        if pod is not None and pod.metadata.uid in self._batches and has_answered(pod):
            self._queue.add(pod.metadata.uid)

    async def run(self) -> None:
        await asyncio.gather(*(self._queue.serve(self._advance) for _ in range(_WORKERS)))

    def stop(self) -> None:
        self._queue.close()

    async def _advance(self, uid: Uid) -> None:
        """Take one step for one pod: mark it, or delete it once its batch is marked."""
        batch = self._batches.get(uid)
        if batch is None:
            return  # it was deleted at its answer, and its deadline has come since
        key = batch.pods[uid]
        try:
            async with asyncio.timeout(_WRITE_S):
                pod = self._present(uid, key)
                if pod is not None and uid in batch.unmarked:
                    # First of all: once a pod is marked its operator may delete it.
                    await self._mark_groups(batch)
                    if not await self._record(batch):
                        self._queue.retry(uid)
                        return
                    pod = await self._mark(pod, batch.why[uid])
                # A pod that is gone counts as marked, or the others would wait for it for ever.
                self._note_marked(batch, uid)
                if pod is not None and not batch.unmarked:
                    wait_s = await self._time_left(pod)
                    if wait_s > 0:
                        self._queue.forget(uid)
                        self._queue.add_after(uid, wait_s)
                        return
                    await self._delete(pod)
                    pod = None
        except _FAILURES as error:
            log.info("not evicted", pod=str(key), why=str(error))
            await self._read(uid, key)
            self._queue.retry(uid)
            return
        self._queue.forget(uid)
        if pod is None:
            del self._batches[uid]

    async def _time_left(self, pod: Pod) -> float:
        """Returns how long a marked pod is left alone; 0 if it is to be deleted.

        An operator that seems to be silent may have asked since: the pod is read before it goes.
        """
        wait_s = self._patience_s(pod)
        if wait_s > 0 or eviction_of(pod) is None or not is_asked_by_operator(pod):
            return wait_s
        await self._cache.informers.pods.refresh(pod.metadata.key)
        found = self._present(pod.metadata.uid, pod.metadata.key)
        return self._patience_s(found) if found is not None else 0.0

    def _patience_s(self, pod: Pod) -> float:
        return patience_s(pod, self._clock.now(), self._save_s_max)

    def _present(self, uid: Uid, key: Key) -> Pod | None:
        """Returns the pod, or None if it is gone, is being deleted, or has finished."""
        task = self._cache.task_of(key, uid)
        if task is None or task.pod.metadata.deletion_timestamp is not None:
            return None
        # A finished pod holds no room, and deleting it would hide from its job how it ended.
        return None if task.status in _FINISHED else task.pod

    def _note_marked(self, batch: _EvictionBatch, uid: Uid) -> None:
        """Queue the whole batch for deletion when its last pod is marked."""
        if batch.unmarked.pop(uid, None) is not None and not batch.unmarked:
            self._victims.discard(batch)
            for other in batch.pods:
                if other in self._batches and other != uid:
                    self._queue.add(other)

    async def _mark(self, pod: Pod, why: EvictionCause) -> Pod | None:
        meta = pod.metadata
        self._events.record(
            EmitEvent(PODS, meta.key, meta.uid, EventSeverity.WARNING, "Evicted", why.message)
        )
        marked: Pod | None = pod
        if not is_marked(pod):  # by an earlier process
            # The operator acts on the record at once. A pod without one is asked after its mark:
            # by the mark the next process knows that it has to go.
            if is_asked_by_operator(pod) and not await self._let_save(pod, why):
                return None
            marked = await self._write_mark(pod, why)
        if marked is None or is_asked_by_operator(marked):
            return marked
        return self._present(meta.uid, meta.key) if await self._let_save(marked, why) else None

    async def _write_mark(self, pod: Pod, why: EvictionCause) -> Pod | None:
        meta, now = pod.metadata, format_time(self._clock.now())
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
        # Read-your-writes: the next step must not act on the state before the mark.
        self._cache.informers.pods.observe(marked)
        return self._present(meta.uid, meta.key)

    async def _let_save(self, pod: Pod, why: EvictionCause) -> bool:
        """Record on a pod that may save first until when it may; False if it is gone.

        One that has no operator is asked by the same write.
        """
        meta, informers = pod.metadata, self._cache.informers
        # A gang that was never complete has nothing to save.
        save_s = save_seconds(pod, informers.jobs.get) if why.reason == PREEMPTED else None
        if not save_s or EVICTION_ANNOTATION in meta.annotations:
            return True
        deadline = self._clock.now() + min(save_s, self._save_s_max)
        notes = departure_notes(pod, why.preemptor or why.message, deadline)
        body = {"uid": meta.uid, "annotations": notes}
        try:
            noted = await self._cluster.patch(PODS, meta.key, merge_patch({"metadata": body}))
        except NotFoundError:
            informers.pods.observe_deleted(meta.key, meta.uid)
            return False
        informers.pods.observe(noted)
        return True

    async def _mark_groups(self, batch: _EvictionBatch) -> None:
        """Mark the native groups that leave as a whole, before their first pod is deleted."""
        async with batch.marking:
            for key, uid in list(batch.groups.items()):
                await self._mark_group(key, uid, next(iter(batch.why.values())))
                del batch.groups[key]

    async def _mark_group(self, key: Key, uid: Uid, why: EvictionCause) -> None:
        groups = self._cache.informers.native_groups
        found = groups.get(key)
        if found is None or found.metadata.uid != uid or is_marked_group(found):
            return
        condition = {
            "type": DISRUPTED,
            "status": "True",
            "reason": PREEMPTED,
            "message": why.message,
            "lastTransitionTime": format_time(self._clock.now()),
            "observedGeneration": found.metadata.generation,
        }
        body = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
        try:
            marked = await self._cluster.patch(
                NATIVE_GROUPS.status, key, Patch(PatchKind.STRATEGIC, body)
            )
        except NotFoundError:
            groups.observe_deleted(key, uid)
        else:
            groups.observe(marked)

    async def _record(self, batch: _EvictionBatch) -> bool:
        """Whether all groups of the batch have the record, or cannot get it."""
        for key, (uid, why) in list(batch.unrecorded.items()):
            if not await self._records.write(key, uid, why):
                return False
            # Two workers may write the same record at once, which does no harm.
            batch.unrecorded.pop(key, None)
        return True

    async def _delete(self, pod: Pod) -> None:
        meta, pods = pod.metadata, self._cache.informers.pods
        # It may have finished since, and all that tells of it is the pod: it is read again then.
        unchanged = Deletion(uid=meta.uid, resource_version=meta.resource_version)
        try:
            left = await self._cluster.delete(PODS, meta.key, unchanged)
        except NotFoundError:
            left = None
        if left is None:
            pods.observe_deleted(meta.key, meta.uid)
        else:
            pods.observe(left)

    async def _read(self, uid: Uid, key: Key) -> None:
        """Read the pod after a failure. If that fails too, the next attempt reads it again."""
        try:
            await self._cache.informers.pods.refresh(key)
            # A copy: other workers take groups away as they mark them.
            for group in list(self._batches[uid].groups):
                await self._cache.informers.native_groups.refresh(group)
        except _FAILURES as error:
            log.info("not read", pod=str(key), uid=uid, why=str(error))


def is_marked_group(group: NativeGroup) -> bool:
    """Whether a native group has been evicted as a whole and not been scheduled since."""
    return any(c.type == DISRUPTED and c.status == "True" for c in group.status.conditions)


def mark_text(pod: Pod) -> str:
    """The message of the pod's mark; empty if it has none."""
    return next((c.message for c in pod.status.conditions if c.type == DISRUPTED), "")


def is_marked(pod: Pod) -> bool:
    """Whether a scheduler of ours has marked the pod for eviction."""
    return any(
        c.type == DISRUPTED and c.status == "True" and c.reason in OUR_REASONS
        for c in pod.status.conditions
    )
