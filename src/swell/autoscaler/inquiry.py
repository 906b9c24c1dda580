"""The cluster's resources from plain objects, all at once: what a ledger keeps up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from swell.api.aitrainingjob import AITrainingJob
from swell.api.node import Node
from swell.api.pod import Pod
from swell.api.podgroup import PodGroup
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.needs import GPU_RESOURCES, NeedsReader
from swell.autoscaler.resource import Snapshot


@dataclass(slots=True)
class Objects:
    """What a decision is made of; other kinds play no part."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    training_jobs: list[AITrainingJob] = field(default_factory=list)
    trainer_jobs: list[TrainingJob] = field(default_factory=list)


def inquiry_resource(objects: Objects, gpu_resources: Sequence[str] = GPU_RESOURCES) -> Snapshot:
    """The resources of the cluster these objects make up, and the state of its live jobs."""
    ledger = Ledger(NeedsReader(gpu_resources))
    _fill(ledger, objects)
    return ledger.snapshot()


def _fill(ledger: Ledger, objects: Objects) -> None:
    for node in objects.nodes:
        ledger.put_node(node)
    for group in objects.groups:
        ledger.put_group(group)
    jobs: Iterable[AITrainingJob | TrainingJob] = (*objects.training_jobs, *objects.trainer_jobs)
    for job in jobs:
        ledger.put_job(job)
    for pod in objects.pods:
        ledger.put_pod(pod)
