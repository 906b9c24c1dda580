"""Which pods are restarted for which cause, within which budget, and when.

A restart is recorded before anything is deleted for it. The record names the replicas; the pods to
go are those of them that carry an older count, so a record is carried out the same way however
often the operator dies in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    AITrainingJobPhase,
    AITrainingJobStatus,
    AvoidedNode,
    Restart,
    RestartPolicy,
    RestartScope,
)
from swell.api.backoff import Backoff
from swell.api.times import format_time, parse_time
from swell.operator.aitrainingjob.causes import Cause, Kind
from swell.operator.aitrainingjob.waiting import has_passed
from swell.operator.aitrainingjob.world import Replica, World, covers, missing

BACKOFF = Backoff(base_s=1.0, cap_s=300.0)
CALM_S = 600.0  # of running, after which the next restart is immediate again
AVOID_S = 3600.0
AVOIDED_MAX = 20
_UNCHARGED = frozenset({Kind.CREATION, Kind.GONE})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Causes sorted: those a restart will cure, and those nothing cures."""

    curable: tuple[Cause, ...]
    final: tuple[Cause, ...]


def judge(causes: Iterable[Cause], world: World, status: AITrainingJobStatus) -> Verdict:
    """Hold each cause against its role's policy and budget.

    With scope Pod every restarted pod is charged on its own, so a budget may do for some of them.
    """
    curable: list[Cause] = []
    final: list[Cause] = []
    spent = {role: _charged(status, role) for role in world.roles}
    for cause in causes:
        limit = world.roles[cause.role].restart_limit
        charged = cause.kind not in _UNCHARGED
        if not cause.wants_restart:
            final.append(cause)
            continue
        if charged and limit is not None and spent[cause.role] >= limit:
            text = f"{cause.message} (restartLimit {limit} of {cause.role} is used up)"
            final.append(dataclasses.replace(cause, message=text))
            continue
        curable.append(cause)
        if charged and _scope(cause, world) is RestartScope.POD:
            spent[cause.role] += 1
    return Verdict(tuple(curable), tuple(final))


def begin(
    curable: tuple[Cause, ...], world: World, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The status with a restart for the gravest cause recorded.

    One record is held at a time. A restart of single pods that is still under way takes in more
    pods of its role; see `may_begin` for the others.
    """
    first = curable[0]
    scope = _scope(first, world)
    indexes: tuple[int, ...] = ()
    chosen = [cause for cause in curable if cause.role == first.role]
    if scope is RestartScope.POD:
        chosen = [cause for cause in chosen if _scope(cause, world) is RestartScope.POD]
        # Charged and uncharged restarts are never mixed: the record could not tell them apart.
        chosen = [c for c in chosen if (c.kind in _UNCHARGED) is (first.kind in _UNCHARGED)]
        indexes = tuple(
            sorted({c.index for c in chosen} | set(_unfinished(world, status, first.role)))
        )
    roles = tuple(world.roles) if scope is RestartScope.ALL else (first.role,)
    grown = len({cause.index for cause in chosen}) if scope is RestartScope.POD else 1
    counts = {role: status.restart_counts.get(role, 0) + grown for role in roles}
    k = _backoff(status, first.role, now) + 1
    record = Restart(
        scope=scope,
        role=first.role,
        indexes=indexes,
        counts=counts,
        started_at=format_time(now),
        not_before=None if k == 1 else format_time(now + BACKOFF.full_s(k - 1)),
    )
    free = grown if first.kind in _UNCHARGED else 0
    restart_counts = {**status.restart_counts, **counts}
    return replace(
        status,
        restart=record,
        restart_counts=restart_counts,
        restarts=sum(restart_counts.values()),
        uncharged=_added(status.uncharged, roles, free),
        backoff={**status.backoff, first.role: k},
        last_restart_time={**status.last_restart_time, **dict.fromkeys(roles, format_time(now))},
        epoch=status.epoch + 1,
        avoid_nodes=_avoided(status, curable, now),
    )


def may_begin(curable: tuple[Cause, ...], world: World, status: AITrainingJobStatus) -> bool:
    """Whether a new restart can be recorded without losing one that is under way.

    It can if it takes in all that the old one is about, or if the old one has nothing left to
    delete or to create.
    """
    if not curable:
        return False
    old = status.restart
    if old is None or _takes_in(curable[0], world, old):
        return True
    return not _has_leftovers(world, status) and not any(
        covers(status, role, index) for role, index in missing(world, status)
    )


def must_wait(world: World, status: AITrainingJobStatus, now: float) -> bool:
    """Whether a restart holds back new pods: old ones are there, or it is not yet time."""
    restart = status.restart
    if restart is None:
        return False
    if _has_leftovers(world, status):
        return True
    if restart.not_before is None:
        return False
    started_at = parse_time(restart.started_at)
    return not has_passed(started_at, parse_time(restart.not_before) - started_at, now)


def is_done(world: World, status: AITrainingJobStatus, active: frozenset[tuple[str, int]]) -> bool:
    """Whether every replica the record is about is back, or its elastic role has enough."""
    if _has_leftovers(world, status):
        return False
    for role, spec in world.roles.items():
        target = status.target_replicas.get(role, 0)
        wanted = [index for index in range(target) if covers(status, role, index)]
        back = sum((role, index) in active for index in wanted)
        enough = sum((role, index) in active for index in range(target)) >= spec.minimum
        if back < len(wanted) and not (spec.is_elastic and enough):
            return False
    return True


def _scope(cause: Cause, world: World) -> RestartScope:
    """What restarts together. A pod that is stuck in creation goes alone, and so does a lost one
    whose peers can do without it."""
    spec = world.roles[cause.role]
    alone = cause.kind is Kind.CREATION or (
        cause.kind is Kind.GONE and (spec.is_elastic or spec.restart_policy is RestartPolicy.NEVER)
    )
    return RestartScope.POD if alone else spec.restart_scope


def _takes_in(cause: Cause, world: World, old: Restart) -> bool:
    """Whether a restart for this cause is about everything that the old record is about."""
    match _scope(cause, world):
        case RestartScope.ALL:
            return True
        case RestartScope.REPLICA:
            return old.scope is not RestartScope.ALL and old.role == cause.role
        case RestartScope.POD:
            return old.scope is RestartScope.POD and old.role == cause.role


def _unfinished(world: World, status: AITrainingJobStatus, role: str) -> Iterable[int]:
    """Indexes of a restart of single pods of this role whose new pods are not there yet."""
    old = status.restart
    if old is None or old.scope is not RestartScope.POD or old.role != role:
        return ()
    new = {one.index for one in world.of_role(role) if not _is_old(one, old)}
    return [index for index in old.indexes if index not in new]


def _has_leftovers(world: World, status: AITrainingJobStatus) -> bool:
    old = status.restart
    return old is not None and any(
        covers(status, one.role, one.index) and _is_old(one, old) for one in world.replicas
    )


def _is_old(replica: Replica, restart: Restart) -> bool:
    return replica.restart_count < restart.counts.get(replica.role, 0)


def _charged(status: AITrainingJobStatus, role: str) -> int:
    return status.restart_counts.get(role, 0) - status.uncharged.get(role, 0)


def _backoff(status: AITrainingJobStatus, role: str, now: float) -> int:
    """Restarts since the job last ran calmly."""
    last = status.phase_history[-1] if status.phase_history else None
    if (
        last is not None
        and last.phase is AITrainingJobPhase.RUNNING
        and now - parse_time(last.time) >= CALM_S
    ):
        return 0
    return status.backoff.get(role, 0)


def _added(counts: dict[str, int], roles: Iterable[str], n: int) -> dict[str, int]:
    return {**counts, **{role: counts.get(role, 0) + n for role in roles}} if n else counts


def _avoided(
    status: AITrainingJobStatus, causes: Iterable[Cause], now: float
) -> tuple[AvoidedNode, ...]:
    """Nodes to keep away from: those still in their time, and the ones just found faulty."""
    faulty = {cause.node: cause for cause in causes if cause.node}
    kept = [
        node
        for node in status.avoid_nodes
        if node.name not in faulty and parse_time(node.until) > now
    ]
    until = format_time(now + AVOID_S)
    new = [AvoidedNode(name=name, until=until, reason=c.message) for name, c in faulty.items()]
    return tuple([*kept, *new][-AVOIDED_MAX:])
