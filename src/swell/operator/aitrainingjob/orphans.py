"""What AITrainingJobs that are gone have left behind.

By UID alone: a namesake of a job that is gone owns none of this.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    JOBS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from swell.api.meta import Uid
from swell.operator.aitrainingjob import labels
from swell.operator.framework.orphans import Labelled, Litter, is_kind
from swell.runtime.plan import DeleteObject


def orphans(found: Sequence[Labelled], jobs: Container[Uid]) -> list[DeleteObject]:
    """Delete what belongs to a job that does not exist."""
    return [
        DeleteObject(one.resource, meta.key, meta.uid)
        for one in found
        if (meta := one.metadata).deletion_timestamp is None
        and meta.labels.get(labels.GROUP_NAME) == labels.GROUP_VALUE
        and (owner := meta.controller) is not None
        and is_kind(owner, AI_TRAINING_JOBS)
        and owner.uid not in jobs
    ]


LITTER = Litter(
    AI_TRAINING_JOBS,
    (PODS, SERVICES, CONFIG_MAPS, REPLICA_SETS, JOBS, POD_GROUPS),
    f"{labels.GROUP_NAME}={labels.GROUP_VALUE}",
    orphans,
    (AI_TRAINING_JOBS,),
)
