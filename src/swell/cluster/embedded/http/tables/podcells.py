"""A pod's cells in kubectl's table: its state as one word, its restarts, its node. Pure.

The state follows the order of kubectl's own printer: the pod's reason or phase, replaced by a
reason of an init container that has not ended well, else by that of a container, and last by
Terminating once the pod is being deleted.
"""

from __future__ import annotations

from typing import NamedTuple

from swell.api.meta import Body
from swell.cluster.embedded.http.tables.formats import NONE, age


class _ContainerSummary(NamedTuple):
    """A summary of all container statuses."""

    reason: str
    n_ready: int
    n_restarts: int
    last_restart: str


def pod_cells(pod: Body, now: float) -> list[object]:
    meta, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    summary = _summary(spec, status)
    n_containers = len(spec.get("containers") or []) + len(_sidecars(spec))
    restarts = str(summary.n_restarts)
    if summary.n_restarts and summary.last_restart:
        restarts += f" ({age(summary.last_restart, now)} ago)"
    return [
        meta.get("name", ""),
        f"{summary.n_ready}/{n_containers}",
        _state_text(meta, status, summary.reason),
        restarts,
        age(meta.get("creationTimestamp"), now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def completion(pod: Body) -> list[Body]:
    """The row conditions by which clients tell finished pods from others."""
    phase = (pod.get("status") or {}).get("phase")
    if phase not in {"Succeeded", "Failed"}:
        return []
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


def _summary(spec: Body, status: Body) -> _ContainerSummary:
    reason = status.get("reason") or status.get("phase") or ""
    if _has_condition(status, "PodScheduled", "reason", "SchedulingGated"):
        reason = "SchedulingGated"
    sidecars = _sidecars(spec)
    waiting, passed = _init_reason(spec, status)
    is_initialized = _condition(status, "Initialized").get("status") == "True"
    # Started sidecars count as containers of the pod, in whatever state they are.
    n_ready = sum(1 for one in passed if _is_started_sidecar(one, sidecars) and one.get("ready"))
    if waiting and not is_initialized:
        return _ContainerSummary(waiting, n_ready, _restarts(passed), _last_restart(passed))
    main = status.get("containerStatuses") or []
    counted = [*(one for one in passed if one.get("name") in sidecars), *main]
    n_ready += sum(map(_is_up, main))
    reason = _main_reason(status, main, waiting or reason)
    return _ContainerSummary(reason, n_ready, _restarts(counted), _last_restart(counted))


def _main_reason(status: Body, main: list[Body], reason: str) -> str:
    """The state that the containers of the pod give it; that of the first one wins."""
    failure = ""
    for container in reversed(main):
        state = container.get("state") or {}
        own = _state_reason(state)
        reason = own or reason
        if (
            own
            and "exitCode" in (state.get("terminated") or {})
            and state["terminated"]["exitCode"]
        ):
            failure = own
    if reason != "Completed":
        return reason
    # One container has ended well, but that says nothing of the others.
    is_running = any(map(_is_up, main))
    if is_running and _has_condition(status, "Ready", "status", "True"):
        return "Running"
    return failure or ("NotReady" if is_running else reason)


def _init_reason(spec: Body, status: Body) -> tuple[str, list[Body]]:
    """The state while an init container has not ended well, and those up to that one.

    Without such a container the state is empty. A started sidecar counts as ended.
    """
    n_init, sidecars = len(spec.get("initContainers") or []), _sidecars(spec)
    passed: list[Body] = []
    for n, container in enumerate(status.get("initContainerStatuses") or []):
        passed.append(container)
        state = container.get("state") or {}
        ended_well = (state.get("terminated") or {}).get("exitCode", 1) == 0
        if ended_well or _is_started_sidecar(container, sidecars):
            continue
        reason = _state_reason(state)
        if reason and reason != "PodInitializing":
            return f"Init:{reason}", passed
        return f"Init:{n}/{n_init}", passed
    return "", passed


def _sidecars(spec: Body) -> set[str]:
    """The names of the init containers that restart always."""
    init = spec.get("initContainers") or []
    return {c.get("name", "") for c in init if c.get("restartPolicy") == "Always"}


def _is_started_sidecar(container: Body, sidecars: set[str]) -> bool:
    ended_well = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 1) == 0
    return container.get("name") in sidecars and bool(container.get("started")) and not ended_well


def _is_up(container: Body) -> bool:
    state = container.get("state") or {}
    return bool(container.get("ready")) and "running" in state and not _state_reason(state)


def _state_reason(state: Body) -> str:
    waiting, terminated = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason"):
        return str(waiting["reason"])
    if not terminated:
        return ""
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _state_text(meta: Body, status: Body, reason: str) -> str:
    if not meta.get("deletionTimestamp"):
        return reason
    if status.get("reason") == "NodeLost":  # it is unknown whether it still runs
        return "Unknown"
    return reason if status.get("phase") in {"Succeeded", "Failed"} else "Terminating"


def _restarts(containers: list[Body]) -> int:
    return sum(c.get("restartCount", 0) for c in containers)


def _last_restart(containers: list[Body]) -> str:
    ended = [((c.get("lastState") or {}).get("terminated") or {}) for c in containers]
    return max((str(t.get("finishedAt") or "") for t in ended), default="")


def _readiness_gates(spec: Body, status: Body) -> str:
    gates = spec.get("readinessGates") or []
    met = [
        g for g in gates if _condition(status, g.get("conditionType", "")).get("status") == "True"
    ]
    return f"{len(met)}/{len(gates)}" if gates else NONE


def _has_condition(status: Body, kind: str, field: str, value: str) -> bool:
    found = (c for c in status.get("conditions") or [] if c.get("type") == kind)
    return any(c.get(field) == value for c in found)


def _condition(status: Body, kind: str) -> Body:
    found = (c for c in status.get("conditions") or [] if c.get("type") == kind)
    return next(found, {})
