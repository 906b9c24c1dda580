"""Writes the result of each session to the status of groups, and emits events.

Changes that follow each other quickly are written once. A status that differs only in times is not
written, and neither is one of a group whose pods are being bound. A group that cannot be written
does not hold up the others. Phase and reason are given by the cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from swell.api.codec import to_body
from swell.api.core import EventSeverity
from swell.api.impossible import CANNOT_EVER_FIT
from swell.api.kinds import NATIVE_GROUPS, POD_GROUPS
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.api.scheduling import PodGroupCondition, PodGroupPhase, PodGroupStatus
from swell.api.times import format_time
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.executor import EventSink, Executor, Failure, FailureKind, WriteMeter
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent, PatchStatus, Plan, Step, patch_object
from swell.runtime.queue import WorkQueue
from swell.scheduler.domains import ChosenDomain
from swell.scheduler.live.bind_windows import BindWindows, n_holding
from swell.scheduler.live.cache import READ_FAILURES, SchedulerCache
from swell.scheduler.live.native_status import native_conditions, native_write
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.status import GroupStatus

log = get_logger(__name__)

UNSCHEDULABLE: Final = "Unschedulable"
MAY_FIT_REASON: Final = "the cluster has enough"
SCHEDULED: Final = "Scheduled"
NOT_APPLIED: Final = "TopologyNotApplied"
# Volcano knows it, too, and writes it never.
DOMAIN_ANNOTATION: Final = "volcano.sh/job-allocated-hypernode"
GONE_REASON: Final = "nothing of the gang is left"
READY_REASON: Final = "tasks in gang are ready to be scheduled"
# A change of phase or reason is written this soon; one of numbers only, this often.
SETTLE_S: Final = 0.25
NUMBERS_S: Final = 5.0
# Bindings come first: while some wait, statuses are put off, but for no longer than `LATE_S_MAX`.
BUSY_S: Final = 1.0
LATE_S_MAX: Final = 6.0
# Messages name nodes and roles; longer ones are cut.
MESSAGE_MAX: Final = 1024
_WORKERS = 4


@dataclass(slots=True)
class _PendingStatus:
    """The status that a group should have, and when it was last written."""

    uid: Uid
    status: GroupStatus
    session: str
    written_at: float = float("-inf")
    due_since: float | None = None


class StatusUpdater:
    """Writes statuses of groups. `update_job_status` only queues the write."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        events: EventSink,
        *,
        clock: Clock,
        random: Random,
        is_busy: Callable[[], bool] = lambda: False,
        windows: BindWindows,
        meter: WriteMeter | None = None,
    ) -> None:
        self._cache = cache
        self._windows = windows
        self._events = events
        self._is_busy = is_busy
        self._clock = clock
        seen = cache.informers
        self._executor = Executor(cluster, informers=[seen.groups, seen.native_groups], meter=meter)
        self._queue = WorkQueue[Key](clock=clock, random=random)
        self._pending: dict[Key, _PendingStatus] = {}
        # By group: the domain that has its pods, and why its topology has no effect as last said.
        self._domains: dict[str, str] = {}
        self._not_applied: dict[str, tuple[Uid, str]] = {}

    def update_job_status(self, job: JobInfo, status: GroupStatus, session: str) -> None:
        """Queue the status of a group, unless it is written already."""
        meta = job.group.metadata
        known = self._pending.get(meta.key)
        if known is not None and known.uid == meta.uid:
            known.status, known.session = status, session
        else:
            known = self._pending[meta.key] = _PendingStatus(meta.uid, status, session)
        wanted = next_status(job, status, session, "", begins=job.key in self._windows)
        if not _differs(job.group.status, wanted):
            known.due_since = None
            return
        now = self._clock.monotonic()
        # The first time counts: a status that changes all the time must be written as well.
        known.due_since = now if known.due_since is None else known.due_since
        if has_changed(job.group.status, wanted):
            self._queue.add_after(meta.key, SETTLE_S)
        else:
            self._queue.add_after(meta.key, max(known.written_at + NUMBERS_S - now, SETTLE_S))

    def record_job_status_event(self, job: JobInfo, refusal: Refusal, never: str = "") -> None:
        """Emit an event with the reason why a group waits."""
        text = f"{refusal.reason.value}: {refusal.message}"
        text = f"{CANNOT_EVER_FIT}: {never}" if never else text
        uid, warning = job.group.metadata.uid, EventSeverity.WARNING
        resource, key = _object_of(job)
        self._events.record(EmitEvent(resource, key, uid, warning, UNSCHEDULABLE, text))

    def record_domains(
        self, chosen: Mapping[str, ChosenDomain], not_applied: Mapping[str, str]
    ) -> None:
        """Have the chosen domains written on the groups, and an event emitted once a cause."""
        jobs = self._cache.snapshot.jobs
        self._domains.update((key, one.name) for key, one in chosen.items() if key in jobs)
        for key, why in not_applied.items():
            meta = jobs[key].group.metadata
            if self._not_applied.get(key) != (meta.uid, why):
                self._not_applied[key] = (meta.uid, why)
                text = f"its network topology has no effect: {why}"
                warning = EventSeverity.WARNING
                self._events.record(
                    EmitEvent(POD_GROUPS, meta.key, meta.uid, warning, NOT_APPLIED, text)
                )

    def _annotation(self, job: JobInfo) -> tuple[Step, ...]:
        """Returns the write of the domain on the group, for people: it is never read."""
        name, meta = self._domains.get(job.key, ""), job.group.metadata
        if job.native is not None:
            return ()  # of a native group only the status is ours
        if not name or meta.annotations.get(DOMAIN_ANNOTATION) == name:
            return ()
        body: Body = {"metadata": {"annotations": {DOMAIN_ANNOTATION: name}}}
        return (patch_object(POD_GROUPS, meta.key, meta.uid, body),)

    def forget_missing(self) -> None:
        """Drop the statuses of groups that are gone."""
        jobs = self._cache.snapshot.jobs
        self._domains = {key: name for key, name in self._domains.items() if key in jobs}
        self._not_applied = {key: why for key, why in self._not_applied.items() if key in jobs}
        for key in [key for key in self._pending if str(key) not in jobs]:
            del self._pending[key]

    async def run(self) -> None:
        await asyncio.gather(*(self._queue.serve(self._write) for _ in range(_WORKERS)))

    def stop(self) -> None:
        self._queue.close()

    async def _write(self, key: Key) -> None:
        job, pending = self._cache.snapshot.jobs.get(str(key)), self._pending.get(key)
        if job is None or pending is None or job.group.metadata.uid != pending.uid:
            return
        if job.counts[TaskStatus.BINDING] and job.key not in self._cache.snapshot.preparing:
            return  # the next cycle after the bindings queues it again
        late_s = self._clock.monotonic() - (pending.due_since or 0.0)
        if self._is_busy() and late_s < LATE_S_MAX:
            self._queue.add_after(key, BUSY_S)
            return
        old, refusal = job.group.status, pending.status.refusal
        now, begins = format_time(self._clock.now()), job.key in self._windows
        new = next_status(job, pending.status, pending.session, now, begins=begins)
        if not _differs(old, new):
            return
        steps = (_write_of(job, new), *self._annotation(job))
        failure = (await self._executor.execute(Plan(steps))).worst
        if failure is not None:
            await self._again(job, key, failure)
            return
        self._queue.forget(key)
        self._domains.pop(job.key, None)
        pending.written_at, pending.due_since = self._clock.monotonic(), None
        # After the write: an event about a status that was not written would mislead.
        if refusal is not None:
            self.record_job_status_event(job, refusal, pending.status.never)

    async def _again(self, job: JobInfo, key: Key, failure: Failure) -> None:
        log.info("group status not written", group=str(key), why=failure.message)
        if failure.kind in {FailureKind.UNKNOWN, FailureKind.STALE}:
            seen = self._cache.informers
            try:
                if job.native is not None:
                    await seen.native_groups.refresh(job.native.key)
                else:
                    await seen.groups.refresh(key)
            except READ_FAILURES as error:
                log.info("not read", group=str(key), why=str(error))
        self._queue.retry(key, failure.retry_after_s)


def next_status(
    job: JobInfo, found: GroupStatus, session: str, now: str, *, begins: bool = False
) -> PodGroupStatus:
    """Returns the status after a session. Conditions of other writers are kept as they are.

    `begins` says that the gang is being bound: what it once was no longer counts.
    """
    counts, old = job.counts, job.group.status
    conditions = {condition.type: condition for condition in old.conditions}
    refusal = found.refusal
    if job.native is not None:
        wanted = native_conditions(job, refusal)
        dated = (_dated(conditions.get(kind), one, "", now) for kind, one in wanted.items())
        return PodGroupStatus(conditions=tuple(dated))
    if refusal is not None:
        condition = PodGroupCondition(
            type=UNSCHEDULABLE,
            status="True",
            reason=refusal.reason.value,
            message=bounded(refusal.message),
        )
        conditions[UNSCHEDULABLE] = _dated(conditions.get(UNSCHEDULABLE), condition, session, now)
    elif UNSCHEDULABLE in conditions:
        condition = PodGroupCondition(type=UNSCHEDULABLE, status="False", reason=READY_REASON)
        conditions[UNSCHEDULABLE] = _dated(conditions[UNSCHEDULABLE], condition, session, now)
    conditions |= _never_condition(conditions.get(CANNOT_EVER_FIT), found.never, session, now)
    if found.phase in {PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED}:
        # It stays while any pod is left that has not ended: it records that the gang was complete
        # once, which the bind windows of the next process need.
        condition = PodGroupCondition(type=SCHEDULED, status="True", reason=READY_REASON)
        conditions[SCHEDULED] = _dated(conditions.get(SCHEDULED), condition, session, now)
    elif SCHEDULED in conditions and (begins or not n_holding(job)):
        condition = PodGroupCondition(type=SCHEDULED, status="False", reason=GONE_REASON)
        conditions[SCHEDULED] = _dated(conditions[SCHEDULED], condition, session, now)
    return PodGroupStatus(
        phase=found.phase,
        conditions=tuple(conditions.values()),
        running=counts[TaskStatus.RUNNING],
        succeeded=counts[TaskStatus.SUCCEEDED],
        failed=counts[TaskStatus.FAILED],
    )


def _never_condition(
    old: PodGroupCondition | None, never: str, session: str, now: str
) -> dict[str, PodGroupCondition]:
    """Returns whether the group can never start; nothing of one of which it was never said."""
    if not never and old is None:
        return {}
    condition = PodGroupCondition(
        type=CANNOT_EVER_FIT,
        status="True" if never else "False",
        reason=CANNOT_EVER_FIT if never else MAY_FIT_REASON,
        message=bounded(never),
    )
    return {CANNOT_EVER_FIT: _dated(old, condition, session, now)}


def has_changed(old: PodGroupStatus, new: PodGroupStatus) -> bool:
    """Whether the phase or a reason has changed, and not only numbers and messages."""
    return old.phase is not new.phase or _reasons(old) != _reasons(new)


def _write_of(job: JobInfo, new: PodGroupStatus) -> PatchStatus:
    if job.native is not None:
        return native_write(job, job.native, new)
    meta = job.group.metadata
    return PatchStatus(POD_GROUPS, meta.key, meta.resource_version, _body(new))


def _object_of(job: JobInfo) -> tuple[Resource[object], Key]:
    """Returns the group of a job as the API server knows it."""
    if job.native is not None:
        return NATIVE_GROUPS, job.native.key
    return POD_GROUPS, job.group.metadata.key


def _body(status: PodGroupStatus) -> Body:
    """Returns the whole status, since a merge patch keeps what is left out."""
    return {
        "phase": status.phase.value,
        "conditions": [to_body(condition) for condition in status.conditions],
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }


def _dated(
    old: PodGroupCondition | None, new: PodGroupCondition, session: str, now: str
) -> PodGroupCondition:
    """Returns the new condition with its time; an equal one keeps its old time and session."""
    if old is not None and _content(old) == _content(new):
        return old
    # As in Kubernetes, the transition time is that of the status, not of reason or message.
    changed = old is None or old.status != new.status
    time = now if changed or old is None else old.last_transition_time
    return msgspec.structs.replace(new, last_transition_time=time, transition_id=session)


def _differs(old: PodGroupStatus, new: PodGroupStatus) -> bool:
    return _facts(old) != _facts(new)


def _facts(status: PodGroupStatus) -> tuple[object, ...]:
    contents = tuple(_content(condition) for condition in status.conditions)
    return status.phase, contents, status.running, status.succeeded, status.failed


def _content(condition: PodGroupCondition) -> tuple[str, ...]:
    return condition.type, condition.status, condition.reason, condition.message


def _reasons(status: PodGroupStatus) -> tuple[tuple[str, ...], ...]:
    return tuple((c.type, c.status, c.reason) for c in status.conditions)


def bounded(message: str) -> str:
    """Cut a message to the length that conditions of groups and pods may have."""
    return message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 1] + "…"
