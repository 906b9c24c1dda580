"""The status of native groups: conditions only, as kube-scheduler writes them.

A group is scheduled when its minimum has nodes, and this is never taken back. While it waits the
message begins with the reason. A group that was evicted as a whole keeps its condition
`DisruptionTarget` until it is scheduled again; the evictor writes it. Nothing is sent here.
"""

from __future__ import annotations

from swell.api.kinds import NATIVE_GROUPS
from swell.api.meta import Body
from swell.api.native_groups import (
    ERROR_REASON,
    GROUP_SCHEDULED,
    SCHEDULED_REASON,
    UNSCHEDULABLE_REASON,
)
from swell.api.scheduling import PodGroupCondition, PodGroupStatus
from swell.api.wording import count_of
from swell.runtime.plan import PatchStatus
from swell.scheduler.live.evictor import DISRUPTED
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.native_groups import NativeTerms
from swell.scheduler.model.reasons import Refusal, WaitReason

# Reasons for which the fault is not the group's.
_ERRORS = frozenset({WaitReason.UNREADABLE})


def native_conditions(job: JobInfo, refusal: Refusal | None) -> dict[str, PodGroupCondition]:
    """Returns the conditions after a session, by type. Those of other writers stay as they are."""
    conditions = {condition.type: condition for condition in job.group.status.conditions}
    if job.counts.confirmed >= job.min_member:
        pods = count_of(job.min_member, "pod has", "pods have")
        conditions[GROUP_SCHEDULED] = PodGroupCondition(
            type=GROUP_SCHEDULED,
            status="True",
            reason=SCHEDULED_REASON,
            message=f"at least {pods} a node",
        )
        conditions.pop(DISRUPTED, None)
        return conditions
    known = conditions.get(GROUP_SCHEDULED)
    if refusal is not None and (known is None or known.status != "True"):
        conditions[GROUP_SCHEDULED] = PodGroupCondition(
            type=GROUP_SCHEDULED,
            status="False",
            reason=ERROR_REASON if refusal.reason in _ERRORS else UNSCHEDULABLE_REASON,
            message=f"{refusal.reason.value}: {refusal.message}",
        )
    return conditions


def native_write(job: JobInfo, terms: NativeTerms, new: PodGroupStatus) -> PatchStatus:
    """Returns the write of a native group's status: all of its conditions."""
    meta = job.group.metadata
    body: Body = {"conditions": [_body(one, meta.generation) for one in new.conditions]}
    return PatchStatus(NATIVE_GROUPS, terms.key, meta.resource_version, body)


def _body(condition: PodGroupCondition, generation: int) -> Body:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": generation,
    }
