"""The reasons of a policy in words. Looks at what was planned; changes nothing."""

from __future__ import annotations

from swell.autoscaler.policies.interface import Reason, Target
from swell.autoscaler.policies.room import NOWHERE, Room
from swell.autoscaler.resource import JobState
from swell.autoscaler.views import RoleView


def role_kept(job: JobState, role: RoleView) -> Target:
    """A role that is no candidate now."""
    if job.is_hopeless:
        reason, message = Reason.HOPELESS, "the job cannot start on this cluster"
    else:
        reason, message = Reason.NO_CANDIDATE, "the job is not running"
    return Target(role.target, role.target, reason, message)


def role_planned(role: RoleView, size: int, room: Room, pending: JobState | None) -> Target:
    if size > role.target:
        if role.target < role.minimum:
            reason, message = Reason.BELOW_MINIMUM, "it was below its minimum"
        else:
            reason, message = Reason.ROOM, "there is room for more"
        return Target(role.target, size, reason, message)
    if size == role.target:
        return Target(size, size, *_unchanged(role, room))
    if size == role.maximum:
        return Target(role.target, size, Reason.ABOVE_MAXIMUM, "it was above its maximum")
    if pending is None:
        return Target(
            role.target, size, Reason.OVER_COMMITTED, "more is requested than the cluster has"
        )
    group = str(pending.view.group)
    message = f"{pending.view.id} waits for room"
    return Target(role.target, size, Reason.PENDING_JOB, message, for_group=group)


def _unchanged(role: RoleView, room: Room) -> tuple[Reason, str]:
    """What kept a candidate from growing."""
    needs = role.needs
    if role.target >= role.maximum:
        return Reason.AT_MAXIMUM, "it is at its maximum"
    lacking = [
        name
        for name, used, more, most in (
            ("cpu", room.cpu, needs.cpu_milli, room.cpu_max),
            ("memory", room.memory, needs.memory_bytes, room.memory_max),
            ("GPUs", room.gpu, needs.gpus, room.gpu_max),
        )
        if used + more > most
    ]
    if lacking:
        return Reason.FULL, f"the cluster has no {' and no '.join(lacking)} for another replica"
    if room.find(needs) == NOWHERE:
        return Reason.NO_NODE, "no node has room for another replica"
    return Reason.BALANCED, "it has its share"
