"""Reads what a plan is made from: objects in files or on stdin, JSON or YAML; configuration.

Objects of many kinds are sorted into the lists a plan is made of; other kinds are left out. JSON
is decoded straight into structs, because dumps of a cluster hold tens of thousands of objects;
YAML is parsed first, which is many times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swell.api import codec
from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Namespace, Node
from swell.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from swell.api.manifest.composer import ManifestSyntaxError
from swell.api.manifest.yamldata import YamlBudget, read_documents
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
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
from swell.cli.command_line import CommandError
from swell.scheduler.config import DEFAULT, Config, SchedulerConfigError
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN
from swell.scheduler.plan import SchedulerObjects

# API group and kind → struct, and the list it goes to. A plan without such a list skips the kind.
_STRUCTS: Mapping[tuple[str, str], tuple[type[object], str]] = {
    ("", "Node"): (Node, "nodes"),
    ("", "Pod"): (Pod, "pods"),
    ("", "Namespace"): (Namespace, "namespaces"),
    ("scheduling.volcano.sh", "PodGroup"): (PodGroup, "groups"),
    ("scheduling.volcano.sh", "Queue"): (Queue, "queues"),
    ("scheduling.k8s.io", "PriorityClass"): (PriorityClass, "priority_classes"),
    ("scheduling.k8s.io", "PodGroup"): (NativeGroup, "native_groups"),
    ("", "PersistentVolumeClaim"): (PersistentVolumeClaim, "claims"),
    ("", "PersistentVolume"): (PersistentVolume, "volumes"),
    ("storage.k8s.io", "StorageClass"): (StorageClass, "storage_classes"),
    ("storage.k8s.io", "CSINode"): (CsiNode, "csi_nodes"),
    ("storage.k8s.io", "CSIDriver"): (CsiDriver, "csi_drivers"),
    ("storage.k8s.io", "CSIStorageCapacity"): (CsiStorageCapacity, "storage_capacities"),
    ("storage.k8s.io", "VolumeAttachment"): (VolumeAttachment, "volume_attachments"),
    ("resource.k8s.io", "ResourceSlice"): (ResourceSlice, "resource_slices"),
    ("resource.k8s.io", "DeviceClass"): (DeviceClass, "device_classes"),
    ("resource.k8s.io", "ResourceClaim"): (ResourceClaim, "resource_claims"),
    ("topology.volcano.sh", "HyperNode"): (HyperNode, "hyper_nodes"),
    ("policy", "PodDisruptionBudget"): (PodDisruptionBudget, "budgets"),
    ("elasticdeeplearning.ai", "AITrainingJob"): (AITrainingJob, "training_jobs"),
    ("paddlepaddle.org", "TrainingJob"): (TrainingJob, "trainer_jobs"),
}

# A dump of the largest clusters: 100,000 pods of a hundred values each.
_BUDGET = YamlBudget(text_bytes=1 << 30, values=20_000_000)


class _UnreadableError(ValueError):
    """The input is no Kubernetes object, or one of the wrong shape."""


def read_config(name: str) -> Config:
    """Return the configuration in a file, or the default. Settings it ignores go to stderr."""
    if not name:
        return DEFAULT
    try:
        parsed = parse(next(_documents(name, _bytes_of(name)), None), KNOWN)
    except SchedulerConfigError as error:
        raise CommandError(f"{name}: {error}") from error
    for warning in parsed.warnings:
        sys.stderr.write(f"warning: {name}: {warning}\n")
    return parsed.config


def read_objects(names: Iterable[str]) -> SchedulerObjects:
    """Read all objects in some files that scheduling depends on."""
    objects = SchedulerObjects()
    read_into(objects, names)
    return objects


def read_into(objects: object, names: Iterable[str]) -> None:
    """Add the objects in some files to the lists of `objects` that are named in `_STRUCTS`.

    `-` is stdin. CommandError when a file cannot be read or holds something else than objects.
    """
    for name in names:
        raw = _bytes_of(name)
        try:
            if _is_json(raw):
                _add_raw(raw, objects, default=("", ""))
            else:
                for document in _documents(name, raw):
                    if document is not None:  # an empty YAML document
                        _add_parsed(document, objects, default=("", ""))
        except _UnreadableError as error:
            raise CommandError(f"{name}: {error}") from error
        except RecursionError as error:
            raise CommandError(f"{name}: its lists are nested too deeply") from error


def _bytes_of(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error


def _is_json(raw: bytes) -> bool:
    """Whether this is one JSON document. Several of them, or YAML, are read as YAML."""
    if not raw.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _documents(name: str, raw: bytes) -> Iterator[object]:
    try:
        yield from read_documents(raw, _BUDGET)
    except ManifestSyntaxError as error:
        problem = f"line {error.line}: {error.message}"
        raise CommandError(f"{name}: is neither JSON nor YAML: {problem}") from error


def _add_raw(raw: bytes | memoryview, into: object, default: tuple[str, str]) -> None:
    """Add one JSON document: an object, or a list of any depth.

    `default` is the apiVersion and kind of a list's items, which need not repeat them.
    """
    try:
        head = codec.decode(raw, _Head)
        api_version, kind = head.api_version or default[0], head.kind or default[1]
        if head.items is not None:
            for item in head.items:
                _add_raw(memoryview(item), into, (api_version, kind.removesuffix("List")))
            return
        place = _list_for(into, api_version, kind)
        if place is not None:
            place[1].append(codec.decode(raw, place[0]))
    except msgspec.ValidationError as error:
        raise _UnreadableError(f"{_kind_of(raw)}: {error}") from error


def _add_parsed(document: object, into: object, default: tuple[str, str]) -> None:
    if not isinstance(document, dict):
        raise _UnreadableError("a document must be an object with apiVersion and kind")
    api_version = str(document.get("apiVersion") or default[0])
    kind = str(document.get("kind") or default[1])
    items = document.get("items")
    if isinstance(items, Sequence):
        for item in items:
            _add_parsed(item, into, (api_version, kind.removesuffix("List")))
        return
    place = _list_for(into, api_version, kind)
    if place is None:
        return
    try:
        place[1].append(codec.convert(document, place[0]))
    except msgspec.ValidationError as error:
        name = (document.get("metadata") or {}).get("name", "")
        raise _UnreadableError(f"{kind} {name}: {error}") from error


def _list_for(
    into: object, api_version: str, kind: str
) -> tuple[type[object], list[object]] | None:
    """Return the struct of a kind and the list it belongs in; None when this plan has none."""
    struct, name = _STRUCTS.get((_group(api_version), kind), (object, ""))
    found: list[object] | None = getattr(into, name, None) if name else None
    return None if found is None else (struct, found)


def _group(api_version: str) -> str:
    group, slash, _ = api_version.partition("/")
    return group if slash else ""


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _LooseMetadata(msgspec.Struct, frozen=True):
    name: object = ""


class _LooseObject(msgspec.Struct, frozen=True):
    """Kind and name of any object, whatever their types are."""

    kind: object = ""
    metadata: _LooseMetadata = _LooseMetadata()


def _kind_of(raw: bytes | memoryview) -> str:
    """Return kind and name of a malformed object, as far as they can be decoded."""
    try:
        named = codec.decode(raw, _LooseObject)
    except msgspec.ValidationError:
        return "an object"
    return f"{named.kind} {named.metadata.name}"
