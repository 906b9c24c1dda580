"""Which waiting jobs can start, and which roles have to shrink for that.

The waiting gangs are placed in the mirror, in the scheduler's own order and by its own rules:
nodes, predicates, quotas, minimums. A gang that finds no room gets it from elastic roles that have
more than their minimum: as few replicas as possible, the most fulfilled role first. A gang that
could not start even if every role were at its minimum is blocked: no role shrinks for it. A gang
without a training job never makes others shrink, but its room is not promised to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swell.api.pod import PodPhase
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.ranking import Ranking
from swell.autoscaler.trial import Trial
from swell.autoscaler.views import JobId
from swell.scheduler.gang_fit import place_gang
from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import Matrix, slots
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.tasks import NOWHERE, Shape, Task, TaskStatus
from swell.scheduler.session import Statement

# Of more roles that shrink, those are kept whose replicas stand where the gang goes.
_SPARED_ROLES_MAX = 128


@dataclass(frozen=True, slots=True)
class ShrinkableRole:
    """A role that may give up replicas: sizes, and its pods by index."""

    id: RoleId
    minimum: int
    maximum: int
    size: int
    pods: Mapping[int, str]  # names with namespace, as the snapshot has them


Sizes = Mapping[RoleId, tuple[ShrinkableRole, int]]


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


def shrinkable(state: RoleState, id_: RoleId, size: int | None = None) -> ShrinkableRole:
    view = state.view
    pods = {
        pod.claim.index: str(pod.key)
        for pod in reversed(state.pods)
        if pod.claim is not None and pod.claim.index is not None
    }
    return ShrinkableRole(
        id_, view.minimum, view.maximum, view.target if size is None else size, pods
    )


class WaitingTrial:
    """The gangs that wait, placed one after the other in sessions of the scheduler."""

    def __init__(self, trial: Trial, jobs: Sequence[JobState]) -> None:
        self._trial = trial
        self._jobs = {str(job.view.group): job for job in jobs if job.is_pending}
        for job in self._jobs.values():
            _imagine_missing(trial, job)

    def leave_out(self, jobs: Mapping[JobId, str]) -> None:
        self._jobs = {key: job for key, job in self._jobs.items() if job.view.id not in jobs}

    def with_sizes(
        self, roles: Sequence[ShrinkableRole], sizes: Mapping[RoleId, int]
    ) -> WaitingPlan | None:
        """Returns the places of all pending jobs if they start once the roles have these sizes."""
        walk = _Walk(self._trial, self._jobs)
        walk.shrink({role.id: (role, sizes.get(role.id, role.size)) for role in roles})
        plan = WaitingPlan()
        for info in walk.in_order():
            if walk.place(info) and info.key in self._jobs:
                plan.order.append(self._jobs[info.key].view.id)
        plan.places = walk.places()
        walk.close()
        return plan if len(plan.order) == len(self._jobs) else None

    def plan(self, roles: Sequence[ShrinkableRole]) -> WaitingPlan:
        """Place the gangs in order; where one finds no room, find the smallest set of shrinks."""
        walk = _Walk(self._trial, self._jobs)
        plan = WaitingPlan()
        sizes = {role.id: role.size for role in roles}
        for info in walk.in_order():
            job = self._jobs.get(info.key)
            if walk.place(info):
                if job is not None:
                    plan.order.append(job.view.id)
            elif job is None:
                walk.unplaced.append(info)
            else:
                self._make_room(walk, plan, info, _ShrinkSearch(walk, roles, sizes, info))
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
        self, walk: _Walk, plan: WaitingPlan, info: JobInfo, search: _ShrinkSearch
    ) -> None:
        """Have roles shrink for a gang and place it, or note why that cannot be done."""
        job = self._jobs[info.key].view.id
        shrunk = search.smallest()
        if shrunk is None:
            plan.blocked[job] = walk.why_blocked(info, search)
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
        n_there = sum(not pod.is_leaving and pod.phase is not PodPhase.FAILED for pod in state.pods)
        for _ in range(role.gang_minimum - n_there):
            trial.imagine_member(job, state)


class _Walk:
    """One session in which gangs are placed and roles shrunk, with everything undone at the end."""

    def __init__(self, trial: Trial, jobs: Mapping[str, JobState]) -> None:
        self.trial = trial
        self.session = trial.session()
        self.unplaced: list[JobInfo] = []
        self._jobs = jobs
        self._mark = trial.mark()
        # Steps to undo, in order: statements of placed gangs and marks of shrinks.
        self._steps: list[Statement | int] = []
        self._sizes: dict[RoleId, int] = {}

    def in_order(self) -> Iterator[JobInfo]:
        """Yields the gangs that wait for their minimum, in the order the scheduler serves them."""
        votes = self.session.votes
        waiting = (
            job
            for job in self.session.jobs
            if job.key in self._jobs or (job.counts.asking and votes.shortfall(job) > 0)
        )
        yield from (job for _, job in JobOrder(votes, waiting))

    def place(self, job: JobInfo) -> bool:
        """Place a gang's minimum, now or once all that leaves has left; undo it if that fails."""
        session = self.session
        if job.queue is None or session.votes.is_overused(job.queue):
            return False
        statement = session.statement()
        tasks = deque(session.votes.tasks_in_order(filter(_is_placeable, job.tasks.values())))
        is_placed = place_gang(session, statement, job, tasks)
        votes = session.votes
        if votes.is_ready(job) or (is_placed and votes.is_pipelined(job)):
            self._steps.append(statement)
            return True
        statement.discard()
        return False

    def place_others(self) -> None:
        """Place the gangs that found no room before: what was freed may go to them first."""
        self.unplaced = [job for job in self.unplaced if not self.place(job)]

    def shrink(self, sizes: Sizes) -> None:
        """Release the pods at and above these sizes."""
        self._steps.append(self.trial.mark())
        for id_, (role, size) in sizes.items():
            for index in range(size, self._sizes.get(id_, role.size)):
                task = self.trial.snapshot.task(role.pods.get(index, ""))
                if task is not None:
                    self.trial.release(task)
            self._sizes[id_] = size

    def mark(self) -> tuple[int, dict[RoleId, int], list[JobInfo]]:
        return len(self._steps), dict(self._sizes), list(self.unplaced)

    def rollback(self, mark: tuple[int, dict[RoleId, int], list[JobInfo]]) -> None:
        n_steps, self._sizes, self.unplaced = mark[0], dict(mark[1]), list(mark[2])
        while len(self._steps) > n_steps:
            step = self._steps.pop()
            if isinstance(step, int):
                self.trial.undo(step)
            else:
                step.discard()

    def close(self) -> None:
        self.rollback((0, {}, []))

    def places(self) -> list[tuple[str, Task]]:
        """Returns the places of the gangs, by the names of nodes."""
        names = self.trial.snapshot.nodes.names
        return [
            (names[task.node], task)
            for info in self.session.jobs
            for task in info.tasks.values()
            if task.status in {TaskStatus.ALLOCATED, TaskStatus.PIPELINED}
        ]

    def why_blocked(self, info: JobInfo, search: _ShrinkSearch) -> str:
        """Returns why a gang cannot start, with the numbers."""
        refusal = self.session.refusals.get(info.key)
        if info.queue is not None and not info.queue.is_open:
            return f"queue {info.queue.name} is not open"
        if info.queue is not None and self.session.votes.is_overused(info.queue):
            return f"queue {info.queue.name} has all it deserves"
        if refusal is not None and refusal.reason is WaitReason.QUEUE_QUOTA:
            return refusal.message
        return search.shortage()


def _is_placeable(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and not (task.shape.best_effort or task.is_gated)


class _ShrinkSearch:
    """Looks for the smallest set of shrinks with which one gang starts."""

    def __init__(
        self,
        walk: _Walk,
        roles: Sequence[ShrinkableRole],
        sizes: Mapping[RoleId, int],
        info: JobInfo,
    ) -> None:
        self._walk = walk
        self._info = info
        self._sizes = sizes
        self._roles = {role.id: role for role in roles if sizes[role.id] > role.minimum}

    def smallest(self) -> Sizes | None:
        """Returns the roles that must shrink, to which size; None if the gang cannot start."""
        if not self._may_fit():
            return None
        steps = list(self._steps())
        fits, fails, n = len(steps) + 1, 0, 1
        # Doubled until it fits, then halved: far fewer trials than steps.
        while fails < len(steps):
            n = min(n, len(steps))
            if self._starts(_counted(steps[:n])):
                fits = n
                break
            fails, n = n, 2 * n
        if fits > len(steps):
            return None
        while fits - fails > 1:
            middle = (fits + fails) // 2
            if self._starts(_counted(steps[:middle])):
                fits = middle
            else:
                fails = middle
        shrunk = self._spare(_counted(steps[:fits]))
        return self._sizes_after(shrunk)

    def shortage(self) -> str:
        """Returns how many pods of the gang find room if every role is at its minimum."""
        room = self._most_room()
        texts = []
        for shape, n in self._wanted().items():
            allowed = self._walk.session.placer.allowed(shape)
            n_fitting = int(min(slots(shape, room)[allowed].sum(), n))
            texts.append(f"{n_fitting} of its {n} pods")
        n_lacking = max(self._info.min_member - self._info.counts.ready, 1)
        found = " and ".join(texts) or f"fewer than {n_lacking} of its pods"
        return f"even with every elastic role at its minimum there is room for {found}"

    def _steps(self) -> Iterator[RoleId]:
        """Yields roles that give up one replica each, in turns, the most fulfilled role first."""
        roles = list(self._roles.values())
        ranking = Ranking(roles)
        sizes = [self._sizes[role.id] for role in roles]
        left = [at for at, role in enumerate(roles) if sizes[at] > role.minimum]
        while left:
            for at in reversed(ranking.order(left, sizes)):
                sizes[at] -= 1
                yield roles[at].id
            left = [at for at in left if sizes[at] > roles[at].minimum]

    def _starts(self, shrunk: Mapping[RoleId, int]) -> bool:
        """Whether the gang starts if these roles give up so many replicas."""
        walk = self._walk
        mark = walk.mark()
        walk.shrink(self._sizes_after(shrunk))
        walk.place_others()
        result = walk.place(self._info)
        walk.rollback(mark)
        return result

    def _sizes_after(self, shrunk: Mapping[RoleId, int]) -> Sizes:
        return {id_: (self._roles[id_], self._sizes[id_] - n) for id_, n in shrunk.items()}

    def _spare(self, shrunk: dict[RoleId, int]) -> dict[RoleId, int]:
        """Give back every replica without which the gang starts as well."""
        useful = self._useful(shrunk)
        if useful != shrunk and self._starts(useful):
            shrunk = useful
        # The role that gives up most is asked first whether it can be spared.
        order = sorted(shrunk, key=lambda id_: -shrunk[id_])
        for id_ in order[:_SPARED_ROLES_MAX]:
            fails, fits = -1, shrunk[id_]
            while fits - fails > 1:
                middle = (fits + fails) // 2
                if self._starts({**shrunk, id_: middle}):
                    fits = middle
                else:
                    fails = middle
            shrunk = {**shrunk, id_: fits}
        return {id_: n for id_, n in shrunk.items() if n}

    def _useful(self, shrunk: Mapping[RoleId, int]) -> dict[RoleId, int]:
        """Returns only the replicas down to the last one that stands where the gang would go."""
        walk = self._walk
        mark = walk.mark()
        walk.shrink(self._sizes_after(shrunk))
        walk.place_others()
        walk.place(self._info)
        taken = {task.node for task in self._info.tasks.values() if task.node != NOWHERE}
        walk.rollback(mark)
        useful: dict[RoleId, int] = {}
        for id_, n in shrunk.items():
            role, size = self._roles[id_], self._sizes[id_]
            for index in range(size - n, size):
                task = walk.trial.snapshot.task(role.pods.get(index, ""))
                if task is not None and task.node in taken:
                    useful[id_] = size - index
                    break
        return useful

    def _may_fit(self) -> bool:
        """Whether the nodes have room for each kind of pod if every role is at its minimum.

        A quick answer by amounts alone, so that a hopeless gang costs no trials.
        """
        room = self._most_room()
        placer = self._walk.session.placer
        return all(
            slots(shape, room)[placer.allowed(shape)].sum() >= n
            for shape, n in self._wanted().items()
        )

    def _wanted(self) -> dict[Shape, int]:
        """Returns how many pods of each shape must find room; nothing where that is not fixed."""
        wanted: dict[Shape, int] = {}
        info = self._info
        minimums = info.role_minimums
        n_roles: dict[str, int] = {}
        for task in info.tasks.values():
            n_roles[task.role] = n_roles.get(task.role, info.role(task.role).ready)
            if not _is_placeable(task):
                continue
            if minimums and n_roles[task.role] >= minimums.get(task.role, 0):
                continue
            n_roles[task.role] += 1
            wanted[task.shape] = wanted.get(task.shape, 0) + 1
        if not minimums and len(wanted) == 1:
            ((shape, n),) = wanted.items()
            wanted[shape] = min(n, max(info.min_member - info.counts.ready, 0))
        return wanted if minimums or len(wanted) == 1 else {}

    def _most_room(self) -> Matrix:
        """Returns the room of each node once every role is at its minimum."""
        nodes = self._walk.trial.snapshot.nodes
        room = nodes.future.copy()
        for id_, role in self._roles.items():
            for index in range(role.minimum, self._sizes[id_]):
                task = self._walk.trial.snapshot.task(role.pods.get(index, ""))
                if task is not None and task.status in {TaskStatus.BOUND, TaskStatus.RUNNING}:
                    room[:, task.node] += task.request
        return room


def _counted(steps: Sequence[RoleId]) -> dict[RoleId, int]:
    counts: dict[RoleId, int] = {}
    for id_ in steps:
        counts[id_] = counts.get(id_, 0) + 1
    return counts
