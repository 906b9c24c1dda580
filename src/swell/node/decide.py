"""Decides the actions and the status of one pod. Pure: pod, runs and time in, decision out.

There are three cases: the pod is being deleted, its deadline has passed, or it goes on and
`restarts` decides about its containers. A final phase that has been reported never changes.
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
# Deletion times are in whole seconds, rounded down. The grace period gets the rest back.
_ROUNDING_S = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions for the runtime, the status to report after them, and when to decide again."""

    actions: tuple[Action, ...]
    status: ReportedStatus
    wake_at: float | None = None
    is_over: bool = False  # no process is left and none will come
    is_deletable: bool = False  # and the object may be deleted, once the status is written
    is_unwanted: bool = False  # to be deleted, so that its controller makes another one


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
    return Decision((), report_status(pod, runs, addresses, _outcome(step), now), is_over=True)


def decide_leaving(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    """Returns the decision for a pod when the agent is about to end for good.

    A pod with a controller is deleted, because its controller makes another one. A bare pod would
    be lost, so it stays, with a status that says how its processes ended.
    """
    if pod.metadata.controller is not None:
        return Decision((), pod.status, is_unwanted=True)
    is_initialized = _was_initialized(pod)
    if is_active(runs):
        actions = stop_all(pod, runs, float(pod.grace_s), "the node agent ends")
        outcome = PodOutcome(is_initialized)
        return Decision(actions, report_status(pod, runs, addresses, outcome, now))
    if not has_ended(pod, runs):
        return Decision((), pod.status, is_over=True)
    outcome = PodOutcome(is_initialized, _final_phase(pod, runs))
    return Decision((), report_status(pod, runs, addresses, outcome, now), is_over=True)


def has_ended(pod: BoundPod, runs: Runs) -> bool:
    """Whether a main container has ended. Before that, nothing of the pod has a result."""
    mains = [runs[c.name].state for c in pod.spec.containers if c.name in runs]
    return any(isinstance(state, Exited) for state in mains)


def _final_phase(pod: BoundPod, runs: Runs) -> PodPhase:
    """Returns the phase of a pod whose processes were stopped.

    A container that never ran counts as failed.
    """
    mains = [runs[c.name].state for c in pod.spec.containers if c.name in runs]
    is_whole = len(mains) == len(pod.spec.containers)
    succeeded = is_whole and all(isinstance(end, Exited) and end.is_success for end in mains)
    return PodPhase.SUCCEEDED if succeeded else PodPhase.FAILED


def remaining_grace_s(pod: BoundPod, now: float) -> float:
    """Returns the part of a deleted pod's grace period that is left."""
    grace_s = float(pod.metadata.deletion_grace_period_seconds or 0)
    if not pod.metadata.deletion_timestamp:
        return grace_s
    left_s = parse_time(pod.metadata.deletion_timestamp) + _ROUNDING_S - now
    return min(grace_s, max(0.0, left_s))


def _end(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    # A delete with a grace of 0 has removed the object already, or left it to its finalizers.
    is_deletable = pod.metadata.deletion_grace_period_seconds != 0
    if is_active(runs):
        actions = stop_all(pod, runs, remaining_grace_s(pod, now), "the pod is being deleted")
        outcome = PodOutcome(is_initialized=_was_initialized(pod))
        status = pod.status if pod.is_final else report_status(pod, runs, addresses, outcome, now)
        return Decision(actions, status)
    if pod.is_final:
        return Decision((), pod.status, is_over=True, is_deletable=is_deletable)
    outcome = PodOutcome(_was_initialized(pod), _final_phase(pod, runs))
    status = report_status(pod, runs, addresses, outcome, now)
    return Decision((), status, is_over=True, is_deletable=is_deletable)


def _time_out(pod: BoundPod, runs: Runs, addresses: Addresses, now: float) -> Decision:
    message = "Pod was active on the node longer than the specified deadline"
    initialized = _was_initialized(pod)
    if is_active(runs):
        actions = stop_all(pod, runs, float(pod.grace_s), message)
        outcome = PodOutcome(is_initialized=initialized)
        return Decision(actions, report_status(pod, runs, addresses, outcome, now))
    outcome = PodOutcome(initialized, PodPhase.FAILED, DEADLINE, message)
    return Decision((), report_status(pod, runs, addresses, outcome, now), is_over=True)


def _outcome(step: NextStep) -> PodOutcome:
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
