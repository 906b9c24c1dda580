"""Which kinds are ours, under which names they are served, and what `kubectl get` shows of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swell.api.schemas.aitrainingjob import ai_training_job
from swell.api.schemas.model import Schema
from swell.api.schemas.podgroup import pod_group
from swell.api.schemas.queue import queue
from swell.api.schemas.trainingjob import training_job


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; only in wide output if `is_wide`."""

    name: str
    path: str
    type: str = "string"
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind: its names, its versions (the last one is stored) and its schema."""

    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    versions: tuple[str, ...]
    schema: Callable[[], Schema]
    columns: tuple[Column, ...]
    namespaced: bool = True

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE = Column("AGE", ".metadata.creationTimestamp", "date")

DEFINITIONS = (
    Definition(
        group="elasticdeeplearning.ai",
        kind="AITrainingJob",
        plural="aitrainingjobs",
        short_names=("aitj",),
        versions=("v1",),
        schema=ai_training_job,
        columns=(
            Column("PHASE", ".status.phase"),
            Column("READY", ".status.ready"),
            Column("RESTARTS", ".status.restarts", "integer"),
            Column("QUEUE", ".spec.queue"),
            _AGE,
            Column("REASON", ".status.reason", is_wide=True),
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
            Column("PHASE", ".status.phase"),
            Column("TRAINERS", ".status.trainer_target", "integer"),
            _AGE,
            Column("REASON", ".status.reason", is_wide=True),
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
            Column("STATUS", ".status.phase"),
            Column("minMember", ".spec.minMember", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE,
            Column("QUEUE", ".spec.queue", is_wide=True),
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
            Column("PARENT", ".spec.parent"),
            Column("WEIGHT", ".spec.weight", "integer"),
            Column("STATE", ".status.state"),
            _AGE,
        ),
        namespaced=False,
    ),
)
