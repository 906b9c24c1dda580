"""Reads what the annotations of a pod say to the scheduler, once for equal ones in a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from swell.scheduler.model.podset_annotations import PodSetRequest, request_of

GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
ROLE_KEY: Final = "volcano.sh/task-spec"
PREEMPTABLE_KEY: Final = "volcano.sh/preemptable"
PRIORITY_KEY: Final = "volcano.sh/task-priority"
# Annotations by which a pod chooses how the plugin resource-strategy-fit scores nodes for it.
STRATEGY_TYPE_KEY: Final = "volcano.sh/resource-strategy-scoring-type"
STRATEGY_WEIGHT_KEY: Final = "volcano.sh/resource-strategy-weight"
NO_STRATEGY: Final = ("", "")


class PodNotes(NamedTuple):
    """The answers of annotations. Labels may say role and preemptable as well, if these do not."""

    group: str  # the name of the pod's group
    role: str
    preemptable: str
    priority: int | None
    strategy: tuple[str, str]  # for scores: type and weights
    podset_request: PodSetRequest | None


NO_NOTES: Final = PodNotes("", "", "", None, NO_STRATEGY, None)


class NotesReader:
    """Reads annotations. Pods of one gang have the same and come in a row: these are read once."""

    def __init__(self) -> None:
        self._last: Mapping[str, str] = {}
        self._notes = NO_NOTES

    def read(self, annotations: Mapping[str, str]) -> PodNotes:
        if annotations != self._last:
            self._last, self._notes = annotations, read_notes(annotations)
        return self._notes


def read_notes(annotations: Mapping[str, str]) -> PodNotes:
    """Returns what these annotations say."""
    get = annotations.get
    return PodNotes(
        group=get(GROUP_ANNOTATION, ""),
        role=get(ROLE_KEY, ""),
        preemptable=get(PREEMPTABLE_KEY, ""),
        priority=_priority(get(PRIORITY_KEY, "")),
        strategy=(get(STRATEGY_TYPE_KEY, ""), get(STRATEGY_WEIGHT_KEY, "")),
        podset_request=request_of(annotations),
    )


def _priority(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdecimal() else None
