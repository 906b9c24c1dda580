"""The informers of the scheduler, and those that must be synced before it decides.

A kind that the cluster does not serve counts as empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Namespace, Node, ResourceQuota
from swell.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    DEVICE_CLASSES,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    TRAINING_JOBS,
    VOLUME_ATTACHMENTS,
)
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.resource import ApiObject, Resource
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.informer import Informer, InformerMeter, RunnableInformer
from swell.runtime.reflector import GATED_RECHECK_S, InformerOptions
from swell.scheduler.live.namespace_quotas import BY_NAMESPACE
from swell.scheduler.live.queue_controller import BY_PARENT, BY_QUEUE

T = TypeVar("T", bound=ApiObject)
_ALWAYS_SERVED = InformerOptions()
_OPTIONAL = InformerOptions(is_optional=True)
# Roles of the release before do not give the right to read these, and gangs need few of them.
_SPARE = InformerOptions(is_optional=True, may_be_forbidden=True)
# A server that lacks these today lacks them for long, so it is rarely asked again.
_SELDOM = InformerOptions(is_optional=True, may_be_forbidden=True, recheck_s=GATED_RECHECK_S)
_GATED = InformerOptions(is_optional=True, recheck_s=GATED_RECHECK_S)


@dataclass(frozen=True, slots=True)
class SchedulerInformers:
    """One informer for each kind that scheduling depends on."""

    pods: Informer[Pod]
    nodes: Informer[Node]
    groups: Informer[PodGroup]
    native_groups: Informer[NativeGroup]
    queues: Informer[Queue]
    priorities: Informer[PriorityClass]
    budgets: Informer[PodDisruptionBudget]
    namespaces: Informer[Namespace]
    jobs: Informer[AITrainingJob]
    trainer_jobs: Informer[TrainingJob]
    claims: Informer[PersistentVolumeClaim]
    volumes: Informer[PersistentVolume]
    storage_classes: Informer[StorageClass]
    csi_nodes: Informer[CsiNode]
    csi_drivers: Informer[CsiDriver]
    storage_capacities: Informer[CsiStorageCapacity]
    volume_attachments: Informer[VolumeAttachment]
    resource_slices: Informer[ResourceSlice]
    device_classes: Informer[DeviceClass]
    resource_claims: Informer[ResourceClaim]
    hyper_nodes: Informer[HyperNode]
    # Explained to users, and decides nothing: the API server enforces quotas.
    quotas: Informer[ResourceQuota]

    @classmethod
    def over(
        cls, cluster: Cluster, clock: Clock, random: Random, meter: InformerMeter | None = None
    ) -> SchedulerInformers:
        def informer(
            resource: Resource[T],
            options: InformerOptions = _ALWAYS_SERVED,
            indexes: Sequence[CacheIndex[T]] = (),
        ) -> Informer[T]:
            return Informer(
                cluster,
                resource,
                clock=clock,
                random=random,
                indexes=indexes,
                options=options,
                meter=meter,
            )

        return cls(
            pods=informer(PODS),
            nodes=informer(NODES),
            groups=informer(POD_GROUPS, _OPTIONAL, (BY_QUEUE,)),
            native_groups=informer(NATIVE_GROUPS, _GATED),
            queues=informer(QUEUES, _OPTIONAL, (BY_PARENT,)),
            priorities=informer(PRIORITY_CLASSES),
            budgets=informer(POD_DISRUPTION_BUDGETS, _OPTIONAL),
            namespaces=informer(NAMESPACES),
            jobs=informer(AI_TRAINING_JOBS, _OPTIONAL),
            trainer_jobs=informer(TRAINING_JOBS, _OPTIONAL),
            claims=informer(PERSISTENT_VOLUME_CLAIMS, _SPARE),
            volumes=informer(PERSISTENT_VOLUMES, _SPARE),
            storage_classes=informer(STORAGE_CLASSES, _SPARE),
            csi_nodes=informer(CSI_NODES, _SELDOM),
            csi_drivers=informer(CSI_DRIVERS, _SELDOM),
            storage_capacities=informer(CSI_STORAGE_CAPACITIES, _SELDOM),
            volume_attachments=informer(VOLUME_ATTACHMENTS, _SELDOM),
            resource_slices=informer(RESOURCE_SLICES, _SELDOM),
            device_classes=informer(DEVICE_CLASSES, _SELDOM),
            resource_claims=informer(RESOURCE_CLAIMS, _SELDOM),
            hyper_nodes=informer(HYPER_NODES, _SPARE),
            quotas=informer(RESOURCE_QUOTAS, _GATED, (BY_NAMESPACE,)),
        )

    @property
    def required(self) -> tuple[RunnableInformer, ...]:
        """Returns the informers that must be synced before the first cycle.

        Nodes and groups come before the pods that refer to them.
        """
        return (
            self.namespaces,
            self.priorities,
            self.queues,
            self.nodes,
            self.groups,
            self.native_groups,
            self.jobs,
            self.trainer_jobs,
            self.budgets,
            self.claims,
            self.volumes,
            self.storage_classes,
            self.resource_slices,
            self.device_classes,
            self.resource_claims,
            self.hyper_nodes,
            self.pods,
        )

    @property
    def every(self) -> tuple[RunnableInformer, ...]:
        return (
            *self.required,
            self.quotas,
            # Limits of drivers: what is not known of them yet counts as none, as in kube-scheduler.
            self.csi_nodes,
            self.csi_drivers,
            self.storage_capacities,
            self.volume_attachments,
        )
