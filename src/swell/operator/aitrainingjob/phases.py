"""The phases and reasons of an AITrainingJob: which phase may follow which, and which one holds.

            +------- living: any may follow any other -------+
    ""  --> |   Pending   Creating   Running   Restarting    |
     |      |                  Terminating                   |
     |      +-----------------------|------------------------+
     |                              v  once the pods are gone
     |      +------------------------------------------------+
     +----> |  Succeed  Failed  Timeout  Preempted  NodeFail |
            +------------------------------------------------+

A job that ends before anything was created for it takes the lower arrow at once.
Living phases are not a sequence: between two looks pods come, go and end, and the phase is computed
anew from what there is. Final phases never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobStatus, RestartScope
from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.pod import PodPhase
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    Replica,
    current,
    is_restarting,
)

_ALIVE = frozenset(
    {
        Phase.PENDING,
        Phase.CREATING,
        Phase.RUNNING,
        Phase.RESTARTING,
        Phase.TERMINATING,
    }
)
# The table rules out a job that starts twice, one that ends while its pods may still exist, and
# one that changes after its end.
TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset(
        {
            Phase.PENDING,
            Phase.TERMINATING,
            Phase.FAILED,
            Phase.PREEMPTED,
            Phase.NODE_FAIL,
        }
    ),
    Phase.PENDING: _ALIVE,
    Phase.CREATING: _ALIVE,
    Phase.RUNNING: _ALIVE,
    Phase.RESTARTING: _ALIVE,
    Phase.TERMINATING: _ALIVE | FINAL_PHASES,
    **dict.fromkeys(FINAL_PHASES, frozenset[Phase]()),
}

PHASE_TEXT: Mapping[Phase, str] = {
    Phase.EMPTY: "submitted, not yet seen by the operator",
    Phase.PENDING: "accepted; some required pod is not scheduled, or the job is suspended",
    Phase.CREATING: "every required pod is scheduled, some container is not started",
    Phase.RUNNING: ("every rigid role has all its pods active, every elastic one its minimum"),
    Phase.TERMINATING: "pods are being deleted, for an ending or a restart of a role or the job",
    Phase.RESTARTING: (
        "the old pods of a restart are gone, the new ones are not all active; single pods restart"
    ),
    Phase.SUCCEED: "final: the roles that completePolicy asks for have succeeded",
    Phase.FAILED: "final: failed by failPolicy, by an invalid spec, or by annotation",
    Phase.TIMEOUT: "final: ran for longer than timeLimit",
    Phase.PREEMPTED: "final: by the Preempted annotation, or preempted and not to queue again",
    Phase.NODE_FAIL: ("final: a lost node or a broken accelerator that no restart makes good"),
}


class JobReason(Enum):
    """Why a job is in its phase, and why its pods are deleted: in status, events and metrics.

    The values are stable names; scripts and alerts rely on them.
    """

    # Why a job ended.
    ROLES_COMPLETED = "RolesCompleted"
    ROLES_FAILED = "RolesFailed"
    NODE_LOST = "NodeLost"
    GPU_FAULT = "GPUFault"
    CREATION_FAILED = "ContainerCreationFailed"
    TIME_LIMIT = "TimeLimitExceeded"
    ANNOTATED = "EndedByAnnotation"
    STOPPED = "Stopped"
    INVALID = "InvalidSpec"
    DEPENDENCY_FAILED = "DependencyFailed"
    PREEMPTED = "PreemptedByScheduler"
    # Why pods are restarted, beside the above.
    POD_FAILED = "PodFailed"
    POD_GONE = "PodGone"
    HANG = "Hang"
    STRAGGLER = "Straggler"
    GANG_INCOMPLETE = "GangIncomplete"
    NODES_EXCLUDED = "NodesExcluded"
    # Why a job waits.
    REFUSED = "ObjectRefused"
    WAITING_FOR_ROOM = "WaitingForRoom"
    CONTAINERS_STARTING = "ContainersStarting"
    SUSPENDED = "Suspended"
    YIELDED = "Yielded"
    WAITING_FOR_JOBS = "WaitingForJobs"
    # Events that are no reason of a phase.
    RESIZED = "Resized"
    RESUMED = "Resumed"
    EXPIRED = "Expired"
    DEADLINE_MISSED = "DeadlineMissed"
    MASS_FAILURE = "ManyNodesNotReady"
    MASS_FAILURE_OVER = "NodesAreBackOrLost"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    GANG_NOT_SERVED = "GangNotServed"


REASON_TEXT: dict[JobReason, str] = {
    JobReason.ROLES_COMPLETED: "the roles that the complete policy asks for have succeeded",
    JobReason.ROLES_FAILED: "the roles that the fail policy asks for have failed for good",
    JobReason.NODE_LOST: "a node is gone or not ready, and its pods may not be restarted (again)",
    JobReason.GPU_FAULT: "a node reports a broken accelerator that a pod of the job uses",
    JobReason.CREATION_FAILED: "a container cannot be created",
    JobReason.TIME_LIMIT: "the job ran for longer than its timeLimit",
    JobReason.ANNOTATED: "somebody ended the job by an annotation",
    JobReason.STOPPED: "somebody stopped the job",
    JobReason.INVALID: "the spec breaks rules; all of them are in the message",
    JobReason.POD_FAILED: "a container of the pod failed",
    JobReason.POD_GONE: "the pod was deleted, evicted or preempted by somebody else",
    JobReason.HANG: "a program did no step for hangSeconds; its stacks are in its log",
    JobReason.GANG_INCOMPLETE: "the pod's group cannot have its minimum again; it gets another",
    JobReason.NODES_EXCLUDED: "a pod waits and excludes all nodes that it could use; it comes anew",
    JobReason.STRAGGLER: "the steps of a pod take much longer than those of its peers",
    JobReason.REFUSED: "the API server does not accept a pod or another object of the job",
    JobReason.WAITING_FOR_ROOM: "pods of the job are not scheduled yet",
    JobReason.CONTAINERS_STARTING: "pods are scheduled, containers are not all started",
    JobReason.SUSPENDED: "the job is suspended: it has given back its pods, or is about to",
    JobReason.YIELDED: "the job has given its devices to others for a while, as the policy decided",
    JobReason.RESUMED: "the job is no longer suspended, and queues anew",
    JobReason.WAITING_FOR_JOBS: "jobs that this one comes after have not succeeded yet",
    JobReason.DEPENDENCY_FAILED: "a job that this one comes after has failed or is gone",
    JobReason.PREEMPTED: "the scheduler took its room, and the job may not queue (again)",
    JobReason.DEADLINE_MISSED: "the job is not done at its deadline; it goes on",
    JobReason.EXPIRED: "the job is deleted, as long after its end as it asks for",
    JobReason.MASS_FAILURE: "many nodes are not ready at once: restarts are held for a minute",
    JobReason.MASS_FAILURE_OVER: "restarts are no longer held: nodes are back, or count as lost",
    JobReason.RESIZED: "the size of a role changed",
    JobReason.PRIORITY_CLASS_MISSING: "the PriorityClass the job names does not exist",
    JobReason.GANG_NOT_SERVED: "the cluster has no PodGroup kind; pods are scheduled one by one",
}

# The reasons for which a restart may begin; the events and metrics of restarts carry these.
RESTART_REASONS = frozenset(
    {
        JobReason.NODE_LOST,
        JobReason.GPU_FAULT,
        JobReason.POD_FAILED,
        JobReason.CREATION_FAILED,
        JobReason.POD_GONE,
        JobReason.HANG,
        JobReason.GANG_INCOMPLETE,
        JobReason.NODES_EXCLUDED,
    }
)


def living_phase(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> Phase:
    """The phase of a job that is not ending: the first in this order that holds."""
    is_deleting = any(is_restarting(one, status) for one in snapshot.replicas)
    if is_deleting and status.restart is not None and status.restart.scope is RestartScope.POD:
        # The others go on: an elastic role that keeps its minimum does not stop training.
        is_enough = _enough(snapshot, status, active(snapshot, status))
        return Phase.RUNNING if is_enough else Phase.RESTARTING
    if is_deleting:
        return Phase.TERMINATING
    if status.restart is not None:
        return Phase.RESTARTING
    if _enough(snapshot, status, active(snapshot, status)):
        return Phase.RUNNING
    if _enough(snapshot, status, bound(snapshot, status)):
        return Phase.CREATING
    return Phase.PENDING


def active(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> frozenset[tuple[str, int]]:
    """The replicas that run, or have finished without ending their role."""
    return frozenset(
        (one.role, one.index)
        for one in current(snapshot, status)
        if (one.is_finished and not one.is_released) or _runs(one)
    )


def bound(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> frozenset[tuple[str, int]]:
    """The replicas that have a node."""
    return frozenset(
        (one.role, one.index)
        for one in current(snapshot, status)
        if (one.is_bound and not one.is_leaving) or one.is_finished
    )


def _runs(replica: Replica) -> bool:
    return replica.phase is PodPhase.RUNNING and not replica.is_leaving


def _enough(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    replicas: frozenset[tuple[str, int]],
) -> bool:
    """Whether each rigid role has all its pods among these, each elastic one its minimum."""
    for role, spec in snapshot.roles.items():
        target = status.target_replicas.get(role, 0)
        n_needed = min(spec.minimum, target) if spec.is_elastic else target
        if sum(name == role for name, _ in replicas) < n_needed:
            return False
    return True
