"""Properties of a pod that controllers read: whether it is active, ready, and when it finished."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.meta import Condition
from swell.api.pod import ContainerStatus, Pod, PodPhase
from swell.api.times import parse_time

FINISHED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED


def is_deleted(pod: Pod) -> bool:
    """Whether the pod's deletion was requested; it may still run."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether the pod runs or will run. Controllers count only active pods."""
    return not is_finished(pod) and not is_deleted(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted and has not finished yet."""
    return not is_finished(pod) and is_deleted(pod)


def is_ready(pod: Pod) -> bool:
    condition = ready_condition(pod)
    return condition is not None and condition.status == "True"


def is_available(pod: Pod, min_ready_s: int, now: float) -> bool:
    """Whether the pod has been ready for at least `min_ready_s`."""
    if not is_ready(pod):
        return False
    if not min_ready_s:
        return True
    since = ready_since(pod)
    return since is not None and since + min_ready_s <= now


def ready_since(pod: Pod) -> float | None:
    """When the pod became ready; None when it is not, or has no transition time."""
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
    """When a finished or deleted pod ended, as Kubernetes' Job controller determines it.

    The first of these that is known: the end of its last container, the time it ceased to be ready,
    the time of its deletion, its creation.
    """
    ended = _containers_finished_at(pod)
    if ended is not None:
        return ended
    ready = ready_condition(pod)
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    if pod.metadata.deletion_timestamp is not None:
        # The timestamp lies one grace period after the request.
        grace_s = pod.metadata.deletion_grace_period_seconds or 0
        return parse_time(pod.metadata.deletion_timestamp) - grace_s
    return created_at(pod)


def _containers_finished_at(pod: Pod) -> float | None:
    """When the last container ended; None unless all have. Sidecars count: they end last."""
    ended = 0.0
    for status in (*pod.status.container_statuses, *sidecar_statuses(pod)):
        terminated = status.state.terminated
        if terminated is None or not terminated.finished_at:
            return None
        ended = max(ended, parse_time(terminated.finished_at))
    return ended or None


def sidecar_statuses(pod: Pod) -> Iterable[ContainerStatus]:
    """The statuses of sidecars: init containers that run beside the others until the end."""
    names = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    return [status for status in pod.status.init_container_statuses if status.name in names]
