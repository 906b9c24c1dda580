"""Which pods brought a job down, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.pod import ContainerStatus, Pod, PodPhase
from swell.operator.trainingjob.world import World, completion_index, was_disrupted


def find_failed_trainer_pods(world: World) -> tuple[Pod, ...]:
    """Failed trainers. Disrupted ones are none, nor those that a smaller size gave up."""
    below = (world.trainer.spec.completions or 0) if world.trainer else 0
    return tuple(
        pod
        for pod in world.trainers
        if pod.status.phase is PodPhase.FAILED and not was_disrupted(pod) and _index(pod) < below
    )


def find_worn_pservers(world: World) -> tuple[Pod, ...]:
    """Pservers of which a container restarted as often as is allowed."""
    limit = max(1, world.settings.restart_limit)  # one that never restarted is not worn
    return tuple(
        pod
        for pod in world.pservers
        if any(held.restart_count >= limit for held in pod.status.container_statuses)
    )


def describe_pods(pods: Iterable[Pod]) -> str:
    """Pods with their nodes and what their containers are at."""
    return "; ".join(_describe(pod) for pod in pods)


def _index(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _describe(pod: Pod) -> str:
    node = pod.spec.node_name
    place = f"on node {node}" if node else "without a node"
    states = [_state(held) for held in pod.status.container_statuses]
    if not states:
        states = [" ".join(filter(None, (pod.status.reason, pod.status.message))) or "no state"]
    return f"pod {pod.metadata.name} {place}: {', '.join(states)}"


def _state(held: ContainerStatus) -> str:
    state = held.state
    if state.terminated is not None:
        why = f" ({state.terminated.reason})" if state.terminated.reason else ""
        told = f"terminated with exit code {state.terminated.exit_code}{why}"
    elif state.waiting is not None:
        told = f"waiting ({state.waiting.reason})" if state.waiting.reason else "waiting"
    else:
        told = "running" if state.running is not None else "not started"
    restarts = f", restarted {held.restart_count} times" if held.restart_count else ""
    return f"container {held.name} {told}{restarts}"
