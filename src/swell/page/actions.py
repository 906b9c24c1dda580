"""The actions of users on jobs, as patches. Pure: the API server decides who may.

They are those of `swell scale`, `stop`, `suspend` and `resume`.
"""

from __future__ import annotations

from swell.api.aitrainingjob import STOPPED_ANNOTATION, AITrainingJob, EdlPolicy
from swell.api.meta import Body
from swell.api.trainingjob import TrainingJob

STOPPED = "stopped from the page"


class ActionError(ValueError):
    """An action that makes no sense for this object; the text says why."""


def job_patch(job: AITrainingJob | TrainingJob, action: str, arguments: Body) -> Body:
    """Returns the merge patch for an action on a job; raises ActionError if there is none."""
    if action == "stop":
        return {"metadata": {"annotations": {STOPPED_ANNOTATION: STOPPED}}}
    if not isinstance(job, AITrainingJob):
        raise ActionError(f"a TrainingJob cannot {action}")
    if action in {"suspend", "resume"}:
        return {"spec": {"suspend": action == "suspend"}}
    if action == "scale":
        return _scaled(job, str(arguments.get("role", "")), arguments.get("size"))
    raise ActionError(f"there is no action {action!r}")


def _scaled(job: AITrainingJob, role: str, size: object) -> Body:
    spec = job.spec.replica_specs.get(role)
    if spec is None:
        raise ActionError(f"{job.metadata.name} has no role {role!r}")
    if spec.edl_policy is not EdlPolicy.MANUAL:
        raise ActionError(f"the size of {role} is not yours to set: its edlPolicy is not Manual")
    if not isinstance(size, int) or isinstance(size, bool):
        raise ActionError("the size must be a whole number")
    if not spec.minimum <= size <= spec.maximum:
        raise ActionError(f"{role} has {spec.minimum} to {spec.maximum} replicas, not {size}")
    return {"spec": {"replicaSpecs": {role: {"replicas": size}}}}
