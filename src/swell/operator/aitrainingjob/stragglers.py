"""The straggler rule: a pod whose steps take much longer than its peers' is named, and moved on
request. Pure.

The training library names the slowest member in its reports. It is a straggler while the ratio to
the median of all was above a limit for enough steps, and until another or no member is the slowest.
The condition `Straggler` says so; its node gets a fault, once for each pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from swell.api.aitrainingjob import (
    RECORDS_MAX,
    AITrainingJobStatus,
    NodeFault,
    StragglerPolicy,
)
from swell.api.meta import Condition
from swell.api.pod import PodPhase
from swell.api.times import format_time, has_passed, parse_time
from swell.operator.aitrainingjob.causes import Cause, CauseKind
from swell.operator.aitrainingjob.phases import JobReason
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica, current
from swell.operator.framework.recovery import sound_time
from swell.operator.framework.status import MESSAGE_MAX, condition, dated

STRAGGLER: Final = "Straggler"  # the condition
NONE_IS: Final = "NoStraggler"
# A replacement costs every member a pause; so long must a role have run since its last restart.
COOLDOWN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Straggler:
    """The pod that the newest report names, and what is said of it."""

    replica: Replica
    is_certain: bool  # slow enough, for long enough
    text: str


def found_straggler(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> Straggler | None:
    """The slowest pod of a job by its newest report; None if the report is not of this pod.

    A report that came before the pod did is of its predecessor.
    """
    received = snapshot.report
    slowest = received.report.slowest if received is not None else None
    if received is None or slowest is None:
        return None
    place = (received.role, slowest.index)
    found = (one for one in current(snapshot, status) if (one.role, one.index) == place)
    replica = next(found, None)
    if replica is None or replica.phase is not PodPhase.RUNNING or replica.is_leaving:
        return None
    created = sound_time(replica.pod.metadata.creation_timestamp)
    if created is None or parse_time(created) >= received.at:
        return None
    settings = snapshot.settings
    is_slow = slowest.ratio > settings.straggler_ratio
    text = (
        f"pod {replica.name} on node {replica.pod.spec.node_name}: its steps take "
        f"{slowest.ratio:.2f} times the median of all, over {slowest.steps} steps"
    )
    return Straggler(replica, is_slow and slowest.steps >= settings.straggler_steps, text)


def with_straggler(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> AITrainingJobStatus:
    """The status with the condition of its straggler, and with a fault of the node of a new one."""
    former = next((one for one in status.conditions if one.type == STRAGGLER), None)
    if snapshot.report is None:
        return status  # nothing is known now
    found = found_straggler(snapshot, status)
    is_same = found is not None and former is not None and _is_about(former, found.replica)
    if found is not None and (found.is_certain or (is_same and _holds(former))):
        if is_same and _holds(former):
            return status  # its numbers alone have changed
        new = condition(STRAGGLER, True, JobReason.STRAGGLER.value, found.text[:MESSAGE_MAX])
        status = _with_fault(status, found, now)
    elif _holds(former):
        new = condition(STRAGGLER, False, NONE_IS, "no member is much slower than the others")
    else:
        return status
    others = [one for one in status.conditions if one.type != STRAGGLER]
    said = dated(new, status.conditions, format_time(now))
    return replace(status, conditions=(*others, said))


def straggler_condition(status: AITrainingJobStatus) -> Condition | None:
    return next((one for one in status.conditions if one.type == STRAGGLER), None)


def straggler_cause(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, now: float
) -> Iterator[Cause]:
    """The cause to move a straggler, where the job wants that and has somewhere to move it to."""
    if snapshot.job.spec.straggler_policy is not StragglerPolicy.REPLACE:
        return
    found = found_straggler(snapshot, status)
    if found is None or not found.is_certain or status.restart is not None:
        return
    replica = found.replica
    last = status.last_restart_time.get(replica.role)
    is_settled = last is None or has_passed(parse_time(last), COOLDOWN_S, now)
    if is_settled and replica.role in snapshot.has_alternative:
        node = replica.pod.spec.node_name
        yield Cause(
            CauseKind.STRAGGLER,
            replica.role,
            replica.index,
            JobReason.STRAGGLER,
            found.text,
            True,
            node=node,
        )


def _holds(one: Condition | None) -> bool:
    return one is not None and one.status == "True"


def _is_about(held: Condition, replica: Replica) -> bool:
    """Whether a condition names this pod where it is now."""
    return held.message.startswith(f"pod {replica.name} on node {replica.pod.spec.node_name}:")


def _with_fault(status: AITrainingJobStatus, found: Straggler, now: float) -> AITrainingJobStatus:
    fault = NodeFault(
        node=found.replica.pod.spec.node_name,
        time=format_time(now),
        reason=JobReason.STRAGGLER.value,
        message=found.text,
        blamed=True,
    )
    return replace(status, node_faults=(*status.node_faults, fault)[-RECORDS_MAX:])
