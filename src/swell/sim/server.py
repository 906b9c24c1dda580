"""The embedded API server in virtual time, with its garbage collector."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

from swell.api.kinds import NATIVE_GROUPS, PODS
from swell.api.resource import Resource
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.builtin.podgroups import GENERIC
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.controllers.garbage import GarbageCollector
from swell.cluster.embedded.controllers.podgroup import PodGroupSnapshot, decide_pod_group
from swell.cluster.embedded.registry import Registry, ServedKind
from swell.cluster.embedded.storage import Storage
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster, ObjectList, Selection
from swell.runtime.executor import Executor
from swell.sim.chance import Chance

T = TypeVar("T")

# Not 1: a program that takes versions for counts must fail.
FIRST_VERSION = 1000
# A limit above the length of any list. With a limit, a version means exactly that version.
_WHOLE = 1_000_000


@cache
def _embedded_kinds(gates: frozenset[str]) -> tuple[ServedKind, ...]:
    """Returns the kinds of an embedded cluster. They have no state, so all worlds share them."""
    rng = Chance(0).generator("unused")
    return tuple(new_api_server(Storage(lambda: 0.0), SystemClock(), rng, gates).registry)


class SimulatedServer:
    """The API server of one world with its store, and lists of its past."""

    def __init__(
        self,
        clock: Clock,
        chance: Chance,
        kinds: Sequence[ServedKind],
        gates: frozenset[str] = frozenset(),
    ) -> None:
        registry = Registry()
        for kind in (*_embedded_kinds(gates), *kinds):
            registry.add(kind)
        self.storage = Storage(clock.now, version=FIRST_VERSION)
        self._chance = chance
        self._gates = gates
        self._n_uids = 0
        self._api = ApiServer(
            self.storage,
            registry,
            clock,
            new_uid=self._new_uid,
            rng=chance.generator("server"),
        )
        self._api.ensure_namespaces()
        self.collector = GarbageCollector(self._api)

    def connect(self, actor: str) -> Cluster:
        return InProcessCluster(self._api, actor)

    def controllers(self) -> list[Coroutine[Any, Any, None]]:
        """Returns the controllers that the cluster itself runs."""
        found = [collect_garbage(self.collector, self._api.clock, self._chance)]
        if GENERIC in self._gates:
            cluster = self.connect("podgroup protection")
            found.append(release_groups(cluster, self._api.clock, self._chance))
        return found

    async def list_back(
        self, resource: Resource[T], selection: Selection, n_commits: int
    ) -> ObjectList[T] | None:
        """Returns the list some commits ago, or None if it was the same or is compacted."""
        version = self.storage.version - n_commits
        if version <= self.storage.compacted:
            return None
        past = self.storage.list_at(str(resource), selection.namespace, version)
        if past.items == self.storage.list(str(resource), selection.namespace).items:
            return None
        return await self.connect("past").list(
            resource, selection, limit=_WHOLE, resource_version=str(version)
        )

    def _new_uid(self) -> str:
        # Numbered, because random UIDs would make runs differ.
        self._n_uids += 1
        return f"00000000-0000-4000-8000-{self._n_uids:012d}"


# The longest interval of the garbage collector.
PACE_S_MAX = 10.0


async def collect_garbage(collector: GarbageCollector, clock: Clock, chance: Chance) -> None:
    """Collect garbage at varying intervals until cancelled: never at once, sometimes late."""
    n_rounds = 0
    while True:
        n_rounds += 1
        # Squared: mostly prompt, now and then slow.
        await clock.sleep(0.1 + PACE_S_MAX * chance.uniform("garbage", n_rounds) ** 2)
        collector.drain()


async def release_groups(cluster: Cluster, clock: Clock, chance: Chance) -> None:
    """Let native groups go that are deleted and have no live pod, now and then, until cancelled."""
    executor, n_rounds = Executor(cluster), 0
    while True:
        n_rounds += 1
        await clock.sleep(0.1 + PACE_S_MAX * chance.uniform("groups", n_rounds) ** 2)
        pods = (await cluster.list(PODS)).items
        for group in (await cluster.list(NATIVE_GROUPS)).items:
            key = group.metadata.key
            named = tuple(
                pod
                for pod in pods
                if pod.spec.scheduling_group is not None
                and pod.metadata.namespace == key.namespace
                and pod.spec.scheduling_group.pod_group_name == key.name
            )
            await executor.execute(decide_pod_group(PodGroupSnapshot(group, named), clock.now()))
