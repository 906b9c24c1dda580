"""Safety rules about domains: pods of a gang are bound, and promised, where its topology allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.meta import Key
from swell.cluster.embedded.storage import Commit
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.sim.world import SimulatedWorld
from tests.sim.scheduler.observation import BINDING, pod_key, scheduler_of

STANDING = frozenset(
    {TaskStatus.PIPELINED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
)


@dataclass
class DomainsKept:
    """No pod is bound outside the domain of its gang, as the scheduler knew both by then."""

    world: SimulatedWorld
    name: str = "domains kept"

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, _: Commit) -> Iterator[str]:
        yield from ()

    def _on_call(self, actor: str, site: str) -> None:
        scheduler = scheduler_of(self.world, actor)
        if scheduler is None or not site.startswith(f"{actor} {BINDING} "):
            return
        task = scheduler.cache.snapshot.task(str(pod_key(site)))
        job = task.job if task is not None else None
        topology = job.group.spec.network_topology if job is not None else None
        if task is None or job is None or topology is None or topology.mode == "soft":
            return
        limit = topology.highest_tier_allowed
        if limit is None:
            return
        names = scheduler.cache.snapshot.nodes.names
        # Its gang as it stands: where its pods are, and where room is kept for them.
        standing: list[Task] = [one for one in job.tasks.values() if one.status in STANDING]
        nodes = {names[one.node] for one in standing}
        if not any(nodes <= found for found in _domains(scheduler, limit)):
            what = f"{task.key} is bound so that {job.key} is on {', '.join(sorted(nodes))}"
            self.world.checker.report(self.name, f"{what}: no domain of tier {limit} has them all")


def _domains(scheduler: Scheduler, limit: int) -> Iterator[set[str]]:
    """Yields the nodes of each domain within a limit, by following names."""
    known = scheduler.informers.hyper_nodes
    for key in known.keys():  # noqa: SIM118 - an informer is no mapping
        found = known.get(key)
        if found is not None and found.spec.tier <= limit:
            yield _nodes_below(scheduler, key)


def _nodes_below(scheduler: Scheduler, key: Key) -> set[str]:
    found = scheduler.informers.hyper_nodes.get(key)
    nodes: set[str] = set()
    for member in found.spec.members if found is not None else ():
        name = member.selector.exact_match.name if member.selector.exact_match else ""
        nodes |= {name} if member.type == "Node" else _nodes_below(scheduler, Key("", name))
    return nodes
