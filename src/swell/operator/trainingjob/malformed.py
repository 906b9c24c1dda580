"""A TrainingJob that cannot be read: say so on it; what it owns ends as at any other end."""

from __future__ import annotations

import msgspec

from swell.api.codec import convert
from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import ObjectMeta
from swell.api.trainingjob import FINAL_PHASES, TrainingJob, TrainingJobPhase, TrainingJobStatus
from swell.api.validation import validate
from swell.operator.trainingjob.decide import after_the_end
from swell.operator.trainingjob.release import delete_training_job
from swell.operator.trainingjob.status import REASON_MAX
from swell.operator.trainingjob.world import World
from swell.runtime.cluster import Malformed
from swell.runtime.plan import NOTHING, PatchStatus, Plan


def husk(found: Malformed) -> TrainingJob:
    """What is left of a job that cannot be read: its metadata, and its end if it had one."""
    try:
        meta = convert(found.body.get("metadata"), ObjectMeta)
    except msgspec.ValidationError:
        meta = ObjectMeta()
    meta = msgspec.structs.replace(
        meta,
        name=found.key.name,
        namespace=found.key.namespace,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    try:
        status = convert(found.body.get("status", {}), TrainingJobStatus)
    except msgspec.ValidationError:
        status = TrainingJobStatus()
    return TrainingJob(metadata=meta, status=status)


def reconcile_malformed(found: Malformed, world: World, now: float) -> Plan:
    """The plan for a job of which only the metadata makes sense."""
    meta, status = world.job.metadata, world.job.status
    if meta.deletion_timestamp is not None:
        return delete_training_job(world, now)
    if status.released:
        return NOTHING
    if status.phase in FINAL_PHASES:
        return after_the_end(world, now)
    problems = "; ".join(map(str, validate(found.body))) or found.error
    body = {
        "phase": TrainingJobPhase.FAILED.value,
        "reason": f"the job cannot be read: {problems}"[:REASON_MAX],
        "observedGeneration": meta.generation,
    }
    record = PatchStatus(TRAINING_JOBS, meta.key, meta.resource_version, body)
    return Plan((record,), reasons=(TrainingJobPhase.FAILED.value,))
