"""Rebuilds what is missing or untrue in an AITrainingJob's status from the job's objects. Pure.

A status is emptied by a restore from a backup or by a client that replaces it, and it may hold
values that the operator never wrote. Where each part of it is found again:

    phase             computed from the pods, as in every pass
    targetReplicas    the sizes in the members ConfigMap; else the indexes of the pods
    restartCounts     the pods' RestartCount labels, and the ConfigMap's annotation
    restart           the ConfigMap's annotation: it names counts, so one that is done does no harm
    uncharged         the ConfigMap's annotation; what it does not have counts as charged
    creationRestarts  the ConfigMap's annotation, which also has those before the job last ran, if
                      no restart came since; labels do not tell them from other restarts
    epoch             the ConfigMap; without one, the job's age in seconds, which no epoch reaches
    ending            the mark on the job
    startRunningTime  the latest start of a container of a job that runs

History, back-off and the nodes to avoid cannot be known again; a condition says so. Nothing here
deletes or ends anything: the decision goes on from the rebuilt status, and writes it first.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJobStatus,
    Ending,
    PhaseRecord,
    Restart,
    RestartsRecord,
    Suspension,
    Yield,
)
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.codec import to_body
from swell.api.times import format_time, parse_time
from swell.api.wording import count_of
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.membership import Members, read_members
from swell.operator.aitrainingjob.phases import living_phase
from swell.operator.aitrainingjob.restarts import BACKOFF
from swell.operator.aitrainingjob.sizes import JOB_PODS_MAX
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.recovery import (
    COUNT_MAX,
    DAMAGED,
    LOST,
    is_count,
    is_time,
    latest_start,
    read_mark,
    recovered_condition,
    sound_counts,
    sound_time,
    sound_training,
)
from swell.operator.framework.status import status_change

_UNKNOWN = (
    "not known any more: the history of phases and resizes, the restart back-off and the nodes to"
    " avoid; startRunningTime is the latest start of a container"
)
_ALL_CHARGED = (
    "; restarts that no record tells apart count against restartLimit, and creationRestarts count"
    " from 0"
)


def recovered(snapshot: AITrainingJobSnapshot, now: float) -> AITrainingJobSnapshot:
    """The snapshot with a status that agrees with the objects: the same one if it did already.

    A final phase is left alone, whatever else the status says, because it never changes.
    """
    held = snapshot.job.status
    if held.phase in FINAL_PHASES:
        return snapshot
    is_lost = _is_lost(snapshot)
    members = read_members(snapshot.members, snapshot)
    status = _with_ending(snapshot, _sound(snapshot, held, now))
    if held.phase is not Phase.EMPTY or is_lost:
        status = _with_restarts(snapshot, status, members, is_lost=is_lost, now=now)
        status = _with_sizes(snapshot, status, members)
        status = _with_epoch(snapshot, status, members, is_lost=is_lost, now=now)
    elif status.restart is not None:
        # Nothing of the job exists, so that nothing of it can be restarted: it only begins.
        status = replace(status, restart=None)
    if is_lost:
        status = _begun(snapshot, status, now)
    elif status.ending is not None:
        # A recorded ending and this phase are always written together.
        status = replace(status, phase=Phase.TERMINATING)
    if held.phase is Phase.RUNNING or is_lost:
        status = _with_start(snapshot, status)
    if status == held and snapshot.stored_status is None:
        return snapshot
    changed = ", ".join(sorted(status_change(held, status)))
    message = f"the status was damaged; replaced: {changed or 'what could not be read'}"
    if is_lost:
        charged = "" if members is not None else _ALL_CHARGED
        message = f"the status was lost and is rebuilt from {count_of(len(snapshot.pods), 'pod')}; "
        message += _UNKNOWN + charged
    reason = LOST if is_lost else DAMAGED
    conditions = recovered_condition(reason, message, status.conditions, now)
    return dataclasses.replace(
        snapshot,
        job=replace(snapshot.job, status=replace(status, conditions=conditions)),
        stored_status=to_body(held) if snapshot.stored_status is None else snapshot.stored_status,
    )


def _is_lost(snapshot: AITrainingJobSnapshot) -> bool:
    """Whether the job began before, although its status has no phase."""
    status = snapshot.job.status
    if status.phase is not Phase.EMPTY:
        return False
    return bool(
        snapshot.pods
        or snapshot.members
        or snapshot.group
        or status.ending
        or status.start_time
        or read_mark(snapshot.job.metadata, labels.ENDING)
    )


def _sound(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The status without values that no operator writes: impossible numbers, times and endings."""
    counts = sound_counts(status.restart_counts)
    ending, last = status.ending, status.last_restart_time
    return replace(
        status,
        restart_counts=counts,
        uncharged=_bounded(sound_counts(status.uncharged), counts),
        creation_restarts=_bounded(sound_counts(status.creation_restarts), counts),
        backoff=sound_counts(status.backoff),
        target_replicas={
            role: n
            for role, n in status.target_replicas.items()
            if role in snapshot.roles and 0 <= n <= COUNT_MAX
        },
        epoch=status.epoch if is_count(status.epoch) else 0,
        restart=_sound_restart(status.restart, now),
        suspension=_sound_suspension(status.suspension, now),
        yielded=_sound_yield(status.yielded),
        paused_at=sound_time(status.paused_at),
        preemptions=status.preemptions if is_count(status.preemptions) else 0,
        preempted_epoch=status.preempted_epoch if is_count(status.preempted_epoch) else 0,
        paused_seconds=status.paused_seconds if is_count(status.paused_seconds) else 0,
        ending=ending if ending is not None and ending.phase in FINAL_PHASES else None,
        phase_history=tuple(one for one in status.phase_history if sound_time(one.time)),
        scale_records=tuple(one for one in status.scale_records if is_time(one.time)),
        training=sound_training(status.training),
        avoid_nodes=tuple(one for one in status.avoid_nodes if sound_time(one.until)),
        node_faults=tuple(one for one in status.node_faults if sound_time(one.time)),
        last_restart_time={role: at for role, at in last.items() if sound_time(at)},
        start_time=sound_time(status.start_time),
        start_running_time=sound_time(status.start_running_time),
        end_time=None,  # the job has not ended
        last_reconcile_time=sound_time(status.last_reconcile_time),
    )


def _bounded(uncharged: dict[str, int], counts: dict[str, int]) -> dict[str, int]:
    """No more restarts can have been uncharged than there were."""
    return {role: min(n, counts.get(role, 0)) for role, n in uncharged.items()}


def _sound_restart(record: Restart | None, now: float) -> Restart | None:
    """The record of a restart with valid times, and with no longer wait than the back-off's."""
    if record is None:
        return None
    counts, indexes = sound_counts(record.counts), tuple(n for n in record.indexes if is_count(n))
    started = sound_time(record.started_at)
    not_before = sound_time(record.not_before) if started else None
    if not_before and started and parse_time(not_before) - parse_time(started) > BACKOFF.cap_s + 1:
        not_before = format_time(parse_time(started) + BACKOFF.cap_s)
    return replace(
        record,
        counts=counts,
        indexes=indexes,
        started_at=started or format_time(now),
        not_before=not_before,
    )


def _sound_suspension(record: Suspension | None, now: float) -> Suspension | None:
    if record is None or sound_time(record.started_at):
        return record
    return Suspension(started_at=format_time(now))


def _sound_yield(record: Yield | None) -> Yield | None:
    """A record without times says nothing: the job goes on."""
    if record is None or not (sound_time(record.since) and sound_time(record.until)):
        return None
    return record


def _with_ending(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> AITrainingJobStatus:
    mark = read_mark(snapshot.job.metadata, labels.ENDING)
    phase = next((one for one in FINAL_PHASES if mark and one.value == mark.phase), None)
    if status.ending is not None or mark is None or phase is None:
        return status
    return replace(status, ending=Ending(phase, mark.reason, mark.message, mark.decided_at))


def _with_restarts(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    members: Members | None,
    *,
    is_lost: bool,
    now: float,
) -> AITrainingJobStatus:
    """The status with at least the restarts that the job's objects prove.

    A record of a restart is taken from the ConfigMap only with counts that the status has lost:
    the ConfigMap keeps the last record after it is done.
    """
    record = members.restarts if members is not None else _at_the_end(snapshot)
    proven = dict(record.restart_counts)
    under_way = status.restart.counts if status.restart is not None else {}
    seen = [*under_way.items(), *((one.role, one.restart_count) for one in snapshot.replicas)]
    for role, n in seen:
        proven[role] = max(n, proven.get(role, 0))
    held = status.restart_counts
    raised = {role: n for role, n in sorted(proven.items()) if n > held.get(role, 0)}
    if raised:
        counts = {**held, **raised}
        status = replace(status, restart_counts=counts, restarts=sum(counts.values()))
    if raised or is_lost:
        counts = status.restart_counts
        uncharged = _larger(status.uncharged, record.uncharged)
        created = _larger(status.creation_restarts, record.creation_restarts)
        status = replace(
            status,
            uncharged=_bounded(uncharged, counts),
            creation_restarts=_bounded(created, counts),
            restart=status.restart or _sound_restart(record.restart, now),
        )
    total = sum(status.restart_counts.values())
    return status if status.restarts == total else replace(status, restarts=total)


def _larger(held: dict[str, int], proven: dict[str, int]) -> dict[str, int]:
    """The counts that a status has, or the proven ones where those are larger."""
    return {**held, **{role: max(n, held.get(role, 0)) for role, n in proven.items()}}


def _at_the_end(snapshot: AITrainingJobSnapshot) -> RestartsRecord:
    """The restarts that the mark on an ending job names."""
    mark = read_mark(snapshot.job.metadata, labels.ENDING)
    if mark is None:
        return RestartsRecord()
    return RestartsRecord(sound_counts(mark.restart_counts), sound_counts(mark.uncharged))


def _with_sizes(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, members: Members | None
) -> AITrainingJobStatus:
    """The status with the targets that it lacks."""
    targets = dict(status.target_replicas)
    for role, spec in snapshot.roles.items():
        if role in targets:
            continue
        indexes = [one.index for one in snapshot.of_role(role) if not one.is_leaving]
        from_pods = min(max(indexes, default=-1) + 1, spec.maximum)
        found = (members.sizes.get(role, 0) if members is not None else 0) or from_pods
        if found > 0:
            targets[role] = min(found, JOB_PODS_MAX)
    return replace(status, target_replicas=targets)


def _with_epoch(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    members: Members | None,
    *,
    is_lost: bool,
    now: float,
) -> AITrainingJobStatus:
    """The status with an epoch that is not lower than one that pods have been told."""
    epoch = members.epoch if members is not None else 0
    created = sound_time(snapshot.job.metadata.creation_timestamp)
    if members is None and is_lost and created and snapshot.pods:
        # An epoch takes a restart or a resize, and neither comes every second for long.
        epoch = min(max(0, int(now - parse_time(created))), COUNT_MAX)
    return replace(status, epoch=epoch) if epoch > status.epoch else status


def _begun(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The lost status of a job that began before, in a phase that any other may follow."""
    phase = Phase.TERMINATING if status.ending is not None else Phase.PENDING
    created = [pod.metadata.creation_timestamp for pod in snapshot.pods]
    known = [text for text in created if sound_time(text) and text]
    first = min(known, key=parse_time, default=snapshot.job.metadata.creation_timestamp)
    note = PhaseRecord(phase=phase, time=format_time(now), message="the status was lost")
    return replace(
        status,
        phase=phase,
        phase_history=status.phase_history or (*_creating(status, now), note),
        start_time=status.start_time or first or format_time(now),
        epoch=max(status.epoch, 1),
    )


def _creating(status: AITrainingJobStatus, now: float) -> tuple[PhaseRecord, ...]:
    """The record that the job was Creating, which replaced pods prove.

    The limits of creating pods count from there, so without it they would never be reached.
    """
    if not any(status.creation_restarts.values()):
        return ()
    at = status.restart.started_at if status.restart is not None else format_time(now)
    return (PhaseRecord(phase=Phase.CREATING, time=at, message="the status was lost"),)


def _with_start(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> AITrainingJobStatus:
    """The status of a job that runs with the time since which it does, for the time limit."""
    if status.start_running_time is not None or status.ending is not None:
        return status
    if living_phase(snapshot, status) is not Phase.RUNNING:
        return status
    return replace(status, start_running_time=latest_start(snapshot.pods))
