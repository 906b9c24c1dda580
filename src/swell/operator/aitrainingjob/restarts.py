"""Restart scope and budget: which pods restart for which cause, how often, and after what wait.

A restart is recorded in the status before anything is deleted for it. The record names replicas
and a new restart count; the pods to delete are those replicas' pods that carry a lower count. So
the record is carried out in the same way however often the operator dies in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    RECORDS_MAX,
    AITrainingJobStatus,
    AvoidedNode,
    Restart,
    RestartPolicy,
    RestartScope,
)
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.backoff import Backoff
from swell.api.times import format_time, has_passed, parse_time
from swell.api.wording import count_of
from swell.operator.aitrainingjob.causes import Cause, CauseKind, creating_since
from swell.operator.aitrainingjob.losses import made_room
from swell.operator.aitrainingjob.node_faults import still_avoided
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica, covers, missing

# The first restart is immediate; the second waits 1 s, each further one twice as long as the last.
BACKOFF = Backoff(base_s=1.0, cap_s=300.0)
# After running for this long, the next restart counts as the first again.
BACKOFF_RESET_S = 600.0
# The back-off of refused writes lasts no longer; a longer one shows that a clock was set back.
_REFUSAL_S_MAX = 300.0
_LONG_AGO = "1970-01-01T00:00:00Z"
# Causes whose restarts do not count against the role's restartLimit.
_UNCHARGED = frozenset(
    {CauseKind.CREATION, CauseKind.GONE, CauseKind.STRANDED, CauseKind.STRAGGLER}
)


@dataclass(frozen=True, slots=True)
class SortedCauses:
    """Causes by what can be done: a restart will cure the first, nothing cures the others."""

    curable: tuple[Cause, ...]
    final: tuple[Cause, ...]


def sort_causes(
    causes: Iterable[Cause], snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> SortedCauses:
    """Sort causes by their role's policy and restart limit.

    With scope Pod each restarted pod is charged on its own, so a limit may allow some of them.
    """
    curable: list[Cause] = []
    final: list[Cause] = []
    spent = {role: _charged(status, role) for role in snapshot.roles}
    tries = dict(status.creation_restarts)
    for cause in causes:
        limit = snapshot.roles[cause.role].restart_limit
        charged = cause.kind not in _UNCHARGED
        if not cause.wants_restart:
            final.append(cause)
            continue
        if cause.kind is CauseKind.CREATION:
            tries[cause.role] = tries.get(cause.role, 0) + 1
            most = snapshot.settings.creating_restart_limit
            if most is not None and tries[cause.role] > most:
                final += _given_up(cause, most, snapshot, status)
                continue
        # An uncharged restart begins whatever the limit is.
        if charged and limit is not None and spent[cause.role] >= limit:
            text = f"{cause.message} (restartLimit {limit} of {cause.role} is used up)"
            final.append(dataclasses.replace(cause, message=text))
            continue
        curable.append(cause)
        if charged and restart_scope(cause, snapshot) is RestartScope.POD:
            spent[cause.role] += 1
    return SortedCauses(tuple(curable), tuple(final))


def _given_up(
    cause: Cause, limit: int, snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> list[Cause]:
    """The end of a job whose containers cannot be created, where such jobs are to fail.

    A job that runs goes on without the pod: only a role that grows has pods to create then.
    """
    if not snapshot.settings.enable_creating_failed or creating_since(status) is None:
        return []
    text = f"{cause.message} (replaced {count_of(limit, 'time')}, as often as is allowed)"
    return [dataclasses.replace(cause, message=text, wants_restart=False)]


def begin(
    curable: tuple[Cause, ...],
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    now: float,
) -> AITrainingJobStatus:
    """The status with a restart for the gravest cause recorded.

    There is one record at a time. A restart of single pods that is still under way takes in more
    pods of its role; other restarts have to wait, see `may_begin`.
    """
    first = curable[0]
    scope = restart_scope(first, snapshot)
    indexes: tuple[int, ...] = ()
    chosen = [cause for cause in curable if cause.role == first.role]
    if scope is RestartScope.POD:
        chosen = [cause for cause in chosen if restart_scope(cause, snapshot) is scope]
        # Charged and uncharged restarts are never mixed: the record could not tell them apart.
        chosen = [c for c in chosen if (c.kind in _UNCHARGED) is (first.kind in _UNCHARGED)]
        indexes = tuple(
            sorted({c.index for c in chosen} | set(_unfinished(snapshot, status, first.role)))
        )
    roles = tuple(snapshot.roles) if scope is RestartScope.ALL else (first.role,)
    grown = len({cause.index for cause in chosen}) if scope is RestartScope.POD else 1
    counts = {role: status.restart_counts.get(role, 0) + grown for role in roles}
    # The back-off is counted by the role that failed; the restart count by all roles in scope.
    # A job that was preempted has not failed, and waits for room as long as the scheduler says.
    is_preempted = first.kind is CauseKind.GONE and made_room(snapshot, status, now)
    k = _backoff(status, first.role, now) + (not is_preempted)
    record = Restart(
        scope=scope,
        role=first.role,
        indexes=indexes,
        counts=counts,
        started_at=format_time(now),
        not_before=None if k <= 1 or is_preempted else format_time(now + BACKOFF.full_s(k - 1)),
    )
    n_uncharged = grown if first.kind in _UNCHARGED else 0
    # A pod that is gone may be in the same record; it was not replaced for a failed creation.
    # A wider restart has another cause, and its own limit.
    created = {c.index for c in chosen if c.kind is CauseKind.CREATION}
    n_created = len(created) if scope is RestartScope.POD else 0
    restart_counts = {**status.restart_counts, **counts}
    return replace(
        status,
        restart=record,
        restart_counts=restart_counts,
        restarts=sum(restart_counts.values()),
        uncharged=_added(status.uncharged, roles, n_uncharged),
        creation_restarts=_added(status.creation_restarts, roles, n_created),
        backoff={**status.backoff, first.role: k},
        last_restart_time={**status.last_restart_time, **dict.fromkeys(roles, format_time(now))},
        epoch=status.epoch + 1,
        avoid_nodes=_avoided(status, curable, snapshot.settings.node_avoid_s, now),
    )


def may_begin(
    curable: tuple[Cause, ...], snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> bool:
    """Whether a new restart can be recorded without losing one that is under way.

    It can if it covers everything that the old one covers, or if the old one has nothing left to
    delete or to create.
    """
    if not curable:
        return False
    old = status.restart
    if old is None or _includes(curable[0], snapshot, old):
        return True
    return not _has_old_pods(snapshot, status) and not any(
        covers(status, role, index) for role, index in missing(snapshot, status)
    )


def must_wait(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float) -> bool:
    """Whether new pods are held back.

    A restart waits until old ones are gone and its back-off has passed. If the API server has just
    refused a pod, others wait as well: the write that comes before them, which raises their
    numbers, would wake the job at once, and so on without a pause.
    """
    refused_at = snapshot.no_pods_before - _REFUSAL_S_MAX
    if snapshot.no_pods_before and not has_passed(refused_at, _REFUSAL_S_MAX, now):
        return True
    restart = status.restart
    if restart is None:
        return False
    if _has_old_pods(snapshot, status):
        return True
    if restart.not_before is None:
        return False
    started_at = parse_time(restart.started_at)
    return not has_passed(started_at, parse_time(restart.not_before) - started_at, now)


def is_done(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, active: frozenset[tuple[str, int]]
) -> bool:
    """Whether every replica of the record is active again, or its elastic role has its minimum."""
    if _has_old_pods(snapshot, status):
        return False
    for role, spec in snapshot.roles.items():
        target = status.target_replicas.get(role, 0)
        wanted = [index for index in range(target) if covers(status, role, index)]
        back = sum((role, index) in active for index in wanted)
        enough = sum((role, index) in active for index in range(target)) >= spec.minimum
        if back < len(wanted) and not (spec.is_elastic and enough):
            return False
    return True


def restart_scope(cause: Cause, snapshot: AITrainingJobSnapshot) -> RestartScope:
    """Which pods restart together for a cause.

    A pod that cannot be created or placed restarts alone, and so does one that is gone while its
    peers can do without it. Otherwise the role's `restartScope` decides.
    """
    spec = snapshot.roles[cause.role]
    alone = cause.kind in (CauseKind.CREATION, CauseKind.STRANDED) or (
        cause.kind in (CauseKind.GONE, CauseKind.STRAGGLER)
        and (spec.is_elastic or spec.restart_policy is RestartPolicy.NEVER)
    )
    return RestartScope.POD if alone else spec.restart_scope


def _includes(cause: Cause, snapshot: AITrainingJobSnapshot, old: Restart) -> bool:
    """Whether a restart for this cause covers everything that the old record covers."""
    match restart_scope(cause, snapshot):
        case RestartScope.ALL:
            return True
        case RestartScope.REPLICA:
            return old.scope is not RestartScope.ALL and old.role == cause.role
        case RestartScope.POD:
            return old.scope is RestartScope.POD and old.role == cause.role


def _unfinished(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, role: str
) -> Iterable[int]:
    """Indexes of a restart of single pods of this role whose new pods are not there yet."""
    old = status.restart
    if old is None or old.scope is not RestartScope.POD or old.role != role:
        return ()
    new = {one.index for one in snapshot.of_role(role) if not _is_old(one, old)}
    return [index for index in old.indexes if index not in new]


def _has_old_pods(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> bool:
    old = status.restart
    return old is not None and any(
        covers(status, one.role, one.index) and _is_old(one, old) for one in snapshot.replicas
    )


def _is_old(replica: Replica, restart: Restart) -> bool:
    return replica.restart_count < restart.counts.get(replica.role, 0)


def _charged(status: AITrainingJobStatus, role: str) -> int:
    return status.restart_counts.get(role, 0) - status.uncharged.get(role, 0)


def _backoff(status: AITrainingJobStatus, role: str, now: float) -> int:
    """The number of restarts since the job last ran for `BACKOFF_RESET_S` without one.

    A job whose single pods restart is Running all the time, hence the time of the last restart.
    """
    last = status.phase_history[-1] if status.phase_history else None
    if last is not None and last.phase is Phase.RUNNING:
        since = max(
            parse_time(last.time), parse_time(status.last_restart_time.get(role, _LONG_AGO))
        )
        if now - since >= BACKOFF_RESET_S:
            return 0
    return status.backoff.get(role, 0)


def _added(counts: dict[str, int], roles: Iterable[str], n: int) -> dict[str, int]:
    return {**counts, **{role: counts.get(role, 0) + n for role in roles}} if n else counts


def _avoided(
    status: AITrainingJobStatus, causes: Iterable[Cause], avoid_s: float, now: float
) -> tuple[AvoidedNode, ...]:
    """The nodes to avoid: those whose time has not passed, and those just found faulty."""
    faulty = {cause.node: cause for cause in causes if cause.node}
    kept = [one for one in still_avoided(status, avoid_s, now) if one.name not in faulty]
    until = format_time(now + avoid_s)
    new = [AvoidedNode(name=name, until=until, reason=c.message) for name, c in faulty.items()]
    return tuple([*kept, *new][-RECORDS_MAX:])
