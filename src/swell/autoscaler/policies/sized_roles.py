"""The sizes that are worth most to the roles of each pool, by the goodput policy. Pure.

Whether there is room for them where they are wanted, and what is done about it, is decided in
`goodput`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf

import numpy as np

from swell.api.times import parse_time
from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.goodput.evidence import SpeedEvidence
from swell.autoscaler.goodput.sizing import SizingProblem, candidate_sizes, choose_sizes
from swell.autoscaler.goodput.tables import SpeedTable, size_limit, speed_table
from swell.autoscaler.goodput.turns import TURN_S, TurnRequest, minimums
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.policies.floor import n_away
from swell.autoscaler.policies.fulfillment import is_considered
from swell.autoscaler.policies.interface import Parameters, RoleId
from swell.autoscaler.policies.pools import Pool, Pools, asked_units, held_units

# The first report of a program that is asked for reports is waited for so long before its speed is
# guessed: a start and a few steps. A wrong guess costs it, and others, a resize each.
_FIRST_REPORT_S = 120.0


@dataclass(frozen=True, slots=True)
class SizedRole:
    """A role to be sized: its pool, its candidate sizes, and its speed at each."""

    id: RoleId
    job: JobState
    state: RoleState
    pool: Pool
    units: int
    per_node: int
    sizes: tuple[int, ...]
    table: SpeedTable
    is_fresh: bool  # it has only just started, so that another size costs it nothing

    @property
    def current(self) -> int:
        """The size that it holds: that of a job which waits, or has been stopped, is 0.

        One that is placed anew holds its size all the while.
        """
        return held_size(self.job, self.state)

    @property
    def is_stopped(self) -> bool:
        return self.job.view.yielded_since is not None


@dataclass(frozen=True, slots=True)
class WantedSize:
    """The wanted size of a role, and the price of a device of its pool."""

    role: SizedRole
    size: int
    price: float
    is_scarce: bool  # whether waiting jobs need more of the pool than is free

    @property
    def current(self) -> int:
        return self.role.current

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.role.sizes

    @property
    def is_stopped(self) -> bool:
        return self.role.is_stopped

    def speed_at(self, size: int) -> float | None:
        """Returns the speed at a size, if it was looked at."""
        return float(self.role.table.speed[self.sizes.index(size)]) if size in self.sizes else None


def held_size(job: JobState, state: RoleState) -> int:
    """Returns the size that a role holds, or is about to have again."""
    return state.view.target if job.view.is_running or job.view.is_moving else 0


class WantedSizes:
    """Chooses the sizes of all roles, again and again with other caps.

    What does not depend on the caps is found once, and a pool is chosen for anew only if one of its
    own has changed.
    """

    def __init__(
        self,
        jobs: Sequence[JobState],
        cluster: ClusterResource,
        pools: Pools,
        parameters: Parameters,
    ) -> None:
        self._parameters = parameters
        roles = [
            one
            for job in (*jobs, *parameters.stopped)
            for one in _sized_roles(job, pools, parameters)
        ]
        self._by_pool: dict[str, list[SizedRole]] = {}
        for role in roles:
            self._by_pool.setdefault(role.pool.name, []).append(role)
        held = held_units(((one.state, one.pool) for one in roles), pools, cluster)
        for one in roles:
            if one.job.view.is_moving:  # `with_room_kept` has taken it from what is free
                held[one.pool.name] += n_away(one.state) * one.units
        self._held = held
        self._asked = asked_units(jobs, pools, frozenset(one.id for one in roles))
        self._pools = pools.pools
        self._found: dict[str, tuple[dict[RoleId, int], dict[RoleId, WantedSize]]] = {}

    def choose(self, capped: Mapping[RoleId, int]) -> dict[RoleId, WantedSize]:
        """Returns the wanted sizes of all roles, none above its cap."""
        wanted: dict[RoleId, WantedSize] = {}
        for name, members in sorted(self._by_pool.items()):
            caps = {one.id: capped[one.id] for one in members if one.id in capped}
            if name not in self._found or self._found[name][0] != caps:
                chosen = self._choose(name, [_below(one, caps.get(one.id)) for one in members])
                self._found[name] = caps, chosen
            wanted |= self._found[name][1]
        return wanted

    def _choose(self, name: str, members: Sequence[SizedRole]) -> dict[RoleId, WantedSize]:
        pool, asked = self._pools[name], self._asked.get(name, 0)
        budget = pool.free + self._held.get(name, 0) - asked
        needed = sum(one.sizes[0] * one.units for one in members if one.job.is_pending)
        is_scarce = needed + asked > pool.free
        return _choose(members, max(budget, 0), self._parameters, is_scarce=is_scarce)


def _below(one: SizedRole, cap: int | None) -> SizedRole:
    """Returns a role with those of its sizes that a cap allows, at least the smallest.

    The cap itself is none: three of four, or six across nodes, is a size that pays for few.
    """
    if cap is None or cap >= one.sizes[-1]:
        return one
    n = max(bisect_right(one.sizes, cap), 1)
    table = one.table._replace(speed=one.table.speed[:n])
    return replace(one, sizes=one.sizes[:n], table=table)


def _sized_roles(job: JobState, pools: Pools, parameters: Parameters) -> list[SizedRole]:
    """Returns the roles of a job that sizes are chosen for."""
    is_stopped = job.view.yielded_since is not None
    if job.is_hopeless or not (job.is_pending or job.view.is_running or is_stopped):
        return []
    found = []
    considered = [state for state in job.roles if is_considered(state)]
    for state in considered:
        role = state.view
        pool = pools.of(state)
        units = pools.units(role.needs, pool) if pool is not None else 0
        if pool is None or units < 1:
            continue
        id_ = RoleId(job.view.id, role.name)
        # A report speaks of the job's one elastic role; of several it is not known which.
        evidence = evidence_of(job, parameters) if len(considered) == 1 else None
        per_node = max(pools.per_node(role.needs, pool), 1)
        most = max(size_limit(evidence, role.maximum), 1)
        is_expected = _is_expected(job, state, parameters.now)
        if is_expected and (evidence is None or job.is_pending):
            # Where it lies is not known yet, and another size costs it nothing when it is.
            most = min(most, role.target)
        current = held_size(job, state)
        top = max(pool.total // units, 1)
        low = min(role.minimum, role.maximum)
        sizes = candidate_sizes(max(low, 1), max(most, low, 1), per_node, current, top)
        if job.view.is_moving:
            sizes = (role.target,)
        table = speed_table(evidence, sizes, per_node, _attained_s(job, role.target, parameters))
        is_fresh = job.view.speed is None and is_expected
        found.append(SizedRole(id_, job, state, pool, units, per_node, sizes, table, is_fresh))
    return found


def evidence_of(job: JobState, parameters: Parameters) -> SpeedEvidence | None:
    """Returns what is known of a job's speed: its own reports, and those of its program's runs."""
    view = job.view
    if not view.shares_profile or parameters.profiles is None:
        return view.speed
    profile = parameters.profiles.known(view.program)
    return view.speed if profile is None else profile.evidence(view.speed, SpeedEvidence())


def began(state: RoleState, now: float) -> float:
    """Returns when the role began, by its newest pod."""
    return max((pod.created_at for pod in state.pods), default=now)


def _is_expected(job: JobState, state: RoleState, now: float | None) -> bool:
    """Whether a job's first report is about to come, so that its size need not be guessed."""
    if now is None or not job.view.reports:
        return False
    return job.is_pending or now - began(state, now) < _FIRST_REPORT_S


def _choose(
    members: Sequence[SizedRole], budget: int, parameters: Parameters, *, is_scarce: bool
) -> dict[RoleId, WantedSize]:
    """Returns the wanted sizes in one pool. Minimums come first, the oldest jobs' before.

    A job that waits and whose minimum does not fit is left to the scheduler's order, unless others
    may be stopped for it.
    """
    ordered = sorted(members, key=lambda one: _order(one, parameters))
    scale = 0
    for one in ordered:
        scale = gcd(scale, one.units)
    budget //= max(scale, 1)
    requests = _requests(ordered, scale, parameters)
    least = minimums(requests, budget)
    takes_turns = any(one.may_stop or one.is_stopped for one in requests)
    chosen_rows = [at for at, one in enumerate(ordered) if takes_turns or least[at] or one.current]
    served = [ordered[at] for at in chosen_rows]
    if not served:
        return {}
    # A job that runs keeps its minimum, whatever there is.
    budget = max(budget, sum(least))
    width = max(len(one.sizes) for one in served)
    sizes = np.zeros((len(served), width), np.int64)
    speed = np.zeros((len(served), width))
    for row, one in enumerate(served):
        sizes[row, : len(one.sizes)] = one.sizes
        speed[row, : len(one.sizes)] = one.table.speed
    chosen = choose_sizes(
        SizingProblem(
            sizes=sizes,
            speed=speed,
            units=np.array([one.units // scale for one in served], np.int64),
            current=np.array([0 if one.is_fresh else one.current for one in served], np.int64),
            least=np.array(
                [
                    one.sizes[0] if least[at] else 0
                    for at, one in zip(chosen_rows, served, strict=True)
                ],
                np.int64,
            ),
            left_s=np.array([one.table.left_s for one in served]),
            ends=np.array([one.table.is_known for one in served], bool),
            cost_s=np.array([one.table.cost_s for one in served]),
            due_s=np.array([_due_s(one.job, parameters) for one in served]),
            budget=budget,
        )
    )
    return {
        one.id: WantedSize(one, int(chosen.sizes[row]), chosen.price, is_scarce)
        for row, one in enumerate(served)
    }


def _requests(
    ordered: Sequence[SizedRole], scale: int, parameters: Parameters
) -> list[TurnRequest]:
    """Returns what each job of a pool needs at least, and whether it may be stopped.

    Jobs take turns among equals: where some have another priority or queue, none is stopped.
    """
    ranks = {(one.job.view.priority, one.job.view.queue) for one in ordered}
    return [
        TurnRequest(
            least=one.sizes[0] * one.units // scale,
            runs=one.current > 0,
            may_stop=len(ranks) == 1 and _may_stop(one, parameters.now),
            is_stopped=one.is_stopped,
            is_starving=_is_starving(one, parameters),
        )
        for one in ordered
    ]


def _may_stop(one: SizedRole, now: float | None) -> bool:
    """Whether a job may lose all that it holds now: it has had its turn, and tells what is left."""
    if now is None or not one.current or not one.job.view.may_yield or not one.table.is_known:
        return False
    return now - began(one.state, now) >= TURN_S and not one.state.has_succeeded


def _is_starving(one: SizedRole, parameters: Parameters) -> bool:
    stopped = one.job.view.yielded_since
    since = _created(one.job) if stopped is None else stopped
    return parameters.now is not None and parameters.now - since > parameters.starve_after_s


def _due_s(job: JobState, parameters: Parameters) -> float:
    """Returns the time until a job should be done, infinite if it does not say."""
    due, now = job.view.due, parameters.now
    return inf if due is None or now is None else due - now


def _order(one: SizedRole, parameters: Parameters) -> tuple[int, float, str]:
    """Sort for minimums: jobs that hold something, then starving ones, then by age."""
    rank = 0 if one.current else 1 if _is_starving(one, parameters) else 2
    return rank, _created(one.job), str(one.id.job)


def _attained_s(job: JobState, size: int, parameters: Parameters) -> float:
    """Returns the service that a job has had, in seconds of one replica, roughly.

    Its age times its size: what it held before is not known, and only the order matters.
    """
    if parameters.now is None or job.is_pending:
        return 0.0
    return max(parameters.now - _created(job), 0.0) * max(size, 1)


def _created(job: JobState) -> float:
    try:
        return parse_time(job.view.created) if job.view.created else 0.0
    except ValueError:
        return 0.0
