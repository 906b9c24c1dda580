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
    sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    n_containers = len(spec.get("containers") or []) + len(sidecars)
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
    if _condition(status, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initial = _init_reason(spec, status)
    init = status.get("initContainerStatuses") or []
    main = status.get("containerStatuses") or []
    starting = initial is not None and _condition(status, "Initialized").get("status") != "True"
    if starting:
        return _ContainerSummary(initial or "", 0, _restarts(init), _last_restart(init))
    # Init containers that are up are sidecars, which count as containers of the pod.
    n_ready = sum(1 for container in [*init, *main] if _is_up(container))
    for container in reversed(main):  # of several reasons the first container's wins
        reason = _state_reason(container.get("state") or {}) or reason
    # One container has ended well while another still runs.
    if reason == "Completed" and any(_is_up(c) for c in main):
        is_ready = _condition(status, "Ready").get("status") == "True"
        reason = "Running" if is_ready else "NotReady"
    return _ContainerSummary(reason, n_ready, _restarts(main), _last_restart(main))


def _init_reason(spec: Body, status: Body) -> str | None:
    """The state while an init container has not ended well; None when all have.

    A started sidecar (an init container that restarts always) counts as ended.
    """
    n_init = len(spec.get("initContainers") or [])
    sidecars = {
        c.get("name")
        for c in spec.get("initContainers") or []
        if c.get("restartPolicy") == "Always"
    }
    for n, container in enumerate(status.get("initContainerStatuses") or []):
        state = container.get("state") or {}
        if (state.get("terminated") or {}).get("exitCode", 1) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        reason = _state_reason(state)
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{n}/{n_init}"
    return None


def _is_up(container: Body) -> bool:
    return bool(container.get("ready")) and "running" in (container.get("state") or {})


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


def _condition(status: Body, kind: str) -> Body:
    found = (c for c in status.get("conditions") or [] if c.get("type") == kind)
    return next(found, {})
