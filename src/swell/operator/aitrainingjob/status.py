"""The status a job should have, the write that brings it there, and the events that report it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    QUEUE_LABEL,
    RECORDS_MAX,
    AITrainingJobStatus,
    PhaseRecord,
    ReclaimablePods,
    ReplicaStatus,
)
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Condition
from swell.api.pod import PodPhase
from swell.api.times import format_time, has_passed, parse_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.causes import Cause
from swell.operator.aitrainingjob.native_gang import remarks
from swell.operator.aitrainingjob.pace import numbers_wait_s
from swell.operator.aitrainingjob.phases import (
    REASON_TEXT,
    TRANSITIONS,
    JobReason,
    active,
    bound,
)
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    Replica,
    is_restarting,
    is_surplus,
)
from swell.operator.aitrainingjob.stragglers import straggler_condition
from swell.operator.aitrainingjob.suspension import reason_of, running_again
from swell.operator.framework.dependencies import DEPENDENCY_FAILED, failed
from swell.operator.framework.recovery import kept_conditions, sound_time
from swell.operator.framework.reports import REPORT_PACE_S, report_is_due
from swell.operator.framework.status import (
    MESSAGE_MAX,
    JobEvents,
    advance,
    condition,
    dated,
    generation_marked,
    status_change,
)
from swell.operator.framework.waiting import disrupted_condition, wait_reason
from swell.runtime.plan import EmitEvent, PatchStatus, Step

_NUMBERS = frozenset({"replicaStatuses", "reclaimablePods", "ready", "message"})
_TRAINING = "training"
DEADLINE_MISSED = "DeadlineMissed"
RESTARTS_HELD = "RestartsHeld"
# Conditions of jobs with Kueue's label, in its words.
FINISHED, QUOTA_RESERVED = "Finished", "QuotaReserved"
SUSPENDED = "Suspended"  # the condition of a job that gives back its pods or has none
_PHASES = frozenset(phase.value for phase in Phase if phase.value)


def counted(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> AITrainingJobStatus:
    """The status with the pods of each role counted, each pod once."""
    counts = {role: dict[str, int]() for role in snapshot.roles}
    for one in snapshot.replicas:
        if not is_surplus(one, status):
            held = counts[one.role]
            name = _state(one, status)
            held[name] = held.get(name, 0) + 1
    n_active = len(active(snapshot, status))
    n_target = sum(status.target_replicas.values())
    done: tuple[ReclaimablePods, ...] = ()
    if QUEUE_LABEL in snapshot.job.metadata.labels:
        n_done = {role: held.get("succeeded", 0) for role, held in counts.items()}
        done = tuple(ReclaimablePods(name=role, count=n) for role, n in n_done.items() if n)
    return replace(
        status,
        replica_statuses={role: ReplicaStatus(**held) for role, held in counts.items()},
        reclaimable_pods=done,
        ready=f"{n_active}/{n_target}",
    )


def in_phase(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    phase: Phase,
    *,
    reason: str,
    message: str,
    now: float,
) -> AITrainingJobStatus:
    """The status in a phase, with matching history, times and conditions."""
    advance(TRANSITIONS, status.phase, phase)
    message = message[:MESSAGE_MAX]
    at = format_time(now)
    if phase is not status.phase:
        record = PhaseRecord(phase=phase, time=at, message=message, reason=reason)
        history = (*status.phase_history, record)[-RECORDS_MAX:]
        status = replace(status, phase=phase, phase_history=history)
        if phase is Phase.RUNNING:
            status = replace(status, creation_restarts={})
    if phase is Phase.RUNNING:
        start = status.start_running_time or at
        status = running_again(replace(status, start_running_time=start), now)
    if phase in FINAL_PHASES:
        # None of its pods runs any more, however they ended.
        ready = f"0/{sum(status.target_replicas.values())}"
        status = replace(status, end_time=status.end_time or at, ready=ready)
    status = replace(
        status,
        reason=reason,
        message=message,
        observed_generation=snapshot.job.metadata.generation,
    )
    return replace(status, conditions=_conditions(snapshot, status, at))


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """The write of a status, if any. One that `is_late` is put off until `again_at`."""

    steps: tuple[Step, ...] = ()
    is_late: bool = False
    again_at: float | None = None


def write_status(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> StatusWrite:
    """Write what differs from the job's status, now or later.

    The numbers of a large job change all the time, and to write each change would cost more than
    creating the pods. Numbers alone therefore wait, except when the last pod has become active;
    less long when half of the job has finished since the last write.
    """
    old = snapshot.job.status
    stored = snapshot.stored_status
    is_new = status.observed_generation != old.observed_generation
    if is_new or status.conditions is not old.conditions:
        generation = status.observed_generation
        marked = generation_marked(status.conditions, old.conditions, generation, is_new=is_new)
        status = replace(status, conditions=marked)
    change = status_change(old if stored is None else stored, status)
    if not change:
        return StatusWrite()
    # A recovered status is written at once: the decision goes by it.
    is_urgent = _is_complete(old, status) or _has_deleted(old, status) or stored is not None
    # Nothing more will change in a suspended job that has lost its last pod.
    is_urgent = is_urgent or (status.suspension is not None and not snapshot.pods)
    changed = {name for name in change if name != "conditions" or _is_said_anew(old, status)}
    if changed <= {*_NUMBERS, _TRAINING} and not is_urgent and old.last_reconcile_time:
        late = _put_off(snapshot, status, frozenset(changed), now)
        if late is not None:
            return late
    if old.phase is Phase.EMPTY:
        # `kubectl get` has a column for it, which a field that is left out would keep empty.
        change.setdefault("restarts", status.restarts)
    change["lastReconcileTime"] = format_time(now)
    meta = snapshot.job.metadata
    is_first = old == AITrainingJobStatus() if stored is None else not stored
    version = meta.resource_version
    return StatusWrite((PatchStatus(AI_TRAINING_JOBS, meta.key, version, change, is_first),))


def _is_said_anew(old: AITrainingJobStatus, new: AITrainingJobStatus) -> bool:
    """Whether conditions differ in more than their messages, which have numbers in them."""

    def facts(one: Condition) -> tuple[str, str, str]:
        return one.type, one.status, one.reason

    return [*map(facts, old.conditions)] != [*map(facts, new.conditions)]


def _put_off(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    changed: frozenset[str],
    now: float,
) -> StatusWrite | None:
    """When numbers and reports are written that differ now; None for at once.

    Either is written with the other, whichever is due first. Messages of conditions have numbers
    in them: where nothing else has changed, `changed` is empty.
    """
    old = snapshot.job.status
    due: list[float] = []
    has_numbers = changed != {_TRAINING}
    if has_numbers:
        last = parse_time(old.last_reconcile_time or "")
        wait_s = numbers_wait_s(snapshot, status, last, now)
        if has_passed(last, wait_s, now):
            return None
        due.append(last + wait_s)
    if _TRAINING in changed:
        if old.training is None or report_is_due(old.training, now):
            return None
        due.append(parse_time(old.training.reported_at) + REPORT_PACE_S)
    # A report that waits puts nothing else off.
    return StatusWrite(is_late=has_numbers, again_at=min(due))


def events(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, begun: Cause | None = None
) -> Iterator[EmitEvent]:
    """The events for a status that is about to be written, and for a restart that begins."""
    old, spec = snapshot.job.status, snapshot.job.spec
    make = JobEvents(AI_TRAINING_JOBS, snapshot.job.metadata)
    yield from _about_the_spec(snapshot, make)
    if snapshot.stored_status is not None:
        yield from make.recovered(status.conditions)
    if begun is not None:
        pod = labels.pod_name(snapshot.job.metadata.name, begun.role, begun.index)
        yield make.restart(begun.reason.value, begun.message, pod)
    if status.phase is not old.phase:
        is_bad = status.phase in FINAL_PHASES and status.phase is not Phase.SUCCEED
        yield make.phase(status.phase, status.message, is_bad=is_bad)
    if _holds(DEADLINE_MISSED, status) and not _holds(DEADLINE_MISSED, old):
        yield make.warning(JobReason.DEADLINE_MISSED.value, f"not done at {spec.deadline}")
    if (status.suspension is None) is not (old.suspension is None):
        reason, text = JobReason.RESUMED, REASON_TEXT[JobReason.RESUMED]
        if status.suspension is not None:
            reason, text = reason_of(snapshot)
        yield make.normal(reason.value, text)
    slow = straggler_condition(status)
    if slow is not None and slow.status == "True" and slow != straggler_condition(old):
        yield make.warning(slow.reason, slow.message)
    yield from _resizes(make, old, status)
    yield from _standstills(make, old, status)
    if snapshot.refused and old.reason != JobReason.REFUSED.value:
        yield make.warning(JobReason.REFUSED.value, snapshot.refused)


def _resizes(
    make: JobEvents, old: AITrainingJobStatus, status: AITrainingJobStatus
) -> Iterator[EmitEvent]:
    for record in status.scale_records:
        if record not in old.scale_records:
            text = f"{record.role}: {record.from_} to {record.to}: {record.reason}"
            yield make.normal(JobReason.RESIZED.value, text)


def _standstills(
    make: JobEvents, old: AITrainingJobStatus, status: AITrainingJobStatus
) -> Iterator[EmitEvent]:
    """The events for a new reason to wait, and for pods that were lost to others."""
    lost, known = disrupted_condition(status.conditions), disrupted_condition(old.conditions)
    if lost is not None and lost.status == "True" and lost != known:
        yield make.warning(lost.reason, lost.message)
    elif status.phase is Phase.PENDING and status.reason != old.reason and status.message:
        yield make.warning(status.reason, status.message)


def deadline_at(snapshot: AITrainingJobSnapshot) -> float | None:
    """When the job should be done; None if it does not say, or says what is no time."""
    text = sound_time(snapshot.job.spec.deadline)
    return parse_time(text) if text else None


def _holds(kind: str, status: AITrainingJobStatus) -> bool:
    return any(one.type == kind and one.status == "True" for one in status.conditions)


def _about_the_spec(snapshot: AITrainingJobSnapshot, make: JobEvents) -> Iterator[EmitEvent]:
    """The warnings about what a job asks for and does not get, once each."""
    has_gang = snapshot.uses_volcano_gang or snapshot.uses_native_gang
    if snapshot.job.status.phase is Phase.EMPTY:
        yield from make.at_first(
            "" if snapshot.priority_class_found else snapshot.job.spec.priority,
            is_gang_missing=snapshot.settings.gang and not has_gang,
        )
    for reason, text in remarks(snapshot):
        yield make.warning(reason, text)


def _is_complete(old: AITrainingJobStatus, new: AITrainingJobStatus) -> bool:
    """Whether the job has just reached its target size, which a resize waits for."""
    n_active, _, n_target = new.ready.partition("/")
    return n_active == n_target and new.ready != old.ready


def _has_deleted(old: AITrainingJobStatus, new: AITrainingJobStatus) -> bool:
    """Whether the last old pod of a restart has gone: it must not be missed as one that is lost."""

    def n_restarting(status: AITrainingJobStatus) -> int:
        return sum(held.restarting for held in status.replica_statuses.values())

    return n_restarting(old) > 0 and not n_restarting(new)


def _state(replica: Replica, status: AITrainingJobStatus) -> str:
    if is_restarting(replica, status):
        return "restarting"
    if replica.phase is PodPhase.SUCCEEDED:
        return "succeeded"
    if replica.phase is PodPhase.FAILED:
        return "failed"
    if replica.phase is PodPhase.RUNNING and not replica.is_leaving:
        return "active"
    return "scheduled" if replica.is_bound else "pending"


def _conditions(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, at: str
) -> tuple[Condition, ...]:
    """One condition for each phase ever entered, then Scheduled, Ready and Completed."""
    entered = {Phase(c.type): None for c in status.conditions if c.type in _PHASES}
    entered[status.phase] = None
    wanted = [_phase_condition(phase, status, status.conditions) for phase in entered]
    wanted += [
        _scheduled_condition(snapshot, status),
        condition("Ready", status.phase is Phase.RUNNING, status.phase.value),
        condition("Completed", status.phase in FINAL_PHASES, status.phase.value),
    ]
    if QUEUE_LABEL in snapshot.job.metadata.labels:
        wanted += _for_kueue(snapshot, status)
    if status.suspension is not None or any(c.type == SUSPENDED for c in status.conditions):
        wanted.append(_suspended_condition(status))
    if bad := failed(status.dependencies):
        wanted.append(condition(DEPENDENCY_FAILED, True, JobReason.DEPENDENCY_FAILED.value, bad))
    elif any(c.type == DEPENDENCY_FAILED for c in status.conditions):
        wanted.append(condition(DEPENDENCY_FAILED, False, JobReason.WAITING_FOR_JOBS.value))
    mass = snapshot.mass_failure
    if mass is not None and _is_struck(snapshot):
        wanted.append(condition(RESTARTS_HELD, True, JobReason.MASS_FAILURE.value, mass.message))
    elif any(c.type == RESTARTS_HELD for c in status.conditions):
        wanted.append(condition(RESTARTS_HELD, False, JobReason.MASS_FAILURE_OVER.value))
    due = deadline_at(snapshot)
    if due is not None and status.phase is not Phase.SUCCEED and due <= parse_time(at):
        text = f"not done at {snapshot.job.spec.deadline}"
        wanted.append(condition(DEADLINE_MISSED, True, JobReason.DEADLINE_MISSED.value, text))
    dated_ones = [dated(one, status.conditions, at) for one in wanted]
    own = (disrupted_condition(status.conditions), straggler_condition(status))
    return (
        *dated_ones,
        *(one for one in own if one is not None),
        *kept_conditions(status.conditions),
    )


def _for_kueue(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> list[Condition]:
    """The conditions that Kueue reads of a job it admits: whether it is over, and holds its quota.

    A job that is suspended holds it until its last pod is gone.
    """
    is_over, has_pods = status.phase in FINAL_PHASES, bool(snapshot.pods)
    holds = not is_over and (has_pods or not snapshot.job.wants_suspension)
    succeeded = status.phase is Phase.SUCCEED
    end = ("JobFinished" if succeeded else "JobFailed") if is_over else "JobNotFinished"
    return [
        condition(FINISHED, is_over, end, status.message if is_over else ""),
        condition(QUOTA_RESERVED, holds, "Admitted" if holds else "NotAdmitted"),
    ]


def _is_struck(snapshot: AITrainingJobSnapshot) -> bool:
    """Whether a pod of the job has failed, or its node is not ready."""
    states = (snapshot.node_of(one) for one in snapshot.replicas)
    return any(state is not None and state.unready_since is not None for state in states) or any(
        one.phase is PodPhase.FAILED for one in snapshot.replicas
    )


def _scheduled_condition(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> Condition:
    """Whether every role has its minimum of pods with a node; if not, why the scheduler waits."""
    if status.phase in FINAL_PHASES:
        return condition("Scheduled", False, status.phase.value)
    gang = {role: spec.gang_minimum for role, spec in snapshot.roles.items()}
    have = [role for role, _ in bound(snapshot, status)]
    if status.ending is not None:  # the pods that were scheduled are being deleted
        scheduled = any(c.type == "Scheduled" and c.status == "True" for c in status.conditions)
    else:
        scheduled = all(have.count(role) >= n for role, n in gang.items())
    if scheduled:
        return condition("Scheduled", True, "Scheduled")
    reason, message = wait_reason(snapshot.group)
    return condition("Scheduled", False, reason or "NotScheduled", message[:MESSAGE_MAX])


def _suspended_condition(status: AITrainingJobStatus) -> Condition:
    is_held = status.suspension is not None
    reason = JobReason.SUSPENDED if is_held else JobReason.RESUMED
    return condition(SUSPENDED, is_held, reason.value, REASON_TEXT[reason])


def _phase_condition(
    phase: Phase, status: AITrainingJobStatus, old: Iterable[Condition]
) -> Condition:
    """The condition of the present phase has its message; the others keep their last one."""
    holds = phase is status.phase
    former = next((c for c in old if c.type == phase.value), None)
    message = status.message if holds or former is None else former.message
    return condition(phase.value, holds, f"TrainingJob{phase.value}", message)
