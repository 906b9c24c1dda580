"""Binds pods to the nodes they were given: many at once, gang by gang, each by its UID.

The room is taken from the moment of the decision. A gang's first binding is sent only if all of it
still stands; a binding that failed, or of which nobody knows, leaves its pod alone until the pod
has been read from the server. Decides nothing about who goes where.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Protocol

from swell.api.backoff import Backoff
from swell.api.core import Node
from swell.api.kinds import PODS
from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.runtime.cache import StaleListError
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError
from swell.runtime.logs import get_logger
from swell.runtime.queue import WorkQueue
from swell.scheduler.live.bind_windows import BindWindows
from swell.scheduler.live.cache import SchedulerCache
from swell.scheduler.model.resources import TOLERANCE
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, Task, TaskStatus

log = get_logger(__name__)

BINDINGS = PODS.sub("binding", dict)
_FAILURES = (ClusterError, UnreachableError, OutcomeUnknownError, TimeoutError)
_READ_FAILURES = (*_FAILURES, StaleListError)
_WRITE_S = 15.0
_READERS = 4
# How long a pod that could not be bound keeps its room before it is decided on anew.
_AGAIN = Backoff(base_s=0.2, cap_s=10.0)
_FAILURES_KEPT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Bind:
    """One binding to be sent; a second one of the same pod is another."""

    key: Key
    uid: Uid
    node: str


class BindMeter(Protocol):
    """What counts bindings."""

    def bound(self, result: str, seconds: float) -> None: ...


@dataclass(slots=True, eq=False)
class _Batch:
    """Bindings of one gang, in order; none has been sent before `is_begun`."""

    job: str
    binds: deque[Bind]
    is_whole: bool  # the gang had its minimum, counting these
    is_begun: bool = False


class Binder:
    """See the module's docstring. `run` does the work; `bind` only takes note."""

    def __init__(
        self,
        cluster: Cluster,
        cache: SchedulerCache,
        windows: BindWindows,
        *,
        workers: int,
        clock: Clock,
        random: Random,
        meter: BindMeter | None = None,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._windows = windows
        self._n_workers = workers
        self._clock = clock
        self._random = random
        self._meter = meter
        self._batches: deque[_Batch] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._sent: dict[Uid, None] = {}
        # Bindings that failed: those of which it is not known what became, and those known not to
        # have happened, whose pods rest for a while.
        self._unclear: dict[Uid, Bind] = {}
        self._resting: dict[Uid, Bind] = {}
        self._lookups = WorkQueue[Bind](clock=clock, random=random)
        self._failures: OrderedDict[Uid, int] = OrderedDict()
        self._stopping = False

    # --- taking note

    def bind(self, placed: Mapping[Task, str]) -> None:
        """Have tasks bound that the snapshot has as being bound already."""
        for key, tasks in groupby(placed, key=lambda task: task.job.key if task.job else ""):
            binds = deque(Bind(t.pod.metadata.key, t.pod.metadata.uid, placed[t]) for t in tasks)
            job = self._cache.snapshot.jobs[key]
            self._batches.append(_Batch(key, binds, job.counts.ready >= job.min_member))
        for _ in range(min(len(placed), len(self._idle))):
            self._wake_one()

    def cancel(self, job: str) -> None:
        """Send no more bindings of a gang; those not sent are forgotten."""
        for batch in [batch for batch in self._batches if batch.job == job]:
            self._drop(batch)

    def is_open(self, uid: Uid) -> bool:
        """Whether a binding was sent and it is not known what became of it."""
        return uid in self._sent or uid in self._unclear

    @property
    def is_busy(self) -> bool:
        """Whether bindings wait to be sent."""
        return bool(self._batches)

    @property
    def n_waiting(self) -> int:
        return sum(len(batch.binds) for batch in self._batches)

    # --- working

    async def run(self) -> None:
        """Bind until stopped; what has been sent is waited for."""
        workers = (self._work() for _ in range(self._n_workers))
        readers = (self._lookups.serve(self._look_up) for _ in range(_READERS))
        await asyncio.gather(*workers, *readers)

    def stop(self) -> None:
        self._stopping = True
        self._lookups.close()
        while self._idle:
            self._wake_one()

    async def _work(self) -> None:
        while not self._stopping:
            bind = self._next()
            if bind is not None:
                await self._send(bind)
                continue
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def _wake_one(self) -> None:
        waiter = self._idle.popleft()
        if not waiter.done():
            waiter.set_result(None)

    def _next(self) -> Bind | None:
        """The next binding that still stands."""
        while self._batches:
            batch = self._batches[0]
            if not batch.is_begun and not self._begin(batch):
                self._drop(batch)
                continue
            bind = batch.binds.popleft()
            if not batch.binds:
                self._batches.popleft()
            task = self._standing(bind)
            if task is None:
                continue
            if still_takes(self._cache.snapshot, task):
                return bind
            self._cache.forget(task)
        return None

    def _begin(self, batch: _Batch) -> bool:
        """Whether all of a gang can still be bound as decided; its window is open from now on."""
        snapshot = self._cache.snapshot
        job = snapshot.jobs.get(batch.job)
        tasks = [task for bind in batch.binds if (task := self._standing(bind)) is not None]
        if job is None or len(tasks) < len(batch.binds):
            return False
        if batch.is_whole and job.counts.ready < job.min_member:
            return False
        if not all(task.job is job and still_takes(snapshot, task) for task in tasks):
            return False
        batch.is_begun = True
        self._windows.begin(job, tasks, self._clock.monotonic())
        return True

    def _standing(self, bind: Bind) -> Task | None:
        """The pod to be bound, if nothing has happened to it since."""
        task = self._cache.task_of(bind.key, bind.uid)
        return task if task is not None and task.status is TaskStatus.BINDING else None

    def _drop(self, batch: _Batch) -> None:
        self._batches.remove(batch)
        for bind in batch.binds:
            task = self._standing(bind)
            if task is not None:
                self._cache.forget(task)

    async def _send(self, bind: Bind) -> None:
        uid = bind.uid
        self._sent[uid] = None
        self._resting.pop(uid, None)
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._cluster.create(BINDINGS, _body(bind))
        except _FAILURES as error:
            log.info("not bound", pod=str(bind.key), node=bind.node, why=str(error))
            self._note_failure(bind)
            result = "error"
        else:
            self._settle(bind)
            result = "scheduled"
        finally:
            del self._sent[uid]
        if self._meter is not None:
            self._meter.bound(result, self._clock.monotonic() - started)

    def _settle(self, bind: Bind) -> None:
        """The pod is bound."""
        self._failures.pop(bind.uid, None)
        task = self._cache.task_of(bind.key, bind.uid)
        if task is None:
            return
        self._cache.bound(task)
        if task.job is not None and task.job.key in self._windows:
            self._windows.look_at(task.job, self._clock.monotonic())

    # --- after a failure

    def _note_failure(self, bind: Bind) -> None:
        self._unclear[bind.uid] = bind
        self._failures[bind.uid] = self._failures.pop(bind.uid, 0) + 1
        if len(self._failures) > _FAILURES_KEPT:
            self._failures.popitem(last=False)
        self._lookups.add(bind)

    async def _look_up(self, bind: Bind) -> None:
        """Read what became of a binding; and when that is known, let the pod be decided anew."""
        if self._resting.get(bind.uid) is bind:
            del self._resting[bind.uid]
            task = self._standing(bind)
            if task is not None:
                self._cache.forget(task)
            return
        if self._unclear.get(bind.uid) is not bind:
            return
        try:
            await self._cache.informers.pods.refresh(bind.key)
        except _READ_FAILURES as error:
            log.info("not read", pod=str(bind.key), why=str(error))
            self._lookups.retry(bind)
            return
        self._lookups.forget(bind)
        del self._unclear[bind.uid]
        task = self._cache.task_of(bind.key, bind.uid)
        if task is not None and task.pod.spec.node_name:
            self._settle(bind)
        elif task is not None:
            # It keeps its room meanwhile, so that nothing is tried in a hot loop.
            self._resting[bind.uid] = bind
            n_failures = self._failures.get(bind.uid, 1)
            delay_s = _AGAIN.jittered_s(n_failures, self._random.random())
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
    """The node is there, ready and willing, and not over-full with the task counted in."""
    nodes, place = snapshot.nodes, task.node
    if place == NOWHERE or not nodes.ready[place] or nodes.cordoned[place]:
        return False
    node = nodes.objects[place]
    if node is None or not _admits(node, task.pod):
        return False
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
