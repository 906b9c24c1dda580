"""Whether everything a job should have is there and runs."""

from __future__ import annotations

from swell.api.pod import PodPhase
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.world import (
    World,
    completed_indexes,
    completion_index,
    failed_indexes,
    is_running,
)


def job_total_running(world: World) -> bool:
    """Whether every role the job has is as its spec wants it."""
    sets = [role for role in world.roles if role is not Role.TRAINER]
    return all(master_role_total_running(world, role) for role in sets) and trainer_total_running(
        world
    )


def master_role_total_running(world: World, role: Role) -> bool:
    """Whether a master's or pserver's ReplicaSet has as many ready pods as it should."""
    held = world.replica_sets.get(role)
    return held is not None and held.status.ready_replicas >= held.spec.replicas


def trainer_total_running(world: World) -> bool:
    """Whether as many trainers run or have succeeded as run in parallel.

    One whose index was given up for good will never run again, and is not waited for.
    """
    job = world.trainer
    if job is None:
        return False
    below = job.spec.completions or 0
    at_work = {
        completion_index(pod)
        for pod in world.trainers
        if is_running(pod) or pod.status.phase is PodPhase.SUCCEEDED
    }
    settled = at_work | completed_indexes(job) | failed_indexes(job)
    return sum(index is not None and index < below for index in settled) >= job.spec.parallelism
