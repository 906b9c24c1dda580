"""What to do for a pod now, and what to report of it. Pure: pod, runs and time in, decision out.

Three cases: somebody wants the pod gone, its time is over, or it goes its way (`progress`). What
has been reported as final stays so.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.pod import PodPhase
from swell.api.times import parse_time
from swell.node.pods import BoundPod, ReportedStatus
from swell.node.restarts import Action, NextStep, is_active, next_step, stop_all
from swell.node.runs import Exited, Runs
from swell.node.status import Addresses, PodOutcome, report_status

DEADLINE = "DeadlineExceeded"
# Deletion times have whole seconds: what was cut off there is given back to the grace period.
_ROUNDING_S = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions for the runtime, the status to be reported after them, and when to look again."""

    actions: tuple[Action, ...]
    status: ReportedStatus
    wake_at: float | None = None
    is_over: bool = False  # no process is left and none will come
    is_deletable: bool = False  # and the object may go, once the status is written
    is_unwanted: bool = False  # its controller is to make another one


def decide(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    if pod.metadata.deletion_timestamp is not None:
        return _end(pod, runs, addresses, now)
    if pod.is_final:
        actions = stop_all(pod, runs, 0.0, "the pod is over")
        return Decision(actions, pod.status, is_over=not is_active(runs))
    deadline = _deadline(pod)
    if deadline is not None and deadline <= now:
        return _time_out(pod, runs, addresses, now)
    step = next_step(pod, runs, now)
    if not step.is_finished:
        status = report_status(
            pod, runs, addresses, PodOutcome(is_initialized=step.is_initialized), now
        )
        return Decision(step.actions, status, _earlier(step.wake_at, deadline))
    return Decision((), report_status(pod, runs, addresses, _verdict(step), now), is_over=True)


def decide_leaving(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    """What to do for a living pod when the agent is to end for good.

    A pod with a controller is deleted like any other that nobody wants here; one without would
    be lost, so it stays and says how its processes ended.
    """
    if pod.metadata.controller is not None:
        return Decision((), pod.status, is_unwanted=True)
    is_initialized = _was_initialized(pod)
    if is_active(runs):
        actions = stop_all(pod, runs, float(pod.grace_s), "the node agent ends")
        verdict = PodOutcome(is_initialized)
        return Decision(actions, report_status(pod, runs, addresses, verdict, now))
    if not has_ended(pod, runs):
        return Decision((), pod.status, is_over=True)
    verdict = PodOutcome(is_initialized, _final_phase(pod, runs))
    return Decision((), report_status(pod, runs, addresses, verdict, now), is_over=True)


def has_ended(pod: BoundPod, runs: Runs) -> bool:
    """Whether some container has run to an end; before that, a pod can still begin elsewhere."""
    mains = [runs[c.name].state for c in pod.spec.containers if c.name in runs]
    return any(isinstance(state, Exited) for state in mains)


def _final_phase(pod: BoundPod, runs: Runs) -> PodPhase:
    """What came of a pod whose processes were stopped: a container that never ran has failed."""
    mains = [runs[c.name].state for c in pod.spec.containers if c.name in runs]
    is_whole = len(mains) == len(pod.spec.containers)
    succeeded = is_whole and all(isinstance(end, Exited) and end.is_success for end in mains)
    return PodPhase.SUCCEEDED if succeeded else PodPhase.FAILED


def remaining_grace_s(pod: BoundPod, now: float) -> float:
    """How long a pod that is being deleted may still take."""
    grace_s = float(pod.metadata.deletion_grace_period_seconds or 0)
    if not pod.metadata.deletion_timestamp:
        return grace_s
    left_s = parse_time(pod.metadata.deletion_timestamp) + _ROUNDING_S - now
    return min(grace_s, max(0.0, left_s))


def _end(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    # Whoever deleted with a grace of 0 does not wait for us; with finalizers the object stays.
    is_deletable = pod.metadata.deletion_grace_period_seconds != 0
    if is_active(runs):
        actions = stop_all(pod, runs, remaining_grace_s(pod, now), "the pod is being deleted")
        verdict = PodOutcome(is_initialized=_was_initialized(pod))
        status = pod.status if pod.is_final else report_status(pod, runs, addresses, verdict, now)
        return Decision(actions, status)
    if pod.is_final:
        return Decision((), pod.status, is_over=True, is_deletable=is_deletable)
    verdict = PodOutcome(_was_initialized(pod), _final_phase(pod, runs))
    status = report_status(pod, runs, addresses, verdict, now)
    return Decision((), status, is_over=True, is_deletable=is_deletable)


def _time_out(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    message = "Pod was active on the node longer than the specified deadline"
    initialized = _was_initialized(pod)
    if is_active(runs):
        actions = stop_all(pod, runs, float(pod.grace_s), message)
        verdict = PodOutcome(is_initialized=initialized)
        return Decision(actions, report_status(pod, runs, addresses, verdict, now))
    verdict = PodOutcome(initialized, PodPhase.FAILED, DEADLINE, message)
    return Decision((), report_status(pod, runs, addresses, verdict, now), is_over=True)


def _verdict(step: NextStep) -> PodOutcome:
    phase = PodPhase.FAILED if step.has_failed else PodPhase.SUCCEEDED
    return PodOutcome(step.is_initialized, phase)


def _deadline(pod: BoundPod) -> float | None:
    limit_s, start = pod.spec.active_deadline_seconds, pod.status.start_time
    return None if limit_s is None or start is None else parse_time(start) + limit_s


def _was_initialized(pod: BoundPod) -> bool:
    held = {condition.type: condition.status for condition in pod.status.conditions}
    return held.get("Initialized") == "True"


def _earlier(first: float | None, second: float | None) -> float | None:
    return min((at for at in (first, second) if at is not None), default=None)
