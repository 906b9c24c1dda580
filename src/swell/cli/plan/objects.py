"""Sorts objects of many kinds into the lists a plan is made of; the others are left out.

Takes JSON bytes (fast, for lists of tens of thousands) or parsed documents. Never reads files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from swell.api import codec
from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Namespace, Node
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import PersistentVolumeClaim, StorageClass
from swell.api.trainingjob import TrainingJob

# API group and kind → struct, and where it goes.
_STRUCTS: Mapping[tuple[str, str], tuple[type[object], str]] = {
    ("", "Node"): (Node, "nodes"),
    ("", "Pod"): (Pod, "pods"),
    ("", "Namespace"): (Namespace, "namespaces"),
    ("scheduling.volcano.sh", "PodGroup"): (PodGroup, "groups"),
    ("scheduling.volcano.sh", "Queue"): (Queue, "queues"),
    ("scheduling.k8s.io", "PriorityClass"): (PriorityClass, "priority_classes"),
    ("", "PersistentVolumeClaim"): (PersistentVolumeClaim, "claims"),
    ("storage.k8s.io", "StorageClass"): (StorageClass, "storage_classes"),
    ("policy", "PodDisruptionBudget"): (PodDisruptionBudget, "budgets"),
    ("elasticdeeplearning.ai", "AITrainingJob"): (AITrainingJob, "training_jobs"),
    ("paddlepaddle.org", "TrainingJob"): (TrainingJob, "trainer_jobs"),
}


class UnreadableError(ValueError):
    """The input is no Kubernetes object, or one of the wrong shape."""


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None


def add_json(raw: bytes | memoryview, into: object) -> None:
    """One document as JSON: an object, or a list of any depth."""
    _add_raw(raw, into, default=("", ""))


def add_document(document: object, into: object) -> None:
    """One parsed document; None, which an empty YAML document is, adds nothing."""
    if document is not None:
        _add_parsed(document, into, default=("", ""))


def _add_raw(raw: bytes | memoryview, into: object, default: tuple[str, str]) -> None:
    try:
        head = codec.decode(raw, _Head)
        api_version, kind = head.api_version or default[0], head.kind or default[1]
        if head.items is not None:
            for item in head.items:
                _add_raw(memoryview(item), into, (api_version, kind.removesuffix("List")))
            return
        place = _place(into, api_version, kind)
        if place is not None:
            place[1].append(codec.decode(raw, place[0]))
    except msgspec.ValidationError as error:
        raise UnreadableError(f"{_kind_of(raw)}: {error}") from error


def _add_parsed(document: object, into: object, default: tuple[str, str]) -> None:
    if not isinstance(document, dict):
        raise UnreadableError("a document must be an object with apiVersion and kind")
    api_version = str(document.get("apiVersion") or default[0])
    kind = str(document.get("kind") or default[1])
    items = document.get("items")
    if isinstance(items, Sequence):
        for item in items:
            _add_parsed(item, into, (api_version, kind.removesuffix("List")))
        return
    place = _place(into, api_version, kind)
    if place is None:
        return
    try:
        place[1].append(codec.convert(document, place[0]))
    except msgspec.ValidationError as error:
        name = (document.get("metadata") or {}).get("name", "")
        raise UnreadableError(f"{kind} {name}: {error}") from error


def _place(into: object, api_version: str, kind: str) -> tuple[type[object], list[object]] | None:
    """The struct of a kind and the list it belongs in; None when this plan has no use for it."""
    struct, name = _STRUCTS.get((_group(api_version), kind), (object, ""))
    found: list[object] | None = getattr(into, name, None) if name else None
    return None if found is None else (struct, found)


def _group(api_version: str) -> str:
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


class _Name(msgspec.Struct, frozen=True):
    name: object = ""


class _Named(msgspec.Struct, frozen=True):
    kind: object = ""
    metadata: _Name = _Name()


def _kind_of(raw: bytes | memoryview) -> str:
    """Kind and name of a malformed object, as far as they can be told."""
    try:
        named = codec.decode(raw, _Named)
    except msgspec.ValidationError:
        return "an object"
    return f"{named.kind} {named.metadata.name}"
