"""What befalls nodes and pods of the scheduler's world: what does the operator's, in part."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from swell.api.kinds import NODES as NODE_KIND
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import AlreadyExistsError
from swell.scheduler.live.controller import Scheduler
from swell.sim.actors.fleet import CLOUD
from swell.sim.actors.nemesis import Disturbance
from swell.sim.faults.plan import Fault, FaultInjector
from swell.sim.world import SimulatedWorld
from tests.sim.operator.disturbances import RATES_MAX as OPERATOR_RATES
from tests.sim.operator.disturbances import OperatorFault, operator_disturbances
from tests.sim.operator.fleets import NODES, fleet_of

# Images and quotas are the operator's to see to, and specs are resized by the scenarios.
_LEFT_OUT = frozenset(
    {
        OperatorFault.IMAGES,
        OperatorFault.GPU_FAULT,
        OperatorFault.RESIZED,
        OperatorFault.EDITED,
        OperatorFault.QUOTA,
        OperatorFault.PREEMPTED,  # the scheduler itself is here, and does that by its rules
    }
)
HANDLER_FAILS = "F36 handler raises"
GUEST = "F37 node comes and goes"
RATES_MAX: Mapping[str, float] = {
    **{kind: rate for kind, rate in OPERATOR_RATES.items() if kind not in _LEFT_OUT},
    HANDLER_FAILS: 0.05,
    GUEST: 0.08,
}
FRAGILE = "armed handler"  # under this name a scheduler exposes what makes its handler fail


class HandlerFailedError(Exception):
    """A handler has met a bug of its own."""


def make_fragile(scheduler: Scheduler) -> list[FaultInjector]:
    """Has the handler of pods fail at the next pod, half-way, if the list has an entry by then.

    The entry says whether faults still happen: one that met no pod in their time comes to nothing.
    """
    cache, armed = scheduler.cache, list[FaultInjector]()
    take = cache._take_pod

    def take_or_fail(key: Key) -> None:
        if armed and armed.pop().on:
            armed.clear()
            cache.snapshot.remove_pod(str(key))
            raise HandlerFailedError
        take(key)

    cache._take_pod = take_or_fail  # type: ignore[method-assign]
    return armed


def scheduler_disturbances(world: SimulatedWorld) -> Mapping[str, Disturbance]:
    async def shrink_node(fault: Fault) -> bool:
        """A node has less for a while, down to nothing."""
        fleet, name = fleet_of(world), NODES[int(fault.amount * len(NODES))]
        await fleet.set_allocatable(name, int(fault.scaled(0, 97)) % fleet.n_cpus)
        world.spawn(mend_node(name, fault.scaled(10, 90)))
        return True

    async def mend_node(name: str, after_s: float) -> None:
        await world.clock.sleep(after_s)
        await fleet_of(world).set_allocatable(name, fleet_of(world).n_cpus)

    async def fail_handlers(_: Fault) -> bool:
        """The next pod that a scheduler learns of breaks its handler."""
        found = [process.exposed.get(FRAGILE) for process in world.processes]
        for armed in found:
            if isinstance(armed, list):
                armed.append(world.injector)
        return any(armed is not None for armed in found)

    async def invite(fault: Fault) -> bool:
        """A cordoned node of a new name is there for a while."""
        cloud = world.connect(CLOUD)
        key = Key("", f"guest-{int(fault.amount * 1e9)}")
        body: Body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": key.name},
            "spec": {"unschedulable": True},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}},
        }
        with suppress(AlreadyExistsError):
            await cloud.create(NODE_KIND, body)
            await cloud.patch(NODE_KIND.status, key, merge_patch({"status": body["status"]}))
            world.spawn(dismiss(key, fault.scaled(1, 40)))
        return True

    async def dismiss(key: Key, after_s: float) -> None:
        await world.clock.sleep(after_s)
        await world.connect(CLOUD).delete(NODE_KIND, key)

    every = {
        **operator_disturbances(world),
        OperatorFault.ALLOCATABLE: shrink_node,
        HANDLER_FAILS: fail_handlers,
        GUEST: invite,
    }
    return {kind: act for kind, act in every.items() if kind in RATES_MAX}
