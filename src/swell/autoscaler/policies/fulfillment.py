"""The fulfillment policy: grow the least fulfilled role first, shrink the most fulfilled first.

A role's fulfillment is how far its size lies between its minimum and its maximum. The policy knows
neither the time nor earlier decisions. `find_pending_job`, `search_assignable_node`, `set_targets`
and the functions of `dry_run` are named after those of PaddlePaddle's EDL autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.policies.dry_run import CandidateRole, scale_all_jobs_dry_run
from swell.autoscaler.policies.interface import (
    Parameters,
    RoleId,
    RoleTarget,
    RoleTargets,
    SizeReason,
)
from swell.autoscaler.policies.room import NOWHERE, Room
from swell.autoscaler.views import AutoscalerRole


def fulfillment(
    jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
) -> RoleTargets:
    """Returns the targets of all roles that the autoscaler may size."""
    pending = find_pending_job(jobs)
    candidates = find_jobs_that_might_be_rescheduled(jobs, have_pending=pending is not None)
    room = Room(cluster, parameters.max_load)
    deltas = scale_all_jobs_dry_run(candidates, room)
    return set_targets(jobs, candidates, deltas, room)


def search_assignable_node(room: Room, role: CandidateRole) -> str:
    """Returns the first node by name with room for one more replica, or an empty name."""
    at = room.find(role.needs)
    return "" if at == NOWHERE else room.cluster.nodes[at].name


def find_pending_job(jobs: Iterable[JobState]) -> JobState | None:
    """Returns the first job that waits for room, if there is one."""
    return next((job for job in jobs if job.is_pending), None)


def find_jobs_that_might_be_rescheduled(
    jobs: Iterable[JobState], *, have_pending: bool
) -> list[CandidateRole]:
    """Returns the candidates: all roles when a job is pending, otherwise those of running jobs."""
    return [
        CandidateRole.of(job, state)
        for job in jobs
        if not job.is_hopeless and (have_pending or job.view.is_running)
        for state in job.roles
        if is_considered(state)
    ]


def is_considered(state: RoleState) -> bool:
    """Whether the autoscaler may size a live job's role at all: not while it is finishing."""
    return state.view.is_auto and not state.has_succeeded


def set_targets(
    jobs: Iterable[JobState],
    candidates: Iterable[CandidateRole],
    deltas: Mapping[RoleId, int],
    room: Room,
) -> dict[RoleId, RoleTarget]:
    """Returns a target with its reason for every role considered.

    A role that is no candidate keeps its current target, even outside its bounds. `room` is what
    the dry run left free.
    """
    chosen = {role.id: role for role in candidates}
    pending = find_pending_job(jobs := list(jobs))
    targets: dict[RoleId, RoleTarget] = {}
    for job in jobs:
        for state in job.roles:
            if not is_considered(state):
                continue
            id_ = RoleId(job.view.id, state.view.name)
            role = chosen.get(id_)
            if role is None:
                targets[id_] = _kept(job, state.view)
            else:
                targets[id_] = _planned(role, role.current + deltas[id_], room, pending)
    return targets


def _kept(job: JobState, role: AutoscalerRole) -> RoleTarget:
    """Returns the unchanged target of a role that is no candidate."""
    if job.is_hopeless:
        reason, message = SizeReason.HOPELESS, "the job cannot start on this cluster"
    else:
        reason, message = SizeReason.NO_CANDIDATE, "the job is not running"
    return RoleTarget(role.target, role.target, reason, message)


def _planned(role: CandidateRole, size: int, room: Room, pending: JobState | None) -> RoleTarget:
    """Returns the target of a candidate for which the dry run planned this size."""
    current = role.current
    if size > current:
        if current < role.minimum:
            reason, message = SizeReason.BELOW_MINIMUM, "it was below its minimum"
        else:
            reason, message = SizeReason.ROOM, "there is room for more"
        return RoleTarget(current, size, reason, message)
    if size == current:
        return RoleTarget(size, size, *_why_unchanged(role, room))
    if size == role.maximum:
        return RoleTarget(current, size, SizeReason.ABOVE_MAXIMUM, "it was above its maximum")
    if pending is None:
        message = "more is requested than the cluster has"
        return RoleTarget(current, size, SizeReason.OVER_COMMITTED, message)
    # The freed room is reserved for the pending job's group: see `damping`.
    group = str(pending.view.group)
    message = f"{pending.view.id} waits for room"
    return RoleTarget(current, size, SizeReason.PENDING_JOB, message, for_group=group)


def _why_unchanged(role: CandidateRole, room: Room) -> tuple[SizeReason, str]:
    """Returns the reason why a candidate did not grow."""
    if role.current >= role.maximum:
        return SizeReason.AT_MAXIMUM, "it is at its maximum"
    lacking = [
        name
        for name, used, more, most in (
            ("cpu", room.cpu, role.cpu, room.cpu_max),
            ("memory", room.memory, role.memory, room.memory_max),
            ("GPUs", room.gpu, role.gpu, room.gpu_max),
        )
        if used + more > most
    ]
    if lacking:
        message = f"the cluster has no {' and no '.join(lacking)} for another replica"
        return SizeReason.FULL, message
    if not search_assignable_node(room, role):
        return SizeReason.NO_NODE, "no node has room for another replica"
    return SizeReason.BALANCED, "it has its share"
