"""Binds pods to the nodes that a cycle chose: concurrently, gang by gang, each by its UID.

The snapshot counts the room as taken from the decision on. The first binding of a gang is sent only
if the whole gang can still be bound, and once the victims are on record whose quota it counts on
(`unrecorded_victims`). After a failed binding, or one without an answer, nothing
happens to the pod until it has been read from the server. The states of one binding:

    waiting --------> sent --------> bound
       |                |  failed or unknown
       | the pod or     v
       | node changed  uncertain ----------> bound     (the pod was read and has its node)
       v                |  the pod was read and has no node
    forgotten <------- backing off                     (it keeps its room meanwhile)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Final, Protocol

from swell.api.backoff import Backoff
from swell.api.core import EventSeverity, Node
from swell.api.kinds import PODS
from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.executor import EventSink
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.bind_windows import BindWindows
from swell.scheduler.live.cache import READ_FAILURES, WRITE_FAILURES, SchedulerCache
from swell.scheduler.live.unrecorded_victims import UnrecordedVictims, is_over_limit
from swell.scheduler.model.resources import TOLERANCE
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus

log = get_logger(__name__)

BINDINGS = PODS.sub("binding", dict)
# The reasons of kube-scheduler's events on pods.
SCHEDULED: Final = "Scheduled"
FAILED: Final = "FailedScheduling"
# Longer than one attempt of the client; then the result counts as unknown.
_WRITE_S = 15.0
# Workers that read pods after failures: few, so that a failing server is not also flooded.
_READERS = 4
# How long a pod that could not be bound keeps its room before the next cycle may place it again.
_RETRY_BACKOFF = Backoff(base_s=0.2, cap_s=10.0)
# Failure counts that are remembered; it only bounds memory.
_FAILURES_KEPT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Bind:
    """One binding to send. Compared by identity: a later binding of the same pod is another one."""

    key: Key
    uid: Uid
    node: str


class BindMeter(Protocol):
    """Measures bindings."""

    def bound(self, result: str, seconds: float) -> None: ...

    def task_scheduled(self, task: Task) -> None: ...


@dataclass(slots=True, eq=False)
class _BindBatch:
    """The bindings of one gang that are not sent yet. None is sent before `is_begun`."""

    job: str
    binds: deque[Bind]
    is_whole: bool  # with these the gang had its minimum when it was decided
    is_begun: bool = False
    has_waited: bool = False  # for victims to be on record


class Binder:
    """Sends bindings with a bounded number of workers. `bind` only queues them."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        windows: BindWindows,
        events: EventSink,
        victims: UnrecordedVictims,
        *,
        workers: int,
        clock: Clock,
        random: Random,
        meter: BindMeter | None = None,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._windows = windows
        self._events = events
        self._victims = victims
        self._n_workers = workers
        self._clock = clock
        self._random = random
        self._meter = meter
        self._batches: deque[_BindBatch] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._sent: dict[Uid, None] = {}
        # Failed bindings: those whose result is unknown, and those known not to have happened,
        # whose pods back off.
        self._uncertain: dict[Uid, Bind] = {}
        self._backing_off: dict[Uid, Bind] = {}
        self._errors: dict[Uid, str] = {}  # of uncertain bindings
        self._lookups = WorkQueue[Bind](clock=clock, random=random)
        self._failures: OrderedDict[Uid, int] = OrderedDict()
        self._stopping = False
        cache.on_rebuilt(self._wake_all)
        victims.on_recorded.append(self._wake_all)

    # --- queueing

    def bind(self, placed: Mapping[Task, str]) -> None:
        """Queue the bindings of tasks that are Binding in the snapshot already."""
        # The plan has the tasks of a job next to each other.
        for key, tasks in groupby(placed, key=lambda task: task.job.key if task.job else ""):
            binds = deque(Bind(t.pod.metadata.key, t.pod.metadata.uid, placed[t]) for t in tasks)
            job = self._cache.snapshot.jobs[key]
            self._batches.append(_BindBatch(key, binds, job.counts.ready >= job.min_member))
        for _ in range(min(len(placed), len(self._idle))):
            self._wake_one()

    def cancel(self, job: str) -> None:
        """Send no more bindings of a gang, and forget those that are not sent yet."""
        for batch in [batch for batch in self._batches if batch.job == job]:
            self._drop(batch)

    def is_outstanding(self, uid: Uid) -> bool:
        """Whether a binding was sent and its result is not known yet."""
        return uid in self._sent or uid in self._uncertain

    @property
    def is_busy(self) -> bool:
        """Whether bindings wait to be sent."""
        return bool(self._batches)

    @property
    def n_waiting(self) -> int:
        return sum(len(batch.binds) for batch in self._batches)

    # --- working

    async def run(self) -> None:
        """Bind until stopped. Bindings that were sent are awaited."""
        workers = (self._work() for _ in range(self._n_workers))
        readers = (self._lookups.serve(self._look_up) for _ in range(_READERS))
        await asyncio.gather(*workers, *readers)

    def stop(self) -> None:
        self._stopping = True
        self._lookups.close()
        self._wake_all()

    async def _work(self) -> None:
        while not self._stopping:
            bind = self._next()
            if bind is not None:
                await self._send(bind)
                continue
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def _wake_all(self) -> None:
        while self._idle:
            self._wake_one()

    def _wake_one(self) -> None:
        waiter = self._idle.popleft()
        if not waiter.done():
            waiter.set_result(None)

    def _next(self) -> Bind | None:
        """Returns the next binding that can still be sent, and forgets those that cannot."""
        # Nothing is sent while the snapshot is being mended: room cannot be checked then.
        while self._batches and self._cache.is_filled:
            batch = self._first_batch()
            if batch is None:
                return None
            if not batch.is_begun and not self._begin(batch):
                self._drop(batch)
                continue
            bind = batch.binds.popleft()
            if not batch.binds:
                self._batches.remove(batch)
            task = self._assumed_task(bind)
            if task is None:
                continue
            if still_takes(self._cache.snapshot, task):
                return bind
            self._cache.forget(task)
        return None

    def _first_batch(self) -> _BindBatch | None:
        """Returns the first batch that waits for no victims to be on record."""
        for batch in self._batches:
            job = None if batch.is_begun else self._cache.snapshot.jobs.get(batch.job)
            if job is None or not self._victims.must_wait(job):
                return batch
            batch.has_waited = True
        return None

    def _begin(self, batch: _BindBatch) -> bool:
        """Whether the whole gang can still be bound as decided. If so, its bind window opens."""
        snapshot = self._cache.snapshot
        job = snapshot.jobs.get(batch.job)
        tasks = [task for bind in batch.binds if (task := self._assumed_task(bind)) is not None]
        if job is None or len(tasks) < len(batch.binds):
            return False
        # Pods were lost since the decision: a part of the gang must not be bound.
        if batch.is_whole and job.counts.ready < job.min_member:
            return False
        if not all(task.job is job and still_takes(snapshot, task) for task in tasks):
            return False
        # Its victims stay after all: the write that was to record them has been refused.
        if batch.has_waited and is_over_limit(job):
            return False
        batch.is_begun = True
        # Before the first binding is sent: the window must cover all of them.
        self._windows.begin(job, tasks, self._clock.monotonic())
        return True

    def _assumed_task(self, bind: Bind) -> Task | None:
        """Returns the task of a binding, if it is still assumed to be bound by it."""
        task = self._cache.task_of(bind.key, bind.uid)
        return task if task is not None and task.status is TaskStatus.BINDING else None

    def _drop(self, batch: _BindBatch) -> None:
        self._batches.remove(batch)
        for bind in batch.binds:
            task = self._assumed_task(bind)
            if task is not None:
                self._cache.forget(task)

    async def _send(self, bind: Bind) -> None:
        uid = bind.uid
        self._sent[uid] = None
        self._backing_off.pop(uid, None)
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._cluster.create(BINDINGS, _body(bind))
        except WRITE_FAILURES as error:
            # Also after a refusal the pod is read first: an earlier attempt may have bound it.
            log.info("not bound", pod=str(bind.key), node=bind.node, why=str(error))
            self._note_failure(bind, str(error))
            result = "error"
        else:
            self._settle(bind)
            result = "scheduled"
        finally:
            del self._sent[uid]
        if self._meter is not None:
            self._meter.bound(result, self._clock.monotonic() - started)

    def _settle(self, bind: Bind) -> None:
        """Record that a pod is bound."""
        self._failures.pop(bind.uid, None)
        text = f"Successfully assigned {bind.key} to {bind.node}"
        self._record(bind, EventSeverity.NORMAL, SCHEDULED, text)
        task = self._cache.task_of(bind.key, bind.uid)
        if task is None:
            return
        self._cache.bound(task)
        if self._meter is not None:
            self._meter.task_scheduled(task)
        if task.job is not None and task.job.key in self._windows:
            self._windows.observe(task.job, self._clock.monotonic())

    # --- after a failure

    def _record(self, bind: Bind, severity: EventSeverity, reason: str, text: str) -> None:
        # The recorder writes at a pace of its own, so no number of events delays a binding.
        self._events.record(EmitEvent(PODS, bind.key, bind.uid, severity, reason, text))

    def _note_failure(self, bind: Bind, why: str) -> None:
        self._uncertain[bind.uid] = bind
        self._errors[bind.uid] = why
        # Popped and set again, so that the oldest entry is the one that has not failed longest.
        self._failures[bind.uid] = self._failures.pop(bind.uid, 0) + 1
        if len(self._failures) > _FAILURES_KEPT:
            self._failures.popitem(last=False)
        self._lookups.add(bind)

    async def _look_up(self, bind: Bind) -> None:
        """Read the pod of an uncertain binding, or forget a binding that has backed off."""
        if self._backing_off.get(bind.uid) is bind:
            del self._backing_off[bind.uid]
            task = self._assumed_task(bind)
            if task is not None:
                self._cache.forget(task)
            return
        if self._uncertain.get(bind.uid) is not bind:
            return  # a later binding of the same pod has taken its place
        try:
            await self._cache.informers.pods.refresh(bind.key)
        except READ_FAILURES as error:
            log.info("not read", pod=str(bind.key), why=str(error))
            self._lookups.retry(bind)
            return
        self._lookups.forget(bind)
        del self._uncertain[bind.uid]
        why = self._errors.pop(bind.uid, "")
        task = self._cache.task_of(bind.key, bind.uid)
        if task is not None and task.pod.spec.node_name:
            self._settle(bind)
        elif task is not None:
            text = f"binding to node {bind.node} failed, it will be tried again: {why}"
            self._record(bind, EventSeverity.WARNING, FAILED, text)
            # The pod keeps its room while it backs off: otherwise the next cycle would choose
            # the same node at once, in a hot loop.
            self._backing_off[bind.uid] = bind
            n_failures = self._failures.get(bind.uid, 1)
            delay_s = _RETRY_BACKOFF.jittered_s(n_failures, self._random.random())
            self._lookups.add_after(bind, delay_s)


def _body(bind: Bind) -> Body:
    namespace, name = bind.key
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": bind.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
    }


def still_takes(snapshot: SchedulerSnapshot, task: Task) -> bool:
    """Whether the node of a task is ready, accepts the pod, and has room with the task counted.

    Only what may have changed since the cycle is checked again; room is not searched for.
    """
    nodes, place = snapshot.nodes, task.node
    if place == NOWHERE or not nodes.ready[place] or nodes.cordoned[place]:
        return False
    if task.unreadable or not nodes.open[place]:
        return False
    node = nodes.objects[place]
    if node is None or not _admits(node, task.pod):
        return False
    # The task itself is counted as placed already, so it fits if nothing is negative.
    idle = nodes.idle[:, place]
    return all(idle[p] > -TOLERANCE for p in task.shape.fit_places)


def _admits(node: Node, pod: Pod) -> bool:
    spec, labels = pod.spec, node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is not None and not node_selector_matches(required, node):
        return False
    return tolerates_all(spec.tolerations, node.spec.taints)
