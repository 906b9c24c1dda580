"""A cluster with hollow nodes, operators, scheduler and autoscaler, and somebody who looks on:
the embedded one in virtual time, or a real control plane.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeVar

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.autoscaler.controller import run_autoscaler
from swell.autoscaler.settings import EMBEDDED
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import add_hollow_agent, node_names
from swell.node.hollow import PREFIX
from swell.node.nodes import NodeShape
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.controller import ACTOR
from swell.operator.framework.program import install_crds, operate
from swell.operator.trainingjob.kind import training_job_kind
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster, Selection, merge_patch
from swell.runtime.errors import AlreadyExistsError
from swell.runtime.informer import Informer
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from swell.sim.loop import VirtualClock, run
from tests.e2e.autoscaler.kinds import JOB_LABELS, AnyJob, target_of

NAMESPACE = "elastic"
URGENT = "urgent"
NODE, N_NODES = "node", 4
# Four trainers of one cpu on each node, fifteen in all below the desired load.
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "50"}
N_TRAINERS_MAX = 15
WITHIN_S = 60.0
# The stories tell of even shares, which are the affair of this policy.
SETTINGS = replace(EMBEDDED, policy="fulfillment")
CLOSE_S = 0.25

T = TypeVar("T")
Story = Callable[["Stage"], Awaitable[T]]


class Stage:
    """What a story may do and see. `told` has every target a job ever had, with its time."""

    def __init__(self, cluster: Cluster, clock: Clock, *, is_virtual: bool) -> None:
        self.cluster = cluster
        self.clock = clock
        self.is_virtual = is_virtual
        self.reported: dict[str, list[tuple[float, int]]] = {}
        self.lows: dict[str, int] = {}  # the fewest trainers since a job was first whole
        self.may_resize = asyncio.Event()  # until then there is no autoscaler
        self._changed = asyncio.Event()
        selection = Selection(NAMESPACE)
        self.pods = Informer(cluster, PODS, clock=clock, random=Random(1), selection=selection)
        self.jobs = Informer(
            cluster, AI_TRAINING_JOBS, clock=clock, random=Random(2), selection=selection
        )
        self.old_jobs = Informer(
            cluster, TRAINING_JOBS, clock=clock, random=Random(3), selection=selection
        )
        self.jobs.add_handler(self._note)
        self.old_jobs.add_handler(self._note)
        self.pods.add_handler(lambda _: self._ring())

    def add_to(self, manager: Manager) -> None:
        for informer in (self.jobs, self.old_jobs, self.pods):
            manager.add(f"sight of {informer.resource}", informer.run)

    async def prepare(self) -> None:
        namespace: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        urgent: Body = {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": URGENT},
            "value": 1000,
        }
        with contextlib.suppress(AlreadyExistsError):
            await self.cluster.create(NAMESPACES.untyped(), namespace)
            await self.cluster.create(PRIORITY_CLASSES.untyped(), urgent)
        for informer in (self.jobs, self.old_jobs, self.pods):
            await informer.wait_synced()

    # -- what a user does --------------------------------------------------------------------

    async def submit(self, body: Body) -> None:
        resource = AI_TRAINING_JOBS if body["kind"] == AI_TRAINING_JOBS.kind else TRAINING_JOBS
        await self.cluster.create(resource.untyped(), body)

    async def delete(self, name: str) -> None:
        key = Key(NAMESPACE, name)
        resource = TRAINING_JOBS if self.jobs.get(key) is None else AI_TRAINING_JOBS
        await self.cluster.delete(resource, key)
        await self.until(f"{name} is gone", lambda: self.job(name) is None)

    async def clear(self) -> None:
        """Leave nothing to the next story."""
        names = [job.metadata.name for job in self.jobs.all()]
        names += [job.metadata.name for job in self.old_jobs.all()]
        for name in names:
            await self.delete(name)
        await self.until("all pods are gone", lambda: not self.pods.all())

    async def end_well(self, pod: Pod) -> None:
        """Have a trainer find that its work is done."""
        body = {"metadata": {"annotations": {f"{PREFIX}duration": "0"}}}
        await self.cluster.patch(PODS, pod.metadata.key, merge_patch(body))

    # -- what can be seen --------------------------------------------------------------------

    def job(self, name: str) -> AnyJob | None:
        key = Key(NAMESPACE, name)
        return self.jobs.get(key) or self.old_jobs.get(key)

    def phase(self, name: str) -> str:
        job = self.job(name)
        return job.status.phase.value if job else ""

    def target(self, name: str) -> int:
        job = self.job(name)
        return target_of(job) if job else 0

    def trainers(self, name: str) -> list[Pod]:
        """Those that run and are to stay."""
        return [
            pod
            for pod in self.pods.all()
            if any(pod.metadata.labels.get(label) == name for label in JOB_LABELS.values())
            and pod.status.phase is PodPhase.RUNNING
            and not pod.metadata.deletion_timestamp
        ]

    def forget_turns(self) -> None:
        """Begin to count anew."""
        self.reported = {name: reported[-1:] for name, reported in self.reported.items()}

    def n_turns(self, name: str) -> int:
        """How often a job's target went the other way."""
        targets = [target for _, target in self.reported.get(name, ())]
        rises = [after > before for before, after in pairwise(targets)]
        return sum(one != other for one, other in pairwise(rises))

    async def until(self, what: str, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    await self._changed.wait()
        except TimeoutError as error:
            sizes = {
                name: (self.phase(name), reported[-3:]) for name, reported in self.reported.items()
            }
            raise AssertionError(f"not within {within_s:.0f} s: {what}; {sizes}") from error

    async def until_phase(self, name: str, *phases: str) -> None:
        await self.until(f"{name} is {phases}", lambda: self.phase(name) in phases)

    async def go_on(self, for_s: float) -> None:
        await self.clock.sleep(for_s)

    def _note(self, key: Key) -> None:
        job = self.job(key.name)
        if job is not None and target_of(job):
            reported = self.reported.setdefault(key.name, [])
            if not reported or reported[-1][1] != target_of(job):
                reported.append((self.clock.now(), target_of(job)))
        self._ring()

    def _ring(self) -> None:
        running = Counter(name for name in self.reported for _ in self.trainers(name))
        for name in self.reported:
            if name in self.lows or running[name] == self.target(name):
                self.lows[name] = min(self.lows.get(name, running[name]), running[name])
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def play_embedded(story: Story[T]) -> T:
    """In virtual time."""

    async def main() -> T:
        clock, rng = VirtualClock(), Random(11)
        api = new_api_server(Storage(clock.now), clock, rng)
        manager = Manager(clock=clock)
        add_services(manager, api, rng)
        async with _running(manager):
            stage = Stage(InProcessCluster(api, "user"), clock, is_virtual=True)
            return await _play(lambda actor: InProcessCluster(api, actor), stage, story)

    return run(main())


def play_real(kubeconfig: Path, story: Story[T]) -> T:
    """On a server that a kubeconfig leads to."""

    async def main() -> T:
        clock = SystemClock()
        access = read_kubeconfig([kubeconfig])
        async with connect(access, clock, Random(1)) as cluster:
            await install_crds(cluster, clock)
            stage = Stage(cluster, clock, is_virtual=False)
            result = await _play(lambda _: cluster, stage, story)
        await asyncio.sleep(CLOSE_S)
        return result

    return asyncio.run(main())


async def _play(cluster_of: Callable[[str], Cluster], stage: Stage, story: Story[T]) -> T:
    clock = stage.clock
    manager = Manager(clock=clock)
    stage.add_to(manager)
    shape = NodeShape(CAPACITY, boot_id="elastic")
    nodes = add_hollow_agent(
        manager,
        cluster_of("nodes"),
        node_names(NODE, N_NODES),
        shape,
        clock=clock,
        random=Random(4),
    )
    scheduler = Scheduler(cluster_of("scheduler"), clock=clock, random=Random(5))
    manager.add("scheduler", scheduler.run)
    for name, part in _parts(cluster_of, stage).items():
        manager.add(name, part)
    async with _running(manager):
        await stage.prepare()
        while not (nodes.is_ready and scheduler.is_synced):
            await stage.go_on(0.1)
        try:
            return await story(stage)
        finally:
            await stage.clear()


def _parts(
    cluster_of: Callable[[str], Cluster], stage: Stage
) -> dict[str, Callable[[], Awaitable[None]]]:
    clock = stage.clock

    async def jobs() -> None:
        settings = AITrainingJobSettings(namespace=NAMESPACE)
        kind = ai_training_job_kind(settings)
        await operate(kind, cluster_of(ACTOR), clock=clock, random=Random(6))

    async def old_jobs() -> None:
        kind = training_job_kind(TrainingJobSettings(namespace=NAMESPACE, autoclean=True))
        await operate(kind, cluster_of("operator"), clock=clock, random=Random(7))

    async def sizes() -> None:
        await stage.may_resize.wait()
        await run_autoscaler(
            cluster_of("autoscaler"), settings=SETTINGS, clock=clock, random=Random(8)
        )

    return {"operator": jobs, "TrainingJob operator": old_jobs, "autoscaler": sizes}


@asynccontextmanager
async def _running(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.stop()
        await task
