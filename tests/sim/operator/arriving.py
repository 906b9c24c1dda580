"""What every scenario begins with: nodes, and somebody with jobs to run on them."""

from __future__ import annotations

from collections.abc import Callable

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.sim.world import SimulatedWorld
from tests.sim.operator.fleets import fleet_of
from tests.sim.operator.jobs import a_job
from tests.sim.operator.observation import is_over
from tests.sim.user import SimulatedUser


def _manifest(name: str, roles: dict[str, Body], **spec: object) -> Body:
    return a_job(name, {"replicaSpecs": roles, **spec})


async def arrive(world: SimulatedWorld) -> SimulatedUser[AITrainingJob]:
    """Somebody with jobs to run, and nodes to run them on."""
    await fleet_of(world).start()
    return SimulatedUser(world, AI_TRAINING_JOBS, _manifest, is_over)


def in_phase(*phases: AITrainingJobPhase) -> Callable[[AITrainingJob], bool]:
    return lambda job: job.status.phase in phases


def sized(replicas: int) -> Body:
    return {"replicaSpecs": {"trainer": {"replicas": replicas}}}
