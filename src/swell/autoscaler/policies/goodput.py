"""The goodput policy: give devices to the jobs that finish soonest by them.

The sizes that are worth most are chosen for each pool of equal devices (`autoscaler.goodput`); the
walk of the fulfillment policy then lets roles come as near to them as nodes, queues and waiting
jobs allow. So whatever a job reports, no raise is planned that a queue would refuse. Where the walk
falls short, sizes are chosen once more with what it reached as the most. A job that may be stopped
(`goodput.turns`) may be left with nothing for a while: its target is 0 then.
"""

from __future__ import annotations

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
from swell.autoscaler.policies.fulfillment import fulfill, is_considered
from swell.autoscaler.policies.interface import (
    Parameters,
    RoleId,
    RoleTarget,
    RoleTargets,
    SizeReason,
)
from swell.autoscaler.policies.pools import Pool, Pools, asked_units, held_units

# The first choice, and one more where nodes or queues did not take it. Among very many roles what
# is left over is a small part of the whole, and another choice would take as long again.
_ATTEMPTS, _ROLES_TRIED_AGAIN_MAX = 2, 1000


@dataclass(frozen=True, slots=True)
class _Sized:
    """A role to be sized: its pool, its candidate sizes, and its speed at each."""

    id: RoleId
    job: JobState
    state: RoleState
    pool: Pool
    units: int
    sizes: tuple[int, ...]
    table: SpeedTable

    @property
    def current(self) -> int:
        """The size that it holds: that of a job which waits, or has been stopped, is 0."""
        return self.state.view.target if self.job.view.is_running else 0

    @property
    def is_stopped(self) -> bool:
        return self.job.view.yielded_since is not None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The wanted size of a role, its speed there, and the price of a device of its pool."""

    size: int
    speed: float
    price: float
    units: int
    unit_name: str
    table: SpeedTable
    sizes: tuple[int, ...]
    is_scarce: bool  # whether waiting jobs need more of the pool than is free
    current: int
    target: int
    is_stopped: bool

    def speed_at(self, size: int) -> float | None:
        """Returns the speed at a size, if it was looked at."""
        return float(self.table.speed[self.sizes.index(size)]) if size in self.sizes else None


def goodput(
    jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
) -> RoleTargets:
    """Returns the targets of all roles that the autoscaler may size."""
    capped: dict[RoleId, int] = {}
    pools = Pools(cluster, cluster.gpu_resources, parameters.max_load)
    for attempt in range(_ATTEMPTS):
        wanted = _wanted_sizes(jobs, cluster, pools, parameters, capped)
        sizes = {id_: one.size or one.current for id_, one in wanted.items() if not one.is_stopped}
        targets = fulfill(jobs, cluster, parameters, sizes)
        short = {
            id_: target.target
            for id_, target in targets.items()
            if id_ in sizes and target.current <= target.target < sizes[id_]
        }
        if not short or attempt + 1 == _ATTEMPTS or len(sizes) > _ROLES_TRIED_AGAIN_MAX:
            break
        capped = short
    targets = _without_borrowing(targets, jobs, cluster, parameters)
    return {**_explained(targets, wanted), **_turns(wanted)}


def _turns(wanted: Mapping[RoleId, _Wanted]) -> dict[RoleId, RoleTarget]:
    """Returns the targets of jobs that stop for others, or have stopped and may go on."""
    found = {}
    for id_, one in wanted.items():
        price = f"a device of {one.unit_name} is worth {one.price:.3g} elsewhere"
        if one.is_stopped and one.size:
            message = f"{one.size} are worth what they cost again ({one.table.tier})"
            # Others make room for what it had, and for more it grows later.
            size = min(one.size, one.target)
            found[id_] = RoleTarget(0, size, SizeReason.GOES_ON, message)
        elif one.is_stopped:
            found[id_] = RoleTarget(0, 0, SizeReason.YIELDS, price)
        elif one.current and not one.size:
            message = f"{price}, and it has more left than others"
            found[id_] = RoleTarget(one.current, 0, SizeReason.YIELDS, message)
    return found


def _without_borrowing(
    targets: RoleTargets, jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
) -> RoleTargets:
    """Returns the targets with raises that fit before any shrink of the same plan is carried out.

    Each size is written by itself, so a raise may come first. It follows in a later pass, when what
    it needs is free.
    """
    deltas = {id_: target.delta for id_, target in targets.items()}
    if min(deltas.values(), default=0) >= 0 or max(deltas.values()) <= 0:
        return targets
    kept = {id_: max(target.target, target.current) for id_, target in targets.items()}
    alone = fulfill(jobs, cluster, parameters, kept)
    return {
        id_: _not_yet(target, alone[id_].target) if target.delta > 0 else target
        for id_, target in targets.items()
    }


def _not_yet(target: RoleTarget, free: int) -> RoleTarget:
    """Returns a raise to no more than what is free now."""
    if free >= target.target:
        return target
    if free > target.current:
        return replace(target, target=free)
    message = f"what {target.target} need is not free yet"
    return RoleTarget(target.current, target.current, SizeReason.FULL, message)


def _wanted_sizes(
    jobs: Sequence[JobState],
    cluster: ClusterResource,
    pools: Pools,
    parameters: Parameters,
    capped: Mapping[RoleId, int],
) -> dict[RoleId, _Wanted]:
    roles = [
        one
        for job in (*jobs, *parameters.stopped)
        for one in _sized_roles(job, pools, parameters, capped)
        if one is not None
    ]
    wanted: dict[RoleId, _Wanted] = {}
    by_pool: dict[str, list[_Sized]] = {}
    for role in roles:
        by_pool.setdefault(role.pool.name, []).append(role)
    held = held_units(((one.state, one.pool) for one in roles), pools, cluster)
    asked = asked_units(jobs, pools, frozenset(one.id for one in roles))
    for name, members in sorted(by_pool.items()):
        pool = pools.pools[name]
        budget = pool.free + held.get(name, 0) - asked.get(name, 0)
        needed = sum(one.sizes[0] * one.units for one in members if one.job.is_pending)
        is_scarce = needed + asked.get(name, 0) > pool.free
        wanted |= _choose(members, max(budget, 0), parameters, is_scarce=is_scarce)
    return wanted


def _sized_roles(
    job: JobState, pools: Pools, parameters: Parameters, capped: Mapping[RoleId, int]
) -> list[_Sized]:
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
        evidence = _evidence(job, parameters) if len(considered) == 1 else None
        per_node = max(pools.per_node(role.needs, pool), 1)
        most = max(min(size_limit(evidence, role.maximum), capped.get(id_, role.maximum)), 1)
        current = role.target if job.view.is_running else 0
        top = max(pool.total // units, 1)
        low = min(role.minimum, role.maximum)
        sizes = candidate_sizes(max(low, 1), max(most, low, 1), per_node, current, top)
        table = speed_table(evidence, sizes, per_node, _attained_s(job, role.target, parameters))
        found.append(_Sized(id_, job, state, pool, units, sizes, table))
    return found


def _evidence(job: JobState, parameters: Parameters) -> SpeedEvidence | None:
    """Returns what is known of a job's speed: its own reports, and those of its program's runs."""
    view = job.view
    if not view.shares_profile or parameters.profiles is None:
        return view.speed
    profile = parameters.profiles.known(view.program)
    return view.speed if profile is None else profile.evidence(view.speed, SpeedEvidence())


def _choose(
    members: Sequence[_Sized], budget: int, parameters: Parameters, *, is_scarce: bool
) -> dict[RoleId, _Wanted]:
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
            current=np.array([one.current for one in served], np.int64),
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
        one.id: _Wanted(
            int(chosen.sizes[row]),
            float(chosen.speed[row]),
            chosen.price,
            one.units // scale,
            one.pool.name,
            one.table,
            one.sizes,
            is_scarce,
            one.current,
            one.state.view.target,
            one.is_stopped,
        )
        for row, one in enumerate(served)
    }


def _requests(ordered: Sequence[_Sized], scale: int, parameters: Parameters) -> list[TurnRequest]:
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


def _may_stop(one: _Sized, now: float | None) -> bool:
    """Whether a job may lose all that it holds now: it has had its turn, and tells what is left."""
    if now is None or not one.current or not one.job.view.may_yield or not one.table.is_known:
        return False
    began = max((pod.created_at for pod in one.state.pods), default=now)
    return now - began >= TURN_S and not one.state.has_succeeded


def _is_starving(one: _Sized, parameters: Parameters) -> bool:
    stopped = one.job.view.yielded_since
    since = _created(one.job) if stopped is None else stopped
    return parameters.now is not None and parameters.now - since > parameters.starve_after_s


def _due_s(job: JobState, parameters: Parameters) -> float:
    """Returns the time until a job should be done, infinite if it does not say."""
    due, now = job.view.due, parameters.now
    return inf if due is None or now is None else due - now


def _order(one: _Sized, parameters: Parameters) -> tuple[int, float, str]:
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


def _explained(targets: RoleTargets, wanted: Mapping[RoleId, _Wanted]) -> dict[RoleId, RoleTarget]:
    """Returns the targets with the reasons of this policy, in words and numbers."""
    return {
        id_: _with_reason(target, wanted[id_]) if id_ in wanted else target
        for id_, target in targets.items()
    }


def _with_reason(target: RoleTarget, wanted: _Wanted) -> RoleTarget:
    price = f"one more of {wanted.unit_name} is worth {wanted.price:.3g} now"
    faster = wanted.speed_at(target.target)
    before = wanted.speed_at(target.current)
    gain = (
        f"{faster:.2f} times as fast as one replica" if faster else "its speed there is not known"
    )
    if target.delta > 0 and target.reason is SizeReason.ROOM:
        than = f", {before:.2f} times with {target.current}" if before else ""
        message = f"{target.target} are {gain}{than} ({wanted.table.tier}); {price}"
        return replace(target, reason=SizeReason.FASTER, message=message)
    if target.delta < 0 and target.reason in {SizeReason.PENDING_JOB, SizeReason.OVER_COMMITTED}:
        is_for_waiting = target.reason is SizeReason.PENDING_JOB and wanted.is_scarce
        if is_for_waiting or target.target < wanted.size:
            return target  # it makes room for others, and not for the sake of speed
        # Damped like any resize: only for a waiting job that needs the room damping is left out.
        message = f"{target.target} are {gain} ({wanted.table.tier}); {price}"
        reason = SizeReason.WORTH_MORE_ELSEWHERE
        return replace(target, reason=reason, message=message, for_group="")
    if target.delta == 0 and target.reason is SizeReason.BALANCED:
        message = f"{target.target} are {gain} ({wanted.table.tier}); {price}"
        return replace(target, message=message)
    return target
