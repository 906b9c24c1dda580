"""The bugs that can be planted in the scheduler. Each is planted in one that is put together.

A planted bug is a flaw together with the guard that is usually missing where it is made: alone,
the guards that are left hide some of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec

from swell.api.core import Node
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.saving import eviction_of
from swell.api.times import SKEW_S, parse_time
from swell.runtime.cluster import Deletion
from swell.scheduler import eviction_units, session
from swell.scheduler.cycle import SchedulingPlan, run_cycle
from swell.scheduler.domains import Domains
from swell.scheduler.live import binder, loop
from swell.scheduler.live import preparer as live_preparer
from swell.scheduler.live.bind_windows import BindWindow
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.eviction_records import EvictionCause
from swell.scheduler.model.devices.rules import DeviceTable
from swell.scheduler.model.devices.usage import DeviceUse
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.task_counts import TaskCounts
from swell.scheduler.model.tasks import Task, TaskStatus
from tests.sim.planting import hide_malformed
from tests.sim.scheduler.subject import Flaw

# The package exports the function of the same name, hence by the table of modules.
RECLAIM = sys.modules["swell.scheduler.actions.reclaim"]


def stale_policy(scheduler: Scheduler) -> None:
    """What a group asks for is learnt when it is first seen."""
    cache = scheduler.cache
    take = cache._take_group

    def take_once(key: Key) -> None:
        found, known = cache.informers.groups.get(key), cache.snapshot.jobs.get(str(key))
        if found is None or known is None or known.group.metadata.uid != found.metadata.uid:
            take(key)
        elif known.group.spec != found.spec:
            known.group = msgspec.structs.replace(found, spec=known.group.spec)
        else:
            take(key)

    cache._take_group = take_once  # type: ignore[method-assign]


def uncounted_binds(scheduler: Scheduler) -> None:
    """Pods take room when they are seen bound, and a binding is sent without a check."""
    cycle, next_bind = scheduler.loop.cycle, scheduler.binder._next

    def decide(snapshot: SchedulerSnapshot, *rest: Any, **more: Any) -> SchedulingPlan:
        binding = [t for job in snapshot.jobs.values() for t in job.in_status(TaskStatus.BINDING)]
        for task in binding:
            snapshot.nodes.take_off(task, task.node, task.status)
        plan = run_cycle(snapshot, *rest, **more)
        for task in binding:
            snapshot.nodes.add(task, task.node, task.status)
        return plan

    def cycle_blindly() -> None:
        with patch.object(loop, "run_cycle", decide):
            cycle()

    def next_blindly() -> binder.Bind | None:
        with patch.object(binder, "still_takes", lambda *_: True):
            return next_bind()

    scheduler.loop.cycle = cycle_blindly  # type: ignore[method-assign]
    scheduler.binder._next = next_blindly  # type: ignore[method-assign]


def names_for_uids(scheduler: Scheduler) -> None:
    """A pod is who has its name: bindings carry no UID, and tasks are found by name."""
    snapshot, cluster = scheduler.cache.snapshot, scheduler.binder._cluster

    class Nameless:
        async def create(self, resource: Any, body: Any) -> Any:
            metadata = {k: v for k, v in body["metadata"].items() if k != "uid"}
            return await cluster.create(resource, {**body, "metadata": metadata})

    def by_name(key: Key, uid: Uid) -> Task | None:
        return snapshot.task(str(key))

    scheduler.binder._cluster = Nameless()  # type: ignore[assignment]
    scheduler.cache.task_of = by_name  # type: ignore[method-assign]


def leaks(scheduler: Scheduler) -> None:
    """What was assumed for a binding that failed stays assumed."""
    forget = scheduler.cache.forget

    def forget_others(task: Task) -> None:
        if task.status is not TaskStatus.BINDING:
            forget(task)

    scheduler.cache.forget = forget_others  # type: ignore[method-assign]


def keeps_parts(scheduler: Scheduler) -> None:
    """A gang that cannot be completed keeps what it has."""

    def nothing(now: float) -> dict[str, BindWindow]:
        return {}

    scheduler.windows.overdue = nothing  # type: ignore[method-assign]


def hasty(scheduler: Scheduler) -> None:
    """Decides before the caches are synced."""

    async def at_once() -> None:
        pass

    for informer in scheduler.informers.required:
        informer.wait_synced = at_once  # type: ignore[method-assign]


def unrecorded(scheduler: Scheduler) -> None:
    """Evicts without saying so first."""

    async def mark(pod: Pod, why: EvictionCause) -> Pod | None:
        return pod

    scheduler.evictor._mark = mark  # type: ignore[method-assign]


def silent(scheduler: Scheduler) -> None:
    """Evicts without saying so on the group that loses the pods."""

    async def write(*_: object) -> bool:
        return True

    scheduler.evictor._records.write = write  # type: ignore[assignment, method-assign]


def generous(scheduler: Scheduler) -> None:
    """Ignores quotas."""
    config = scheduler.configuration.current
    tiers = tuple(tuple(o for o in tier if o.name != "proportion") for tier in config.tiers)
    scheduler.loop._config = lambda: replace(config, tiers=tiers)


def kinless(scheduler: Scheduler) -> None:
    """Counts what any victim frees as room below the limits of the preemptor's ancestors."""
    cycle = scheduler.loop.cycle

    def cycle_blindly() -> None:
        with patch.object(RECLAIM, "is_allocatable", lambda *_: True):
            cycle()

    scheduler.loop.cycle = cycle_blindly  # type: ignore[method-assign]


def binds_before_marks(scheduler: Scheduler) -> None:
    """Binds a gang to the quota of others before it is on record that they leave."""

    def at_once(job: JobInfo) -> bool:
        return False

    scheduler.victims.must_wait = at_once  # type: ignore[method-assign]


def trusts_unmeasured_queues(scheduler: Scheduler) -> None:
    """A pod whose requests were never readable counts as nothing against its queue."""
    cycle = scheduler.loop.cycle

    def cycle_trustingly() -> None:
        with patch.object(session, "unmeasured_queues", lambda *_: {}):
            cycle()

    scheduler.loop.cycle = cycle_trustingly  # type: ignore[method-assign]


PLANTED_IN_A_TREE: Mapping[str, Flaw] = {
    "scheduler binds before victims are marked": binds_before_marks,
    "scheduler counts victims outside the common ancestor": kinless,
    "scheduler counts the unreadable as nothing in queues": trusts_unmeasured_queues,
}


def forgets_domains(scheduler: Scheduler) -> None:
    """Where the running pods of a gang are does not matter for the next one."""
    cycle = scheduler.loop.cycle

    def cycle_without_memory() -> None:
        with patch.object(Domains, "held_by", lambda *_, **__: None):
            cycle()

    scheduler.loop.cycle = cycle_without_memory  # type: ignore[method-assign]


def careless(scheduler: Scheduler) -> None:
    """What a group says of its network topology is not looked at."""
    cycle = scheduler.loop.cycle

    def cycle_anywhere() -> None:
        with patch.object(Domains, "_limit", lambda *_: None):
            cycle()

    scheduler.loop.cycle = cycle_anywhere  # type: ignore[method-assign]


def trusts_binds_under_way(scheduler: Scheduler) -> None:
    """Pods whose binding is under way count as kept when others of their gang have to leave."""
    cycle = scheduler.loop.cycle

    def cycle_trusting() -> None:
        with patch.object(TaskCounts, "confirmed", TaskCounts.ready):
            cycle()

    scheduler.loop.cycle = cycle_trusting  # type: ignore[method-assign]


def tears_gangs(scheduler: Scheduler) -> None:
    """Takes a pod more than a gang can lose for surplus."""
    cycle = scheduler.loop.cycle

    class TooGenerous(eviction_units._Surplus):
        def __init__(self, job: JobInfo) -> None:
            super().__init__(job)
            self._total += 1

    def cycle_tearing() -> None:
        with patch.object(eviction_units, "_Surplus", TooGenerous):
            cycle()

    scheduler.loop.cycle = cycle_tearing  # type: ignore[method-assign]


def takes_hidden_for_none(scheduler: Scheduler) -> None:
    """Where HyperNodes may not be read gangs are placed as if there were none."""
    cycle = scheduler.loop.cycle

    def cycle_anywhere() -> None:
        with patch.object(Domains, "hidden_tree", lambda *_: None):
            cycle()

    scheduler.loop.cycle = cycle_anywhere  # type: ignore[method-assign]


PLANTED_IN_DOMAINS: Mapping[str, Flaw] = {
    "scheduler takes hidden domains for none": takes_hidden_for_none,
    "scheduler tears gangs": tears_gangs,
    "scheduler forgets where a gang is": forgets_domains,
    "scheduler ignores topologies": careless,
    "scheduler counts binds under way as surplus": trusts_binds_under_way,
}


def blind(scheduler: Scheduler) -> None:
    """An object that cannot be decoded is taken for one that does not exist."""
    for informer in (scheduler.informers.pods, scheduler.informers.nodes):
        hide_malformed(informer)


def half_changed(scheduler: Scheduler) -> None:
    """Goes on with the snapshot that a failed handler has left."""
    feed: Any = scheduler.cache._feed._feed

    def go_on() -> None:
        feed.is_broken = False

    feed.mend = feed.mend_later = go_on


def hasty_with_places(scheduler: Scheduler) -> None:
    """A node that came back while pods still counted there loses its place with the last one."""
    nodes: Any = scheduler.cache.snapshot.nodes
    put = nodes.put

    def put_for_now(node: Node, unreadable: str = "") -> None:
        place = nodes.find(node.metadata.name)
        was_gone = place in nodes._temporary
        put(node, unreadable)
        if was_gone:
            nodes._temporary[place] = None

    nodes.put = put_for_now


def impatient(scheduler: Scheduler) -> None:
    """A victim that was asked to save is deleted as soon as it is on record."""
    scheduler.evictor._patience_s = lambda pod: 0.0  # type: ignore[method-assign]


def deletes_by_uid_alone(scheduler: Scheduler) -> None:
    """A victim is deleted whatever has become of it since that was decided."""
    evictor, cluster = scheduler.evictor, scheduler.evictor._cluster

    class Indifferent:
        patch = cluster.patch

        async def delete(self, resource: Any, key: Key, deletion: Deletion) -> Any:
            return await cluster.delete(resource, key, Deletion(uid=deletion.uid))

    evictor._cluster = Indifferent()  # type: ignore[assignment]


PLANTED: Mapping[str, Flaw] = {
    "scheduler keeps a stale group policy": stale_policy,
    "scheduler does not count binds under way": uncounted_binds,
    "scheduler takes names for UIDs": names_for_uids,
    "scheduler leaks reservations": leaks,
    "scheduler keeps parts of gangs": keeps_parts,
    "scheduler decides before it knows": hasty,
    "scheduler evicts without a record": unrecorded,
    "scheduler evicts without telling the group": silent,
    "scheduler deletes victims that have ended": deletes_by_uid_alone,
    "scheduler ignores quotas": generous,
    "scheduler takes the undecodable for absent": blind,
    "scheduler goes on half-changed": half_changed,
    "scheduler gives places away too early": hasty_with_places,
}


def believes_records_alone(scheduler: Scheduler) -> None:
    """A record from before the clock was set back ends the patience, whatever was asked since."""
    evictor, patience = scheduler.evictor, scheduler.evictor._patience_s

    def patience_s(pod: Pod) -> float:
        found = eviction_of(pod)
        latest = scheduler._clock.now() + evictor._save_s_max + SKEW_S
        is_void = found is not None and parse_time(found.deadline) > latest
        return 0.0 if is_void else patience(pod)

    evictor._patience_s = patience_s  # type: ignore[method-assign]


PLANTED_AMONG_SAVERS: Mapping[str, Flaw] = {
    "scheduler deletes who is asked to save": impatient,
    "scheduler believes records of a clock set back": believes_records_alone,
}


def binds_first(scheduler: Scheduler) -> None:
    """Pods are bound while their volumes are still being prepared."""
    preparer: Any = scheduler.preparer
    take = preparer.take

    def take_and_bind(plan: SchedulingPlan, timeout_s: float) -> None:
        take(plan, timeout_s)
        scheduler.binder.bind({task: plan.binds[task] for task in plan.volumes})

    preparer.take = take_and_bind


def keeps_volumes(scheduler: Scheduler) -> None:
    """A gang whose volumes fail keeps its room and its volumes for ever."""
    preparer: Any = scheduler.preparer
    preparer._forget = lambda batch: preparer._batches.pop(batch, None)


def waits_for_ever_on_a_node(scheduler: Scheduler) -> None:
    """Claims keep a node where no volume comes once their gang cannot be placed there any more."""
    preparer: Any = scheduler.preparer
    preparer._pins.watch = lambda *_: {}


def binds_late_pods_first(scheduler: Scheduler) -> None:
    """Pods that come later are bound while their gang is still being prepared."""
    preparer: Any = scheduler.preparer
    preparer._awaits_others = lambda _: False


PLANTED_IN_STORAGE: Mapping[str, Flaw] = {
    "scheduler leaves claims to nodes without their pods": waits_for_ever_on_a_node,
    "scheduler binds before volumes are there": binds_first,
    "scheduler binds late pods before their gang": binds_late_pods_first,
    "scheduler keeps the volumes of gangs that failed": keeps_volumes,
}


def binds_without_devices(scheduler: Scheduler) -> None:
    """Pods are bound while their claims are still being written."""
    preparer: Any = scheduler.preparer
    take = preparer.take

    def take_and_bind(plan: SchedulingPlan, timeout_s: float) -> None:
        take(plan, timeout_s)
        scheduler.binder.bind({task: plan.binds[task] for task in plan.devices})

    preparer.take = take_and_bind


def keeps_devices(scheduler: Scheduler) -> None:
    """A gang that fails after it has got devices keeps them, and nobody looks for such claims."""

    async def give_back(_: object) -> bool:
        return True

    preparer: Any = scheduler.preparer
    releases: Any = scheduler.releases
    preparer._give_back = give_back
    releases.check = releases.free = lambda _: None


def takes_awaited_devices(scheduler: Scheduler) -> None:
    """Pods that share a claim take devices that others wait for, while these are still in use."""
    cycle = scheduler.loop.cycle
    preparer: Any = scheduler.preparer
    next_step = preparer._next_step

    def cycle_greedily() -> None:
        with patch.object(DeviceTable, "_awaited", lambda *_: []):
            cycle()

    def next_greedily(*given: object) -> object:
        with patch.object(DeviceUse, "is_used_by_others", lambda *_: False):
            return next_step(*given)

    scheduler.loop.cycle = cycle_greedily  # type: ignore[method-assign]
    preparer._next_step = next_greedily


def takes_nothing_over(scheduler: Scheduler) -> None:
    """Writes that an earlier process has sent may still be carried out."""
    scheduler.fences.begin = lambda: None  # type: ignore[method-assign]


def names_no_cards(scheduler: Scheduler) -> None:
    """Pods do not say which claim has the devices for their extended resources."""
    preparer: Any = scheduler.preparer
    next_step = preparer._next_step

    def next_without_names(*given: object) -> object:
        with patch.object(live_preparer, "next_naming", lambda *_: None):
            return next_step(*given)

    preparer._next_step = next_without_names


def forgets_pods_of_claims(scheduler: Scheduler) -> None:
    """What is assumed of a pod is lost if it is taken for its claim and that fails."""
    cache: Any = scheduler.cache

    def take_unnoted(key: Key) -> None:
        cache._take_pod(key)

    cache._take_pod_anew = take_unnoted


PLANTED_WITH_DEVICES: Mapping[str, Flaw] = {
    "scheduler takes devices that others wait for": takes_awaited_devices,
    "scheduler binds before devices are there": binds_without_devices,
    "scheduler keeps the devices of gangs that failed": keeps_devices,
    "scheduler takes no claims over": takes_nothing_over,
    "scheduler names no claims for extended resources": names_no_cards,
    "scheduler forgets pods as their claims change": forgets_pods_of_claims,
}


def forgets_queues(scheduler: Scheduler) -> None:
    """Queues are written when something in the snapshot changes, not when it was built anew."""
    scheduler.cache._feed.on_rebuilt.remove(scheduler.queues.mark_all_dirty)


def forgets_the_gone(scheduler: Scheduler) -> None:
    """Queues are written for the jobs that there are, not for those that have left them."""
    changes, snapshot = scheduler.loop._queue_changes, scheduler.cache.snapshot
    take = changes.take

    def take_of_jobs() -> Iterator[str]:
        queues = [job.queue for job in snapshot.jobs.values() if job.queue is not None]
        names = {above.name for queue in queues for above in queue.lineage}
        return (name for name in list(take()) if name in names)

    changes.take = take_of_jobs  # type: ignore[method-assign]


PLANTED_AMONG_NATIVE_GROUPS: Mapping[str, Flaw] = {
    "scheduler forgets queues after a rebuild": forgets_queues,
    "scheduler forgets queues of jobs that have gone": forgets_the_gone,
}
