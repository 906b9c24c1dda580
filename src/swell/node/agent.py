"""The loop that runs pods: when a pod or its runs change, decide, act, report, and delete.

What a pod needs is decided in `decide`, and a `Runtime` runs the containers. The order is fixed
here: act first, report what came of it, and delete the object when nothing is left of the pod.

A pod that cannot be decoded goes on as it was last read. One of which a field was never readable is
left alone: nothing of it is started, stopped or reported, until it is corrected or deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Protocol

from swell.api.meta import Key, Uid
from swell.node.decide import Decision, decide, decide_leaving, has_ended
from swell.node.pods import BOUND_PODS, BoundPod
from swell.node.restarts import StartContainer, StopContainer, is_active
from swell.node.runs import Runs
from swell.node.status import Addresses, status_patch
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Patch, PatchKind, Selection
from swell.runtime.executor import Executor, Failure, FailureKind
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain, run_workers
from swell.runtime.plan import DeleteObject, PatchObject, Plan
from swell.runtime.queue import QueueClosedError, WorkQueue

log = get_logger(__name__)

# Wake-ups are in wall time, which may be set meanwhile, so none is waited for longer than this.
WAKE_S_MAX = 600.0
DRAIN_POLL_S = 0.05
# Removals that were in vain wait for processes most of the time.
N_REMOVAL_WORKERS = 4


BY_NODE: CacheIndex[BoundPod] = CacheIndex(
    "node", lambda _, pod: (pod.spec.node_name,) if pod is not None else ()
)


class Runtime(Protocol):
    """Runs containers and knows their runs. It wakes a pod's key when a run changes."""

    def observe(self, pod: BoundPod) -> None:
        """Take in a pod's current object, and the time. `runs` shows what follows from both."""
        ...

    def runs(self, pod: BoundPod) -> Runs:
        """The runs of a pod's containers. Asking changes nothing."""
        ...

    def addresses(self, pod: BoundPod) -> Addresses: ...

    async def start(self, pod: BoundPod, name: str, attempt: int) -> None: ...

    async def stop(self, pod: BoundPod, name: str, grace_s: float) -> None:
        """Begin to end a container; its run shows when it has ended."""
        ...

    async def remove(self, uid: Uid) -> bool:
        """Remove everything of a pod, processes included; the pod may be unknown.

        Returns False when something is left, and must then be called again.
        """
        ...

    async def keep_only(self, uids: Collection[Uid]) -> Collection[Uid]:
        """Remove everything of all other pods; returns those of which something is left."""
        ...


@dataclass(frozen=True, slots=True)
class NodeSet:
    """The nodes of an agent. `is_lost` is true for those that simulate their loss."""

    names: tuple[str, ...]
    is_lost: Callable[[str], bool] = lambda _: False
    notice_delay_s: Callable[[BoundPod], float] = lambda _: (
        0.0
    )  # after which a new pod is first decided

    @property
    def selection(self) -> Selection:
        """Returns the pods to watch: those of one node; with many nodes all that are bound.

        A field selector can name one node only, and one watch is cheaper than a thousand.
        """
        if len(self.names) == 1:
            return Selection(fields=f"spec.nodeName={self.names[0]}")
        return Selection(fields="spec.nodeName!=")


class PodAgent:
    """The pods of an agent's nodes. `run` it as a service, and its `informer` as another."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: NodeSet,
        make_runtime: Callable[[Callable[[Key, float], None]], Runtime],
        *,
        clock: Clock,
        random: Random,
        workers: int = 32,
    ) -> None:
        self._nodes = nodes
        self._ours: Collection[str] = frozenset(nodes.names)
        self._clock = clock
        self._n_workers = workers
        self._queue = WorkQueue[Key](clock=clock, random=random)
        self.informer = Informer(
            cluster,
            BOUND_PODS,
            clock=clock,
            random=random,
            selection=nodes.selection,
            indexes=(BY_NODE,),
        )
        self.runtime = make_runtime(self.wake_after)
        self._executor = Executor(cluster, informers=(self.informer,))
        # Pods that the runtime may hold something of, to be removed when they are gone.
        self._known: dict[Key, Uid] = {}
        # Pods of which something was left when they were removed.
        self._removals = WorkQueue[Uid](clock=clock, random=random)
        self._is_draining = False
        self.informer.add_handler(self._on_change)

    def wake_after(self, key: Key, delay_s: float) -> None:
        """Queue a pod, now or later."""
        self._queue.add_after(key, delay_s)

    def wake_node(self, name: str) -> None:
        """Queue all pods of a node."""
        for key in self.informer.keys_by_index(BY_NODE.name, name):
            self._queue.add(key)

    def pods(self) -> tuple[BoundPod, ...]:
        """Returns the pods of our nodes, ordered by key."""
        return tuple(pod for pod in self.informer.all() if pod.spec.node_name in self._ours)

    @property
    def is_idle(self) -> bool:
        return self._queue.is_idle and self._removals.is_idle

    async def run(self) -> None:
        """Work until `stop`. Processes of pods that are not ours any more are ended first."""
        await self.informer.wait_synced()
        for uid in await self.runtime.keep_only(frozenset(p.metadata.uid for p in self.pods())):
            self._removals.retry(uid)
        for pod in self.pods():
            # Makes the runtime note what a running pod holds, before a new pod could get its GPUs.
            self.runtime.observe(pod)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run_workers(self._worker, self._n_workers))
            tasks.create_task(run_workers(self._removal_worker, N_REMOVAL_WORKERS))

    def stop(self) -> None:
        self._queue.close()
        self._removals.close()

    async def drain(self, within_s: float) -> None:
        """End all pods; nothing is started meanwhile.

        Pods of a controller are deleted, so that it makes new ones. The others keep their object,
        with the end of their processes as status.
        """
        self._is_draining = True
        for pod in self.pods():
            self._queue.add(pod.metadata.key)
        deadline = self._clock.monotonic() + within_s
        while any(self._is_leaving(pod) for pod in self.pods()):
            if self._clock.monotonic() > deadline:
                log.warning("pods left running", n_pods=len(self.pods()))
                return
            await self._clock.sleep(DRAIN_POLL_S)

    def _is_leaving(self, pod: BoundPod) -> bool:
        """Whether something of a pod is still to be ended or reported."""
        if pod.is_final:
            return False
        runs = self.runtime.runs(pod)
        return pod.metadata.controller is not None or is_active(runs) or has_ended(pod, runs)

    def _on_change(self, key: Key) -> None:
        if key in self._known:
            self._queue.add(key)
            return
        pod = self.informer.get(key)
        if pod is not None and pod.spec.node_name in self._ours:
            self._queue.add_after(key, self._nodes.notice_delay_s(pod))

    async def _worker(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            result = await contain(self._pass(key))
            if isinstance(result, Bug):
                delay_s = self._queue.retry(key)
                log.error("bug", pod=str(key), trace=result.trace, delay_s=round(delay_s, 3))
            self._queue.done(key)

    async def _removal_worker(self) -> None:
        while True:
            try:
                uid = await self._removals.get()
            except QueueClosedError:
                return
            result = await contain(self.runtime.remove(uid))
            if isinstance(result, Bug):
                log.error("bug", uid=uid, trace=result.trace)
            if result is True:
                self._removals.forget(uid)
            else:
                self._removals.retry(uid)
            self._removals.done(uid)

    async def _pass(self, key: Key) -> None:
        pod = self.informer.get(key)
        if pod is not None and pod.spec.node_name not in self._ours:
            pod = None
        known = self._known.get(key)
        if known is not None and (pod is None or pod.metadata.uid != known):
            if not await self.runtime.remove(known):
                # A new pod of the same name does not wait for the old one any longer.
                self._removals.retry(known)
            del self._known[key]
        if pod is None or self._nodes.is_lost(pod.spec.node_name):
            self._queue.forget(key)
            return
        self._known[key] = pod.metadata.uid
        # The status is what we report ourselves: what others wrote into it is overwritten.
        if self.informer.unreadable(key, but=("status",)):
            await self._leave_alone(pod)
        else:
            await self._reconcile(pod)

    async def _leave_alone(self, pod: BoundPod) -> None:
        """Keep what runs of a pod that cannot be read; end all of it once it is to be deleted.

        Its containers and their grace period are not known, so there is no orderly end.
        """
        key, uid = pod.metadata.key, pod.metadata.uid
        self._queue.forget(key)
        if pod.metadata.deletion_timestamp is None:
            return
        await self.runtime.remove(uid)
        outcome = await self._executor.execute(
            Plan((DeleteObject(BOUND_PODS, key, uid, grace_s=0),))
        )
        if outcome.worst is not None:
            self._retry(key, outcome.worst)

    async def _reconcile(self, pod: BoundPod) -> None:
        decision = self._decide(pod)
        if decision.actions:
            for action in decision.actions:
                match action:
                    case StartContainer(name, attempt):
                        await self.runtime.start(pod, name, attempt)
                    case StopContainer(name, grace_s):
                        await self.runtime.stop(pod, name, grace_s)
            # The status must show the outcome of the actions, so it is decided again.
            decision = self._decide(pod)
        outcome = await self._executor.execute(_plan(pod, decision))
        key = pod.metadata.key
        if outcome.worst is not None:
            self._retry(key, outcome.worst)
            return
        self._queue.forget(key)
        if any(isinstance(action, StartContainer) for action in decision.actions):
            # A started container may have ended already, or others may have waited for it.
            self._queue.add(key)
        elif decision.wake_at is not None:
            delay_s = max(0.0, decision.wake_at - self._clock.now())
            self._queue.add_after(key, min(WAKE_S_MAX, delay_s))

    def _retry(self, key: Key, failure: Failure) -> None:
        delay_s = self._queue.retry(key, failure.retry_after_s)
        # A stale write is of a pod that is gone or replaced, which the watch will show.
        if failure.kind is not FailureKind.STALE:
            log.warning("will retry", pod=str(key), why=failure.message, delay_s=round(delay_s, 3))

    def _decide(self, pod: BoundPod) -> Decision:
        self.runtime.observe(pod)
        runs, addresses = self.runtime.runs(pod), self.runtime.addresses(pod)
        now = self._clock.now()
        if self._is_draining and pod.metadata.deletion_timestamp is None and not pod.is_final:
            return decide_leaving(pod, runs, addresses, now)
        return decide(pod, runs, addresses, now)


def _plan(pod: BoundPod, decision: Decision) -> Plan:
    """Returns the plan that writes a changed status and then deletes a pod that is over."""
    key, uid = pod.metadata.key, pod.metadata.uid
    report: tuple[PatchObject, ...] = ()
    if decision.status != pod.status:
        patch = Patch(PatchKind.STRATEGIC, status_patch(pod, decision.status))
        report = (PatchObject(BOUND_PODS.status, key, patch),)
    if decision.is_unwanted:
        return Plan((*report, DeleteObject(BOUND_PODS, key, uid)))
    if decision.is_over and decision.is_deletable:
        return Plan((*report, DeleteObject(BOUND_PODS, key, uid, grace_s=0)))
    return Plan(report)
