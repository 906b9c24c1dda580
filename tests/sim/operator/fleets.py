"""The nodes of each simulated world, made when they are first asked for."""

from __future__ import annotations

from swell.sim.actors.fleet import Fleet
from swell.sim.world import SimulatedWorld
from tests.sim.operator.jobs import behavior_of

NODES = ("node-a", "node-b", "node-c", "node-d")


def fleet_of(world: SimulatedWorld) -> Fleet:
    if world.fleet is None:
        world.fleet = Fleet(world, behavior_of, NODES)
    return world.fleet
