"""What whoever runs the operator may choose for TrainingJobs, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from swell.operator.aitrainingjob.settings import GPU_RESOURCES


@dataclass(frozen=True, slots=True)
class Settings:
    """`autoclean`: take the pods of a job down when it is over.

    `restart_limit`: how often a trainer of a fault tolerant job is replaced, and how many restarts
    of a pserver's container fail the job.
    """

    namespace: str = ""  # all of them
    sees_cluster: bool = True  # nodes and priority classes, which belong to no namespace
    workers: int = 4
    resync_period_s: float = 1800.0
    gc_period_s: float = 600.0
    node_fence_after_s: float = 60.0
    default_scheduler: str = "swell"
    gang: bool = True
    autoclean: bool = False
    restart_limit: int = 5
    etcd_image: str = "etcd:v3.5.17"
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
