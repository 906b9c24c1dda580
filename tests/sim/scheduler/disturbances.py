"""What befalls nodes and pods of the scheduler's world: what does the operator's, in part."""

from __future__ import annotations

from collections.abc import Mapping

from swell.sim.actors.nemesis import Disturbance
from swell.sim.faults.plan import Fault
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
    }
)
RATES_MAX: Mapping[str, float] = {
    kind: rate for kind, rate in OPERATOR_RATES.items() if kind not in _LEFT_OUT
}


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

    every = {**operator_disturbances(world), OperatorFault.ALLOCATABLE: shrink_node}
    return {kind: act for kind, act in every.items() if kind in RATES_MAX}
