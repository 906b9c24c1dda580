"""The object that an explanation is about, and the PodGroup it is scheduled by. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    EdlPolicy,
    ReplicaSpec,
    StartEstimate,
)
from swell.api.meta import Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import FINAL_PHASES as TRAINING_FINAL
from swell.api.trainingjob import TrainingJob, TrainingJobPhase
from swell.outlook.starts import estimate_of
from swell.scheduler.model.native_groups import native_group_of, native_job_name
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.ungrouped import virtual_group_name


class RoleSize(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The target and the bounds of an elastic role, and its last resize."""

    role: str
    target: int
    minimum: int
    maximum: int
    policy: str
    resized: str = ""


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """The object to explain, reduced to what the report shows, and the key of its PodGroup."""

    kind: str
    key: Key
    group: Key
    phase: str = ""
    message: str = ""
    is_final: bool = False
    since: str | None = None  # when it was created, or when it ended if it has
    sizes: tuple[RoleSize, ...] = ()
    start: StartEstimate | None = None  # of a job that waits
    held: str = ""  # why a job asks for no room yet, if it does not


def of_group(group: PodGroup) -> ExplainTarget:
    meta = group.metadata
    phase = group.status.phase.value
    return ExplainTarget(group.kind, meta.key, meta.key, phase, since=meta.creation_timestamp)


def of_native_group(group: NativeGroup) -> ExplainTarget:
    meta = group.metadata
    name = Key(meta.namespace, native_job_name(meta.name))
    return ExplainTarget(group.kind, meta.key, name, since=meta.creation_timestamp)


def of_job(job: AITrainingJob) -> ExplainTarget:
    # The operator gives the PodGroup the name of its job.
    status, key = job.status, job.metadata.key
    is_final = status.phase in FINAL_PHASES
    since = status.end_time if is_final else job.metadata.creation_timestamp
    sizes = tuple(
        _size_of(job, name.lower(), spec)
        for name, spec in sorted(job.spec.replica_specs.items())
        if spec.is_elastic
    )
    phase, start = status.phase.value, estimate_of(job)
    held = _suspended(job)
    if not held and status.reason in _AFTER_OTHERS:
        held = status.message
    return ExplainTarget(
        job.kind, key, key, phase, status.message, is_final, since, sizes, start, held
    )


# The reasons of a job that waits for others to succeed.
_AFTER_OTHERS = frozenset({"WaitingForJobs", "DependencyFailed"})


def _suspended(job: AITrainingJob | TrainingJob) -> str:
    if job.status.suspension is None and not job.wants_suspension:
        return ""
    if isinstance(job, AITrainingJob) and (text := _yielded(job)):
        return text
    if job.wants_suspension:
        return f"is suspended; let it queue anew: swell resume {job.metadata.name}"
    return "is resumed, and queues anew when its pods of before are gone"


def _yielded(job: AITrainingJob) -> str:
    record = job.status.yielded
    if record is None or not job.yields or job.is_suspended_by_spec:
        return ""
    return (
        f"has given its devices to others until {record.until} at the latest ({record.reason});"
        f" go on now, and never again: swell resume {job.metadata.name}"
    )


def _size_of(job: AITrainingJob, role: str, spec: ReplicaSpec) -> RoleSize:
    last = next((r for r in reversed(job.status.scale_records) if r.role == role), None)
    for_ = f" for {last.for_}" if last and last.for_ else ""
    return RoleSize(
        role=role,
        target=job.status.target_replicas.get(role, spec.size),
        minimum=spec.minimum,
        maximum=spec.maximum,
        policy=spec.edl_policy.value,
        resized=f"from {last.from_} to {last.to} by the {last.by.value}{for_}" if last else "",
    )


def of_training_job(job: TrainingJob) -> ExplainTarget:
    status, key = job.status, job.metadata.key
    group = Key(key.namespace, job.spec.pod_group_name or key.name)
    is_final = status.phase in TRAINING_FINAL
    since = job.metadata.creation_timestamp
    sizes = (_trainer_size(job),) if job.spec.is_elastic else ()
    phase, held = status.phase.value, _suspended(job)
    if not held and _waits_for_others(job):
        held = status.reason
    return ExplainTarget(
        job.kind, key, group, phase, status.reason, is_final, since, sizes, held=held
    )


def _waits_for_others(job: TrainingJob) -> bool:
    known, succeeded = job.status.dependencies, TrainingJobPhase.SUCCEED.value
    is_open = any(known.get(name) != succeeded for name in job.spec.after)
    return is_open and job.status.start_time is None


def _trainer_size(job: TrainingJob) -> RoleSize:
    spec, target = job.spec, job.status.trainer_target
    last = job.status.scale_records[-1] if job.status.scale_records else None
    return RoleSize(
        role="trainer",
        target=spec.trainer_minimum if target is None else target,
        minimum=spec.trainer_minimum,
        maximum=spec.trainer_maximum,
        policy=(EdlPolicy.AUTO if spec.scaled_trainers is None else EdlPolicy.MANUAL).value,
        resized=f"from {last.from_} to {last.to} by the {last.by}" if last else "",
    )


def of_pod(pod: Pod) -> ExplainTarget:
    meta = pod.metadata
    native = native_group_of(pod)
    own = native_job_name(native) if native else virtual_group_name(pod)
    name = meta.annotations.get(GROUP_ANNOTATION) or own
    group = Key(meta.namespace, name)
    since = meta.creation_timestamp
    return ExplainTarget(
        "Pod", meta.key, group, pod.status.phase.value, pod.status.message, since=since
    )
