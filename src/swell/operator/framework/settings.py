"""Choices of the operator that all job kinds share, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.gpu_faults import (
    DEFAULT_CONDITIONS,
    DEFAULT_DEVICE_TAINTS,
    DEFAULT_DRIVERS,
    DEFAULT_TAINTS,
)
from swell.api.node_faults import HALF_LIFE_S
from swell.history.settings import HistorySettings
from swell.operator.framework.gpu_states import REPORT

VOLCANO_GANGS = "volcano"
NATIVE_GANGS = "native"
GANG_APIS = (VOLCANO_GANGS, NATIVE_GANGS)
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The base of every kind's settings.

    With `sees_cluster` off, nodes and priority classes are not read: they belong to no namespace,
    and an operator with rights in one namespace may not list them.
    """

    namespace: str = ""  # empty: all namespaces
    sees_cluster: bool = True
    # Jobs worked on at the same time. A worker waits for the API server nearly all of its time.
    workers: int = 32
    resync_period_s: float = 1800.0
    gc_period_s: float = 600.0
    # How long after a pod's grace period an unready node counts as fenced.
    node_fence_after_s: float = 60.0
    default_scheduler: str = "swell"
    gang: bool = True
    # The kind of PodGroup that new jobs get; a job keeps the kind that it has.
    gang_api: str = VOLCANO_GANGS
    gpu_resources: tuple[str, ...] = GPU_RESOURCES
    # How much is kept of jobs beyond their objects; None keeps nothing.
    history: HistorySettings | None = None
    # By what nodes and DRA drivers report a broken GPU, which drivers' devices are GPUs, how long a
    # fault must last to count, the share of the nodes with GPUs that may turn faulty together (two
    # always may), and what follows when a node can allocate fewer GPUs than its pods have.
    gpu_fault_conditions: tuple[str, ...] = DEFAULT_CONDITIONS
    gpu_fault_taints: tuple[str, ...] = DEFAULT_TAINTS
    gpu_fault_device_taints: tuple[str, ...] = DEFAULT_DEVICE_TAINTS
    gpu_drivers: tuple[str, ...] = DEFAULT_DRIVERS
    gpu_allocatable_drop: str = REPORT
    gpu_fault_after_s: float = 15.0
    gpu_fault_max_share: float = 0.2
    # The weight of a failure that is blamed on a node halves in this time. Suspects are nodes on
    # which several jobs have failed; they are tainted on request, up to this share of all nodes.
    fault_half_life_s: float = HALF_LIFE_S
    cordon_suspects: bool = False
    suspects_max_share: float = 0.2
    # The address to which training programs send their reports; empty: they are only asked.
    report_url: str = ""
