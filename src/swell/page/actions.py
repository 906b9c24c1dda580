"""The actions of users on jobs and queues, as patches. Pure: the API server decides who may.

They are those of `swell scale`, `stop`, `suspend`, `resume` and `swell queue open` and `close`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swell.api.aitrainingjob import STOPPED_ANNOTATION, AITrainingJob, EdlPolicy
from swell.api.meta import Body
from swell.api.scheduling import Queue, QueueState
from swell.api.trainingjob import TrainingJob
from swell.scheduler.model.queue_rules import (
    CLOSED_BY_PARENT,
    SHUT,
    is_closed_by_parent,
    parent_of,
)

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


@dataclass(frozen=True, slots=True)
class QueuePatch:
    """A merge patch of a queue: of its status, or of the object itself."""

    body: Body
    is_status: bool


def queue_patches(
    queue: Queue, action: str, find: Callable[[str], Queue | None]
) -> list[QueuePatch]:
    """Returns the patches that open or close a queue, in order; raises ActionError for none.

    They are those of `swell queue open` and `close`. A queue that is closed while groups are in it
    is closing until the last of them has gone, which the scheduler sees.
    """
    state = QueueState.OPEN if action == "open" else QueueState.CLOSING
    change = QueuePatch({"status": {"state": state.value}}, is_status=True)
    if action == "open":
        above = parent_of(queue, find)
        if above is not None and above.status.state in SHUT:
            name, shut = queue.metadata.name, above.metadata.name
            raise ActionError(f"queue {name} cannot be open while {shut} above it is closed")
        return [change]
    if action != "close":
        raise ActionError(f"there is no action {action!r}")
    if is_closed_by_parent(queue):
        # Closed by name from now on: it must not open again with its parent.
        own = {"metadata": {"annotations": {CLOSED_BY_PARENT: None}}}
        return [QueuePatch(own, is_status=False), change]
    return [change]
