"""Grow the least fulfilled first, shrink the most fulfilled first, by one replica at a time.

Decides targets from jobs and cluster; knows neither time nor what was decided before. A role's
fulfillment is how far it is between its minimum and its maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from swell.autoscaler.cluster_resource import ClusterResource, JobState
from swell.autoscaler.job_state import RoleState
from swell.autoscaler.needs import Needs
from swell.autoscaler.policies.dry_run import Ranking
from swell.autoscaler.policies.interface import (
    Parameters,
    RoleId,
    RoleTarget,
    RoleTargets,
    SizeReason,
)
from swell.autoscaler.policies.room import NOWHERE, Room
from swell.autoscaler.views import AutoscalerRole


@dataclass(frozen=True, slots=True)
class CandidateRole:
    """A role whose size may be chosen, and what one replica of it asks for."""

    id: RoleId
    minimum: int
    maximum: int
    current: int
    cpu: int
    memory: int
    gpu: int
    needs: Needs

    @classmethod
    def of(cls, job: JobState, state: RoleState) -> CandidateRole:
        view, needs = state.view, state.view.needs
        return cls(
            id=RoleId(job.view.id, view.name),
            minimum=view.minimum,
            maximum=view.maximum,
            current=view.target,
            cpu=needs.cpu_milli,
            memory=needs.memory_bytes,
            gpu=needs.gpus,
            needs=needs,
        )


Filter = Callable[[CandidateRole], bool]


def fulfillment(
    jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
) -> RoleTargets:
    """The targets of every role considered: see the module's docstring."""
    pending = find_pending_job(jobs)
    candidates = find_jobs_that_might_be_rescheduled(jobs, have_pending=pending is not None)
    room = Room(cluster, parameters.max_load)
    deltas = _plan(candidates, room)
    return set_targets(jobs, candidates, deltas, room)


def elastic(role: CandidateRole) -> bool:
    """Whether there is anything to choose."""
    return role.minimum < role.maximum


def need_gpu(role: CandidateRole) -> bool:
    return role.gpu > 0


def sorted_jobs(
    roles: Iterable[CandidateRole], *filters: Filter, deltas: Mapping[RoleId, int] | None = None
) -> list[CandidateRole]:
    """Those that pass all filters, the one to grow first in front."""
    passing = [role for role in roles if all(passes(role) for passes in filters)]
    planned = deltas or {}
    passing.sort(key=_tie_break)
    passing.sort(key=lambda role: _fulfillment(role, role.current + planned.get(role.id, 0)))
    return passing


def search_assignable_node(room: Room, role: CandidateRole) -> str:
    """The first node by name with room for one more replica; empty when there is none."""
    at = room.find(role.needs)
    return "" if at == NOWHERE else room.cluster.nodes[at].name


def scale_dry_run(room: Room, role: CandidateRole, delta: int, *, scale_down: bool = False) -> int:
    """By how much to change a role whose plan so far is `delta`; the room is changed with it."""
    planned = role.current + delta
    change = _step_down(room, role, planned) if scale_down else _step_up(room, role, planned)
    if change:
        room.take(role.cpu, role.memory, role.gpu, change)
    return change


def scale_all_jobs_dry_run(
    roles: Iterable[CandidateRole], cluster: ClusterResource, max_load: Fraction
) -> dict[RoleId, int]:
    """The change of every elastic role once no further step is possible."""
    return _plan([role for role in roles if elastic(role)], Room(cluster, max_load))


def find_pending_job(jobs: Iterable[JobState]) -> JobState | None:
    """The first job that waits for room, if one does."""
    return next((job for job in jobs if job.is_pending), None)


def find_jobs_that_might_be_rescheduled(
    jobs: Iterable[JobState], *, have_pending: bool
) -> list[CandidateRole]:
    """The candidates: all roles considered when somebody waits, else those of running jobs."""
    return [
        CandidateRole.of(job, state)
        for job in jobs
        if not job.is_hopeless and (have_pending or job.view.is_running)
        for state in job.roles
        if is_considered(state)
    ]


def is_considered(state: RoleState) -> bool:
    """Whether a live job's role is the autoscaler's to size: not while its work is finishing."""
    return state.view.is_auto and not state.has_succeeded


def set_targets(
    jobs: Iterable[JobState],
    candidates: Iterable[CandidateRole],
    deltas: Mapping[RoleId, int],
    room: Room,
) -> dict[RoleId, RoleTarget]:
    """A target and its reason for every role considered; who is no candidate keeps its own."""
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
                targets[id_] = role_kept(job, state.view)
            else:
                targets[id_] = role_planned(state.view, role.current + deltas[id_], room, pending)
    return targets


def _fulfillment(role: CandidateRole, planned: int) -> Fraction:
    return Fraction(planned - role.minimum, role.maximum - role.minimum)


def _tie_break(role: CandidateRole) -> tuple[int, int, int, str, str, str]:
    """Between equally fulfilled roles: the cheaper to grow first, then by name."""
    job = role.id.job
    return role.gpu, role.cpu, role.memory, str(job.key), role.id.role, job.kind


def _step_up(room: Room, role: CandidateRole, planned: int) -> int:
    if planned > role.maximum:
        return role.maximum - planned
    if planned < role.minimum:
        return role.minimum - planned
    if planned == role.maximum or (
        room.cpu + role.cpu > room.cpu_max
        or room.memory + role.memory > room.memory_max
        or room.gpu + role.gpu > room.gpu_max
    ):
        return 0
    node = room.find(role.needs)
    if node == NOWHERE:
        return 0
    room.place(role.needs, node)
    return 1


def _step_down(room: Room, role: CandidateRole, planned: int) -> int:
    if planned > role.maximum:
        return -1
    return -1 if planned > role.minimum and _presses(room, role) else 0


def _presses(room: Room, role: CandidateRole) -> bool:
    """Whether the role asks for something that is over-committed."""
    return bool(
        (role.cpu and room.cpu > room.cpu_max)
        or (role.memory and room.memory > room.memory_max)
        or (role.gpu and room.gpu > room.gpu_max)
    )


def _plan(roles: Sequence[CandidateRole], room: Room) -> dict[RoleId, int]:
    """Rounds of steps up and then down, until a round changes nothing.

    All roles are put within their bounds in the first round. From then on a cluster that is
    over-committed allows no step up at all, and one that is not never becomes so again: so what
    follows is rounds that only shrink, and after them rounds that only grow.
    """
    plan = _Plan(sorted(roles, key=_tie_break), room)
    everyone = range(len(plan.roles))
    order = plan.order(everyone)
    for at in order:
        plan.step(at)
    for at in reversed(order):
        plan.step(at, scale_down=True)
    while room.is_over and plan.shrink():
        pass
    if not room.is_over:
        plan.grow()
    return {role.id: size - role.current for role, size in zip(plan.roles, plan.sizes, strict=True)}


class _Plan:
    """Sizes as they are planned so far, by position in the roles' fixed order."""

    def __init__(self, roles: Sequence[CandidateRole], room: Room) -> None:
        self.roles = roles
        self.sizes = [role.current for role in roles]
        self._room = room
        self._ranking = Ranking([r.minimum for r in roles], [r.maximum for r in roles])

    def order(self, positions: Sequence[int]) -> list[int]:
        return self._ranking.order(positions, self.sizes)

    def step(self, at: int, *, scale_down: bool = False) -> int:
        role = self.roles[at]
        change = scale_dry_run(
            self._room, role, self.sizes[at] - role.current, scale_down=scale_down
        )
        self.sizes[at] += change
        return change

    def shrink(self) -> bool:
        """One round of steps down, or as many at once as are sure to be alike."""
        room = self._room
        above = [
            at
            for at, role in enumerate(self.roles)
            if self.sizes[at] > role.minimum and _presses(room, role)
        ]
        if not above:
            return False
        cpu = sum(self.roles[at].cpu for at in above)
        memory = sum(self.roles[at].memory for at in above)
        gpu = sum(self.roles[at].gpu for at in above)
        # As long as what is over stays over, every one of these moves in every round.
        lasting = [
            (used - most - 1) // less
            for used, most, less in (
                (room.cpu, room.cpu_max, cpu),
                (room.memory, room.memory_max, memory),
                (room.gpu, room.gpu_max, gpu),
            )
            if used > most and less
        ]
        rounds = min([*lasting, *(self.sizes[at] - self.roles[at].minimum for at in above)])
        if rounds > 0:
            for at in above:
                self.sizes[at] -= rounds
            room.take(cpu, memory, gpu, -rounds)
        else:
            for at in reversed(self.order(above)):
                self.step(at, scale_down=True)
        return True

    def grow(self) -> None:
        """Rounds of steps up. Room only gets less: who cannot grow now will not later."""
        rising: list[int] = list(range(len(self.roles)))
        n_patience = 1  # rounds until it is worth looking for many that are alike
        n_rounds = 0
        while rising:
            n_rounds += 1
            if n_rounds >= n_patience:
                n_rounds = 0
                n_patience = 1 if self._grow_alike(rising) else 2 * n_patience
            rising = [at for at in self.order(rising) if self.step(at)]

    def _grow_alike(self, rising: Sequence[int]) -> bool:
        """Do as many rounds at once as are sure to be alike; whether there were any.

        They are as long as nobody reaches its maximum, no threshold is met, and what all of them
        put on the nodes they fill now has room there.
        """
        room = self._room
        roles = [self.roles[at] for at in rising]
        nodes = [room.find(role.needs) for role in roles]
        if NOWHERE in nodes:
            return False
        cpu, memory, gpu = (sum(amounts) for amounts in zip(*map(_amounts, roles), strict=True))
        rounds = min(
            [
                *(self.roles[at].maximum - self.sizes[at] for at in rising),
                *(
                    (most - used) // more
                    for used, most, more in (
                        (room.cpu, room.cpu_max, cpu),
                        (room.memory, room.memory_max, memory),
                        (room.gpu, room.gpu_max, gpu),
                    )
                    if more
                ),
                room.rounds_left(
                    (role.needs, node) for role, node in zip(roles, nodes, strict=True)
                ),
            ]
        )
        if rounds < 1:
            return False
        for at, role, node in zip(rising, roles, nodes, strict=True):
            self.sizes[at] += rounds
            room.place(role.needs, node, rounds)
        room.take(cpu, memory, gpu, rounds)
        return True


def _amounts(role: CandidateRole) -> tuple[int, int, int]:
    return role.cpu, role.memory, role.gpu


def role_kept(job: JobState, role: AutoscalerRole) -> RoleTarget:
    """A role that is no candidate now."""
    if job.is_hopeless:
        reason, message = SizeReason.HOPELESS, "the job cannot start on this cluster"
    else:
        reason, message = SizeReason.NO_CANDIDATE, "the job is not running"
    return RoleTarget(role.target, role.target, reason, message)


def role_planned(
    role: AutoscalerRole, size: int, room: Room, pending: JobState | None
) -> RoleTarget:
    if size > role.target:
        if role.target < role.minimum:
            reason, message = SizeReason.BELOW_MINIMUM, "it was below its minimum"
        else:
            reason, message = SizeReason.ROOM, "there is room for more"
        return RoleTarget(role.target, size, reason, message)
    if size == role.target:
        return RoleTarget(size, size, *_unchanged(role, room))
    if size == role.maximum:
        return RoleTarget(role.target, size, SizeReason.ABOVE_MAXIMUM, "it was above its maximum")
    if pending is None:
        return RoleTarget(
            role.target, size, SizeReason.OVER_COMMITTED, "more is requested than the cluster has"
        )
    group = str(pending.view.group)
    message = f"{pending.view.id} waits for room"
    return RoleTarget(role.target, size, SizeReason.PENDING_JOB, message, for_group=group)


def _unchanged(role: AutoscalerRole, room: Room) -> tuple[SizeReason, str]:
    """What kept a candidate from growing."""
    needs = role.needs
    if role.target >= role.maximum:
        return SizeReason.AT_MAXIMUM, "it is at its maximum"
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
        return SizeReason.FULL, f"the cluster has no {' and no '.join(lacking)} for another replica"
    if room.find(needs) == NOWHERE:
        return SizeReason.NO_NODE, "no node has room for another replica"
    return SizeReason.BALANCED, "it has its share"
