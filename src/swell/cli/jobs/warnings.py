"""Warnings about jobs that are valid and will not do what their authors expect. Pure.

A warning with `is_never` says that the job cannot start on this cluster as it is: it asks for more
than there is, or names something that does not exist. The others say that it starts and may
disappoint. Amounts are compared with what nodes offer in all, not with what is free now: a job that
only has to wait is not warned about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from swell.api import impossible
from swell.api.aitrainingjob import AITrainingJob, EdlPolicy, RestartPolicy
from swell.api.codec import convert
from swell.api.core import Node
from swell.api.impossible import CANNOT_EVER_FIT, Shortage
from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.matching import node_selector_matches
from swell.api.meta import Body
from swell.api.pod import Container, PodSpec
from swell.api.quantity import ZERO, Quantity, canonical, parse
from swell.api.requests import PODS, Amounts, asks_for_parts_of_gpus, pod_requests
from swell.api.trainingjob import TrainingJob
from swell.api.validation.access import at, items
from swell.api.validation.hints import nearest
from swell.api.validation.problems import Steps

LOCAL_IMAGE = "local"
_KEPT_VOLUMES = ("hostPath", "persistentVolumeClaim", "nfs", "csi", "ephemeral", "iscsi", "fc")
_UNLIMITED = 1 << 31  # a node that offers no count of pods limits pods that ask for nothing
_CHECKPOINT = re.compile("checkpoint|ckpt", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SubmitWarning:
    """One warning: the field it is about, a sentence, and what helps."""

    steps: Steps
    message: str
    hint: str
    reason: str
    is_never: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The parts of a cluster that warnings depend on; None where they could not be read."""

    nodes: Sequence[Node] | None = None
    queues: Collection[str] | None = None
    priority_classes: Collection[str] | None = None
    runs_processes: bool = True  # pods are processes of their nodes, as on the embedded cluster


@dataclass(frozen=True, slots=True)
class _Role:
    """A role as far as room is concerned: its pods that must start together, and what each asks."""

    steps: Steps
    name: str
    n_pods: int
    pod: PodSpec

    @property
    def requests(self) -> Amounts:
        return pod_requests(self.pod)


def warnings_about(body: Body, facts: ClusterFacts) -> list[SubmitWarning]:
    """Return the warnings about a valid manifest; other kinds than jobs have none."""
    if body.get("kind") == AI_TRAINING_JOBS.kind:
        return [*_job_warnings(convert(body, AITrainingJob), facts)]
    if body.get("kind") == TRAINING_JOBS.kind:
        return [*_training_job_warnings(convert(body, TrainingJob), facts)]
    return []


def _job_warnings(job: AITrainingJob, facts: ClusterFacts) -> Iterator[SubmitWarning]:
    spec = job.spec
    roles = []
    yield from _queue_warnings(spec.queue, facts)
    yield from _class_warnings(("spec", "priority"), spec.priority, facts, is_never=False)
    for name, role in spec.replica_specs.items():
        steps = ("spec", "replicaSpecs", name)
        pod = convert(role.template.get("spec", {}), PodSpec)
        roles.append(_Role(steps, name, role.gang_minimum, pod))
        where = (*steps, "template", "spec")
        yield from _class_warnings(
            (*where, "priorityClassName"), pod.priority_class_name, facts, is_never=True
        )
        if not facts.runs_processes:
            yield from _image_warnings(role.template, where)
        if role.edl_policy is EdlPolicy.AUTO and role.minimum == role.maximum:
            yield SubmitWarning(
                (*steps, "edlPolicy"),
                f"Auto has no effect: minReplicas and maxReplicas are both {role.minimum}",
                "raise maxReplicas, or set edlPolicy: Never",
                "NotElastic",
            )
        if role.is_elastic and role.restart_policy is RestartPolicy.NEVER:
            yield SubmitWarning(
                (*steps, "restartPolicy"),
                "Never lets the job fail when a pod of this elastic role is lost",
                "set restartPolicy: OnFailure",
                "ElasticWithoutRestarts",
            )
        if (
            role.is_elastic
            and role.edl_policy is EdlPolicy.AUTO
            and not _saves(role.template, facts)
        ):
            yield SubmitWarning(
                (*steps, "edlPolicy"),
                "Auto resizes the role, and no folder for checkpoints is mounted or named",
                "mount a volume that outlives the pods, or name the folder in a variable",
                "NoCheckpoints",
            )
    yield from _room_warnings(roles, facts)


def _training_job_warnings(job: TrainingJob, facts: ClusterFacts) -> Iterator[SubmitWarning]:
    spec = job.spec
    yield from _queue_warnings(job.queue, facts)
    steps = ("spec", "annotations", "priority")
    yield from _class_warnings(steps, spec.annotations.priority, facts, is_never=False)
    sizes = {"trainer": (spec.trainer, spec.trainer_minimum)}
    if spec.has_pservers:
        sizes["pserver"] = (spec.pserver, spec.pserver.minimum)
    roles = [
        _Role(
            ("spec", name),
            name,
            n_pods,
            PodSpec(
                containers=(Container(resources=role.resources),), node_selector=role.node_selector
            ),
        )
        for name, (role, n_pods) in sizes.items()
    ]
    yield from _room_warnings(roles, facts)


def _queue_warnings(queue: str, facts: ClusterFacts) -> Iterator[SubmitWarning]:
    # A cluster without any queue has no scheduler of ours yet, which brings the first ones along.
    if not queue or not facts.queues or queue in facts.queues:
        return
    likely = nearest(queue, facts.queues)
    meant = f"did you mean {likely}? or " if likely else ""
    yield SubmitWarning(
        ("spec", "queue"),
        f"there is no queue {queue}",
        f"{meant}create it: swell queue create {queue}",
        "QueueNotFound",
        is_never=True,
    )


def _class_warnings(
    steps: Steps, name: str, facts: ClusterFacts, *, is_never: bool
) -> Iterator[SubmitWarning]:
    if not name or facts.priority_classes is None or name in facts.priority_classes:
        return
    likely = nearest(name, facts.priority_classes)
    meant = f"did you mean {likely}? or " if likely else ""
    effect = "its pods are refused" if is_never else "the job has no priority"
    yield SubmitWarning(
        steps,
        f"there is no PriorityClass {name}: {effect}",
        f"{meant}create it; see: swell get priorityclasses",
        "PriorityClassNotFound",
        is_never=is_never,
    )


def _image_warnings(template: Body, steps: Steps) -> Iterator[SubmitWarning]:
    for index, container in items(at(template, "spec", "containers")):
        if at(container, "image") == LOCAL_IMAGE:
            yield SubmitWarning(
                (*steps, "containers", index, "image"),
                f"{LOCAL_IMAGE} is an image of the embedded cluster only",
                "name an image that this cluster can pull",
                "LocalImage",
            )


def _saves(template: Body, facts: ClusterFacts) -> bool:
    """Whether a template has a place for checkpoints, as far as a manifest shows it.

    A process that works in a folder of its machine has one.
    """
    spec = template.get("spec", {})
    volumes = [volume for _, volume in items(at(spec, "volumes"))]
    if any(at(volume, kind) is not None for volume in volumes for kind in _KEPT_VOLUMES):
        return True
    for _, container in items(at(spec, "containers")):
        if facts.runs_processes and at(container, "workingDir"):
            return True
        texts = [at(entry, "name") for _, entry in items(at(container, "env"))]
        texts += [text for part in ("command", "args") for _, text in items(at(container, part))]
        if any(isinstance(text, str) and _CHECKPOINT.search(text) for text in texts):
            return True
    return False


def _room_warnings(roles: Sequence[_Role], facts: ClusterFacts) -> Iterator[SubmitWarning]:
    """Yield what the job can never have. Without any node nothing is known: one may join."""
    if not facts.nodes:
        return
    too_large = False
    for role in roles:
        for warning in _role_warnings(role, facts.nodes):
            too_large = True
            yield warning
    if not too_large:
        yield from _total_warnings(roles, facts.nodes)


def _role_warnings(role: _Role, nodes: Sequence[Node]) -> Iterator[SubmitWarning]:
    fitting = [node for node in nodes if _accepts(node, role.pod)]
    if not fitting:
        yield _never(
            role.steps,
            impossible.no_node_matches(role.name, role.pod.node_selector),
            "label a node, or change nodeSelector or affinity",
        )
        return
    if asks_for_parts_of_gpus(role.pod):
        yield _never(role.steps, impossible.shares_devices(role.name), "ask for whole GPUs")
        return
    requests = role.requests
    short = [
        _shortage(name, amount, max(_offered(node, name) for node in fitting))
        for name, amount in sorted(requests.items())
        if all(_offered(node, name) < amount for node in fitting)
    ]
    if short:
        yield _never(role.steps, impossible.pod_too_large(role.name, short), "ask for less")
        return
    n_slots = sum(_n_slots(node, requests) for node in fitting)
    each = {name: canonical(amount) for name, amount in requests.items()}
    if not n_slots:
        yield _never(role.steps, impossible.no_node_has_all(role.name, each), "ask for less")
    elif n_slots < role.n_pods:
        yield _never(
            role.steps,
            impossible.too_few_places(role.name, role.n_pods, n_slots, each),
            "lower the minimum, or ask for less",
        )


def _total_warnings(roles: Sequence[_Role], nodes: Sequence[Node]) -> Iterator[SubmitWarning]:
    """Yield the resources of which all roles together need more than there is."""
    needed: dict[str, Quantity] = {}
    for role in roles:
        for name, amount in role.requests.items():
            needed[name] = needed.get(name, ZERO) + amount * role.n_pods
    for name, amount in sorted(needed.items()):
        there = sum((_offered(node, name) for node in nodes), ZERO)
        if there < amount:
            yield _never(
                ("spec",),
                impossible.cluster_too_small(name, canonical(there), canonical(amount)),
                "ask for less, or add nodes",
            )


def _never(steps: Steps, message: str, hint: str) -> SubmitWarning:
    return SubmitWarning(steps, message, hint, CANNOT_EVER_FIT, is_never=True)


def _accepts(node: Node, pod: PodSpec) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    affinity = pod.affinity.node_affinity if pod.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or node_selector_matches(required, node)


def _offered(node: Node, name: str) -> Quantity:
    return parse(node.status.allocatable.get(name, "0"))


def _n_slots(node: Node, requests: Mapping[str, Quantity]) -> int:
    """Return how many such pods the node could hold if it were empty."""
    asked = {name: amount for name, amount in requests.items() if amount}
    if PODS in node.status.allocatable:
        asked[PODS] = parse("1")
    slots = [_offered(node, name).nano // amount.nano for name, amount in asked.items()]
    return min(slots, default=_UNLIMITED)


def _shortage(name: str, asked: Quantity, largest: Quantity) -> Shortage:
    return Shortage(name, canonical(asked), canonical(largest) if largest else "")
