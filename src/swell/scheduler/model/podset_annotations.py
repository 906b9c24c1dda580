"""Kueue's annotations about topology on one pod: how close to others it must, or would like to, be.

They are read off a pod once. What they mean for a gang is in `annotated_gangs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from swell.api.meta import ObjectMeta

_PREFIX: Final = "kueue.x-k8s.io/podset-"
_REQUIRED: Final = f"{_PREFIX}required-topology"
_PREFERRED: Final = f"{_PREFIX}preferred-topology"
_UNCONSTRAINED: Final = f"{_PREFIX}unconstrained-topology"
_SLICE_LEVEL: Final = f"{_PREFIX}slice-required-topology"
_SLICE_SIZE: Final = f"{_PREFIX}slice-size"
_NESTED: Final = f"{_PREFIX}slice-required-topology-constraints"
_GROUP: Final = f"{_PREFIX}group-name"
_KEYS: Final = (
    _REQUIRED, _PREFERRED, _UNCONSTRAINED, _SLICE_LEVEL, _SLICE_SIZE, _NESTED, _GROUP,
)  # fmt: skip
# Labels or annotations with the number of a pod in its role; the first there is counts.
_INDEXES: Final = (
    "TrainingJobReplicaIndex",
    "volcano.sh/task-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)


@dataclass(frozen=True, slots=True)
class PodSetRequest:
    """The topology that the annotations of a pod ask for; levels are keys of node labels."""

    required: str = ""
    preferred: str = ""
    slice_level: str = ""
    slice_size: int = 0
    group: str = ""  # sets of one name share a domain
    problem: str = ""  # why it is not supported

    @property
    def level(self) -> str:
        """The level that all pods of the set are about."""
        return self.required or self.preferred


def request_of(annotations: Mapping[str, str]) -> PodSetRequest | None:
    """Returns the request of a pod with these annotations; None if they ask for nothing."""
    # A loop instead of `any`, which costs a generator for each pod of the cluster.
    for key in annotations:
        if key.startswith(_PREFIX):
            break
    else:
        return None
    return _read(tuple(annotations.get(key, "") for key in _KEYS))


def index_of(meta: ObjectMeta) -> int | None:
    """Returns the number of a pod in its role, or None if nothing says it."""
    for key in _INDEXES:
        text = meta.labels.get(key) or meta.annotations.get(key, "")
        if text:
            return int(text) if text.isdecimal() else None
    return None


@lru_cache(maxsize=1024)
def _read(given: tuple[str, ...]) -> PodSetRequest | None:
    required, preferred, unconstrained, slice_level, size, nested, group = given
    is_free = unconstrained == "true"
    if not (required or preferred or slice_level or size or nested):
        return None  # a group without a level, or the wish for no closeness
    n_ways = bool(required) + bool(preferred) + is_free
    problem = ""
    if n_ways > 1:
        problem = "required, preferred and unconstrained topology exclude each other"
    elif nested:
        problem = f"slices in slices ({_NESTED}) are not supported"
    elif slice_level and not _is_count(size):
        problem = f"{_SLICE_LEVEL} needs {_SLICE_SIZE}, a number of at least 1"
    elif size and not slice_level:
        problem = f"{_SLICE_SIZE} needs {_SLICE_LEVEL}"
    elif slice_level and group:
        problem = f"slices and {_GROUP} exclude each other"
    n = int(size) if _is_count(size) else 0
    return PodSetRequest(required, preferred, slice_level, n, group, problem)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) > 0
