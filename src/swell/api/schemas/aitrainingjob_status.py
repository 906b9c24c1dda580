"""The schema of AITrainingJob's status: what is not in here would be pruned by the API server."""

from __future__ import annotations

from swell.api.aitrainingjob import Phase, ResizeAuthor, RestartScope
from swell.api.schemas.model import (
    INT64_MAX,
    Schema,
    choice,
    integer,
    listing,
    mapping,
    moment,
    table,
    text,
)
from swell.api.schemas.shared import CONDITIONS, MESSAGE_SIZE_MAX

ROLES_MAX = 16
RECORDS_MAX = 20  # of phases, resizes and avoided nodes
INDEXES_MAX = 100_000

_COUNT = integer(maximum=INT64_MAX)
_COUNT_BY_ROLE = mapping(_COUNT, size_max=ROLES_MAX)
_REASON = text(size_max=1024)
_MESSAGE = text(size_max=MESSAGE_SIZE_MAX)

_REPLICA_STATUS = table(
    {
        "pending": _COUNT,
        "scheduled": _COUNT,
        "active": _COUNT,
        "succeeded": _COUNT,
        "restarting": _COUNT,
        "failed": _COUNT,
    }
)
_PHASE_RECORD = table({"phase": choice(Phase), "time": moment(), "message": _MESSAGE})
_SCALE_RECORD = table(
    {
        "time": moment(),
        "role": text(),
        "from": integer(),
        "to": integer(),
        "by": choice(ResizeAuthor),
        "reason": _REASON,
        "for": text(size_max=512),
    }
)
_RESTART = table(
    {
        "scope": choice(RestartScope),
        "role": text(),
        "indexes": listing(_COUNT, size_max=INDEXES_MAX),
        "counts": _COUNT_BY_ROLE,
        "startedAt": moment(),
        "notBefore": moment(),
    },
    description="The restart under way, if there is one.",
)
_ENDING = table(
    {"phase": choice(Phase), "reason": _REASON, "message": _MESSAGE, "decidedAt": moment()},
    description="How the job will end, once that is decided.",
)
_AVOIDED_NODE = table({"name": text(), "until": moment(), "reason": _REASON})


def job_status() -> Schema:
    return table(
        {
            "phase": choice(Phase),
            "reason": _REASON,
            "message": _MESSAGE,
            "ready": text("Active pods of those wanted."),
            "restarts": _COUNT,
            "conditions": CONDITIONS,
            "phaseHistory": listing(_PHASE_RECORD, size_max=RECORDS_MAX),
            "replicaStatuses": mapping(_REPLICA_STATUS, size_max=ROLES_MAX),
            "targetReplicas": _COUNT_BY_ROLE,
            "scaleRecords": listing(_SCALE_RECORD, size_max=RECORDS_MAX),
            "restartCounts": _COUNT_BY_ROLE,
            "restart": _RESTART,
            "lastRestartTime": mapping(moment(), size_max=ROLES_MAX),
            "uncharged": _COUNT_BY_ROLE,
            "backoff": _COUNT_BY_ROLE,
            "ending": _ENDING,
            "epoch": _COUNT,
            "avoidNodes": listing(_AVOIDED_NODE, size_max=RECORDS_MAX),
            "startTime": moment(),
            "startRunningTime": moment(),
            "endTime": moment(),
            "lastReconcileTime": moment(),
            "observedGeneration": _COUNT,
        },
        is_atomic=True,
    )
