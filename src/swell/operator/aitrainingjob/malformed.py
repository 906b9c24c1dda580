"""A job that cannot be read: say so on it, and take down what it owns."""

from __future__ import annotations

import msgspec

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob, AITrainingJobPhase, Ending
from swell.api.codec import convert, to_body
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import ObjectMeta
from swell.api.times import format_time
from swell.operator.aitrainingjob import cleanup
from swell.operator.aitrainingjob.endings import MESSAGE_MAX
from swell.operator.aitrainingjob.reasons import Reason
from swell.operator.aitrainingjob.world import World
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
    at = format_time(now)
    message = f"the job cannot be read: {found.error}"[:MESSAGE_MAX]
    ending = Ending(
        phase=AITrainingJobPhase.FAILED, reason=Reason.INVALID.value, message=message, decided_at=at
    )
    acts = cleanup.together(cleanup.end_actions(world, ending, now))
    if _is_over(found):
        return Plan(acts)
    body = {
        "phase": AITrainingJobPhase.FAILED.value,
        "reason": Reason.INVALID.value,
        "message": message,
        "endTime": at,
        "observedGeneration": meta.generation,
        "ending": to_body(ending),
    }
    record = PatchStatus(AI_TRAINING_JOBS, meta.key, meta.resource_version, body)
    return Plan((record, *acts), reasons=(Reason.INVALID.value,))


def _is_over(found: Malformed) -> bool:
    status = found.body.get("status")
    return isinstance(status, dict) and status.get("phase") in {
        phase.value for phase in FINAL_PHASES
    }
