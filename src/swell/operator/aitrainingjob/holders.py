"""A shrink waits while none of the pods that stay is known to hold the state of the training.

The highest indexes leave. If all who hold the state are among them, because those who stay are
still loading, the training would begin at its last checkpoint. So their deletion and the new
membership are put off until the program reports that one who stays is part of the group, at most
for the time that a pod has to save. The target is on record meanwhile: an operator that knows no
report carries it out at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.pod import PodPhase
from swell.api.report import TrainingState
from swell.api.times import format_time, has_passed, parse_time
from swell.api.wording import count_of
from swell.operator.aitrainingjob.membership import Members
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.framework.reports import ReceivedReport

# What a pod has to save, if it does not say so: Kubernetes' default grace period; and at most.
_GRACE_S = 30
SAVE_S_MAX = 120
# An older report says nothing about who is in the group now.
_FRESH_S = 300.0


@dataclass(frozen=True, slots=True)
class WaitingShrink:
    """A role whose shrink waits: the size it keeps meanwhile, and until when."""

    role: str
    size: int
    target: int
    until: float

    @property
    def message(self) -> str:
        kept = count_of(self.size, "pod")
        return (
            f"{self.role} keeps {kept} instead of {self.target} until one that stays"
            f" holds the state, at most until {format_time(self.until)}"
        )


def waiting_shrink(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    members: Members | None,
    now: float,
) -> WaitingShrink | None:
    """The shrink that waits; None when there is none, or nothing to wait for."""
    received = snapshot.report
    if not snapshot.is_training or received is None or members is None:
        return None
    role, target = received.role, status.target_replicas.get(received.role, 0)
    size = members.sizes.get(role, 0)
    if size <= target or now - received.at > _FRESH_S:
        return None
    leaving = [one for one in snapshot.of_role(role) if target <= one.index < size]
    until = _deadline(status, role, leaving, now)
    if until is None or not _all_run(leaving, size - target):
        return None
    if not _all_holders_leave(received, target, len(leaving)):
        return None
    return WaitingShrink(role, size, target, until)


def kept(status: AITrainingJobStatus, shrink: WaitingShrink | None) -> AITrainingJobStatus:
    """The status by which children are made: with the size that a waiting role keeps."""
    if shrink is None:
        return status
    return replace(status, target_replicas={**status.target_replicas, shrink.role: shrink.size})


def _all_holders_leave(received: ReceivedReport, target: int, n_leaving: int) -> bool:
    """Whether everybody who holds the state may be among those who leave.

    The leader holds it. If it stays, all is well; and in a group of more than those who leave,
    somebody stays.
    """
    report = received.report
    if report.state is TrainingState.LOADING or received.index < target:
        return False
    return report.size <= n_leaving


def _all_run(leaving: list[Replica], n_leaving: int) -> bool:
    running = [one for one in leaving if one.phase is PodPhase.RUNNING and not one.is_leaving]
    return len(running) == n_leaving


def _deadline(
    status: AITrainingJobStatus, role: str, leaving: list[Replica], now: float
) -> float | None:
    """When the shrink is carried out in any case; None if that is now, or not on record."""
    records = [one for one in status.scale_records if one.role == role and one.to < one.from_]
    if not records:
        return None
    graces = (one.pod.spec.termination_grace_period_seconds for one in leaving)
    save_s = min(SAVE_S_MAX, max((_GRACE_S if g is None else g for g in graces), default=0))
    since = parse_time(records[-1].time)
    return None if has_passed(since, save_s, now) else since + save_s
