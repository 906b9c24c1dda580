"""Variants of a cluster and of a job, for questions of the form "what if". Copies only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.meta import Key
from swell.api.pod import Pod, PodPhase
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.plan import SchedulerObjects

_POOL = re.compile(r"\+([1-9][0-9]{0,3})x([1-9][0-9]{0,2})gpu")
_GPU = "nvidia.com/gpu"
ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
# Nodes of a pool that nothing in the cluster is like: enough of all else.
_ROOMY = {"cpu": "128", "memory": "1Ti", "pods": "110"}


class OutlookError(ValueError):
    """A question that has no answer; the text says why, and the hint what to do about it."""

    def __init__(self, message: str, hint: str = "", *, is_usage: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.is_usage = is_usage  # the question itself was put wrongly


@dataclass(frozen=True, slots=True)
class Variant:
    """The differences of one variant; empty fields leave things as they are."""

    priority: str = ""
    queue: str = ""
    replicas: int | None = None
    node_pool: str = ""
    without: str = ""
    drain: str = ""

    @property
    def label(self) -> str:
        """Returns the differences in the words of the command line."""
        given = (
            ("--priority", self.priority),
            ("--queue", self.queue),
            ("--replicas", "" if self.replicas is None else str(self.replicas)),
            ("--node-pool", self.node_pool),
            ("--without", self.without),
            ("--drain", self.drain),
        )
        return " ".join(f"{flag} {value}" for flag, value in given if value) or "as it is"


def variants_of(asked: Variant) -> list[Variant]:
    """Returns nothing changed, each change by itself, and all of them together."""
    plain = Variant()
    single = [
        replace(plain, **{name: value})
        for name in ("priority", "queue", "replicas", "node_pool", "without", "drain")
        if (value := getattr(asked, name)) not in ("", None)
    ]
    return [plain, *single, *([asked] if len(single) > 1 else [])]


def changed_job(job: AITrainingJob, variant: Variant) -> AITrainingJob:
    """Returns the job with another priority, queue or size. OutlookError for an impossible size."""
    spec = job.spec
    if variant.priority:
        spec = msgspec.structs.replace(spec, priority=variant.priority)
    if variant.queue:
        spec = msgspec.structs.replace(spec, queue=variant.queue)
    if variant.replicas is not None:
        if len(spec.replica_specs) != 1:
            raise OutlookError("--replicas needs a job with one role", is_usage=True)
        ((name, role),) = spec.replica_specs.items()
        size = variant.replicas
        role = msgspec.structs.replace(
            role,
            replicas=size,
            min_replicas=None if role.min_replicas is None else min(role.min_replicas, size),
            max_replicas=None if role.max_replicas is None else max(role.max_replicas, size),
        )
        spec = msgspec.structs.replace(spec, replica_specs={name: role})
    return msgspec.structs.replace(job, spec=spec)


def changed_cluster(objects: SchedulerObjects, variant: Variant) -> SchedulerObjects:
    """Returns a copy of the cluster with what the variant changes in it."""
    changed = replace(objects)
    if variant.without:
        changed = without_job(changed, _key(variant.without))
    if variant.drain:
        changed = drained(changed, variant.drain)
    if variant.node_pool:
        changed = replace(changed, nodes=[*changed.nodes, *_pool(variant.node_pool, changed.nodes)])
    return changed


def drained(objects: SchedulerObjects, name: str) -> SchedulerObjects:
    """Returns the cluster with a node cordoned and its pods without a node, as made anew."""
    if not any(node.metadata.name == name for node in objects.nodes):
        raise OutlookError(f"there is no node {name}")
    nodes = [_cordoned(node) if node.metadata.name == name else node for node in objects.nodes]
    pods = [_unbound(pod) if pod.spec.node_name == name else pod for pod in objects.pods]
    return replace(objects, nodes=nodes, pods=pods)


def group_of(pod: Pod) -> Key | None:
    """Returns the group that a pod names, or None."""
    name = pod.metadata.annotations.get(GROUP_ANNOTATION)
    return Key(pod.metadata.namespace, name) if name else None


def without_job(objects: SchedulerObjects, key: Key) -> SchedulerObjects:
    """Returns the cluster without a job, its group and its pods. OutlookError if it has none."""
    jobs = [job for job in objects.training_jobs if job.metadata.key != key]
    groups = [group for group in objects.groups if group.metadata.key != key]
    if len(jobs) == len(objects.training_jobs) and len(groups) == len(objects.groups):
        raise OutlookError(f"there is no job {key}")
    pods = [pod for pod in objects.pods if group_of(pod) != key]
    return replace(objects, training_jobs=jobs, groups=groups, pods=pods)


def _key(text: str) -> Key:
    namespace, slash, name = text.rpartition("/")
    return Key(namespace if slash else "default", name)


def _cordoned(node: Node) -> Node:
    spec = msgspec.structs.replace(node.spec, unschedulable=True)
    return msgspec.structs.replace(node, spec=spec)


def _unbound(pod: Pod) -> Pod:
    if pod.status.phase in ENDED:
        return pod
    return msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(pod.spec, node_name=""),
        status=msgspec.structs.replace(pod.status, phase=PodPhase.PENDING),
    )


def _pool(text: str, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yields new nodes, like the first one with GPUs where there is any."""
    found = _POOL.fullmatch(text)
    if found is None:
        raise OutlookError(f"--node-pool: {text!r} is not like +4x8gpu", is_usage=True)
    like = next((node for node in nodes if _GPU in node.status.allocatable), None)
    allocatable = dict(like.status.allocatable) if like is not None else dict(_ROOMY)
    allocatable[_GPU] = found[2]
    first = like or nodes[0] if nodes else Node()
    for n in range(int(found[1])):
        name = f"new-{n}"
        labels = {**first.metadata.labels, "kubernetes.io/hostname": name}
        meta = msgspec.structs.replace(first.metadata, name=name, uid="", labels=labels)
        status = msgspec.structs.replace(first.status, allocatable=allocatable)
        spec = msgspec.structs.replace(first.spec, unschedulable=False)
        yield msgspec.structs.replace(first, metadata=meta, spec=spec, status=status)
