"""The informers of the autoscaler: the kinds that it watches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Namespace, Node
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TRAINING_JOBS,
)
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.resource import ApiObject, Resource
from swell.api.scheduling import PodGroup, Queue
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.runtime.clock import Clock
from swell.runtime.cluster import EVERYTHING, Cluster, Selection
from swell.runtime.informer import Informer, InformerMeter, RunnableInformer
from swell.runtime.reflector import GATED_RECHECK_S, InformerOptions

T = TypeVar("T", bound=ApiObject)

_REQUIRED = InformerOptions()
# A cluster without our CRDs serves none of these kinds; they count as empty there.
_OPTIONAL = InformerOptions(is_optional=True)
# Without these, only gangs that use them are judged less well. An account of the release before
# has no right to read them.
_SPARE = InformerOptions(is_optional=True, may_be_forbidden=True, recheck_s=GATED_RECHECK_S)


@dataclass(frozen=True, slots=True)
class AutoscalerInformers:
    """One informer for each kind that sizes depend on."""

    nodes: Informer[Node]
    pods: Informer[Pod]
    groups: Informer[PodGroup]
    native_groups: Informer[NativeGroup]
    queues: Informer[Queue]
    priorities: Informer[PriorityClass]
    namespaces: Informer[Namespace]
    hyper_nodes: Informer[HyperNode]
    jobs: Informer[AITrainingJob]
    trainer_jobs: Informer[TrainingJob]

    @classmethod
    def over(
        cls,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        meter: InformerMeter | None = None,
    ) -> AutoscalerInformers:
        """Watch jobs of one namespace or of all; nodes and pods always of the whole cluster.

        Pods of other namespaces take room too, so leaving them out would promise room twice.
        """

        def informer(
            resource: Resource[T],
            options: InformerOptions = _OPTIONAL,
            selection: Selection = EVERYTHING,
        ) -> Informer[T]:
            return Informer(
                cluster,
                resource,
                clock=clock,
                random=random,
                selection=selection,
                options=options,
                meter=meter,
            )

        return cls(
            nodes=informer(NODES, _REQUIRED),
            pods=informer(PODS, _REQUIRED),
            groups=informer(POD_GROUPS),
            native_groups=informer(NATIVE_GROUPS, _SPARE),
            queues=informer(QUEUES),
            priorities=informer(PRIORITY_CLASSES),
            namespaces=informer(NAMESPACES),
            hyper_nodes=informer(HYPER_NODES, _SPARE),
            jobs=informer(AI_TRAINING_JOBS, selection=Selection(namespace)),
            trainer_jobs=informer(TRAINING_JOBS, selection=Selection(namespace)),
        )

    @property
    def every(self) -> tuple[RunnableInformer, ...]:
        return (
            self.nodes,
            self.pods,
            self.groups,
            self.native_groups,
            self.queues,
            self.priorities,
            self.namespaces,
            self.hyper_nodes,
            self.jobs,
            self.trainer_jobs,
        )

    async def run(self) -> None:
        """Watch everything until cancelled."""
        await asyncio.gather(*(one.run() for one in self.every))

    async def wait_synced(self) -> None:
        for one in self.every:
            await one.wait_synced()
