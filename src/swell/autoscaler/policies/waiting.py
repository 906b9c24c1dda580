"""Which waiting jobs can start, and which roles have to shrink for that.

The waiting gangs are placed in the mirror, in the scheduler's own order and by its own rules:
nodes, predicates, quotas, minimums. A gang that finds no room gets it from elastic roles that have
more than their minimum: as few replicas as possible, the most fulfilled role first. A gang that
could not start even if every role were at its minimum is blocked: no role shrinks for it. A gang
without a training job never makes others shrink, but its room is not promised to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swell.api.pod import PodPhase
from swell.api.wording import count_of
from swell.autoscaler.job_state import JobState
from swell.autoscaler.policies.gang_walk import GangWalk, ShrinkableRole
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.shrink_search import ShrinkSearch
from swell.autoscaler.trial import Trial
from swell.autoscaler.views import JobId
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task


@dataclass(slots=True)
class WaitingPlan:
    """The result: sizes that roles have to shrink to, for which job, and the places promised.

    `blocked` has the jobs that cannot start, with the reason. `places` are pairs of a node's name
    and the pod that is going to be there.
    """

    sizes: dict[RoleId, int] = field(default_factory=dict)
    made_for: dict[RoleId, JobId] = field(default_factory=dict)
    blocked: dict[JobId, str] = field(default_factory=dict)
    order: list[JobId] = field(default_factory=list)
    places: list[tuple[str, Task]] = field(default_factory=list)


class WaitingTrial:
    """The gangs that wait, placed one after the other in sessions of the scheduler."""

    def __init__(self, trial: Trial, jobs: Sequence[JobState]) -> None:
        self._trial = trial
        self._jobs = {str(job.view.group): job for job in jobs if job.is_pending}
        self._ignored: set[str] = set()
        # Also of jobs that do not wait: what they lack to their minimum is not to be given away.
        for job in jobs:
            if not job.is_hopeless:
                _imagine_missing(trial, job)

    def ignore_behind(self, limit: int) -> dict[JobId, str]:
        """Leave out the jobs that are not among the first in the scheduler's order; says why."""
        if len(self._jobs) <= limit:
            return {}
        walk = GangWalk(self._trial, self._jobs, {})
        order = [info.key for info in walk.in_order() if info.key in self._jobs]
        walk.close()
        behind = {
            self._jobs[key].view.id: f"{count_of(n, 'job waits', 'jobs wait')} before it"
            for n, key in enumerate(order[limit:], limit)
        }
        self._ignored.update(order[limit:])
        self.leave_out(behind)
        return behind

    def leave_out(self, jobs: Mapping[JobId, str]) -> None:
        self._jobs = {key: job for key, job in self._jobs.items() if job.view.id not in jobs}

    def with_sizes(
        self, roles: Sequence[ShrinkableRole], sizes: Mapping[RoleId, int]
    ) -> WaitingPlan:
        """Returns the places of the pending jobs if the roles have these sizes.

        Jobs that do not start in their turn are blocked.
        """
        begin = {role.id: (role, sizes.get(role.id, role.size)) for role in roles}
        walk = GangWalk(self._trial, self._jobs, begin, self._ignored)
        plan = WaitingPlan()
        for info in walk.in_order():
            if walk.place(info) and info.key in self._jobs:
                plan.order.append(self._jobs[info.key].view.id)
        plan.places = walk.places()
        walk.close()
        plan.blocked = {
            job.view.id: "it finds no room beside the jobs that are served before it"
            for job in self._jobs.values()
            if job.view.id not in plan.order
        }
        return plan

    def plan(self, roles: Sequence[ShrinkableRole], begin: Mapping[RoleId, int]) -> WaitingPlan:
        """Place the gangs in order; where one finds no room, find the smallest set of shrinks.

        The roles begin with the sizes given by `begin`, or else with those they have.
        """
        sizes = {role.id: begin.get(role.id, role.size) for role in roles}
        begins = {role.id: (role, sizes[role.id]) for role in roles}
        walk = GangWalk(self._trial, self._jobs, begins, self._ignored)
        plan = WaitingPlan(
            sizes={role.id: sizes[role.id] for role in roles if sizes[role.id] < role.size}
        )
        for info in walk.in_order():
            job = self._jobs.get(info.key)
            if walk.place(info):
                if job is not None:
                    plan.order.append(job.view.id)
            elif job is None:
                walk.unplaced.append(info)
            else:
                self._make_room(walk, plan, info, ShrinkSearch(walk, roles, sizes, info))
                sizes |= plan.sizes
        for job in self._jobs.values():
            # A group that is not even in the order has no queue.
            if job.view.id not in {*plan.order, *plan.blocked}:
                queue = self._trial.mirror.queue_of(job.view.group)
                plan.blocked[job.view.id] = f"there is no queue {queue}"
        plan.places = walk.places()
        walk.close()
        return plan

    def _make_room(
        self, walk: GangWalk, plan: WaitingPlan, info: JobInfo, search: ShrinkSearch
    ) -> None:
        """Have roles shrink for a gang and place it, or note why that cannot be done."""
        job = self._jobs[info.key].view.id
        shrunk = search.smallest()
        if shrunk is None:
            plan.blocked[job] = search.why_blocked()
            return
        plan.order.append(job)
        plan.sizes |= {id_: size for id_, (_, size) in shrunk.items()}
        plan.made_for |= dict.fromkeys(shrunk, job)
        walk.shrink(shrunk)
        walk.place_others()
        walk.place(info)


def _imagine_missing(trial: Trial, job: JobState) -> None:
    """Put in the pods that a gang needs for its minimum and that do not exist yet."""
    for state in job.roles:
        role = state.view
        there = [
            pod for pod in state.pods if not pod.is_leaving and pod.phase is not PodPhase.FAILED
        ]
        indexes = {pod.claim.index for pod in there if pod.claim is not None}
        n_there = len(there)
        if role.is_indexed:
            n_there = sum(index in indexes for index in range(role.gang_minimum))
        for _ in range(role.gang_minimum - n_there):
            trial.imagine_member(job, state)
