"""The goodput policy: give devices to the jobs that finish soonest by them.

The sizes that are worth most are chosen for each pool of equal devices (`autoscaler.goodput`); the
walk of the fulfillment policy then lets roles come as near to them as nodes, queues and waiting
jobs allow. So whatever a job reports, no raise is planned that a queue would refuse. Where the walk
falls short, sizes are chosen once more with what it reached as the most. A job that may be stopped
(`goodput.turns`) may be left with nothing for a while: its target is 0 then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.goodput.tables import speed_table
from swell.autoscaler.goodput.turns import TURN_S
from swell.autoscaler.job_state import JobState
from swell.autoscaler.policies.floor import MoveRequest, with_room_kept
from swell.autoscaler.policies.fulfillment import LeavingPods, fulfill
from swell.autoscaler.policies.gathering import together
from swell.autoscaler.policies.interface import (
    Parameters,
    RoleId,
    RoleTarget,
    RoleTargets,
    SizeReason,
)
from swell.autoscaler.policies.moves import Move
from swell.autoscaler.policies.moves import moves as find_moves
from swell.autoscaler.policies.pools import Pools
from swell.autoscaler.policies.sized_roles import (
    SizedRole,
    WantedSize,
    WantedSizes,
    began,
    evidence_of,
)
from swell.autoscaler.views import AutoscalerPod

# The first choice, and two more where nodes or queues did not take it. Among very many roles what
# is left over is a small part of the whole, and another choice would take as long again.
_ATTEMPTS, _ROLES_TRIED_AGAIN_MAX = 3, 1000
# A job that is placed anew for others has run for so long since its last start.
_REST_S = 60.0


def goodput(
    jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
) -> RoleTargets:
    """Returns the targets of all roles that the autoscaler may size."""
    capped: dict[RoleId, int] = {}
    cluster = with_room_kept(parameters.stopped, cluster)
    pools = Pools(cluster, cluster.gpu_resources, parameters.max_load)
    sizing = WantedSizes(jobs, cluster, pools, parameters)
    for attempt in range(_ATTEMPTS):
        wanted = sizing.choose(capped)
        sizes = {id_: one.size or one.current for id_, one in wanted.items() if not one.is_stopped}
        leaving = _leaving(wanted)
        targets = fulfill(jobs, cluster, parameters, sizes, leaving)
        short = {
            id_: target.target
            for id_, target in targets.items()
            if id_ in sizes and target.current <= target.target < sizes[id_]
        }
        if attempt + 1 == _ATTEMPTS or len(sizes) > _ROLES_TRIED_AGAIN_MAX:
            break
        requests = _move_requests(targets, wanted, jobs, parameters)
        gone = (*leaving.shrunk, *leaving.stopped)
        short |= together(requests, cluster, gone, clears=True).most
        if not short:
            break
        capped |= short
    if any(leaving) or any(target.delta < 0 for target in targets.values()):
        targets = _without_borrowing(targets, wanted, jobs, cluster, parameters)
    requests = _move_requests(targets, wanted, jobs, parameters)
    gathering = together(requests, cluster, (), clears=False)
    targets = {**targets, **_kept_together(targets, wanted, gathering.most)}
    found = {**_explained(targets, wanted), **_turns(wanted)}
    found |= _cleared(found, gathering.cleared)
    return {**found, **_moved(found, wanted, jobs, cluster, parameters)}


def _kept_together(
    targets: RoleTargets, wanted: Mapping[RoleId, WantedSize], spread: Mapping[RoleId, int]
) -> dict[RoleId, RoleTarget]:
    """Returns raises across nodes as raises to what one node takes, if that is more at all."""
    found = {}
    for id_, most in spread.items():
        target = targets.get(id_)
        if target is None:
            continue  # it is stopped
        size = max((one for one in wanted[id_].sizes if one <= most), default=0)
        if size > target.current:
            found[id_] = replace(target, target=size)
        else:
            message = f"no node has room for all {target.target} of them"
            found[id_] = RoleTarget(target.current, target.current, SizeReason.NO_NODE, message)
    return found


def _cleared(targets: RoleTargets, cleared: Iterable[RoleId]) -> dict[RoleId, RoleTarget]:
    """Returns the targets of roles that are placed anew so that others get whole nodes."""
    message = "a whole node is free for others without it"
    return {
        id_: replace(targets[id_], moves=True, reason=SizeReason.MOVES, message=message)
        for id_ in cleared
        if id_ in targets and not targets[id_].delta
    }


def _leaving(wanted: Mapping[RoleId, WantedSize]) -> LeavingPods:
    """Returns the pods that go when the wanted sizes are there: those with the highest indexes."""

    def going(one: WantedSize) -> Iterator[AutoscalerPod]:
        for pod in one.role.state.pods:
            if pod.is_bound and pod.claim is not None and (pod.claim.index or 0) >= one.size:
                yield pod

    smaller = [one for one in wanted.values() if one.size < one.current]
    return LeavingPods(
        tuple(pod for one in smaller if one.size for pod in going(one)),
        tuple(pod for one in smaller if not one.size for pod in going(one)),
    )


def _turns(wanted: Mapping[RoleId, WantedSize]) -> dict[RoleId, RoleTarget]:
    """Returns the targets of jobs that stop for others, or have stopped and may go on."""
    found = {}
    for id_, one in wanted.items():
        price = f"a device of {one.role.pool.name} is worth {one.price:.3g} elsewhere"
        if one.is_stopped and one.size:
            message = f"{one.size} are worth what they cost again ({one.role.table.tier})"
            # Others make room for what it had, and for more it grows later.
            size = min(one.size, one.role.state.view.target)
            found[id_] = RoleTarget(0, size, SizeReason.GOES_ON, message)
        elif one.is_stopped:
            found[id_] = RoleTarget(0, 0, SizeReason.YIELDS, price)
        elif one.current and not one.size:
            message = f"{price}, and it has more left than others"
            found[id_] = RoleTarget(one.current, 0, SizeReason.YIELDS, message)
    return found


def _moved(
    targets: RoleTargets,
    wanted: Mapping[RoleId, WantedSize],
    jobs: Sequence[JobState],
    cluster: ClusterResource,
    parameters: Parameters,
) -> dict[RoleId, RoleTarget]:
    """Returns the targets of jobs that are placed anew, on fewer nodes.

    None is while a job waits: that would take the room, and the moved one would wait instead.
    """
    requests = _move_requests(targets, wanted, jobs, parameters)
    return {
        id_: _placed_anew(targets[id_], move) for id_, move in find_moves(requests, cluster).items()
    }


def _move_requests(
    targets: RoleTargets,
    wanted: Mapping[RoleId, WantedSize],
    jobs: Sequence[JobState],
    parameters: Parameters,
) -> list[MoveRequest]:
    if parameters.now is None:
        return []
    none_waits = not any(job.is_pending for job in jobs)
    return [
        request
        for id_, one in wanted.items()
        if (size := _planned_size(one, targets.get(id_)))
        if (request := _move_request(one.role, size, parameters, none_waits=none_waits)) is not None
    ]


def _planned_size(one: WantedSize, target: RoleTarget | None) -> int:
    """Returns the size that a role is about to have; 0 if it stops, or is stopped."""
    if one.is_stopped:
        return min(one.size, one.role.state.view.target)
    return target.target if target is not None and one.size else 0


def _move_request(
    one: SizedRole, size: int, parameters: Parameters, *, none_waits: bool
) -> MoveRequest | None:
    """Returns what decides about the nodes of a job; None for one that is not all there."""
    evidence = evidence_of(one.job, parameters)
    if evidence is None:
        return None
    view, state, now = one.job.view, one.state, parameters.now or 0.0
    bound = [pod for pod in state.pods if pod.is_bound and not pod.is_finished]
    if not len(bound) == len(state.pods) == one.current:
        return None
    has_rested = size != one.current or now - began(state, now) >= TURN_S
    may_yield = none_waits and view.may_yield and len(one.job.roles) == 1 and not one.is_stopped
    may_clear = may_yield and size == one.current and now - began(state, now) >= _REST_S

    def speed_on(n_nodes: int) -> float:
        per_node = -(-size // max(n_nodes, 1))
        return float(speed_table(evidence, (size,), per_node, 0.0).speed[0])

    return MoveRequest(
        one.id,
        state.view.needs,
        one.pool,
        one.per_node,
        tuple(pod.node for pod in bound),
        size,
        one.sizes,
        may_yield and has_rested,
        may_clear,
        speed_on,
        one.table.cost_s,
        one.table.left_s if one.table.is_known else inf,
    )


def _placed_anew(target: RoleTarget, move: Move) -> RoleTarget:
    where = f"on {move.after} instead of {move.before} nodes"
    if target.delta:
        return replace(target, moves=True, message=f"{target.message}; {where}")
    message = f"{target.target} are faster {where}"
    return replace(target, moves=True, reason=SizeReason.MOVES, message=message)


def _without_borrowing(
    targets: RoleTargets,
    wanted: Mapping[RoleId, WantedSize],
    jobs: Sequence[JobState],
    cluster: ClusterResource,
    parameters: Parameters,
) -> RoleTargets:
    """Returns the targets with raises that fit before any shrink of the same plan is carried out.

    Each size is written by itself, so a raise may come first. It follows in a later pass, when what
    it needs is free. Until then it goes to a smaller size that is looked at, if one is free: any
    other size would cost a resize more.
    """
    if all(target.delta <= 0 for target in targets.values()):
        return targets
    kept = {id_: max(target.target, target.current) for id_, target in targets.items()}
    alone = fulfill(jobs, cluster, parameters, kept)
    return {
        id_: _not_yet(target, alone[id_].target, wanted.get(id_)) if target.delta > 0 else target
        for id_, target in targets.items()
    }


def _not_yet(target: RoleTarget, free: int, wanted: WantedSize | None) -> RoleTarget:
    """Returns a raise to no more than what is free now."""
    if free >= target.target:
        return target
    if wanted is not None:
        free = max((size for size in wanted.sizes if size <= free), default=0)
    if free > target.current:
        return replace(target, target=free)
    message = f"what {target.target} need is not free yet"
    return RoleTarget(target.current, target.current, SizeReason.NOT_FREE_YET, message)


def _explained(
    targets: RoleTargets, wanted: Mapping[RoleId, WantedSize]
) -> dict[RoleId, RoleTarget]:
    """Returns the targets with the reasons of this policy, in words and numbers."""
    return {
        id_: _with_reason(target, wanted[id_]) if id_ in wanted else target
        for id_, target in targets.items()
    }


def _with_reason(target: RoleTarget, wanted: WantedSize) -> RoleTarget:
    price = f"one more of {wanted.role.pool.name} is worth {wanted.price:.3g} now"
    faster = wanted.speed_at(target.target)
    before = wanted.speed_at(target.current)
    gain = (
        f"{faster:.2f} times as fast as one replica" if faster else "its speed there is not known"
    )
    if target.delta > 0 and target.reason is SizeReason.ROOM:
        than = f", {before:.2f} times with {target.current}" if before else ""
        message = f"{target.target} are {gain}{than} ({wanted.role.table.tier}); {price}"
        return replace(target, reason=SizeReason.FASTER, message=message)
    if target.delta < 0 and target.reason in {SizeReason.PENDING_JOB, SizeReason.OVER_COMMITTED}:
        is_for_waiting = target.reason is SizeReason.PENDING_JOB and wanted.is_scarce
        if is_for_waiting or target.target < wanted.size:
            return target  # it makes room for others, and not for the sake of speed
        # Damped like any resize: only for a waiting job that needs the room damping is left out.
        message = f"{target.target} are {gain} ({wanted.role.table.tier}); {price}"
        reason = SizeReason.WORTH_MORE_ELSEWHERE
        return replace(target, reason=reason, message=message, for_group="")
    if target.delta == 0 and target.reason is SizeReason.BALANCED:
        message = f"{target.target} are {gain} ({wanted.role.table.tier}); {price}"
        return replace(target, message=message)
    return target
