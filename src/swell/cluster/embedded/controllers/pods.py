"""What controllers read from a pod: whether it counts, whether it is ready, when it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.meta import Condition
from swell.api.pod import ContainerStatus, Pod, PodPhase
from swell.api.times import parse_time

FINISHED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def is_deleted(pod: Pod) -> bool:
    """Whether its deletion was asked for; it may still run."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether it runs or will run: what controllers count as theirs."""
    return not is_finished(pod) and not is_deleted(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether it is on its way out without having finished yet."""
    return not is_finished(pod) and is_deleted(pod)


def is_ready(pod: Pod) -> bool:
    condition = ready_condition(pod)
    return condition is not None and condition.status == "True"


def is_available(pod: Pod, min_ready_s: int, now: float) -> bool:
    """Whether it has been ready for long enough."""
    if not is_ready(pod):
        return False
    if not min_ready_s:
        return True
    since = ready_since(pod)
    return since is not None and since + min_ready_s <= now


def ready_since(pod: Pod) -> float | None:
    """When it became ready, if it is and says so."""
    condition = ready_condition(pod)
    if condition is None or condition.status != "True" or not condition.last_transition_time:
        return None
    return parse_time(condition.last_transition_time)


def ready_condition(pod: Pod) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == "Ready"), None)


def created_at(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0.0


def finished_at(pod: Pod) -> float:
    """When a finished or deleted pod ended, by the best witness there is.

    That is its containers; then the moment it ceased to be ready; then the moment of the delete,
    which the deletion timestamp is the grace period after; at last its creation.
    """
    ended = _containers_finished_at(pod)
    if ended is not None:
        return ended
    ready = ready_condition(pod)
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    if pod.metadata.deletion_timestamp is not None:
        grace_s = pod.metadata.deletion_grace_period_seconds or 0
        return parse_time(pod.metadata.deletion_timestamp) - grace_s
    return created_at(pod)


def _containers_finished_at(pod: Pod) -> float | None:
    """When the last container ended; None unless all have. Sidecars end after the others."""
    ended = 0.0
    for status in (*pod.status.container_statuses, *sidecar_statuses(pod)):
        terminated = status.state.terminated
        if terminated is None or not terminated.finished_at:
            return None
        ended = max(ended, parse_time(terminated.finished_at))
    return ended or None


def sidecar_statuses(pod: Pod) -> Iterable[ContainerStatus]:
    """Statuses of init containers that run beside the others until the end."""
    names = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    return [status for status in pod.status.init_container_statuses if status.name in names]
