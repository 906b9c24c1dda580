"""Reads AITrainingJobs and TrainingJobs into the one form that sizing uses.

A job whose template is malformed cannot be read and has no view: the operator reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import msgspec

from swell.api import aitrainingjob, trainingjob
from swell.api.aitrainingjob import (
    API_GROUP,
    QUEUE_LABEL,
    AITrainingJob,
    EdlPolicy,
    ReplicaSpec,
    RestartPolicy,
)
from swell.api.codec import convert, encode
from swell.api.injection import REPORT_TOKEN_NOTE, TRAINING_NOTE
from swell.api.meta import Body, Key
from swell.api.pod import Container, PodSpec, Toleration
from swell.api.quantity import QuantityError
from swell.api.times import parse_time
from swell.api.training import MANAGER
from swell.api.trainingjob import ROLE_LABELS, RoleSpec, TrainingJob
from swell.autoscaler.goodput.evidence import SpeedEvidence, read_evidence
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.views import (
    TRAINER,
    AutoscalerJob,
    AutoscalerRole,
    JobId,
    JobKind,
    ReplicaTemplate,
    Resize,
)
from swell.scheduler.model.elastic import JOB_LABEL, ROLE_LABEL, last_save
from swell.scheduler.model.unsaved import moment

AnyJob = AITrainingJob | TrainingJob
# A label or annotation that names the program of a job, for what its runs have in common.
PROFILE = f"{API_GROUP}/profile"
_PROFILE_SIZE_MAX = 253
# How long a job that is placed anew is held back: the operator begins its suspension meanwhile, and
# it goes on when the last pod has gone, however long that takes. An operator that is not there for
# so long lets the job be where it is.
MOVE_S = 5.0


def id_of(job: AnyJob) -> JobId:
    kind = JobKind.TRAINING_JOB if isinstance(job, TrainingJob) else JobKind.AI_TRAINING_JOB
    return JobId(job.metadata.namespace, job.metadata.name, kind)


def view_job(job: AnyJob, reader: NeedsReader) -> AutoscalerJob | None:
    """Returns the job as the autoscaler sees it, or None if its templates cannot be read."""
    try:
        if isinstance(job, TrainingJob):
            return _view_training_job(job, reader)
        return _view_ai_training_job(job, reader)
    except (msgspec.ValidationError, QuantityError):
        return None


def _view_ai_training_job(job: AITrainingJob, reader: NeedsReader) -> AutoscalerJob:
    status = job.status
    phase = status.phase
    return AutoscalerJob(
        id=id_of(job),
        uid=job.metadata.uid,
        generation=job.metadata.generation,
        is_live=job.goes_on and job.metadata.deletion_timestamp is None,
        is_waiting=phase
        in {aitrainingjob.AITrainingJobPhase.EMPTY, aitrainingjob.AITrainingJobPhase.PENDING},
        is_creating=False,
        is_running=phase is aitrainingjob.AITrainingJobPhase.RUNNING,
        roles=tuple(
            _view_role(job, name.lower(), spec, status.target_replicas.get(name.lower()), reader)
            # Role names are compared without case, as the operator does.
            for name, spec in sorted(job.spec.replica_specs.items())
        ),
        # The operator names the PodGroup after the job.
        group=job.metadata.key,
        queue=job.spec.queue,
        priority=job.spec.priority,
        created=job.metadata.creation_timestamp or "",
        resizes=tuple(map(_resize, status.scale_records)),
        speed=read_evidence(status.training),
        reports=_reports(job),
        safe_since=last_save(job) or moment(status.start_time or "") or 0.0,
        program=program_of(job),
        shares_profile=bool(_stated_profile(job)),
        running_since=_seconds(status.start_running_time) if status.start_running_time else None,
        time_limit_s=job.spec.time_limit,
        due=moment(job.spec.deadline or ""),
        is_leaving=job.metadata.deletion_timestamp is not None,
        may_yield=_may_yield(job),
        yielded_since=_yielded_since(job),
        is_moving=_is_moving(job),
    )


def _reports(job: AITrainingJob) -> bool:
    """Whether the program of a job is asked for reports, or will be once the job is begun."""
    notes = job.metadata.annotations
    asks = notes.get(TRAINING_NOTE, "").strip().lower() == "true"
    return REPORT_TOKEN_NOTE in notes or bool(job.spec.reporting) or asks


def _may_yield(job: AITrainingJob) -> bool:
    """Whether a job may be stopped for others: it loses nothing by that, and nobody forbids it.

    It saves when it is asked. `suspend: false` says that it is to run, and a job of Kueue holds
    what Kueue has given it, which is not ours to pass on.
    """
    spec, training = job.spec, job.status.training
    is_free = spec.suspend is None and QUEUE_LABEL not in job.metadata.labels
    saves = spec.save_seconds is not None or (training is not None and training.saves)
    return is_free and saves and len(spec.replica_specs) == 1


def _yielded_since(job: AITrainingJob) -> float | None:
    """Returns since when a job has yielded, if nothing else keeps it from going on."""
    status, yielded = job.status, job.status.yielded
    is_over = status.ending is not None or status.phase in aitrainingjob.FINAL_PHASES
    is_leaving = job.metadata.deletion_timestamp is not None
    if yielded is None or is_over or is_leaving or not job.yields or job.is_suspended_by_spec:
        return None
    return None if job.spec.managed_by not in {"", MANAGER} else _seconds(yielded.since)


def _is_moving(job: AITrainingJob) -> bool:
    """Whether a job has stopped only to be placed anew: others are not to take its room."""
    since, yielded = _yielded_since(job), job.status.yielded
    if since is None or yielded is None:
        return False
    return _seconds(yielded.until) - since <= MOVE_S


def program_of(job: AITrainingJob) -> str:
    """Returns a text that runs of one program in one namespace have in common.

    It is the label or annotation `profile`, or else made of all images and command lines.
    """
    meta = job.metadata
    stated = _stated_profile(job)
    if stated:
        return f"{meta.namespace}/{stated[:_PROFILE_SIZE_MAX]}"
    parts = [
        (name.lower(), [(c.get("image"), c.get("command"), c.get("args")) for c in containers])
        for name, spec in sorted(job.spec.replica_specs.items())
        if (containers := _containers(spec.template))
    ]
    return f"{meta.namespace}/{crc32(encode(parts)):08x}"


def shared_report(job: AITrainingJob) -> tuple[str, SpeedEvidence] | None:
    """Returns the program of a job that shares its profile, and what the job has reported."""
    if not _stated_profile(job):
        return None
    evidence = read_evidence(job.status.training)
    return None if evidence is None else (program_of(job), evidence)


def _stated_profile(job: AITrainingJob) -> str:
    meta = job.metadata
    return meta.annotations.get(PROFILE) or meta.labels.get(PROFILE) or ""


def _containers(template: Body) -> list[Body]:
    spec = template.get("spec")
    found = spec.get("containers") if isinstance(spec, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _view_role(
    job: AITrainingJob, name: str, spec: ReplicaSpec, target: int | None, reader: NeedsReader
) -> AutoscalerRole:
    template = convert(spec.template.get("spec") or {}, PodSpec)
    largest = job.largest(spec)
    return AutoscalerRole(
        name=name,
        minimum=spec.minimum,
        maximum=largest,
        target=spec.size if target is None else target,
        gang_minimum=spec.gang_minimum,
        is_auto=spec.edl_policy is EdlPolicy.AUTO and spec.minimum < largest,
        replaces_failed=spec.restart_policy is not RestartPolicy.NEVER,
        is_indexed=True,
        needs=reader.of(template),
        template=ReplicaTemplate(_labels(job, name, spec.template), template),
    )


def _labels(job: AITrainingJob, role: str, template: Body) -> dict[str, str]:
    """Returns the labels of a role's pods, without the index; those of the operator win."""
    meta = template.get("metadata")
    found = meta.get("labels") if isinstance(meta, dict) else None
    stated = found.items() if isinstance(found, dict) else ()
    texts = {name: text for name, text in stated if isinstance(text, str)}
    return {**texts, **job.metadata.labels, JOB_LABEL: job.metadata.name, ROLE_LABEL: role}


def _view_training_job(job: TrainingJob, reader: NeedsReader) -> AutoscalerJob:
    spec, status = job.spec, job.status
    phase = status.phase
    is_over = phase in trainingjob.FINAL_PHASES or status.released
    is_over = is_over or spec.managed_by not in {"", MANAGER}
    is_over = is_over or status.suspension is not None or job.wants_suspension
    return AutoscalerJob(
        id=id_of(job),
        uid=job.metadata.uid,
        generation=job.metadata.generation,
        is_live=not is_over and job.metadata.deletion_timestamp is None,
        is_waiting=phase is trainingjob.TrainingJobPhase.EMPTY,
        is_creating=phase is trainingjob.TrainingJobPhase.CREATING,
        is_running=phase is trainingjob.TrainingJobPhase.RUNNING,
        roles=tuple(_training_roles(job, reader)),
        group=Key(job.metadata.namespace, spec.pod_group_name or job.metadata.name),
        queue="",
        priority=spec.annotations.priority,
        created=job.metadata.creation_timestamp or "",
        resizes=tuple(map(_trainer_resize, status.scale_records)),
        is_leaving=job.metadata.deletion_timestamp is not None,
    )


def _training_roles(job: TrainingJob, reader: NeedsReader) -> Iterator[AutoscalerRole]:
    spec, target = job.spec, job.status.trainer_target
    yield AutoscalerRole(
        name=TRAINER,
        minimum=spec.trainer_minimum,
        maximum=spec.trainer_maximum,
        target=spec.trainer_minimum if target is None else target,
        gang_minimum=spec.trainer_minimum,
        is_auto=spec.is_elastic and spec.scaled_trainers is None,
        replaces_failed=spec.fault_tolerant,
        is_indexed=True,
        needs=reader.of(_pod_spec(spec.trainer)),
        template=_template(job, TRAINER, spec.trainer),
    )
    if spec.has_pservers:
        yield _fixed_role(job, "pserver", spec.pserver, spec.pserver.minimum, reader)
    if spec.fault_tolerant:
        yield _fixed_role(job, "master", spec.master, 1, reader)


def _fixed_role(
    job: TrainingJob, name: str, spec: RoleSpec, size: int, reader: NeedsReader
) -> AutoscalerRole:
    return AutoscalerRole(
        name=name,
        minimum=size,
        maximum=size,
        target=size,
        gang_minimum=size,
        is_auto=False,
        # Pods of a ReplicaSet: always replaced, and without indexes.
        replaces_failed=True,
        is_indexed=False,
        needs=reader.of(_pod_spec(spec)),
        template=_template(job, name, spec),
    )


def _template(job: TrainingJob, role: str, spec: RoleSpec) -> ReplicaTemplate:
    return ReplicaTemplate({ROLE_LABELS[role]: job.metadata.name}, _pod_spec(spec))


def _pod_spec(role: RoleSpec) -> PodSpec:
    return PodSpec(
        containers=(Container(resources=role.resources),),
        node_selector=role.node_selector,
        tolerations=tuple(convert(one, Toleration) for one in role.tolerations),
    )


def _resize(record: aitrainingjob.ScaleRecord) -> Resize:
    return Resize(
        at=_seconds(record.time),
        role=record.role.lower(),
        before=record.from_,
        after=record.to,
        by=record.by.value,
        reason=record.reason,
        for_group=record.for_,
    )


def _trainer_resize(record: trainingjob.TrainerScaleRecord) -> Resize:
    return Resize(
        at=_seconds(record.time),
        role=TRAINER,
        before=record.from_,
        after=record.to,
        by=record.by,
        reason=record.reason,
    )


def _seconds(text: str) -> float:
    """Returns a record's time. One that cannot be parsed counts as long ago."""
    try:
        return parse_time(text)
    except ValueError:
        return 0.0
