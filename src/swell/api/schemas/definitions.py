"""Our kinds: the names and versions they are served under, and their `kubectl get` columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swell.api.schemas.aitrainingjob import ai_training_job
from swell.api.schemas.model import Schema
from swell.api.schemas.scheduling import pod_group, queue
from swell.api.schemas.topology import hyper_node
from swell.api.schemas.trainingjob import training_job


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; with `is_wide` only of wide output."""

    name: str
    path: str
    type: str = "string"
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class ScaleSubresource:
    """The fields that the scale subresource of a kind reads and writes."""

    spec_replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind with its names, its versions (the last one is stored) and its schema."""

    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    versions: tuple[str, ...]
    schema: Callable[[], Schema]
    columns: tuple[PrinterColumn, ...]
    namespaced: bool = True
    scale: ScaleSubresource | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE = PrinterColumn("AGE", ".metadata.creationTimestamp", "date")

_TRAINING = (
    PrinterColumn("PROGRESS", ".status.training.progress", is_wide=True),
    PrinterColumn("RATE", ".status.training.rate", is_wide=True),
    PrinterColumn("ETA", ".status.training.eta", is_wide=True),
)
# Never one time alone: nine in ten jobs start between the two, or after the first.
_START = (
    PrinterColumn("STARTS-AFTER", ".status.startEstimate.p10", is_wide=True),
    PrinterColumn("STARTS-BY", ".status.startEstimate.p90", is_wide=True),
)

DEFINITIONS = (
    Definition(
        group="elasticdeeplearning.ai",
        kind="AITrainingJob",
        plural="aitrainingjobs",
        short_names=("aitj",),
        versions=("v1",),
        schema=ai_training_job,
        columns=(
            PrinterColumn("PHASE", ".status.phase"),
            PrinterColumn("READY", ".status.ready"),
            PrinterColumn("RESTARTS", ".status.restarts", "integer"),
            PrinterColumn("QUEUE", ".spec.queue"),
            _AGE,
            PrinterColumn("REASON", ".status.reason"),
            PrinterColumn("MESSAGE", ".status.message", is_wide=True),
            *_TRAINING,
            *_START,
        ),
        scale=ScaleSubresource(
            ".spec.scale.replicas", ".status.scale.replicas", ".status.scale.selector"
        ),
    ),
    Definition(
        group="paddlepaddle.org",
        kind="TrainingJob",
        plural="trainingjobs",
        short_names=("tj",),
        versions=("v1alpha1", "v1"),
        schema=training_job,
        columns=(
            PrinterColumn("PHASE", ".status.phase"),
            PrinterColumn("TRAINERS", ".status.trainer_target", "integer"),
            _AGE,
            PrinterColumn("REASON", ".status.reason", is_wide=True),
            *_TRAINING,
        ),
    ),
    Definition(
        group="scheduling.volcano.sh",
        kind="PodGroup",
        plural="podgroups",
        short_names=("pg", "podgroup-v1beta1"),
        versions=("v1beta1",),
        schema=pod_group,
        columns=(
            PrinterColumn("STATUS", ".status.phase"),
            PrinterColumn("minMember", ".spec.minMember", "integer"),
            PrinterColumn("RUNNINGS", ".status.running", "integer"),
            _AGE,
            PrinterColumn("QUEUE", ".spec.queue", is_wide=True),
        ),
    ),
    Definition(
        group="scheduling.volcano.sh",
        kind="Queue",
        plural="queues",
        short_names=("q", "queue-v1beta1"),
        versions=("v1beta1",),
        schema=queue,
        columns=(
            PrinterColumn("PARENT", ".spec.parent"),
            PrinterColumn("WEIGHT", ".spec.weight", "integer"),
            PrinterColumn("STATE", ".status.state"),
            _AGE,
        ),
        namespaced=False,
    ),
    Definition(
        group="topology.volcano.sh",
        kind="HyperNode",
        plural="hypernodes",
        short_names=("hn",),
        versions=("v1alpha1",),
        schema=hyper_node,
        columns=(
            PrinterColumn("Tier", ".spec.tier", "integer"),
            PrinterColumn("TierName", ".spec.tierName"),
            PrinterColumn("NodeCount", ".status.nodeCount", "integer"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        namespaced=False,
    ),
)
