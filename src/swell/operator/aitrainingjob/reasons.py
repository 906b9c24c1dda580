"""Why a job is in the phase it is in, and why its pods go: one list for status, events and docs."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """Stable names; scripts and alerts rely on them."""

    # Why a job ended.
    ROLES_COMPLETED = "RolesCompleted"
    ROLES_FAILED = "RolesFailed"
    NODE_LOST = "NodeLost"
    GPU_FAULT = "GPUFault"
    CREATION_FAILED = "ContainerCreationFailed"
    TIME_LIMIT = "TimeLimitExceeded"
    ANNOTATED = "EndedByAnnotation"
    INVALID = "InvalidSpec"
    # Why pods are restarted, beside the above.
    POD_FAILED = "PodFailed"
    POD_GONE = "PodGone"
    # Why a job waits.
    REFUSED = "ObjectRefused"
    WAITING_FOR_ROOM = "WaitingForRoom"
    CONTAINERS_STARTING = "ContainersStarting"
    # What people should know.
    RESIZED = "Resized"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    GANG_NOT_SERVED = "GangNotServed"


REASON_TEXT: dict[Reason, str] = {
    Reason.ROLES_COMPLETED: "the roles that the complete policy asks for have succeeded",
    Reason.ROLES_FAILED: "the roles that the fail policy asks for have failed for good",
    Reason.NODE_LOST: "a node is gone or not ready, and its pods may not be restarted (again)",
    Reason.GPU_FAULT: "a node reports a broken accelerator that a pod of the job uses",
    Reason.CREATION_FAILED: "a container cannot be created",
    Reason.TIME_LIMIT: "the job ran for longer than its timeLimit",
    Reason.ANNOTATED: "somebody ended the job by an annotation",
    Reason.INVALID: "the spec breaks rules; all of them are in the message",
    Reason.POD_FAILED: "a container of the pod failed",
    Reason.POD_GONE: "the pod was deleted, evicted or preempted by somebody else",
    Reason.REFUSED: "the API server does not accept a pod or another object of the job",
    Reason.WAITING_FOR_ROOM: "pods of the job are not scheduled yet",
    Reason.CONTAINERS_STARTING: "pods are scheduled, containers are not all started",
    Reason.RESIZED: "the size of a role changed",
    Reason.PRIORITY_CLASS_MISSING: "the PriorityClass the job names does not exist",
    Reason.GANG_NOT_SERVED: "the cluster has no PodGroup kind; pods are scheduled one by one",
}

# Why a restart may begin; events and metrics name these.
RESTART_REASONS = frozenset(
    {
        Reason.NODE_LOST,
        Reason.GPU_FAULT,
        Reason.POD_FAILED,
        Reason.CREATION_FAILED,
        Reason.POD_GONE,
    }
)
