"""A job that cannot be read: say so on it, and take it down when it is deleted. Nothing else."""

from __future__ import annotations

import msgspec

from swell.api.aitrainingjob import AITrainingJob, Phase
from swell.api.codec import convert
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import ObjectMeta
from swell.api.times import format_time
from swell.operator.lifecycle import cleanup
from swell.operator.lifecycle.reasons import Reason
from swell.operator.lifecycle.world import World
from swell.runtime.cluster import Malformed
from swell.runtime.plan import PatchStatus, Plan


def husk(found: Malformed) -> AITrainingJob:
    """What is left of a job that cannot be read: its metadata, or at least its identity."""
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
    return AITrainingJob(metadata=meta)


def decide_malformed(found: Malformed, world: World, now: float) -> Plan:
    """The plan for a job of which only the metadata makes sense."""
    meta = world.job.metadata
    if meta.deletion_timestamp is not None:
        return cleanup.plan_deletion(world, now)
    status = found.body.get("status")
    if isinstance(status, dict) and status.get("phase") == Phase.FAILED.value:
        return Plan()
    at = format_time(now)
    message = f"the job cannot be read: {found.error}"
    body = {
        "phase": Phase.FAILED.value,
        "reason": Reason.INVALID.value,
        "message": message,
        "endTime": at,
        "observedGeneration": meta.generation,
        "ending": {
            "phase": Phase.FAILED.value,
            "reason": Reason.INVALID.value,
            "message": message,
            "decidedAt": at,
        },
    }
    return Plan((PatchStatus(AI_TRAINING_JOBS, meta.key, meta.resource_version, body),))
