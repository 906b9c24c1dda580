"""Nodes whose device plugin has withdrawn GPUs that pods still have.

The number of GPUs that a node can allocate falls when its plugin finds one broken, and for a moment
when the plugin restarts. It does not say which GPU, nor whose: the pods of the node may be asked
for that, or all of them count. Time is counted as in `gpuwatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swell.api.core import Node
from swell.api.pod import Pod, PodPhase
from swell.api.quantity import QuantityError, parse
from swell.api.requests import pod_requests
from swell.operator.framework.fault_guard import FaultGuard
from swell.operator.framework.gpu_states import UNHEALTHY, GpuDrop
from swell.operator.framework.gpuwatch import GpuFaultLimits
from swell.runtime.clock import Clock

_SOURCE = "allocatable"
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


@dataclass(slots=True)
class _Fallen:
    """A resource of which less can be allocated than there is, and since when no more."""

    n_left: int
    n_all: int
    since: float
    is_reported: bool = False


class GpuDropWatch:
    """Follows what nodes can allocate. `on_drop` is given a node, and what pods have too much.

    With `is_fault` the drops count as faults of the node, which the guard may hold back.
    """

    def __init__(
        self,
        gpu_resources: tuple[str, ...],
        limits: GpuFaultLimits,
        clock: Clock,
        guard: FaultGuard,
        on_drop: Callable[[Node, str], None],
        *,
        is_fault: bool,
    ) -> None:
        self._gpu_resources = gpu_resources
        self._after_s = max(limits.after_s, limits.after_unsure_s)
        self._clock = clock
        self._guard = guard
        self._on_drop = on_drop
        self._is_fault = is_fault
        self._fallen: dict[str, dict[str, _Fallen]] = {}  # node -> resource

    def note(self, name: str, node: Node | None) -> None:
        """Take a node as it is now; None for one that is gone."""
        fallen = self._fallen.pop(name, {})
        kept: dict[str, _Fallen] = {}
        for resource in self._gpu_resources if node is not None else ():
            n_all, n_left = _amounts(node, resource)
            before = fallen.get(resource)
            if n_left >= n_all:
                continue
            if before is None or n_left < before.n_left:
                # It has stood at this level from now on, whatever was missing before.
                kept[resource] = _Fallen(n_left, n_all, self._clock.monotonic())
            else:
                kept[resource] = _Fallen(n_left, n_all, before.since, before.is_reported)
        if kept:
            self._fallen[name] = kept
        else:
            self._guard.mended(name, _SOURCE)

    def drop_of(self, node: Node, pods: Iterable[Pod]) -> GpuDrop | None:
        """Returns the GPUs that pods of the node have too much; `at` is of the monotonic clock.

        None where the status of a pod names the broken one: then that pod alone is concerned.
        """
        name, now = node.metadata.name, self._clock.monotonic()
        for resource, fallen in self._fallen.get(name, {}).items():
            running = [pod for pod in pods if pod.status.phase not in _ENDED]
            n_used = sum(_requested(pod, resource) for pod in running)
            if n_used <= fallen.n_left or any(_names_broken(pod, resource) for pod in running):
                continue
            text = (
                f"{fallen.n_left} of {fallen.n_all} {resource} can be allocated, "
                f"and its pods have {n_used}"
            )
            at = fallen.since + self._after_s
            if at <= now and not fallen.is_reported:
                fallen.is_reported = True
                self._report(node, text, now)
            return GpuDrop(resource, text, max(at, self._guard.held_until(name)))
        return None

    def _report(self, node: Node, text: str, now: float) -> None:
        if self._is_fault:
            self._guard.turned(node.metadata.name, _SOURCE, now, now)
        else:
            self._on_drop(node, text)


def _amounts(node: Node | None, resource: str) -> tuple[int, int]:
    """Returns how many devices a node has, and how many of them it can allocate."""
    if node is None:
        return 0, 0
    status = node.status
    return _number(status.capacity.get(resource)), _number(status.allocatable.get(resource))


def _number(raw: object) -> int:
    try:
        return parse(str(raw or "0")).value()
    except QuantityError:
        return 0


def _requested(pod: Pod, resource: str) -> int:
    try:
        found = pod_requests(pod.spec).get(resource)
    except QuantityError:
        return 0
    return found.value() if found is not None else 0


def _names_broken(pod: Pod, resource: str) -> bool:
    """Whether the status of a pod says which of its devices of this resource is broken."""
    return any(
        device.health == UNHEALTHY
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        for allocated in status.allocated_resources_status
        if allocated.name == resource
        for device in allocated.resources
    )
