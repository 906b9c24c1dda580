"""What whoever runs the operator may choose, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

# Node conditions and taints by which node-problem-detector and the GPU vendors' operators report
# a broken accelerator.
GPU_FAULT_CONDITIONS = (
    "GPUUnhealthy",
    "GpuUnhealthy",
    "GPUFault",
    "GPUMissing",
    "GpuXidError",
    "NVLinkStatusInactive",
    "NvidiaGPUProblem",
    "XIDError",
    "XIDErrors",
)
GPU_FAULT_TAINTS = ("nvidia.com/gpu-unhealthy", "nvidia.com/gpu-fault", "amd.com/gpu-unhealthy")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, slots=True)
class Settings:
    namespace: str = ""  # all of them
    sees_cluster: bool = True  # nodes and priority classes, which belong to no namespace
    workers: int = 32  # jobs at a time; each waits for the API server nearly all the time
    resync_period_s: float = 1800.0
    gc_period_s: float = 600.0
    default_scheduler: str = "swell"
    gang: bool = True
    node_lost_after_s: float = 30.0
    node_fence_after_s: float = 60.0
    creating_duration_period_s: float = 900.0
    creating_restart_period_s: float = 3600.0
    enable_creating_failed: bool = False
    gpu_fault_conditions: tuple[str, ...] = GPU_FAULT_CONDITIONS
    gpu_fault_taints: tuple[str, ...] = GPU_FAULT_TAINTS
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
