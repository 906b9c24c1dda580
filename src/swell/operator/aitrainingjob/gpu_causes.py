"""Which broken GPU, if any, a pod cannot go on with. Pure.

What a node says of its GPUs as a whole concerns all of its pods that use one; what is said of one
device concerns the pod that has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.gpu_faults import rules_of
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot, Replica
from swell.operator.framework.gpu_states import FAULT, GpuDrop, PodDevices, broken_device_of

_NONE = PodDevices()


def gpu_fault_times(replica: Replica, snapshot: AITrainingJobSnapshot) -> Iterator[float | None]:
    """When faults of the pod's GPUs will count, unless they pass: the times to look again."""
    state, devices = snapshot.node_of(replica), snapshot.devices.get(replica.name, _NONE)
    yield devices.unhealthy_at
    yield devices.at if devices.fault else None
    if state is not None:
        yield state.gpu_fault_at
        yield state.gpu_drop.at if state.gpu_drop is not None else None


def node_gpu_fault(replica: Replica, snapshot: AITrainingJobSnapshot, now: float) -> str:
    """How the node reports a broken GPU; empty for pods without one."""
    state, settings = snapshot.node_of(replica), snapshot.settings
    if state is None or state.node is None or not _uses_gpu(replica, snapshot):
        return ""
    drop = state.gpu_drop
    if drop is not None and settings.gpu_allocatable_drop == FAULT and _counts(replica, drop, now):
        return f"fewer GPUs than its pods have: {drop.text}"
    if state.gpu_fault_at is not None and state.gpu_fault_at > now:
        return ""  # it may pass, or a detector is broken
    rules = rules_of(settings.gpu_fault_conditions, settings.gpu_fault_taints)
    return rules.fault_of(state.node)


def broken_device(replica: Replica, snapshot: AITrainingJobSnapshot, now: float) -> str:
    """The device of the pod that its kubelet or its driver reports as broken; empty if none is."""
    settings = snapshot.settings
    devices = snapshot.devices.get(replica.name, _NONE)
    if devices.unhealthy_at is None or devices.unhealthy_at <= now:
        found = broken_device_of(replica.pod, settings.gpu_resources, settings.gpu_drivers)
        if found:
            return found
    return devices.fault if devices.at <= now else ""


def _counts(replica: Replica, drop: GpuDrop, now: float) -> bool:
    return drop.at <= now and _requests(replica, (drop.resource,))


def _uses_gpu(replica: Replica, snapshot: AITrainingJobSnapshot) -> bool:
    if _requests(replica, snapshot.settings.gpu_resources):
        return True
    return snapshot.devices.get(replica.name, _NONE).has_gpu


def _requests(replica: Replica, resources: tuple[str, ...]) -> bool:
    containers = (*replica.pod.spec.containers, *replica.pod.spec.init_containers)
    return any(
        str(amount) not in {"0", ""}
        for container in containers
        for asked in (container.resources.limits, container.resources.requests)
        for name, amount in asked.items()
        if name in resources
    )
