"""Shrinks elastic training jobs to make room: lowers a role's target in the status of its job.

The operator then deletes the pods with the highest indexes. One that has not begun to leave after
its grace period is evicted. The patch is conditional on the cached version of the job, which is
read again after a conflict. The plan of the cycle says which role shrinks to which target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from swell.api.aitrainingjob import (
    RECORDS_MAX,
    AITrainingJob,
    ResizeAuthor,
    ScaleRecord,
)
from swell.api.codec import to_body
from swell.api.core import EventSeverity
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Key, Uid
from swell.api.times import format_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.executor import EventSink, Executor, FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent, PatchStatus, Plan
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.cache import READ_FAILURES, SchedulerCache
from swell.scheduler.live.nominations import grace_s
from swell.scheduler.live.unrecorded_victims import UnrecordedVictims
from swell.scheduler.model.tasks import Task, TaskStatus

log = get_logger(__name__)

REASON = "Shrunk"
# Added to the grace period: the operator has to see the new target first.
_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Shrink:
    """A role's new target, and the group that is to get the room."""

    target: int
    preemptor: str
    named: str = ""  # the same with its queue and priority, for people
    price: str = ""  # what it costs, as the rest of a sentence


@dataclass(slots=True)
class _PendingShrink:
    """The shrinks of one job that are not written yet."""

    uid: Uid
    roles: dict[str, Shrink]


class Shrinker:
    """Lowers targets of training jobs. `shrink` only queues the write."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        events: EventSink,
        victims: UnrecordedVictims,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        jobs = cache.informers.jobs
        self._cache = cache
        self._victims = victims
        self._clock = clock
        self._executor = Executor(cluster, informers=[jobs], events=events)
        self._queue = WorkQueue[Key](clock=clock, random=random)
        self._pending: dict[Key, _PendingShrink] = {}
        # Pods that the operator should delete: key, deadline and preemptor.
        self._leaving: dict[Uid, tuple[Key, float, str]] = {}

    def shrink(self, key: Key, roles: Mapping[str, Shrink]) -> None:
        """Queue the shrink of a training job; the snapshot assumes it at once."""
        job = self._cache.informers.jobs.get(key)
        if job is None:
            return
        pending = self._pending.get(key)
        if pending is None or pending.uid != job.metadata.uid:
            pending = self._pending[key] = _PendingShrink(job.metadata.uid, {})
        pending.roles.update(roles)
        self._cache.targets.assume_shrunk(
            job, {role: shrink.target for role, shrink in pending.roles.items()}
        )
        self._victims.add(key, self._beyond(key, pending.roles))
        self._queue.add(key)

    def _beyond(self, key: Key, roles: Mapping[str, Shrink]) -> Iterator[Task]:
        """Yields the pods of a training job at or above the targets of these roles."""
        for task in self._cache.snapshot.roles.of(str(key)):
            role = task.elastic.role if task.elastic else ""
            if role in roles and task.index >= roles[role].target:
                yield task

    def expect_to_leave(self, tasks: list[Task], preemptor: str) -> None:
        """Expect the operator to delete these pods within their grace period."""
        now = self._clock.monotonic()
        for task in tasks:
            meta = task.pod.metadata
            self._leaving[meta.uid] = (meta.key, now + grace_s(task) + _MARGIN_S, preemptor)

    def lingering(self, now: float) -> dict[str, list[Task]]:
        """Returns the pods, by preemptor, that should be leaving by now and are not."""
        found: dict[str, list[Task]] = {}
        for uid, (key, until, preemptor) in list(self._leaving.items()):
            task = self._cache.task_of(key, uid)
            if task is None or task.status is not TaskStatus.RELEASING:
                del self._leaving[uid]  # gone, or it may stay after all
            elif until <= now:
                del self._leaving[uid]
                if task.pod.metadata.deletion_timestamp is None:
                    found.setdefault(preemptor, []).append(task)
        return found

    def next_deadline(self) -> float | None:
        return min((until for _, until, _ in self._leaving.values()), default=None)

    async def run(self) -> None:
        await self._queue.serve(self._write)

    def stop(self) -> None:
        self._queue.close()

    async def _write(self, key: Key) -> None:
        pending, job = self._pending.get(key), self._cache.informers.jobs.get(key)
        if pending is None:
            return
        if job is None or job.metadata.uid != pending.uid or not job.goes_on:
            self._drop(key)
            return
        # Copied, because another cycle may add roles while the write is awaited.
        asked = dict(pending.roles)
        outcome = await self._executor.execute(plan_shrink(job, asked, self._clock.now()))
        failure = outcome.worst
        if failure is None or failure.kind is FailureKind.REFUSED:
            # A rejected shrink is not tried again: the next cycle sees the old targets and decides.
            if failure is not None:
                log.warning("not shrunk", job=str(key), why=failure.message)
            self._queue.forget(key)
            if pending.roles == asked:
                self._drop(key)
            else:  # another cycle has lowered it further meanwhile
                self._queue.add(key)
        else:
            await self._read(key)
            self._queue.retry(key, failure.retry_after_s)

    async def _read(self, key: Key) -> None:
        try:
            await self._cache.informers.jobs.refresh(key)
        except READ_FAILURES as error:
            log.info("not read", job=str(key), why=str(error))

    def _drop(self, key: Key) -> None:
        """Drop the pending shrink: it is written, or it cannot be. The job's own targets count."""
        self._pending.pop(key, None)
        self._cache.targets.forget_shrunk(key)
        # After that: where the write was refused, the victims count again.
        self._victims.discard(key)


def plan_shrink(job: AITrainingJob, roles: Mapping[str, Shrink], now: float) -> Plan:
    """Returns the patch that lowers the targets which are still higher, with a record of each."""
    meta, status = job.metadata, job.status
    specs = {name.lower(): spec for name, spec in job.spec.replica_specs.items()}
    targets: dict[str, int] = {}
    records: list[ScaleRecord] = []
    for role, shrink in sorted(roles.items()):
        spec = specs.get(role)
        current = status.target_replicas.get(role)
        # The spec or the target may have changed since the cycle; never raise, never go below min.
        if spec is None or current is None or not spec.minimum <= shrink.target < current:
            continue
        targets[role] = shrink.target
        records.append(
            ScaleRecord(
                time=format_time(now),
                role=role,
                from_=current,
                to=shrink.target,
                by=ResizeAuthor.SCHEDULER,
                reason=f"makes room for {shrink.named or shrink.preemptor}{shrink.price}",
                for_=shrink.preemptor,
            )
        )
    if not targets:
        return Plan()
    kept = (*status.scale_records, *records)[-RECORDS_MAX:]
    text = ", ".join(f"{r.role} from {r.from_} to {r.to}: {r.reason}" for r in records)
    return Plan(
        (
            PatchStatus(
                AI_TRAINING_JOBS,
                meta.key,
                meta.resource_version,
                {"targetReplicas": targets, "scaleRecords": [to_body(one) for one in kept]},
            ),
            EmitEvent(
                AI_TRAINING_JOBS,
                meta.key,
                meta.uid,
                EventSeverity.NORMAL,
                REASON,
                f"shrinks {text}",
            ),
        )
    )
