"""Follows the jobs of an operator, and keeps the records of their lives.

It runs beside the decisions, which never wait for it, with one exception: a job that is deleted
loses its finalizer only when its record is kept, because nothing could be said of it afterwards.

    a job or pod changes -> its key is noted -> after BATCH_S all notes are looked at together
        -> records of jobs that have ended are written: one write for each namespace
        -> jobs that live are looked at every LOOK_S, since their status tells what was before
        -> at every checkpoint, records that a crash would make poorer are written
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from swell.api.meta import Key
from swell.api.pod import Pod
from swell.history.life import JobLife, PodRun
from swell.history.observing import HistoryJob, has_ended, observed, vanished
from swell.history.pods import RunKey, is_folded, key_of, run_of, with_pods
from swell.history.settings import HistorySettings, PlaceOf, RecordMeter
from swell.history.shards import ShelfName, too_old, writes_for
from swell.history.shelf import Shelf
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import (
    ClusterError,
    ConflictError,
    OutcomeUnknownError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger

log = get_logger(__name__)

# Changes are looked at this long after the first of them.
BATCH_S = 0.2
# Living jobs are looked at this long after the first change of one of them.
LOOK_S = 5.0
RETRY_S, RETRY_S_MAX = 1.0, 60.0
# Refused records are tried again so often, and no more of them are held than this: a right or a
# quota that is missing may be given later, and a restart reads from the jobs what was dropped here.
REFUSED_AGAIN_S, REFUSED_MAX = 300.0, 1000
# A job's deletion waits no longer than this for its record.
PATIENCE_S = 60.0
# Lives of living jobs written at one checkpoint, the longest unwritten first.
CHECKPOINT_JOBS_MAX = 256
# A status keeps the last twenty phases and resizes; half of them may come between two checkpoints.
_STATUS_KEEPS = 10
_TRANSIENT = (ServerError, TooManyRequestsError, ConflictError)


@dataclass(slots=True)
class _TrackedJob:
    """A living job: its record, its pods' runs, and how much of both a checkpoint has."""

    key: Key
    uid: str
    life: JobLife | None = None  # None until it is looked at
    runs: dict[RunKey, PodRun] = field(default_factory=dict)
    saved_weight: int = 0


@dataclass(frozen=True, slots=True)
class HistorySources:
    """The informers that the keeper reads, and the rules of the kind of job."""

    jobs: Informer[HistoryJob]
    pods: Informer[Pod]
    place_of: PlaceOf
    is_ours: Callable[[HistoryJob], bool]
    wake: Callable[[Key], None]


class HistoryKeeper:
    """Keeps the history of one kind of job. Run `run`; the rest answers at once."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        sources: HistorySources,
        *,
        clock: Clock,
        settings: HistorySettings,
        namespace: str = "",
        meter: RecordMeter | None = None,
    ) -> None:
        self._sources = sources
        self._kind, self._meter = kind, meter
        self._clock = clock
        self._settings = settings
        self._ended = Shelf(cluster, kind, ShelfName.ENDED, namespace)
        self._open = Shelf(cluster, kind, ShelfName.OPEN, namespace)
        self._tracked: dict[Key, _TrackedJob] = {}
        self._pod_runs: dict[Key, tuple[Key, RunKey]] = {}
        self._to_write: dict[str, tuple[Key, JobLife]] = {}
        self._asked_at: dict[str, float] = {}
        self._refused: set[str] = set()  # those whose deletion waits for no record any more
        self._held_back: dict[str, tuple[Key, JobLife]] = {}
        self._again_at = 0.0  # when those are tried again
        self._dirty_jobs: dict[Key, None] = {}
        # The newest state of every pod since the last look; a short-lived one is gone by then.
        self._seen_pods: dict[tuple[Key, str], Pod] = {}
        self._dirty_pods: dict[Key, None] = {}
        self._changed: dict[Key, None] = {}  # living jobs to be looked at
        self._unsaved: dict[Key, None] = {}  # living jobs to be written at the next checkpoint
        self._outlived: set[str] = set()  # UIDs of open records whose jobs have ended
        self._look_at = 0.0
        self._noted = asyncio.Event()
        self._is_loaded = False
        self._checkpoint_at = 0.0
        sources.jobs.add_handler(self._note_job)
        sources.pods.add_handler(self._note_pod)

    def _note_job(self, key: Key) -> None:
        self._dirty_jobs[key] = None
        self._noted.set()

    def _note_pod(self, key: Key) -> None:
        pod = self._sources.pods.get(key)
        if pod is not None and pod.status.start_time is not None:
            self._seen_pods[key, pod.metadata.uid] = pod
        self._dirty_pods[key] = None
        self._noted.set()

    def is_kept(self, key: Key, uid: str) -> bool:
        """Whether nothing more is to be waited for before a deleted job may go."""
        if uid in self._refused or (self._is_loaded and uid in self._ended.index.places):
            self._asked_at.pop(uid, None)
            return True
        if self._sources.jobs.malformed(key) is not None:
            return True  # it cannot be read, so there is nothing to be recorded
        self._note_job(key)
        now = self._clock.monotonic()
        if now < self._asked_at.setdefault(uid, now) + PATIENCE_S:
            return False
        log.warning("a job goes without its record", job=str(key))
        self._refused.add(uid)
        self._count("late", 1)
        return True

    def _count(self, result: str, n_jobs: int) -> None:
        if self._meter is not None:
            self._meter.recorded(self._kind, result, n_jobs)

    async def run(self) -> None:
        """Keep records until cancelled."""
        await self._sources.jobs.wait_synced()
        await self._sources.pods.wait_synced()
        retry_s = RETRY_S
        while True:
            try:
                if not self._is_loaded:
                    await self._load()
                await self._wait_for_changes()
                self._look()
                await self._write()
                retry_s = RETRY_S
            except (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError) as error:
                log.info("history is not written yet", why=str(error))
                self._noted.set()
                await self._clock.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _load(self) -> None:
        """Take up what was kept before. A record of a living job is continued."""
        await self._ended.load()
        for life in await self._open.load():
            key = Key(life.namespace, life.name)
            if life.uid in self._ended.index.places or life.ended is not None:
                self._outlived.add(life.uid)
                continue
            runs = {key_of(run): run for run in life.pods}
            self._tracked[key] = _TrackedJob(key, life.uid, life, runs, _weight(life))
            self._dirty_jobs[key] = None
        self._is_loaded = True
        self._noted.set()

    async def _wait_for_changes(self) -> None:
        due = [self._look_at] if self._changed else []
        due += [self._checkpoint_at] if self._unsaved or self._outlived else []
        due += [self._again_at] if self._held_back else []
        if due and not self._noted.is_set():
            waiting = asyncio.ensure_future(self._noted.wait())
            left_s = max(0.0, min(due) - self._clock.monotonic())
            sleeping = asyncio.ensure_future(self._clock.sleep(left_s))
            try:
                await asyncio.wait([waiting, sleeping], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                sleeping.cancel()
        else:
            await self._noted.wait()
        await self._clock.sleep(BATCH_S)
        self._noted.clear()

    # -- looking at what has changed ---------------------------------------------------------

    def _look(self) -> None:
        now, moment = self._clock.now(), self._clock.monotonic()
        seen, self._seen_pods = self._seen_pods, {}
        for (key, _), pod in seen.items():
            self._look_at_pod(key, pod, now)
        pods, self._dirty_pods = self._dirty_pods, {}
        for key in pods:
            former = self._pod_runs.get(key)
            if former is not None and self._sources.pods.get(key) is None:
                self._pod_runs.pop(key)
                self._end_run(*former, now)
        jobs, self._dirty_jobs = self._dirty_jobs, {}
        for key in jobs:
            job = self._sources.jobs.get(key)
            held = self._tracked.get(key)
            is_same = held is None or (job is not None and job.metadata.uid == held.uid)
            if job is not None and is_same and not has_ended(job):
                self._look_at = self._look_at if self._changed else moment + LOOK_S
                self._changed[key] = None
            else:
                self._look_at_job(key, now)
        if self._changed and moment >= self._look_at:
            changed, self._changed = self._changed, {}
            for key in changed:
                self._look_at_job(key, now)

    def _look_at_pod(self, key: Key, pod: Pod, now: float) -> None:
        place = self._sources.place_of(pod)
        run = run_of(pod, place.role, place.index) if place is not None else None
        former = self._pod_runs.get(key)
        if former is not None and (run is None or key_of(run) != former[1]):
            self._pod_runs.pop(key)
            self._end_run(*former, now)
        if run is None or place is None or self._is_recorded(place.job_uid):
            return
        held = self._tracked.get(place.job)
        if held is None or held.uid != place.job_uid:
            # The job itself is looked at when all its pods have been: one that has ended already
            # would be recorded without them.
            self._end_replaced(place.job, now)
            held = self._tracked[place.job] = _TrackedJob(place.job, place.job_uid)
        is_known = key_of(run) in held.runs
        if is_known or held.life is None or not is_folded(held.life, run):
            held.runs[key_of(run)] = run
            self._pod_runs[key] = place.job, key_of(run)
            self._dirty_jobs[place.job] = None

    def _end_run(self, job: Key, run_key: RunKey, now: float) -> None:
        held = self._tracked.get(job)
        run = held.runs.get(run_key) if held is not None else None
        if held is not None and run is not None and run.ended is None:
            ended = max(run.started, now)
            held.runs[run_key] = replace(run, ended=ended, outcome=run.outcome or "Gone")
            self._dirty_jobs[job] = None

    def _is_recorded(self, uid: str) -> bool:
        return uid in self._ended.index.places or uid in self._to_write or uid in self._refused

    def _look_at_job(self, key: Key, now: float) -> None:
        self._end_replaced(key, now)
        job = self._sources.jobs.get(key)
        held = self._tracked.get(key)
        if job is None or self._is_recorded(job.metadata.uid) or not self._is_followed(key, job):
            return
        if held is None:
            held = self._tracked[key] = _TrackedJob(key, job.metadata.uid)
        life = with_pods(observed(held.life, job, now), held.runs.values())
        held.runs = {key_of(run): run for run in life.pods}
        held.life = life
        if life.ended is not None:
            self._end(held, life)
        elif _needs_checkpoint(life) and _weight(life) != held.saved_weight:
            self._unsaved[key] = None

    def _end_replaced(self, key: Key, now: float) -> None:
        """End the record of a job whose object is gone; another one may have its name."""
        job = self._sources.jobs.get(key)
        held = self._tracked.get(key)
        if held is not None and (job is None or job.metadata.uid != held.uid):
            # Its object is gone, by force: the operator would have waited for the record.
            self._end(held, vanished(held.life, now) if held.life is not None else None)

    def _is_followed(self, key: Key, job: HistoryJob) -> bool:
        return self._sources.jobs.malformed(key) is None and self._sources.is_ours(job)

    def _end(self, held: _TrackedJob, life: JobLife | None) -> None:
        self._tracked.pop(held.key, None)
        self._changed.pop(held.key, None)
        self._unsaved.pop(held.key, None)
        if held.uid in self._open.index.places:
            self._outlived.add(held.uid)
        if life is not None:
            self._to_write[held.uid] = held.key, with_pods(life, held.runs.values())

    # -- writing -----------------------------------------------------------------------------

    async def _write(self) -> None:
        if self._held_back and self._clock.monotonic() >= self._again_at:
            self._to_write |= self._held_back
            self._held_back = {}
        if self._to_write:
            await self._write_ended()
        now = self._clock.now()
        settings = self._settings
        old = too_old(self._ended.index, settings.jobs_max, now - settings.days * 86400.0)
        if old:
            await self._ended.remove(old)
        is_due = self._clock.monotonic() >= self._checkpoint_at
        if is_due and (self._unsaved or self._outlived):
            await self._checkpoint()

    async def _write_ended(self) -> None:
        for write in writes_for(self._ended.index, [life for _, life in self._to_write.values()]):
            uids = [uid for uid in write.places if uid in self._to_write]
            try:
                await self._ended.put_shard(write)
                self._refused.difference_update(uids)
                self._count("kept", len(uids))
            except _TRANSIENT:
                raise
            except ClusterError as error:
                # A namespace that is being deleted takes nothing new, nor does one with a quota.
                log.warning("history is refused", namespace=write.namespace, why=str(error))
                self._hold_back(uids)
            for uid in uids:
                key, _ = self._to_write.pop(uid)
                # Nothing but a deletion waits for a record; a job that stays needs no further look.
                if uid in self._asked_at:
                    self._sources.wake(key)

    def _hold_back(self, uids: list[str]) -> None:
        """Let jobs go without their records, which are tried again later."""
        self._count("refused", sum(uid not in self._refused for uid in uids))
        self._refused.update(uids)
        self._again_at = self._clock.monotonic() + REFUSED_AGAIN_S
        for uid in uids:
            if len(self._held_back) < REFUSED_MAX:
                self._held_back[uid] = self._to_write[uid]

    async def _checkpoint(self) -> None:
        """Write records of living jobs that a status alone would not give again."""
        self._checkpoint_at = self._clock.monotonic() + self._settings.checkpoint_s
        tracked = [held for key in self._unsaved if (held := self._tracked.get(key)) is not None]
        due = [(held, held.life) for held in tracked if held.life is not None]
        due = due[:CHECKPOINT_JOBS_MAX]
        outlived = set(self._outlived)
        try:
            await self._open.put([life for _, life in due])
            # Those that have ended are on the other shelf by now: this is the last step.
            await self._open.remove(sorted(outlived))
        except _TRANSIENT:
            raise
        except ClusterError as error:
            log.info("no checkpoint", why=str(error))
        self._outlived -= outlived
        for held, life in due:
            held.saved_weight = _weight(life)
            if held.life is life:
                self._unsaved.pop(held.key, None)


def _weight(life: JobLife) -> int:
    """How much is in a record that nothing but a record says; it only grows."""
    n_ended = sum(run.ended is not None for run in life.pods)
    return len(life.phases) + len(life.sizes) + len(life.marks) + n_ended + life.n_folded


def _needs_checkpoint(life: JobLife) -> bool:
    """Whether a record says what the job's status alone may not say later."""
    return (
        len(life.phases) >= _STATUS_KEEPS
        or len(life.sizes) >= _STATUS_KEEPS
        or len(life.marks) > 2  # a start and a suspension are in the status
        or any(run.ended is not None for run in life.pods)
    )
