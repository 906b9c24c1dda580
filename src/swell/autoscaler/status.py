"""How a decided size is written: one conditional patch of a job's status, and an event. Pure.

A decision is written on the very version of the job it was made from, or not at all: whoever
changed the job meanwhile has changed what the decision was about.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.aitrainingjob import AITrainingJob, ResizeAuthor, ScaleRecord
from swell.api.codec import to_body
from swell.api.core import EventSeverity
from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.api.times import format_time
from swell.api.trainingjob import TrainerScaleRecord, TrainingJob
from swell.autoscaler.job_views import AnyJob
from swell.autoscaler.policies.interface import RoleTarget
from swell.runtime.plan import EmitEvent, PatchStatus, Plan

RECORDS_MAX = 20


@dataclass(frozen=True, slots=True)
class SizeProposal:
    """A new size for one role, when it was decided and for which version of the job.

    Its record tells that time, not when it was written: the cool-down was judged by it, and the
    wall clock may be set between the two.
    """

    version: str
    role: str
    target: RoleTarget
    at: float


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A job as it is, and what is proposed for it."""

    job: AnyJob
    proposal: SizeProposal | None


def decide_write(change: SizeChange, _: float) -> Plan:
    """The patch that makes a proposal true, if the job is still what it was made for."""
    job, proposal = change.job, change.proposal
    if proposal is None or job.metadata.resource_version != proposal.version:
        return Plan()
    resource: Resource[object] = AI_TRAINING_JOBS
    if isinstance(job, TrainingJob):
        resource = TRAINING_JOBS
        status = _trainer_status(job, proposal)
    else:
        status = _role_status(job, proposal)
    target, meta = proposal.target, job.metadata
    verb = "grows" if target.delta > 0 else "shrinks"
    message = f"{proposal.role} {verb} from {target.current} to {target.target}: {target.message}"
    return Plan(
        (
            PatchStatus(resource, meta.key, proposal.version, status),
            EmitEvent(
                resource, meta.key, meta.uid, EventSeverity.NORMAL, target.reason.value, message
            ),
        ),
        reasons=(message,),
    )


def may_resize(job: AnyJob, role: str) -> bool:
    """Whether the job itself has nothing against another size of a role.

    The first target is the operator's to write. And what its status says of pods that succeeded
    may be newer than what is known of the pods.
    """
    counts = job.status.replica_statuses.get(role)
    if counts is not None and counts.succeeded:
        return False
    if isinstance(job, TrainingJob):
        return job.status.trainer_target is not None
    return role in job.status.target_replicas


def _role_status(job: AITrainingJob, proposal: SizeProposal) -> Body:
    target = proposal.target
    record = ScaleRecord(
        time=format_time(proposal.at),
        role=proposal.role,
        from_=target.current,
        to=target.target,
        by=ResizeAuthor.AUTOSCALER,
        reason=target.message,
        for_=target.for_group,
    )
    records = (*job.status.scale_records, record)[-RECORDS_MAX:]
    return {
        "targetReplicas": {proposal.role: target.target},
        "scaleRecords": [to_body(one) for one in records],
    }


def _trainer_status(job: TrainingJob, proposal: SizeProposal) -> Body:
    target = proposal.target
    record = TrainerScaleRecord(
        time=format_time(proposal.at),
        from_=target.current,
        to=target.target,
        by=ResizeAuthor.AUTOSCALER.value,
        reason=target.message,
    )
    records = (*job.status.scale_records, record)[-RECORDS_MAX:]
    return {
        "trainer_target": target.target,
        "scale_records": [to_body(one) for one in records],
    }
