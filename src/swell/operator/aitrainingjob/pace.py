"""How long the mere numbers of a status wait to be written. Pure."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.times import parse_time
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.recovery import sound_time

# Changes of the mere numbers are written late: after a multiple of the job's age at the last
# write, within these bounds (docs/adr/0041). A job that waits is looked at more closely by its
# user than one that runs, so its multiple is smaller. Pods mostly end together: their ends wait
# for one another, but no longer than a minute. Together they keep a job of n pods within 4n + 12
# writes if its pods end together, and 4n + 16 if not (tests/sim/test_operator_cost.py).
PACE_S_MIN, PACE_S_MAX = 10.0, 3600.0
ENDS_S, ENDS_S_MAX = 10.0, 60.0
WAITING_PACE, RUNNING_PACE = 0.5, 5.0


def numbers_wait_s(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, last: float, now: float
) -> float:
    """How long after the last write, at `last`, numbers that differ are written."""
    old = snapshot.job.status
    began = parse_time(old.start_time) if old.start_time else last
    factor = RUNNING_PACE if old.phase is Phase.RUNNING else WAITING_PACE
    pace_s = min(PACE_S_MAX, max(PACE_S_MIN, factor * (last - began)))
    first_s = 0.0 if _is_half_finished(old, status) else pace_s
    # A node whose clock is fast may tell of an end that is yet to come.
    ends = [at for at in _ends(snapshot) if last <= at <= now]
    if not ends:
        return first_s
    # The last end of a gang is that of the job, whose status has these numbers as well.
    return max(first_s, min(max(ends) + ENDS_S, min(ends) + ENDS_S_MAX) - last)


def _is_half_finished(old: AITrainingJobStatus, new: AITrainingJobStatus) -> bool:
    """Whether pods have finished since the last write that make up half of the job or more."""
    n_more = abs(_n_finished(new) - _n_finished(old))
    return n_more > 0 and 2 * n_more >= sum(new.target_replicas.values())


def _n_finished(status: AITrainingJobStatus) -> int:
    return sum(held.succeeded + held.failed for held in status.replica_statuses.values())


def _ends(snapshot: AITrainingJobSnapshot) -> list[float]:
    """When the containers of pods that have finished ended, as the pods say."""
    texts = [
        sound_time(one.state.terminated.finished_at)
        for replica in snapshot.replicas
        if replica.is_finished
        for one in replica.statuses
        if one.state.terminated is not None
    ]
    return [parse_time(text) for text in texts if text]
