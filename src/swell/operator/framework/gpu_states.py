"""The GPUs of nodes and pods as decisions see them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from swell.api.pod import Pod

# What is done about GPUs that pods have and their node cannot allocate any more.
REPORT: Final = "report"
FAULT: Final = "fault"
ALLOCATABLE_DROPS: Final = (REPORT, FAULT)
# How kubelets call a device of a pod that is broken.
UNHEALTHY: Final = "Unhealthy"
# How kubelets name what a pod has by a claim of devices: claim:NAME or claim:NAME/REQUEST.
_OF_CLAIM: Final = "claim:"


@dataclass(frozen=True, slots=True)
class GpuDrop:
    """GPUs that pods of a node have and that it cannot allocate any more; counts from `at` on."""

    resource: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class PodDevices:
    """The devices of a pod: whether a claim has given it a GPU, and what is wrong with them.

    `fault` is of a device of a claim, and counts from `at` on. What the pod's own status says of a
    broken one counts from `unhealthy_at` on; None: at once.
    """

    has_gpu: bool = False
    fault: str = ""
    at: float = 0.0
    unhealthy_at: float | None = None


def broken_device_of(pod: Pod, gpu_resources: Iterable[str], drivers: Iterable[str]) -> str:
    """The device of the pod that its kubelet reports as broken; empty if none is."""
    status = pod.status
    for container in (*status.init_container_statuses, *status.container_statuses):
        for resource in container.allocated_resources_status:
            is_claim = resource.name.startswith(_OF_CLAIM)
            if resource.name not in gpu_resources and not is_claim:
                continue
            for device in resource.resources:
                if is_claim and not _is_of(device.resource_id, drivers):
                    continue
                if device.health == UNHEALTHY:
                    return f"device {device.resource_id} of {resource.name} is unhealthy"
    return ""


def _is_of(device: str, drivers: Iterable[str]) -> bool:
    """Whether a device of a claim is one of these drivers'.

    Kubelets name it by its CDI name, whose vendor ends in the driver, or else as driver/pool/name.
    """
    vendor = device.partition("/")[0]
    return any(vendor == driver or vendor.endswith(f".{driver}") for driver in drivers)
