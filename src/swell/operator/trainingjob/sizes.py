"""The number of trainers: the target, the update that reaches it, its record, and its completion.

Also answers whether everything a job should have is running.
"""

from __future__ import annotations

from msgspec.structs import replace

from swell.api.aitrainingjob import ScaleStatus
from swell.api.kinds import JOBS
from swell.api.meta import Body
from swell.api.pod import PodPhase
from swell.api.times import format_time
from swell.api.trainingjob import TrainerScaleRecord, TrainingJobPhase, TrainingJobStatus
from swell.operator.framework.settings import NATIVE_GANGS
from swell.operator.trainingjob.labels import ROLE_LABELS, Role
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    completed_indexes,
    completion_index,
    failed_indexes,
    is_finished,
    is_running,
)
from swell.runtime.plan import Step, patch_object

RECORDS_MAX = 20  # the limit of the schema
SUCCEEDED, SUPERSEDED, INTERRUPTED = "Succeeded", "Superseded", "Interrupted"
BY_OPERATOR = "operator"
BY_USER = "user"


def target(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> int:
    """How many trainers there should be: the number asked for, within the bounds of the spec."""
    spec = snapshot.job.spec
    asked = _asked(snapshot, status)
    wanted = min(max(asked, spec.trainer_minimum), spec.trainer_maximum)
    if status.phase in _BEFORE and snapshot.gang_api == NATIVE_GANGS and not _is_placed(snapshot):
        # The group does not know roles: with more trainers than must be it might start without
        # its pservers. What has been created once stays.
        held = snapshot.trainer.spec.parallelism if snapshot.trainer is not None else 0
        return min(wanted, max(held, spec.trainer_minimum))
    return wanted


_BEFORE = frozenset({TrainingJobPhase.EMPTY, TrainingJobPhase.CREATING})


def _is_placed(snapshot: TrainingJobSnapshot) -> bool:
    """Whether each role has as many pods with a node as the job needs to start."""
    return all(
        sum(bool(pod.spec.node_name) for pod in snapshot.pods_of(role)) >= n_minimum(snapshot, role)
        for role in snapshot.roles
    )


def n_minimum(snapshot: TrainingJobSnapshot, role: Role) -> int:
    """The number of pods a role starts with; a ReplicaSet keeps it."""
    match role:
        case Role.MASTER:
            return 1
        case Role.PSERVER:
            return snapshot.job.spec.pserver.minimum
        case Role.TRAINER:
            return snapshot.job.spec.trainer_minimum


def with_scale(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    """The status with the target that `spec.scale` asks for, and what its subresource answers."""
    spec = snapshot.job.spec
    if spec.scale is None:
        return replace(status, scale=None)
    asked, held = spec.scaled_trainers, status.trainer_target
    if asked is not None and asked != held:
        if held is not None:
            record = TrainerScaleRecord(
                time=format_time(now), from_=held, to=asked, by=BY_USER, reason=_SCALE_CHANGED
            )
            records = (*_closed(status.scale_records, SUPERSEDED), record)[-RECORDS_MAX:]
            status = replace(status, scale_records=records)
        status = replace(status, trainer_target=asked)
    selector = f"{ROLE_LABELS[Role.TRAINER]}={snapshot.job.metadata.name}"
    return replace(status, scale=ScaleStatus(target(snapshot, status), selector))


_SCALE_CHANGED = "scale.replicas changed"


def must_scale(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> bool:
    """Whether the size of the trainer Job differs from the target."""
    job = snapshot.trainer
    if job is None:
        return False
    wanted = target(snapshot, status)
    return (job.spec.parallelism, job.spec.completions) != (wanted, wanted)


def holds(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> bool:
    """Whether the target is reached: all trainers run, and surplus ones are gone."""
    if snapshot.trainer is None or must_scale(snapshot, status):
        return False
    # An Indexed Job shrinks from its highest indexes.
    below = target(snapshot, status)
    surplus = [
        pod
        for pod in snapshot.trainers
        if not is_finished(pod) and (completion_index(pod) or 0) >= below
    ]
    return not surplus and trainer_total_running(snapshot)


def scale(snapshot: TrainingJobSnapshot, wanted: int) -> list[Step]:
    """Set parallelism and completions to the wanted size in one update.

    Kubernetes lets an Indexed Job change its size in no other way. The version keeps an update
    that arrives late from undoing a later one.
    """
    job = snapshot.trainer
    if job is None or (job.spec.parallelism, job.spec.completions) == (wanted, wanted):
        return []
    meta = job.metadata
    body: Body = {"spec": {"parallelism": wanted, "completions": wanted}}
    return [patch_object(JOBS, meta.key, meta.uid, body, version=meta.resource_version)]


def with_record(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> TrainingJobStatus:
    """The status with a record of the resize, unless its author has written one already."""
    records, asked = status.scale_records, _asked(snapshot, status)
    if snapshot.trainer is None or (records and _is_open(records[-1]) and records[-1].to == asked):
        return status
    record = TrainerScaleRecord(
        time=format_time(now),
        from_=snapshot.trainer.spec.parallelism,
        to=asked,
        by=BY_OPERATOR,
        reason=_why(snapshot, status),
    )
    return replace(status, scale_records=(*_closed(records, SUPERSEDED), record)[-RECORDS_MAX:])


def with_result(status: TrainingJobStatus, result: str) -> TrainingJobStatus:
    """The status with a result for the last resize, if that has none yet."""
    records = status.scale_records
    if not any(map(_is_open, records)):
        return status
    *former, last = records
    closed = (*_closed(tuple(former), SUPERSEDED), *_closed((last,), result))
    return replace(status, scale_records=closed)


def _asked(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> int:
    asked = status.trainer_target
    return snapshot.job.spec.trainer_minimum if asked is None else asked


def _why(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> str:
    asked, wanted = _asked(snapshot, status), target(snapshot, status)
    if asked != wanted:
        return f"trainer_target is {asked}, the spec allows {wanted}"
    return f"trainer_target is {asked}"


def _is_open(record: TrainerScaleRecord) -> bool:
    return not record.result


def _closed(records: tuple[TrainerScaleRecord, ...], result: str) -> tuple[TrainerScaleRecord, ...]:
    return tuple(replace(one, result=result) if _is_open(one) else one for one in records)


def job_total_running(snapshot: TrainingJobSnapshot) -> bool:
    """Whether all pods of every role are running."""
    sets = [role for role in snapshot.roles if role is not Role.TRAINER]
    return all(
        master_role_total_running(snapshot, role) for role in sets
    ) and trainer_total_running(snapshot)


def master_role_total_running(snapshot: TrainingJobSnapshot, role: Role) -> bool:
    """Whether the ReplicaSet of the master or the pservers has all its pods ready."""
    held = snapshot.replica_sets.get(role)
    return held is not None and held.status.ready_replicas >= held.spec.replicas


def trainer_total_running(snapshot: TrainingJobSnapshot) -> bool:
    """Whether as many trainers run or have succeeded as the Job runs in parallel.

    A trainer whose index has failed for good counts too: it will never run again.
    """
    job = snapshot.trainer
    if job is None:
        return False
    below = job.spec.completions or 0
    at_work = {
        completion_index(pod)
        for pod in snapshot.trainers
        if is_running(pod) or pod.status.phase is PodPhase.SUCCEEDED
    }
    settled = at_work | completed_indexes(job) | failed_indexes(job)
    return sum(index is not None and index < below for index in settled) >= job.spec.parallelism
