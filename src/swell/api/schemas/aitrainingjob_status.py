"""The schema of an AITrainingJob's status.

The API server prunes fields of the status that are not described here.
"""

from __future__ import annotations

from swell.api.aitrainingjob import RECORDS_MAX, AITrainingJobPhase, ResizeAuthor, RestartScope
from swell.api.schemas.model import (
    INT64_MAX,
    Schema,
    boolean,
    choice,
    integer,
    listing,
    mapping,
    moment,
    table,
    text,
)
from swell.api.schemas.shared import CONDITIONS, MESSAGE_SIZE_MAX
from swell.api.schemas.training import DEPENDENCIES, SCALE_STATUS, SUSPENSION, training_status

ROLES_MAX = 16
INDEXES_MAX = 100_000


def _count(description: str) -> Schema:
    return integer(description, maximum=INT64_MAX)


def _by_role(description: str) -> Schema:
    return mapping(integer(maximum=INT64_MAX), size_max=ROLES_MAX, description=description)


_REASON = text("Why, as one word for programs.", size_max=1024)
_MESSAGE = text("Why, as a sentence for people.", size_max=MESSAGE_SIZE_MAX)

_REPLICA_STATUS = table(
    {
        "pending": _count("Pods that have no node yet."),
        "scheduled": _count("Pods that have a node, and whose containers do not all run yet."),
        "active": _count("Pods whose containers run."),
        "succeeded": _count("Pods that have succeeded."),
        "restarting": _count("Pods that are being replaced."),
        "failed": _count("Pods that have failed."),
    }
)
_YIELDED = table(
    {
        "since": moment("When the autoscaler decided so."),
        "until": moment("When the job queues anew at the latest."),
        "reason": _MESSAGE,
    },
    description="Present while the job has given its devices to others: it is suspended meanwhile.",
)
_PHASE_RECORD = table(
    {
        "phase": choice(AITrainingJobPhase, "The phase that was entered."),
        "time": moment("When it was entered."),
        "message": _MESSAGE,
        "reason": _REASON,
    }
)
_SCALE_RECORD = table(
    {
        "time": moment("When the target changed."),
        "role": text("The role."),
        "from": integer("Its target before."),
        "to": integer("Its target after."),
        "by": choice(ResizeAuthor, "The component or person that changed it."),
        "reason": _REASON,
        "for": text("The group that was to get the room, if there was one.", size_max=512),
    }
)
_RESTART = table(
    {
        "scope": choice(RestartScope, "How much is restarted."),
        "role": text("The role that is restarted, unless it is the whole job."),
        "indexes": listing(
            integer(maximum=INT64_MAX),
            size_max=INDEXES_MAX,
            description="The pods of the role that are restarted, unless it is all of them.",
        ),
        "counts": _by_role("The restart count that new pods carry, by role."),
        "startedAt": moment("When the restart was decided."),
        "notBefore": moment("The back-off: no new pod is created before."),
    },
    description="The restart under way, if there is one.",
)
_ENDING = table(
    {
        "phase": choice(AITrainingJobPhase, "The phase in which it will end."),
        "reason": _REASON,
        "message": _MESSAGE,
        "decidedAt": moment("When that was decided."),
    },
    description="How the job will end, once that is decided.",
)
_RECLAIMABLE = table(
    {"name": text("The role."), "count": _count("Pods that have succeeded.")},
    required=("name", "count"),
)
_AVOIDED_NODE = table(
    {
        "name": text("The node."),
        "until": moment("When it may be used again."),
        "reason": _REASON,
    }
)
_NODE_FAULT = table(
    {
        "node": text("The node."),
        "time": moment("When the failure was seen."),
        "reason": _REASON,
        "message": _MESSAGE,
        "blamed": boolean("Whether it is the node's; if not, the next one of its kind is."),
    }
)
_START_ESTIMATE = table(
    {
        "estimatedAt": moment("When this was estimated."),
        "p10": moment("One in ten such jobs starts earlier."),
        "p50": moment("Half of such jobs start earlier."),
        "p90": moment("Nine in ten such jobs start earlier."),
        "dependsOn": text("A running job of unknown end.", size_max=512),
    },
    description="When the job will start, while it waits; unknown where it is missing.",
)


def job_status() -> Schema:
    return table(
        {
            "phase": choice(AITrainingJobPhase, "Where the job is in its life; derived."),
            "reason": _REASON,
            "message": _MESSAGE,
            "ready": text("Active pods of those wanted."),
            "restarts": _count("Restarts of all roles together."),
            "conditions": CONDITIONS,
            "phaseHistory": listing(
                _PHASE_RECORD, size_max=RECORDS_MAX, description="The last phases, oldest first."
            ),
            "replicaStatuses": mapping(
                _REPLICA_STATUS, size_max=ROLES_MAX, description="Counts of pods, by role."
            ),
            "reclaimablePods": listing(
                _RECLAIMABLE,
                size_max=ROLES_MAX,
                map_keys=("name",),
                description="Of jobs that Kueue admits: pods that need their quota no more.",
            ),
            "targetReplicas": _by_role("The size that a role is to have now."),
            "scaleRecords": listing(
                _SCALE_RECORD, size_max=RECORDS_MAX, description="The last resizes, oldest first."
            ),
            "scale": SCALE_STATUS,
            **_restarts(),
            **_pauses(),
            "ending": _ENDING,
            "dependencies": DEPENDENCIES,
            "epoch": _count("Grows with every restart and resize."),
            "gangNumber": _count("Native PodGroups that have replaced the first one."),
            "retryGangs": _count("Native PodGroups for pods that came again after others ended."),
            "training": training_status(),
            "startEstimate": _START_ESTIMATE,
            "startTime": moment("When the job was accepted, and not suspended."),
            "startRunningTime": moment("When it first ran."),
            "endTime": moment("When it was over."),
            "lastReconcileTime": moment("When this status was last written."),
            "observedGeneration": _count("The generation of the spec that this status is about."),
        },
        is_atomic=True,
        description="What the operator, the scheduler and the autoscaler have recorded.",
    )


def _restarts() -> dict[str, Schema]:
    return {
        "restartCounts": _by_role("All restarts."),
        "restart": _RESTART,
        "lastRestartTime": mapping(
            moment(), size_max=ROLES_MAX, description="When the last restart began, by role."
        ),
        "uncharged": _by_role("Restarts that restartLimit does not count."),
        "creationRestarts": _by_role(
            "Replacements of pods that could not be created, since the job last ran."
        ),
        "backoff": _by_role("Restarts since the last ten calm minutes."),
        "avoidNodes": listing(
            _AVOIDED_NODE,
            size_max=RECORDS_MAX,
            description="Nodes with a broken accelerator, which new pods do not use.",
        ),
        "nodeFaults": listing(
            _NODE_FAULT,
            size_max=RECORDS_MAX,
            description="Failures on nodes, which new pods avoid when there are several.",
        ),
    }


def _pauses() -> dict[str, Schema]:
    return {
        "suspension": SUSPENSION,
        "yielded": _YIELDED,
        "preemptions": _count("How often the scheduler has preempted the job."),
        "preemptedEpoch": _count("The last epoch in which it did."),
        "pausedAt": moment("Since when a job that ran has been suspended or queues anew."),
        "pausedSeconds": _count("How long that was before, in all."),
    }
