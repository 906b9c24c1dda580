"""Keeps the status of queues up to date: state, counts of groups, allocated amounts.

It is the only writer of these statuses. It also creates the queues `root` and `default`. The
scheduler gives the allocated amounts; the rules of states are in `model.queues`.
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
from swell.scheduler.model.queue_rules import (
    BUILT_IN,
    CLOSED_BY_PARENT,
    DEFAULT_QUEUE,
    SHUT,
    DesiredQueueStatus,
    desired_status_of,
    is_closed_by_parent,
    parent_name,
    parent_of,
    status_change,
)

# Groups and amounts change in bursts: counts are written at most once in this time.
SETTLE_S: Final = 1.0


def _queue_of(_: ObjectMeta, group: PodGroup | None) -> tuple[Key, ...]:
    return () if group is None else (Key("", group.spec.queue or DEFAULT_QUEUE),)


def _parent_of(_: ObjectMeta, queue: Queue | None) -> tuple[Key, ...]:
    return () if queue is None else (Key("", parent_name(queue)),)


BY_QUEUE: Final[CacheIndex[PodGroup]] = CacheIndex("queue", _queue_of)
BY_PARENT: Final[CacheIndex[Queue]] = CacheIndex("parent", _parent_of)

# Returns the native groups of a queue, with the phases that the scheduler keeps of them; None while
# they are not known.
NativeGroups = Callable[[str], tuple[PodGroup, ...] | None]
# Returns the amounts of a queue and all below it, by resource; None while they are not known.
Allocated = Callable[[str], Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class QueueView:
    """The input of one decision. `queue` is None if a built-in queue is missing."""

    name: str
    queue: Queue | None
    parent: Queue | None = None
    groups: tuple[PodGroup, ...] | None = ()  # None while not all of them are known
    allocated: Mapping[str, str] | None = None
    quiet_until: float = 0.0  # before this, changed counts alone are not written


class QueueController:
    """Reconciles queues. The caller runs the informers, which need the indexes above."""

    def __init__(
        self,
        cluster: Cluster,
        queues: Informer[Queue],
        groups: Informer[PodGroup],
        *,
        clock: Clock,
        random: Random,
        allocated: Allocated = lambda _: None,
        native_groups: NativeGroups = lambda _: (),
        events: EventSink | None = None,
        meter: ControllerMeter | None = None,
        write_meter: WriteMeter | None = None,
    ) -> None:
        self._queues = queues
        self._groups = groups
        self._allocated = allocated
        self._native_groups = native_groups
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
        groups.add_handler(self._mark_later, BY_QUEUE.name)
        queues.add_handler(self._wake_below)
        # They must be created even if no event about them ever comes.
        for name in BUILT_IN:
            self.loop.wake(Key("", name))

    def mark_dirty(self, name: str) -> None:
        """Have a queue written soon, because its allocated amounts have changed."""
        self._mark_later(Key("", name))

    def mark_all_dirty(self) -> None:
        """Have every queue written soon: what the scheduler gives may have changed unnoticed."""
        known = self._queues.keys()
        for key in known:
            self._mark_later(key)

    def _mark_later(self, key: Key) -> None:
        self._keys.add_after(key, SETTLE_S)

    def _wake_below(self, key: Key) -> None:
        """Reconcile the queues below one that opens or closes, not when its counts change."""
        queue = self._queues.get(key)
        is_shut = queue is not None and queue.status.state in SHUT
        if self._seen_shut.get(key, False) is not is_shut:
            for below in self._queues.keys_by_index(BY_PARENT.name, key):
                self.loop.wake(below)
        if queue is None:
            self._seen_shut.pop(key, None)
            self._wrote_at.pop(key.name, None)
        else:
            self._seen_shut[key] = is_shut

    def _take(self, key: Key) -> QueueView | None:
        queue = self._queues.get(key)
        if queue is None:
            return QueueView(key.name, None) if key.name in BUILT_IN else None
        native = self._native_groups(key.name)
        return QueueView(
            key.name,
            queue,
            parent_of(queue, lambda name: self._queues.get(Key("", name))),
            None if native is None else (*self._groups.by_index(BY_QUEUE.name, key), *native),
            self._allocated(key.name),
            self._wrote_at.get(key.name, -SETTLE_S) + SETTLE_S,
        )

    def _decide(self, view: QueueView, now: float) -> Plan:
        """Decide, and remember the time of a write: the write itself wakes the queue again."""
        plan = decide(view, now)
        if any(isinstance(action, PatchStatus) for action in plan.each_action()):
            self._wrote_at[view.name] = now
        return plan


def decide(view: QueueView, now: float) -> Plan:
    """Returns the next write of a queue. Each needs the version that the one before has left."""
    queue = view.queue
    if queue is None:
        return Plan((_creation(view.name),), needs_consistent_read=True)
    if view.groups is None:
        return NOTHING  # a queue that closes would be closed, and count none, for a moment
    desired = desired_status_of(queue, view.parent, view.groups)
    # The mark comes before the state: without it a later process could not tell that the queue
    # was closed by its parent and has to be opened with it.
    if desired.is_marked and not is_closed_by_parent(queue):
        return Plan((_mark(queue, "true"),))
    change = status_change(queue.status, desired, view.allocated)
    # Bounded above, because after the clock was set back `quiet_until` may lie far ahead.
    if change and "state" not in change and 0 < view.quiet_until - now <= SETTLE_S:
        return Plan(wake_at=view.quiet_until)
    if change:
        meta = queue.metadata
        write = PatchStatus(QUEUES, meta.key, meta.resource_version, change)
        return Plan((write, *_state_events(queue, desired)))
    # And it goes after the state, for the same reason.
    if is_closed_by_parent(queue) and not desired.is_marked:
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


def _state_events(queue: Queue, desired: DesiredQueueStatus) -> tuple[EmitEvent, ...]:
    old, new = queue.status.state, desired.state
    if old is new or old is QueueState.EMPTY:
        return ()  # a new queue is no event
    n_groups = sum(desired.n_groups.values())
    message = {
        QueueState.OPEN: "takes groups again",
        QueueState.CLOSING: f"takes no new groups; of those in it, {n_groups} left",
        QueueState.CLOSED: "takes no groups, and has none",
    }.get(new, "")
    if new in SHUT and desired.is_marked:
        message += "; closed with the queue above it"
    meta = queue.metadata
    normal = EventSeverity.NORMAL
    return (EmitEvent(QUEUES, meta.key, meta.uid, normal, f"Queue{new.value}", message),)


def _decide_malformed(found: Malformed, now: float) -> Plan:
    """Set an undefined state to Unknown, so that nothing is admitted until it is corrected."""
    del now
    state = (found.body.get("status") or {}).get("state")
    if not state or state in {known.value for known in QueueState}:
        return NOTHING
    change: Body = {"state": QueueState.UNKNOWN.value}
    return Plan((PatchStatus(QUEUES, found.key, found.resource_version, change),))
