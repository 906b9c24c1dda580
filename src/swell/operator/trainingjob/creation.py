"""Makes what a job lacks: the group first, then master, pservers and trainers."""

from __future__ import annotations

from swell.api.kinds import JOBS, POD_GROUPS, REPLICA_SETS
from swell.api.meta import Body
from swell.api.trainingjob import TrainingJobStatus
from swell.operator.trainingjob import parser, scaling
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.world import World, is_leaving
from swell.runtime.plan import CreateObject, Step, patch_object


def create_training_job(world: World, status: TrainingJobStatus) -> list[Step]:
    """What is missing, under names that make a second attempt harmless."""
    steps: list[Step] = []
    if world.has_group and world.group is None:
        steps.append(CreateObject(POD_GROUPS, parser.parse_to_group(world)))
    for role in world.roles:
        steps += (
            _create_trainer(world, status) if role is Role.TRAINER else _create_set(world, role)
        )
    return steps


def _create_set(world: World, role: Role) -> list[Step]:
    """A master's or pservers' ReplicaSet; one that somebody resized is set right."""
    held = world.replica_sets.get(role)
    if held is None:
        is_master = role is Role.MASTER
        body = parser.parse_to_master(world) if is_master else parser.parse_to_pserver(world)
        return [CreateObject(REPLICA_SETS, body)]
    wanted, meta = parser.n_minimum(world, role), held.metadata
    if held.spec.replicas == wanted or is_leaving(meta):
        return []
    change: Body = {"spec": {"replicas": wanted}}
    # The version keeps this from arriving after the release has set the replicas to 0.
    return [patch_object(REPLICA_SETS, meta.key, meta.uid, change, version=meta.resource_version)]


def _create_trainer(world: World, status: TrainingJobStatus) -> list[Step]:
    if world.trainer is not None:
        return []
    return [CreateObject(JOBS, parser.parse_to_trainer(world, scaling.target(world, status)))]
