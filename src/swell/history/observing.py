"""A record brought up to date with a job's object, of either kind. Pure.

Nearly all of it follows from the job's own status, whose lists of phases and resizes carry their
times: a record that is begun anew, after a crash, says the same. Only what a status has forgotten
by then is taken from the record that was kept before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL_PHASES as AI_FINAL_PHASES
from swell.api.aitrainingjob import AITrainingJob, AITrainingJobStatus
from swell.api.codec import encode, to_body
from swell.api.meta import Body, Condition, ObjectMeta
from swell.api.quantity import Quantity, QuantityError, parse
from swell.api.requests import CPU, MEMORY, template_requests
from swell.api.times import parse_time
from swell.api.training import TrainingStatus
from swell.api.trainingjob import FINAL_PHASES, TrainingJob, TrainingJobPhase
from swell.history import life as lives
from swell.history.life import (
    LABELS_MAX,
    MARKS_MAX,
    PHASES_MAX,
    SAMPLES_MAX,
    SIZES_MAX,
    SPEC_BYTES_MAX,
    TEXT_MAX,
    JobLife,
    Mark,
    PhaseChange,
    ProgressSample,
    RoleShape,
    TargetChange,
)
from swell.history.phases import bounded, continued, thinned

HistoryJob = AITrainingJob | TrainingJob

# The phase of a record whose job was deleted before it had ended.
DELETED = "Deleted"
# The annotation that names who submitted a job.
SUBMITTED_BY = "elasticdeeplearning.ai/submitted-by"
GPU_SUFFIX = "/gpu"


def has_ended(job: HistoryJob) -> bool:
    """Whether nothing more will come of a job: it is in a final phase, or is being deleted."""
    return _is_final(job) or job.metadata.deletion_timestamp is not None


def observed(known: JobLife | None, job: HistoryJob, now: float) -> JobLife:
    """Returns the record of a job, continued with what its object says now."""
    life = _begun(job, now) if known is None else known
    if life.ended is not None:
        return life  # nothing leaves a final phase
    if isinstance(job, AITrainingJob):
        life = _of_ai_training_job(life, job)
    else:
        life = _of_training_job(life, job, now)
    return _ended(life, job, now)


def vanished(life: JobLife, now: float) -> JobLife:
    """Returns the record of a job whose object is gone, and was not seen to end."""
    if life.ended is not None:
        return life
    text = "the object was removed"
    return replace(life, ended=max(now, life.created), phase=DELETED, reason=DELETED, message=text)


def _begun(job: HistoryJob, now: float) -> JobLife:
    meta = job.metadata
    created = seconds(meta.creation_timestamp)
    return JobLife(
        uid=meta.uid,
        kind=job.kind,
        namespace=meta.namespace,
        name=meta.name,
        created=now if created is None else created,
        user=_user(job)[:TEXT_MAX],
    )


def _of_ai_training_job(life: JobLife, job: AITrainingJob) -> JobLife:
    status = job.status
    listed = [
        PhaseChange(at, one.phase.value, one.reason[:TEXT_MAX], one.message[:TEXT_MAX])
        for one in status.phase_history
        if (at := seconds(one.time)) is not None
    ]
    sizes = [
        TargetChange(at, one.role, one.to, one.by.value, one.reason[:TEXT_MAX])
        for one in status.scale_records
        if (at := seconds(one.time)) is not None
    ]
    firsts = {one.role: one.from_ for one in reversed(status.scale_records)}
    return replace(
        life,
        phase=status.phase.value,
        reason=status.reason[:TEXT_MAX],
        message=status.message[:TEXT_MAX],
        queue=job.spec.queue,
        priority=job.spec.priority,
        labels=_labels(job.metadata),
        roles=_shapes(life, job, firsts),
        phases=bounded(continued(life.phases, listed), PHASES_MAX),
        sizes=bounded(continued(life.sizes, sizes), SIZES_MAX),
        marks=_marked(life.marks, _marks(life, status)),
        restarts=max(life.restarts, status.restarts),
        preemptions=max(life.preemptions, status.preemptions),
        progress=_progress(life.progress, status.training),
        rates=dict(status.training.rates) if status.training is not None else life.rates,
        spec=life.spec or _small(to_body(job.spec)),
    )


def _marks(life: JobLife, status: AITrainingJobStatus) -> Iterable[Mark]:
    """The marks that a status proves. Times are the status' own, so that none comes twice."""
    found: list[tuple[str | None, str]] = []
    if status.start_time is not None:
        found.append((status.start_time, lives.STARTED))
    if status.suspension is not None:
        found.append((status.suspension.started_at, lives.SUSPENDED))
    else:
        ended = [one for one in status.conditions if one.type == "Suspended"]
        found += [(one.last_transition_time, lives.RESUMED) for one in ended if _is_over(one)]
    if status.ending is not None:
        found.append((status.ending.decided_at, lives.ENDING))
    for text, name in found:
        at = seconds(text)
        if at is not None:
            yield Mark(at, name)
    yield from _pauses(life, status.training)


def _pauses(life: JobLife, training: TrainingStatus | None) -> Iterable[Mark]:
    """The pause of the newest group of members, where its size is not that of the group before."""
    last = life.progress[-1] if life.progress else None
    at = seconds(training.reported_at) if training is not None else None
    if training is None or at is None or last is None or training.size == last.size:
        return
    pause_s = _number(training.last_pause_seconds)
    if pause_s and at > last.at:
        yield Mark(at, lives.PAUSED, min(pause_s, at - last.at))


def _of_training_job(life: JobLife, job: TrainingJob, now: float) -> JobLife:
    """The status of a TrainingJob has no list of phases: a phase is dated by its condition."""
    status, phase = job.status, job.status.phase
    phases = life.phases
    if phase is not TrainingJobPhase.EMPTY and (not phases or phases[-1].phase != phase.value):
        began = _since(job, phases[-1].at if phases else life.created, now)
        change = PhaseChange(began, phase.value, _loss_reason(status.conditions))
        phases = (*phases, change)
    sizes = [
        TargetChange(at, "trainer", one.to, one.by, one.reason[:TEXT_MAX])
        for one in status.scale_records
        if (at := seconds(one.time)) is not None
    ]
    return replace(
        life,
        phase=phase.value,
        reason=status.reason[:TEXT_MAX],
        queue=job.queue,
        priority=job.spec.annotations.priority,
        labels=_labels(job.metadata),
        roles=_training_job_shapes(job),
        phases=bounded(phases, PHASES_MAX),
        sizes=bounded(continued(life.sizes, sizes), SIZES_MAX),
        spec=life.spec or _small(to_body(job.spec)),
    )


def _since(job: TrainingJob, last: float, now: float) -> float:
    """When the phase began: since its condition holds, unless that held in the phase before."""
    name = "Completed" if job.status.phase in FINAL_PHASES else "Ready"
    found = _condition(job.status.conditions, name)
    at = seconds(found.last_transition_time) if found is not None else None
    is_first = job.status.phase is TrainingJobPhase.CREATING
    return at if at is not None and (at > last or is_first) else max(now, last)


def _ended(life: JobLife, job: HistoryJob, now: float) -> JobLife:
    """Returns the record with its end, if the job has ended."""
    if _is_final(job):
        at = seconds(_end_time(job))
        return replace(life, ended=max(life.created, now if at is None else at))
    deleted = seconds(job.metadata.deletion_timestamp)
    if deleted is None:
        return life
    return replace(
        life,
        ended=max(life.created, deleted),
        phase=DELETED,
        reason=DELETED,
        message=f"deleted while it was {life.phase or 'new'}",
    )


def _is_final(job: HistoryJob) -> bool:
    if isinstance(job, AITrainingJob):
        return job.status.phase in AI_FINAL_PHASES
    return job.status.phase in FINAL_PHASES


def _end_time(job: HistoryJob) -> str | None:
    if isinstance(job, AITrainingJob):
        return job.status.end_time
    found = _condition(job.status.conditions, "Completed")
    return found.last_transition_time if found is not None else None


def _marked(known: Sequence[Mark], found: Iterable[Mark]) -> tuple[Mark, ...]:
    new = [mark for mark in found if mark not in known]
    # A job is suspended and resumed in turn; a condition of before the record says nothing new.
    is_resumable = any(mark.name == lives.SUSPENDED for mark in [*known, *new])
    new = [mark for mark in new if mark.name != lives.RESUMED or is_resumable]
    return bounded(sorted([*known, *new], key=lambda mark: mark.at), MARKS_MAX)


def _progress(
    known: Sequence[ProgressSample], training: TrainingStatus | None
) -> tuple[ProgressSample, ...]:
    at = seconds(training.reported_at) if training is not None else None
    if training is None or at is None or (known and known[-1].at >= at):
        return tuple(known)
    new = ProgressSample(
        at,
        training.step,
        training.samples,
        _number(training.loss),
        _number(training.rate),
        training.size,
    )
    return thinned([*known, new], SAMPLES_MAX)


def _shapes(life: JobLife, job: AITrainingJob, firsts: Mapping[str, int]) -> dict[str, RoleShape]:
    shapes = {}
    for name, spec in job.spec.replica_specs.items():
        role = name.lower()
        known = life.roles.get(role)
        target = job.status.target_replicas.get(role, spec.size)
        first = firsts.get(role, target) if known is None or not life.sizes else known.first
        try:
            amounts = template_requests(spec.template)
        except (msgspec.ValidationError, QuantityError):
            amounts = {}  # the operator has refused such a template; nothing of it ever ran
        shapes[role] = _shape(spec.minimum, spec.maximum, first, amounts)
    return shapes


def _training_job_shapes(job: TrainingJob) -> dict[str, RoleShape]:
    roles = {"trainer": job.spec.trainer}
    if job.spec.has_pservers:
        roles |= {"pserver": job.spec.pserver}
    if job.spec.fault_tolerant:
        roles |= {"master": job.spec.master}
    shapes = {}
    for name, spec in roles.items():
        stated = {**spec.resources.limits, **spec.resources.requests}
        try:
            amounts = {one: parse(raw) for one, raw in stated.items()}
        except QuantityError:
            amounts = {}
        shapes[name] = _shape(spec.minimum, spec.maximum, spec.minimum, amounts)
    return shapes


def _shape(minimum: int, maximum: int, first: int, amounts: Mapping[str, Quantity]) -> RoleShape:
    gpus = sum(one.value() for name, one in amounts.items() if name.endswith(GPU_SUFFIX))
    cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
    return RoleShape(
        minimum,
        maximum,
        first,
        cpu.milli_value() if cpu is not None else 0,
        memory.value() if memory is not None else 0,
        gpus,
    )


def _loss_reason(conditions: Iterable[Condition]) -> str:
    lost = _condition(conditions, "Disrupted")
    return lost.reason if lost is not None and lost.status == "True" else ""


def _is_over(condition: Condition) -> bool:
    return condition.status == "False"


def _condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((one for one in conditions if one.type == kind), None)


def _user(job: HistoryJob) -> str:
    named = job.metadata.annotations.get(SUBMITTED_BY, "")
    return named or (job.spec.annotations.userid if isinstance(job, TrainingJob) else "")


def _labels(meta: ObjectMeta) -> dict[str, str]:
    return dict(sorted(meta.labels.items())[:LABELS_MAX])


def _small(spec: Body) -> Body:
    return spec if len(encode(spec)) <= SPEC_BYTES_MAX else {}


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def seconds(text: str | None) -> float | None:
    """Returns a timestamp in seconds; None for one that is missing or is none."""
    try:
        return parse_time(text) if text else None
    except (ValueError, OverflowError):
        return None
