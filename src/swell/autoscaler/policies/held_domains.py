"""Roles of gangs that must stay in one part of the network: where they may grow.

The scheduler places a further replica of such a gang only within the domain that its pods hold, or
leaves it waiting. So only room in there counts, by the scheduler's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.autoscaler.policies.interface import RoleId
from swell.scheduler.domains import Domains
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.session import Session


@dataclass(frozen=True, slots=True)
class AllowedNodes:
    """The nodes on which a role may grow, by place in the scheduler's table, and their domain."""

    mask: Mask
    domain: str  # empty where no pod holds one yet


def allowed_nodes(
    session: Session, roles: Iterable[tuple[RoleId, str]]
) -> dict[RoleId, AllowedNodes]:
    """Returns where roles may grow that may not grow everywhere; each comes with its group."""
    found: dict[RoleId, AllowedNodes] = {}
    for role, group in roles:
        job = session.snapshot.jobs.get(group)
        if job is None or not job.is_constrained:
            continue
        allowed = _allowed(session.domains_for(job), job, _part_of(job, role))
        if allowed is not None:
            found[role] = allowed
    return found


def _part_of(job: JobInfo, role: RoleId) -> SubGroup | None:
    """Returns the one sub-group that a role's pods are in; None if they are in several, or none.

    A role in slices grows by further slices, which only the constraint of the whole gang limits.
    """
    parts = {task.sub_group for task in job.tasks.values() if task.role == role.role}
    return parts.pop() if len(parts) == 1 else None


def _allowed(domains: Domains, job: JobInfo, part: SubGroup | None) -> AllowedNodes | None:
    limit = domains.limit_of(job) if part is None else domains.limit_of_part(job, part)
    tasks = job.tasks if part is None else part.tasks
    held = domains.held_by(tasks.values())
    mask = domains.nodes_within(limit, held)
    if mask is None or limit is None:
        return None
    widest = None if held is None else domains.widest(limit, held)
    return AllowedNodes(mask, "" if widest is None else domains.tree.names[widest])
