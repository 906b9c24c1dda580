"""Plays gangs with claims on a real control plane, with a scheduler that ends at one of its writes.

Each write of a run without faults is met three times: the scheduler ends before it arrives, after
it is done, and it lives on without the answer. At writes of claims also somebody else is faster, or
a pod of the gang leaves and comes again. A scheduler that has ended is begun anew.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from swell.api.kinds import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESOURCE_CLAIMS,
)
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Deletion, Selection
from swell.runtime.events import EventRecorder
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from tests.e2e.faults.claim_worlds import (
    RECORDED,
    ClaimStory,
    end_state,
    have_cluster,
    have_gang,
    pod_of,
    violations,
)
from tests.e2e.faults.proxy import Asked, Fault, Rule, Spoiler, proxied
from tests.e2e.faults.recorder import recording
from tests.e2e.faults.stage import CLOSE_S, Environment, trusted
from tests.testbed.control_plane import ControlPlane
from tests.testbed.provisioner import DiskProvisioner

T = TypeVar("T")
WAYS = (Fault.KEPT, Fault.HELD, Fault.LOST)
OF_CLAIMS = (Fault.CONFLICT, Fault.LATE)
_OF_CLAIMS = frozenset(
    {"persistentvolumes", "persistentvolumeclaims", "resourceclaims", "resourceclaims/status"}
)
_LOOK_S = 0.05
WITHIN_S = 120.0  # a gang that was bound in part is released after its window
# What differs from run to run in the names of volumes and claims.
_OF_RUN = re.compile(r"(\..*|(?<=-gpu)-[a-z0-9]{5})$")
_NO_SITES = ("events", "leases")  # nothing depends on whether they arrive


@dataclass
class Run:
    """How one gang fared under one fault, if any."""

    story: ClaimStory
    rule: Rule | None = None
    struck: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    end_state: Body = field(default_factory=dict)
    sites: list[Asked] = field(default_factory=list)  # its writes, by the names of `site_of`

    @property
    def fault(self) -> str:
        one = self.rule
        return "" if one is None else f"{one.fault.value} at {one.verb} {one.what} {one.name}"


@dataclass(slots=True)
class ClaimStage:
    """A cluster with a provisioner, on which one gang after the other is played."""

    environment: Environment
    ends: list[str] = field(default_factory=list)  # of schedulers that ended by themselves
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _left: asyncio.Event = field(default_factory=asyncio.Event)  # the last pod has been deleted

    async def play(self, story: ClaimStory, rule: Rule | None = None) -> Run:
        namespace = f"{story.name}-{next(self._numbers)}"
        admin = self.environment.admin
        body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await admin.create(NAMESPACES.untyped(), body)
        spoilers: list[Spoiler] = []
        async with AsyncExitStack() as stack:
            kinds = [one.untyped() for one in RECORDED]
            record = await stack.enter_async_context(recording(admin, namespace, kinds))
            await have_gang(admin, story, namespace)
            keeper = asyncio.create_task(self._keep(story, namespace, rule, spoilers))
            try:
                waits = await self._until_bound(story, namespace, keeper)
            finally:
                keeper.cancel()
                await asyncio.gather(keeper, return_exceptions=True)
        await self._clear(namespace)
        found = record.happenings
        return Run(
            story,
            rule,
            struck=[text for one in spoilers for text in one.struck],
            violations=waits + violations(story, found),
            end_state=end_state(story, found),
            sites=[site_of(w.asked) for one in spoilers for w in one.writes if _counts(w.asked)],
        )

    async def _keep(
        self, story: ClaimStory, name: str, rule: Rule | None, spoilers: list[Spoiler]
    ) -> None:
        """Runs a scheduler, and another when it ends; faults are met once."""
        for number in itertools.count():
            ended = asyncio.Event()
            is_struck = any(one.struck for one in spoilers)
            spoiler = Spoiler(() if rule is None or is_struck else (rule,))
            spoilers.append(spoiler)

            def end(_: Asked, spoiler: Spoiler = spoiler, ended: asyncio.Event = ended) -> None:
                spoiler.is_closed = True  # nothing that it does on its way out arrives
                ended.set()

            async def leave() -> None:
                last = Key(name, _last(story))
                await self.environment.admin.delete(PODS, last, Deletion(grace_s=0))
                self._left.set()

            spoiler.on_held, spoiler.meanwhile = end, leave
            async with self._scheduler(f"{name}-{number}", spoiler, ended):
                await ended.wait()

    @asynccontextmanager
    async def _scheduler(
        self, name: str, spoiler: Spoiler, ended: asyncio.Event
    ) -> AsyncIterator[None]:
        plane, clock = self.environment.plane, SystemClock()
        async with AsyncExitStack() as stack:
            address = await stack.enter_async_context(
                proxied(plane.server_url, self.environment.trust, spoiler)
            )
            access = read_kubeconfig([self.environment.kubeconfig(name, address)])
            cluster = await stack.enter_async_context(connect(access, clock, Random(7)))
            # A process that is killed finishes nothing, and waits for no answer.
            manager = Manager(clock=clock, drain_s=0.0)
            for one in Scheduler(cluster, clock=clock, random=Random(8)).services:
                manager.add(one.name, one.run, one.stop)
            task = asyncio.create_task(manager.run())
            task.add_done_callback(lambda _: ended.set())
            try:
                yield
            finally:
                task.cancel()
                for result in await asyncio.gather(task, return_exceptions=True):
                    if not isinstance(result, asyncio.CancelledError | None):
                        self.ends.append(f"{name}: {result!r}")

    async def _until_bound(
        self, story: ClaimStory, namespace: str, keeper: asyncio.Task[None]
    ) -> list[str]:
        """Returns what is wrong when the gang has waited for too long."""
        admin, here = self.environment.admin, Selection(namespace)
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    if self._left.is_set():
                        await self._come_again(story, namespace)
                    pods = (await admin.list(PODS, here)).items
                    if sum(bool(pod.spec.node_name) for pod in pods) == story.size:
                        return []
                    if keeper.done():
                        keeper.result()  # raises
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            group = await admin.get(POD_GROUPS, Key(namespace, "gang"))
            claims = (await admin.list(PERSISTENT_VOLUME_CLAIMS, here)).items
            text = f"{group.status}; {[(c.metadata, c.spec.volume_name) for c in claims]}"
            return [f"{namespace} waits: {text}; {self.ends}"]

    async def _come_again(self, story: ClaimStory, namespace: str) -> None:
        """Creates the last pod anew, once the others have given their devices back."""
        admin = self.environment.admin
        await self._until_none(RESOURCE_CLAIMS, lambda one: one.status.allocation is not None)
        await admin.create(PODS.untyped(), pod_of(story, namespace, story.size - 1))
        self._left.clear()

    async def _clear(self, namespace: str) -> None:
        """Frees everything for the next gang, whose scheduler finds no queue either."""
        admin, now = self.environment.admin, Deletion(grace_s=0)
        self._left.clear()
        await admin.delete(POD_GROUPS, Key(namespace, "gang"))
        for resource in (PODS.untyped(), PERSISTENT_VOLUME_CLAIMS.untyped()):
            await admin.delete_collection(resource, Selection(namespace), now)
        await admin.delete_collection(QUEUES)
        async with asyncio.timeout(WITHIN_S):
            await self._until_none(RESOURCE_CLAIMS)
            await self._until_none(PERSISTENT_VOLUME_CLAIMS)
            # Of disks made by hand: the others go with their claims.
            await admin.delete_collection(PERSISTENT_VOLUMES, deletion=now)
            await self._until_none(PERSISTENT_VOLUMES)

    async def _until_none(
        self, resource: Resource[T], is_meant: Callable[[T], bool] = lambda _: True
    ) -> None:
        admin = self.environment.admin
        while any(map(is_meant, (await admin.list(resource)).items)):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def claim_stage(plane: ControlPlane, folder: Path) -> AsyncIterator[ClaimStage]:
    clock = SystemClock()
    async with connect(read_kubeconfig([plane.kubeconfig]), clock, Random(1)) as admin:
        await install_crds(admin, clock)
        await have_cluster(admin)
        events = EventRecorder(admin, "provisioner", clock=clock, random=Random(2))
        disks = asyncio.create_task(DiskProvisioner(admin, folder / "disks", events).run())
        try:
            yield ClaimStage(Environment(plane, folder, admin, trusted(plane)))
        finally:
            disks.cancel()
            await asyncio.gather(disks, return_exceptions=True)
    await asyncio.sleep(CLOSE_S)


async def play_every_write(
    stage: ClaimStage, story: ClaimStory, n_sites: int = 0
) -> tuple[Run, list[Run]]:
    """Returns the run without faults, and one for each of its writes and each way to fail.

    With a number only of the first so many writes.
    """
    calm = await stage.play(story)
    seen: Counter[Asked] = Counter()
    runs: list[Run] = []
    for asked in calm.sites[: n_sites or None]:
        seen[asked] += 1
        for fault in (*WAYS, *(OF_CLAIMS if asked.what in _OF_CLAIMS else ())):
            rule = Rule(asked.verb, asked.what, seen[asked], fault, asked.name)
            runs.append(await stage.play(story, rule))
    return calm, runs


def site_of(asked: Asked) -> Asked:
    """Returns a write by a name that is the same in every run."""
    return Asked(asked.verb, asked.what, _OF_RUN.sub("", asked.name))


def _counts(asked: Asked) -> bool:
    return asked.verb != "DRY" and asked.what not in _NO_SITES


def _last(story: ClaimStory) -> str:
    return f"gang-{story.size - 1}"
