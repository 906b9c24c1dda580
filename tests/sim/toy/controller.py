"""The toy controller put together from the runtime, as every real controller is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.resource import ApiObject
from swell.runtime.cache import Cache, Change
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.controller import Controller, Work
from swell.runtime.doubt import Children, Doubts
from swell.runtime.executor import Executor, Failure, Verdict
from swell.runtime.guard import GuardedCluster
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.leader import LeaderElector, LeadershipLostError, LeaseTimes
from swell.runtime.queue import WorkQueue
from swell.sim.process import Main, Ports, ProcessExitError
from tests.sim.toy.decisions import View, decide
from tests.sim.toy.flaws import Flaw
from tests.sim.toy.kind import JOB_LABEL, TOY_JOBS, ToyJob

T = TypeVar("T", bound=ApiObject)

LEASE = Key("default", "toy")
LEASE_TIMES = LeaseTimes()
OWNED = by_controller_key(TOY_JOBS.kind)


def toy_main(flaws: Flaw = Flaw.NONE) -> Main:
    """The controller as a process, with planted flaws if so wanted."""

    async def main(ports: Ports) -> None:
        await _run(ports, flaws)

    return main


def toy_replica_main(flaws: Flaw = Flaw.NONE) -> Main:
    """The controller as one of several replicas: it starts when it leads."""

    async def main(ports: Ports) -> None:
        elector = LeaderElector(
            ports.cluster,
            LEASE,
            ports.name,
            clock=ports.clock,
            random=ports.random,
            times=LEASE_TIMES,
        )
        if Flaw.UNGUARDED not in flaws:
            guarded = GuardedCluster(ports.cluster, elector.guard)
            ports = replace(ports, cluster=guarded)
        try:
            await elector.run(lambda: _run(ports, flaws))
        except LeadershipLostError:
            raise ProcessExitError from None

    return main


async def _run(ports: Ports, flaws: Flaw) -> None:
    cluster, clock, random = ports.cluster, ports.clock, ports.random
    jobs = Informer(cluster, TOY_JOBS, clock=clock, random=random)
    pods = Informer(cluster, PODS, clock=clock, random=random, indexes=[OWNED])
    if Flaw.STALE_LIST in flaws:
        jobs._cache = CredulousCache(jobs._cache._indexes)
        pods._cache = CredulousCache(pods._cache._indexes)
    ports.exposed.update(jobs=jobs, pods=pods)
    told = () if Flaw.DEAF_TO_ANSWERS in flaws else (jobs, pods)
    controller = Controller(
        "toy",
        Work(Snapshots(jobs, pods, ports, flaws).take, decide),
        owners=jobs,
        children=[Children(pods, OWNED.name, _pods_of)],
        executor=Executor(cluster, informers=told),
        queue=WorkQueue(clock=clock, random=random),
        clock=clock,
        workers=2,
        meter=BugMeter(),
    )
    if Flaw.UNKNOWN_AS_FAILURE in flaws:
        _never_doubt(controller._doubts)
    await asyncio.gather(jobs.run(), pods.run(), controller.run())


def _never_doubt(doubts: Doubts) -> None:
    """Planted: a write without an answer is taken for one that did not happen."""
    note = doubts.note

    def note_others(owner: Key, failures: Iterable[Failure]) -> None:
        note(owner, [f for f in failures if f.verdict is not Verdict.UNKNOWN])

    doubts.note = note_others  # type: ignore[method-assign]


def _pods_of(job: Key) -> Selection:
    return Selection(job.namespace, labels=f"{JOB_LABEL}={job.name}")


class Snapshots:
    """Takes what a decision sees from the caches."""

    def __init__(
        self, jobs: Informer[ToyJob], pods: Informer[Pod], ports: Ports, flaws: Flaw
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._random = ports.random
        self._flaws = flaws
        self._seen_alive: set[Uid] = set()

    def take(self, key: Key) -> View | None:
        job = self._jobs.get(key)
        if job is None:
            return None
        if not job.metadata.deletion_timestamp:
            self._seen_alive.add(job.metadata.uid)
        if Flaw.NAME_NOT_UID in self._flaws:
            pods = self._pods.by_index(OWNED.name, key)
        else:
            pods = self._pods.by_owner(job.metadata.uid)
        saw_alive = job.metadata.uid in self._seen_alive
        return View(job, pods, self._flaws, saw_alive, self._suffix)

    def _suffix(self) -> str:
        return f"{self._random.getrandbits(24):06x}"


class BugMeter:
    """A bug the runtime contains is still a bug: here it ends the process, and the run."""

    def passed(self, controller: str, result: str, seconds: float) -> None:
        if result == "bug":
            raise AssertionError(f"bug in a pass of {controller}")

    def queued(self, controller: str, n_keys: int) -> None:
        pass


class CredulousCache(Cache[T]):
    """Planted: takes any list for the truth, however old it is."""

    def replace(self, listed: Iterable[T | Malformed], version: int) -> list[Change[T]]:
        found = [item for item in listed if not isinstance(item, Malformed)]
        keys = {item.metadata.key for item in found}
        changes = [self._swap(e.key, e, None) for e in list(self) if e.key not in keys]
        self.version = 0
        self._absent.clear()
        self._gone.clear()
        for item in found:
            after = self._entry_of(item, int(item.metadata.resource_version))
            changes.append(self._swap(after.key, self._entries.get(after.key), after))
        self.reach(version)
        return changes
