"""Makes the status of a pod, as a kubelet would report it, from its runs. Pure.

Conditions of other writers are kept, and so are the transition times of ours that did not change.
An unchanged pod therefore gives an equal status, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from swell.api.codec import to_body
from swell.api.meta import Body, Condition
from swell.api.pod import (
    ContainerState,
    PodPhase,
    StateRunning,
    StateTerminated,
    StateWaiting,
)
from swell.api.times import format_time
from swell.node.pods import FINAL, BoundContainer, BoundPod, ReportedContainer, ReportedStatus
from swell.node.restarts import backoff_until, should_restart
from swell.node.runs import (
    CRASH_LOOP,
    CREATING,
    INITIALIZING,
    Exited,
    Run,
    Running,
    Runs,
    Waiting,
)

OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
COMPLETED_REASON = "PodCompleted"
FAILED_REASON = "PodFailed"
UNREADY_REASON = "ContainersNotReady"
UNINITIALIZED_REASON = "ContainersNotInitialized"
_MESSAGE_CHARS_MAX = 4096  # Kubernetes' limit for the message of a container


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses that a pod's status shows."""

    pod_ip: str = ""
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The part of a decision that the status needs beside the runs.

    `phase` is set when the pod is over.
    """

    is_initialized: bool
    phase: PodPhase | None = None
    reason: str = ""
    message: str = ""


def report_status(
    pod: BoundPod, runs: Runs, addresses: Addresses, outcome: PodOutcome, now: float
) -> ReportedStatus:
    """Returns the status that the pod should have."""
    inits = tuple(
        _container(pod, container, runs.get(container.name), outcome, now, is_init=True)
        for container in pod.spec.init_containers
    )
    mains = tuple(
        _container(pod, container, runs.get(container.name), outcome, now, is_init=False)
        for container in pod.spec.containers
    )
    phase = outcome.phase or _phase(mains, outcome)
    started = bool(runs)
    return ReportedStatus(
        phase=phase,
        reason=outcome.reason,
        message=outcome.message,
        conditions=_conditions(pod, phase, (*inits, *mains), outcome, now, started=started),
        container_statuses=mains,
        init_container_statuses=inits,
        start_time=pod.status.start_time or format_time(_begun_at(runs, now)),
        host_ip=addresses.host_ip or pod.status.host_ip,
        pod_ip=(addresses.pod_ip if started else "") or pod.status.pod_ip,
    )


def _begun_at(runs: Runs, now: float) -> float:
    """Returns the start time of a pod: containers may start before the first report."""
    ends = (end for run in runs.values() for end in (run.state, run.former))
    times = (end.started_at for end in ends if isinstance(end, Running | Exited))
    return min([now, *(time for time in times if time)])


def status_patch(pod: BoundPod, status: ReportedStatus) -> Body:
    """Returns a strategic merge patch to that status, for the pod with this UID only."""
    by_name = {c.name: c for c in (*pod.spec.init_containers, *pod.spec.containers)}
    body: Body = {
        "phase": status.phase.value,
        "reason": status.reason or None,
        "message": status.message or None,
        "conditions": _condition_entries(pod, status),
        "containerStatuses": _entries(pod, status.container_statuses, by_name),
        "startTime": status.start_time,
    }
    if status.init_container_statuses:
        body["initContainerStatuses"] = _entries(pod, status.init_container_statuses, by_name)
    if status.host_ip:
        body["hostIP"] = status.host_ip
        body["hostIPs"] = [{"ip": status.host_ip}]
    if status.pod_ip:
        body["podIP"] = status.pod_ip
        body["podIPs"] = [{"ip": status.pod_ip}]
    return {"metadata": {"uid": pod.metadata.uid}, "status": body}


def _condition_entries(pod: BoundPod, status: ReportedStatus) -> list[Body]:
    """Returns our conditions for the patch.

    A reason or message that is no longer set has to be null, or a merge would keep it.
    """
    held = {condition.type: to_body(condition) for condition in pod.status.conditions}
    entries = [to_body(condition) for condition in status.conditions if condition.type in OURS]
    return [
        dict.fromkeys(held.get(entry["type"], {}).keys() & {"reason", "message"}) | entry
        for entry in entries
    ]


def _entries(
    pod: BoundPod, statuses: Sequence[ReportedContainer], by_name: dict[str, BoundContainer]
) -> list[Body]:
    entries: list[Body] = []
    for status in statuses:
        image = by_name[status.name].image
        entry: Body = {
            "name": status.name,
            "state": to_body(status.state),
            "lastState": to_body(status.last_state),
            "ready": status.ready,
            "restartCount": status.restart_count,
            "image": image,
            "imageID": "",
            "started": status.started,
        }
        if status.state.waiting is None:
            entry["containerID"] = container_id(pod, status)
        entries.append(entry)
    return entries


def container_id(pod: BoundPod, status: ReportedContainer) -> str:
    return f"swell://{pod.metadata.uid}/{status.name}/{status.restart_count}"


def _container(
    pod: BoundPod,
    container: BoundContainer,
    run: Run | None,
    outcome: PodOutcome,
    now: float,
    *,
    is_init: bool,
) -> ReportedContainer:
    if run is None:
        reason = CREATING
        if pod.spec.init_containers and not outcome.is_initialized:
            reason = INITIALIZING
        return ReportedContainer(name=container.name, state=_waiting(reason), started=False)
    reported, former = _reported_state(pod, container, run, outcome, now, is_init=is_init)
    state = run.state
    is_started = isinstance(state, Running) and state.is_started
    is_ready = isinstance(state, Running) and state.is_started and state.is_ready
    if is_init and not container.is_sidecar:
        is_ready = isinstance(state, Exited) and state.is_success
    return ReportedContainer(
        name=container.name,
        state=reported,
        last_state=_terminated(former) if former else ContainerState(),
        ready=is_ready,
        restart_count=run.attempt,
        started=is_started,
    )


def _reported_state(
    pod: BoundPod,
    container: BoundContainer,
    run: Run,
    outcome: PodOutcome,
    now: float,
    *,
    is_init: bool,
) -> tuple[ContainerState, Exited | None]:
    """Returns the reported state of a run, and the former end to report with it."""
    match run.state:
        case Running(started_at=since):
            running = StateRunning(started_at=format_time(since))
            return ContainerState(running=running), run.former
        case Waiting(reason=reason, message=message):
            return _waiting(reason, message), run.former
        case Exited() as ended:
            is_restarted = outcome.phase is None and should_restart(
                pod, container, ended, is_init=is_init
            )
            due = backoff_until(run)
            if not is_restarted or due <= now:
                return _terminated(ended), run.former
            wait_s = round(due - ended.finished_at)
            message = f"back-off {wait_s}s restarting failed container={container.name}"
            return _waiting(CRASH_LOOP, message), ended


def _waiting(reason: str, message: str = "") -> ContainerState:
    return ContainerState(waiting=StateWaiting(reason=reason, message=message))


def _terminated(ended: Exited) -> ContainerState:
    return ContainerState(
        terminated=StateTerminated(
            exit_code=ended.exit_code,
            signal=ended.signal,
            reason=ended.shown_reason,
            message=ended.message[-_MESSAGE_CHARS_MAX:],
            started_at=format_time(ended.started_at) if ended.started_at else None,
            finished_at=format_time(ended.finished_at),
        )
    )


def _phase(mains: Sequence[ReportedContainer], outcome: PodOutcome) -> PodPhase:
    """Returns the phase of a pod that is not over: Running once every container has run."""
    if not outcome.is_initialized:
        return PodPhase.PENDING
    never_ran = [
        main for main in mains if main.state.waiting and main.last_state.terminated is None
    ]
    return PodPhase.PENDING if never_ran else PodPhase.RUNNING


def _conditions(
    pod: BoundPod,
    phase: PodPhase,
    containers: Sequence[ReportedContainer],
    outcome: PodOutcome,
    now: float,
    *,
    started: bool,
) -> tuple[Condition, ...]:
    mains = containers[len(pod.spec.init_containers) :]
    ready = _readiness(phase, mains)
    is_up = started and phase not in FINAL
    wanted = (
        Condition(type="PodReadyToStartContainers", status="True" if is_up else "False"),
        _initialized(pod, phase, outcome),
        ready,
        msgspec.structs.replace(ready, type="ContainersReady"),
        Condition(type="PodScheduled", status="True"),
    )
    # They keep the order they have, or an unchanged status would look changed.
    merged = {condition.type: condition for condition in pod.status.conditions}
    merged |= {new.type: _timed(new, merged.get(new.type), now) for new in wanted}
    return tuple(merged.values())


def _initialized(pod: BoundPod, phase: PodPhase, outcome: PodOutcome) -> Condition:
    if outcome.is_initialized or not pod.spec.init_containers:
        reason = COMPLETED_REASON if phase is PodPhase.SUCCEEDED else ""
        return Condition(type="Initialized", status="True", reason=reason)
    names = [c.name for c in pod.spec.init_containers]
    message = f"containers with incomplete status: {_names(names)}"
    return Condition(
        type="Initialized", status="False", reason=UNINITIALIZED_REASON, message=message
    )


def _readiness(phase: PodPhase, mains: Sequence[ReportedContainer]) -> Condition:
    if phase is PodPhase.SUCCEEDED:
        return Condition(type="Ready", status="False", reason=COMPLETED_REASON)
    if phase is PodPhase.FAILED:
        return Condition(type="Ready", status="False", reason=FAILED_REASON)
    unready = [main.name for main in mains if not main.ready]
    if not unready:
        return Condition(type="Ready", status="True")
    message = f"containers with unready status: {_names(unready)}"
    return Condition(type="Ready", status="False", reason=UNREADY_REASON, message=message)


def _names(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


def _timed(new: Condition, held: Condition | None, now: float) -> Condition:
    """Returns a condition with the time its status last changed; the held one if it is equal."""
    if held is None or held.status != new.status:
        return msgspec.structs.replace(new, last_transition_time=format_time(now))
    if (held.reason, held.message) == (new.reason, new.message):
        return held
    return msgspec.structs.replace(new, last_transition_time=held.last_transition_time)
