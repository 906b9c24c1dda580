"""Our kinds: the names and versions they are served under, and their `kubectl get` columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swell.api.schemas.aitrainingjob import ai_training_job
from swell.api.schemas.model import Schema
from swell.api.schemas.scheduling import pod_group, queue
from swell.api.schemas.topology import hyper_node
from swell.api.schemas.trainingjob import training_job

# `kubectl get swell` lists all our kinds, `kubectl get all` the jobs of a namespace.
CATEGORY = "swell"
_OF_JOBS = ("all", CATEGORY)


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; with `is_wide` only of wide output."""

    name: str
    path: str
    description: str
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
    categories: tuple[str, ...] = (CATEGORY,)

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE = PrinterColumn("AGE", ".metadata.creationTimestamp", "Since when it exists", "date")

_TRAINING = (
    PrinterColumn(
        "PROGRESS", ".status.training.progress", "Samples used of all samples", is_wide=True
    ),
    PrinterColumn("RATE", ".status.training.rate", "Samples a second", is_wide=True),
    PrinterColumn("ETA", ".status.training.eta", "When all samples are used", is_wide=True),
)
# Never one time alone: nine in ten jobs start between the two, or after the first.
_START = (
    PrinterColumn(
        "STARTS-AFTER",
        ".status.startEstimate.p10",
        "One in ten such jobs starts earlier",
        is_wide=True,
    ),
    PrinterColumn(
        "STARTS-BY",
        ".status.startEstimate.p90",
        "Nine in ten such jobs start earlier",
        is_wide=True,
    ),
)
_SCALE = ScaleSubresource(
    ".spec.scale.replicas", ".status.scale.replicas", ".status.scale.selector"
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
            PrinterColumn("PHASE", ".status.phase", "Where it is in its life"),
            PrinterColumn("READY", ".status.ready", "Active pods of those wanted"),
            PrinterColumn("RESTARTS", ".status.restarts", "Restarts of all roles", "integer"),
            PrinterColumn("QUEUE", ".spec.queue", "The queue"),
            _AGE,
            PrinterColumn("REASON", ".status.reason", "Why, as one word"),
            PrinterColumn("MESSAGE", ".status.message", "Why, as a sentence", is_wide=True),
            *_TRAINING,
            *_START,
        ),
        scale=_SCALE,
        categories=_OF_JOBS,
    ),
    Definition(
        group="paddlepaddle.org",
        kind="TrainingJob",
        plural="trainingjobs",
        short_names=("tj",),
        versions=("v1alpha1", "v1"),
        schema=training_job,
        columns=(
            PrinterColumn("PHASE", ".status.phase", "Where it is in its life"),
            PrinterColumn(
                "TRAINERS", ".status.trainer_target", "How many trainers there should be", "integer"
            ),
            _AGE,
            PrinterColumn("REASON", ".status.reason", "Why, as one word", is_wide=True),
            *_TRAINING,
        ),
        scale=_SCALE,
        categories=_OF_JOBS,
    ),
    Definition(
        group="scheduling.volcano.sh",
        kind="PodGroup",
        plural="podgroups",
        short_names=("pg", "podgroup-v1beta1"),
        versions=("v1beta1",),
        schema=pod_group,
        columns=(
            PrinterColumn("STATUS", ".status.phase", "Where it is in its life"),
            PrinterColumn("minMember", ".spec.minMember", "Pods that start together", "integer"),
            PrinterColumn("RUNNINGS", ".status.running", "Pods that run", "integer"),
            _AGE,
            PrinterColumn("QUEUE", ".spec.queue", "The queue", is_wide=True),
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
            PrinterColumn("PARENT", ".spec.parent", "The queue above"),
            PrinterColumn("WEIGHT", ".spec.weight", "Its share against its siblings", "integer"),
            PrinterColumn("STATE", ".status.state", "Whether jobs may enter"),
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
            PrinterColumn("Tier", ".spec.tier", "How far apart its nodes are", "integer"),
            PrinterColumn("TierName", ".spec.tierName", "The name of that distance"),
            PrinterColumn("NodeCount", ".status.nodeCount", "Nodes in it and below it", "integer"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "Since when it exists", "date"),
        ),
        namespaced=False,
    ),
)
