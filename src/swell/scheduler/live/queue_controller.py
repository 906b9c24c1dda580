"""Keeps the status of queues true: state, counts of groups, what they hold; one writer for all.

Follows queues and groups, is told by the scheduler what queues hold, and sees to it that `root`
and `default` exist. Decides nothing itself: see `queuestate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from swell.api.core import EventSeverity
from swell.api.kinds import QUEUES
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.scheduling import PodGroup, Queue, QueueState
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Malformed
from swell.runtime.controller import Controller, ControllerMeter, Reconciler
from swell.runtime.executor import EventSink, Executor, WriteMeter
from swell.runtime.informer import Informer
from swell.runtime.plan import (
    NOTHING,
    CreateObject,
    EmitEvent,
    PatchStatus,
    Plan,
    Step,
    patch_object,
)
from swell.runtime.queue import WorkQueue
from swell.scheduler.model.queues import (
    BUILT_IN,
    CLOSED_BY_PARENT,
    DEFAULT,
    SHUT,
    DesiredQueueStatus,
    desired_status_of,
    is_closed_by_parent,
    parent_name,
    parent_of,
    status_change,
)

# Groups and what queues hold change in swarms: nobody needs to see every number.
SETTLE_S: Final = 1.0


def _queue_of(_: ObjectMeta, group: PodGroup | None) -> tuple[Key, ...]:
    return () if group is None else (Key("", group.spec.queue or DEFAULT),)


def _parent_of(_: ObjectMeta, queue: Queue | None) -> tuple[Key, ...]:
    return () if queue is None else (Key("", parent_name(queue)),)


BY_QUEUE: Final[CacheIndex[PodGroup]] = CacheIndex("queue", _queue_of)
BY_PARENT: Final[CacheIndex[Queue]] = CacheIndex("parent", _parent_of)

# What a queue with all below it holds, as texts by resource; None while that is not known.
Allocated = Callable[[str], Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class QueueView:
    """What is decided from; without a queue, one that should be there is not."""

    name: str
    queue: Queue | None
    parent: Queue | None = None
    groups: tuple[PodGroup, ...] = ()
    allocated: Mapping[str, str] | None = None
    calm_until: float = 0.0  # before this, numbers alone are not worth a write


class QueueController:
    """The controller over informers that somebody else runs, with the indexes above."""

    def __init__(
        self,
        cluster: Cluster,
        queues: Informer[Queue],
        groups: Informer[PodGroup],
        *,
        clock: Clock,
        random: Random,
        allocated: Allocated = lambda _: None,
        events: EventSink | None = None,
        meter: ControllerMeter | None = None,
        write_meter: WriteMeter | None = None,
    ) -> None:
        self._queues = queues
        self._groups = groups
        self._allocated = allocated
        self._keys: WorkQueue[Key] = WorkQueue(clock=clock, random=random)
        self._seen_shut: dict[Key, bool] = {}
        self._wrote_at: dict[str, float] = {}
        self.loop = Controller(
            "queue",
            Reconciler(self._take, self._decide, _decide_malformed),
            owners=queues,
            others=[groups],
            executor=Executor(cluster, informers=[queues], events=events, meter=write_meter),
            queue=self._keys,
            clock=clock,
            workers=1,
            meter=meter,
        )
        groups.add_handler(self._settle, BY_QUEUE.name)
        queues.add_handler(self._wake_below)
        for name in BUILT_IN:
            self.loop.wake(Key("", name))

    def touch(self, name: str) -> None:
        """What a queue holds has changed: have it written, though not at once."""
        self._settle(Key("", name))

    def _settle(self, key: Key) -> None:
        self._keys.add_after(key, SETTLE_S)

    def _wake_below(self, key: Key) -> None:
        """Those below a queue are looked at when it opens or closes, not at every number."""
        queue = self._queues.get(key)
        is_shut = queue is not None and queue.status.state in SHUT
        if self._seen_shut.get(key, False) is not is_shut:
            for below in self._queues.keys_by_index(BY_PARENT.name, key):
                self.loop.wake(below)
        self._seen_shut[key] = is_shut

    def _take(self, key: Key) -> QueueView | None:
        queue = self._queues.get(key)
        if queue is None:
            return QueueView(key.name, None) if key.name in BUILT_IN else None
        return QueueView(
            key.name,
            queue,
            parent_of(queue, lambda name: self._queues.get(Key("", name))),
            self._groups.by_index(BY_QUEUE.name, key),
            self._allocated(key.name),
            self._wrote_at.get(key.name, -SETTLE_S) + SETTLE_S,
        )

    def _decide(self, world: QueueView, now: float) -> Plan:
        """Remembers when a status was written: our own write wakes its queue again at once."""
        plan = decide(world, now)
        if any(isinstance(action, PatchStatus) for action in plan.each_action()):
            self._wrote_at[world.name] = now
        return plan


def decide(world: QueueView, now: float) -> Plan:
    """One write at a time: each is made from the version the one before left behind."""
    queue = world.queue
    if queue is None:
        return Plan((_creation(world.name),), needs_consistent_read=True)
    standing = desired_status_of(queue, world.parent, world.groups)
    if standing.is_marked and not is_closed_by_parent(queue):
        return Plan((_mark(queue, "true"),))
    change = status_change(queue.status, standing, world.allocated)
    # A clock that was set back must not make it wait for the time to come again.
    if change and "state" not in change and 0 < world.calm_until - now <= SETTLE_S:
        return Plan(wake_at=world.calm_until)
    if change:
        meta = queue.metadata
        write = PatchStatus(QUEUES, meta.key, meta.resource_version, change)
        return Plan((write, *_told(queue, standing)))
    if is_closed_by_parent(queue) and not standing.is_marked:
        return Plan((_mark(queue, None),))
    return NOTHING


def _creation(name: str) -> CreateObject:
    body: Body = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": dict(BUILT_IN[name]),
    }
    return CreateObject(QUEUES, body)


def _mark(queue: Queue, value: str | None) -> Step:
    meta = queue.metadata
    body: Body = {"metadata": {"annotations": {CLOSED_BY_PARENT: value}}}
    return patch_object(QUEUES, meta.key, meta.uid, body, version=meta.resource_version)


def _told(queue: Queue, standing: DesiredQueueStatus) -> tuple[EmitEvent, ...]:
    old, new = queue.status.state, standing.state
    if old is new or old is QueueState.EMPTY:
        return ()
    n_groups = sum(standing.n_groups.values())
    message = {
        QueueState.OPEN: "takes groups again",
        QueueState.CLOSING: f"takes no new groups; of those in it, {n_groups} left",
        QueueState.CLOSED: "takes no groups, and has none",
    }.get(new, "")
    if new in SHUT and standing.is_marked:
        message += "; closed with the queue above it"
    meta = queue.metadata
    normal = EventSeverity.NORMAL
    return (EmitEvent(QUEUES, meta.key, meta.uid, normal, f"Queue{new.value}", message),)


def _decide_malformed(found: Malformed, now: float) -> Plan:
    """A state nobody understands is Unknown: nothing is admitted until somebody says another."""
    del now
    said = (found.body.get("status") or {}).get("state")
    if not said or said in {state.value for state in QueueState}:
        return NOTHING
    change: Body = {"state": QueueState.UNKNOWN.value}
    return Plan((PatchStatus(QUEUES, found.key, found.resource_version, change),))
