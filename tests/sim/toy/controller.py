"""The toy controller put together from the runtime, as every real controller is."""

from __future__ import annotations

import asyncio

from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.runtime.cluster import Selection
from swell.runtime.controller import Controller, Reconciler
from swell.runtime.executor import Executor
from swell.runtime.informer import Informer, by_controller_key
from swell.runtime.queue import WorkQueue
from swell.runtime.uncertain import Children
from swell.sim.leadership import lead
from swell.sim.process import BugMeter, Main, Ports
from tests.sim.planting import believe_lists, trust_lost_answers
from tests.sim.toy.decisions import View, decide
from tests.sim.toy.flaws import Flaw
from tests.sim.toy.kind import JOB_LABEL, TOY_JOBS, ToyJob

LEASE = Key("default", "toy")
OWNED = by_controller_key(TOY_JOBS.kind)


def toy_main(flaws: Flaw = Flaw.NONE) -> Main:
    """The controller as a process, with planted flaws if so wanted."""

    async def main(ports: Ports) -> None:
        await _run(ports, flaws)

    return main


def toy_replica_main(flaws: Flaw = Flaw.NONE) -> Main:
    """The controller as one of several replicas: it starts when it leads."""

    async def main(ports: Ports) -> None:
        guarded = Flaw.UNGUARDED not in flaws
        await lead(ports, LEASE, lambda own: _run(own, flaws), guarded=guarded)

    return main


async def _run(ports: Ports, flaws: Flaw) -> None:
    cluster, clock, random = ports.cluster, ports.clock, ports.random
    jobs = Informer(cluster, TOY_JOBS, clock=clock, random=random)
    pods = Informer(cluster, PODS, clock=clock, random=random, indexes=[OWNED])
    if Flaw.STALE_LIST in flaws:
        believe_lists(jobs, pods)
    ports.exposed.update(jobs=jobs, pods=pods)
    observers = () if Flaw.DEAF_TO_ANSWERS in flaws else (jobs, pods)
    controller = Controller(
        "toy",
        Reconciler(Snapshots(jobs, pods, ports, flaws).take, decide),
        owners=jobs,
        children=[Children(pods, OWNED.name, _pods_of)],
        executor=Executor(cluster, informers=observers),
        queue=WorkQueue(clock=clock, random=random),
        clock=clock,
        workers=2,
        meter=BugMeter(),
    )
    if Flaw.UNKNOWN_AS_FAILURE in flaws:
        trust_lost_answers(controller._uncertain)
    await asyncio.gather(jobs.run(), pods.run(), controller.run())


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
