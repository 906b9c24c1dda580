"""A decided size as one conditional patch of a job's status, and an event. Pure.

A decision is written on the version of the job that it was made from, or not at all: after any
other change of the job it has to be made again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from swell.api.aitrainingjob import (
    RECORDS_MAX,
    AITrainingJob,
    ResizeAuthor,
    ScaleRecord,
    StartEstimate,
    Yield,
)
from swell.api.codec import to_body
from swell.api.core import EventSeverity
from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.api.times import format_time
from swell.api.trainingjob import TrainerScaleRecord, TrainingJob
from swell.autoscaler.job_views import MOVE_S, AnyJob
from swell.autoscaler.policies.interface import RoleTarget
from swell.runtime.plan import EmitEvent, PatchStatus, Plan

# What an estimate may lack.
_PERCENTILES = ("p10", "p50", "p90", "dependsOn")


@dataclass(frozen=True, slots=True)
class SizeProposal:
    """A new size for one role, the version of the job it was decided for, and the time.

    The scale record has the time of the decision, not of the write: the cooldown was decided by
    it, and the wall clock may be set between the two. A job that stops for others goes on after
    `stop_s` at the latest.
    """

    version: str
    role: str
    target: RoleTarget
    at: float
    stop_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EstimateProposal:
    """A new estimate of a job's start, or none any more, and the version it was made for."""

    version: str
    estimate: StartEstimate | None


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A job as it is now, the size proposed for one of its roles, and an estimate to write."""

    job: AnyJob
    proposal: SizeProposal | None
    estimate: EstimateProposal | None = None


def decide_write(change: SizeChange, _: float) -> Plan:
    """Returns the patch for a proposal, or nothing if the job has changed since."""
    job, proposal = change.job, change.proposal
    if proposal is None and change.estimate is not None:
        return _estimate_plan(job, change.estimate)
    if proposal is None or job.metadata.resource_version != proposal.version:
        return Plan()
    resource: Resource[object] = AI_TRAINING_JOBS
    if isinstance(job, TrainingJob):
        resource = TRAINING_JOBS
        status = _trainer_status(job, proposal)
    else:
        status = _role_status(job, proposal)
    meta, target = job.metadata, proposal.target
    message = _sentence(proposal)
    return Plan(
        (
            # The version makes the patch conditional; the event follows only if it succeeds.
            PatchStatus(resource, meta.key, proposal.version, status),
            EmitEvent(
                resource, meta.key, meta.uid, EventSeverity.NORMAL, target.reason.value, message
            ),
        ),
        reasons=(message,),
    )


def _sentence(proposal: SizeProposal) -> str:
    target = proposal.target
    if target.stops:
        return f"{proposal.role} gives its {target.current} to others: {target.message}"
    if target.goes_on:
        return f"{proposal.role} goes on with {target.target}: {target.message}"
    if not target.delta:
        return f"{proposal.role} is placed anew with {target.target}: {target.message}"
    verb = "grows" if target.delta > 0 else "shrinks"
    return f"{proposal.role} {verb} from {target.current} to {target.target}: {target.message}"


def _estimate_plan(job: AnyJob, proposal: EstimateProposal) -> Plan:
    if job.metadata.resource_version != proposal.version:
        return Plan()
    found = proposal.estimate
    # A merge patch: percentiles that are not known any more are taken out by name.
    body = None if found is None else {**dict.fromkeys(_PERCENTILES), **to_body(found)}
    status: Body = {"startEstimate": body}
    return Plan((PatchStatus(AI_TRAINING_JOBS, job.metadata.key, proposal.version, status),))


def refusal_event(job: AnyJob, role: str, target: RoleTarget) -> EmitEvent:
    """Returns the event that says why a role does not grow."""
    resource: Resource[object] = AI_TRAINING_JOBS
    if isinstance(job, TrainingJob):
        resource = TRAINING_JOBS
    meta = job.metadata
    message = f"{role} stays at {target.target}: {target.message}"
    return EmitEvent(
        resource, meta.key, meta.uid, EventSeverity.NORMAL, target.reason.value, message
    )


def may_resize(job: AnyJob, role: str) -> bool:
    """Whether the status of a job allows another size of a role.

    The operator writes the first target, so a role without one has to wait. A role of which a
    replica succeeded keeps its size; the counts in the status may be newer than our cache of pods.
    """
    counts = job.status.replica_statuses.get(role)
    if counts is not None and counts.succeeded:
        return False
    if isinstance(job, TrainingJob):
        return job.status.trainer_target is not None
    return role in job.status.target_replicas


def has_no_pods(job: AITrainingJob) -> bool:
    """Whether a job that is suspended has lost its last pod, by its own status."""
    counts = job.status.replica_statuses.values()
    n_pods = sum(one.pending + one.scheduled + one.active + one.restarting for one in counts)
    return job.status.suspension is not None and not n_pods


def _role_status(job: AITrainingJob, proposal: SizeProposal) -> Body:
    target = proposal.target
    if target.stops:
        # Not a size: the targets stay, and the operator suspends the job for as long.
        return {"yielded": _yield(proposal, proposal.stop_s)}
    if target.moves:
        sizes = _resized(job, proposal) if target.delta else {}
        return {"yielded": _yield(proposal, MOVE_S), **sizes}
    if target.goes_on:
        held = job.status.target_replicas.get(proposal.role, target.target)
        proposal = replace(proposal, target=replace(target, current=held))
        sizes = {} if held == target.target else _resized(job, proposal)
        return {"yielded": None, **sizes}
    return _resized(job, proposal)


def _yield(proposal: SizeProposal, seconds: float) -> Body:
    since, until = format_time(proposal.at), format_time(proposal.at + seconds)
    return to_body(Yield(since=since, until=until, reason=proposal.target.message))


def _resized(job: AITrainingJob, proposal: SizeProposal) -> Body:
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
        # A merge patch: the targets of other roles stay, lists are replaced as a whole.
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
