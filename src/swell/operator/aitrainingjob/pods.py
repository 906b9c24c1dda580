"""Makes the pods of a job from their role's template, and the service of each pod.

Only these parts of the template change: labels, annotations, owner, scheduler, restart policy,
variables before the user's own, the DNS policy that the host network needs, the priority class,
and the nodes to avoid; and, where the job asks for them, the parts that a training program gets
(`framework.training`).
"""

from __future__ import annotations

from swell.api import codec
from swell.api.aitrainingjob import QUEUE_LABEL, AITrainingJobStatus
from swell.api.injection import INSTANCE_VARIABLE
from swell.api.meta import Body
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.environment import (
    common_variables,
    container_variables,
    containers,
    named_ports,
    peers_of,
    shared_variables,
    spec_of,
)
from swell.operator.aitrainingjob.instances import Instances
from swell.operator.aitrainingjob.node_faults import avoided_nodes
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.operator.framework.children import (
    GANG_ANNOTATION,
    TASK_ANNOTATION,
    controller_reference,
)
from swell.operator.framework.training import (
    INSTANCE,
    MEMBERS_EPOCH,
    TrainingParts,
    add_training_parts,
    free_port,
    objects,
    secret_name,
)

# The most that one preference of a pod can weigh.
_WEIGHT_MAX = 100


def pod_bodies(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    wanted: list[tuple[str, int]],
    numbers: Instances | None,
    now: float,
    *,
    native_group: str = "",
) -> list[Body]:
    """The pods of several replicas, which all get the same addresses of their peers.

    `numbers` are those of the pods of a job whose programs train together, `native_group` the
    group of Kubernetes itself that they belong to.
    """
    if not wanted:
        return []
    peers = peers_of(snapshot, status)
    shared = shared_variables(peers)
    parts = _training_parts(snapshot)
    made = []
    for role, index in wanted:
        body = _from_template(snapshot, status, role, index)
        common = common_variables(snapshot, status, peers, shared, (role, index))
        for kind in ("initContainers", "containers"):
            for container in objects(body["spec"].get(kind)):
                _add_variables(container, [*common, *container_variables(container)])
        if parts is not None and numbers is not None:
            number = numbers.by_role[role][index]
            _add_training(body, parts, number, status.epoch)
        _avoid_nodes(body["spec"], *avoided_nodes(snapshot, status, role, now))
        if native_group:
            body["spec"]["schedulingGroup"] = {"podGroupName": native_group}
        made.append(body)
    return made


def _training_parts(snapshot: AITrainingJobSnapshot) -> TrainingParts | None:
    """The parts by which the job's programs train together; None where it does not ask for them."""
    if not snapshot.is_training:
        return None
    meta = snapshot.job.metadata
    every = (one for spec in snapshot.roles.values() for one in containers(spec.template))
    members, url = labels.members_name(meta.name), snapshot.settings.report_url
    return TrainingParts(members, secret_name(meta), free_port(every), url)


def _add_training(body: Body, parts: TrainingParts, instance: int, epoch: int) -> None:
    body["metadata"]["annotations"] |= {INSTANCE: str(instance), MEMBERS_EPOCH: str(epoch)}
    add_training_parts(body["spec"], parts, [(INSTANCE_VARIABLE, str(instance))])


def service_body(snapshot: AITrainingJobSnapshot, role: str, index: int) -> Body:
    """A headless service: a DNS name for one pod, which resolves before the pod is ready."""
    meta = snapshot.job.metadata
    marks = _identity(snapshot, role, index)
    ports = _service_ports(snapshot, role)
    spec: Body = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": marks}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": labels.pod_name(meta.name, role, index),
            "namespace": meta.namespace,
            "labels": marks,
            "ownerReferences": [controller_reference(snapshot.job)],
        },
        "spec": {**spec, "ports": ports} if ports else spec,
    }


def _service_ports(snapshot: AITrainingJobSnapshot, role: str) -> list[Body]:
    """The ports with our prefix of containers with our prefix; each name and number once."""
    ports: list[Body] = []
    for container in containers(snapshot.roles[role].template):
        if str(container.get("name", "")).startswith(labels.OURS):
            for name, number in named_ports(container):
                if not any(held["name"] == name or held["port"] == number for held in ports):
                    ports.append({"name": name, "port": number})
    return ports


def _identity(snapshot: AITrainingJobSnapshot, role: str, index: int) -> dict[str, str]:
    """The labels that name a replica and its job."""
    return {
        **labels.of_job(snapshot.job.metadata.name),
        labels.POD_ROLE: role,
        labels.REPLICA_NAME: role,
        labels.REPLICA_INDEX: str(index),
    }


def _from_template(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, role: str, index: int
) -> Body:
    template = _own_copy(snapshot.roles[role].template)
    job = snapshot.job.metadata
    found = template.get("metadata")
    meta: Body = found if isinstance(found, dict) else {}
    spec = spec_of(template)
    ours = _identity(snapshot, role, index)
    ours[labels.RESTART_COUNT] = str(status.restart_counts.get(role, 0))
    if snapshot.job.spec.priority:
        ours[labels.PRIORITY] = snapshot.job.spec.priority
    # Ours come last and win: services and informers select pods by them.
    marks = {**_texts(meta.get("labels")), **snapshot.job.metadata.labels, **ours}
    notes = {**_texts(meta.get("annotations")), TASK_ANNOTATION: role}
    if snapshot.uses_volcano_gang:
        notes[GANG_ANNOTATION] = snapshot.job.metadata.name
    if QUEUE_LABEL in job.labels:
        # Where Kueue does not know this kind of job, it takes the pods for a group by these.
        marks[labels.KUEUE_GROUP] = job.name
        notes[labels.KUEUE_TOTAL] = str(sum(status.target_replicas.values()))
    spec["schedulerName"] = (
        snapshot.job.spec.scheduler_name
        or spec.get("schedulerName")
        or snapshot.settings.default_scheduler
    )
    spec["restartPolicy"] = "Never"  # restarts are the operator's: the kubelet's are not counted
    if snapshot.job.spec.priority and snapshot.priority_class_found:
        spec["priorityClassName"] = snapshot.job.spec.priority
    # With the host network the default policy would not resolve the names of services.
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta,
            "name": labels.pod_name(job.name, role, index),
            "namespace": job.namespace,
            "labels": marks,
            "annotations": notes,
            "ownerReferences": [controller_reference(snapshot.job)],
        },
        "spec": spec,
    }


def _add_variables(container: Body, ours: list[Body]) -> None:
    """Put our variables first, so that the user's override ours and may refer to them."""
    container["env"] = [*ours, *objects(container.get("env"))]


def _avoid_nodes(spec: Body, excluded: list[str], disliked: list[str]) -> None:
    """Exclude nodes from every required node selector term, and prefer others to those disliked.

    Each node gets a requirement of its own, because `matchFields` allows one value each.
    """
    if not excluded and not disliked:
        return
    node_affinity = _object(_object(spec, "affinity"), "nodeAffinity")
    if excluded:
        required = _object(node_affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        # A node has to match one of the terms, so each of them needs all the requirements.
        terms = list(objects(required.get("nodeSelectorTerms"))) or [Body()]
        required["nodeSelectorTerms"] = [
            {**term, "matchFields": [*objects(term.get("matchFields")), *_none_of(excluded)]}
            for term in terms
        ]
    if disliked:
        name = "preferredDuringSchedulingIgnoredDuringExecution"
        term = {"weight": _WEIGHT_MAX, "preference": {"matchFields": _none_of(disliked)}}
        node_affinity[name] = [*objects(node_affinity.get(name)), term]


def _none_of(names: list[str]) -> list[Body]:
    return [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]


def _object(parent: Body, name: str) -> Body:
    """A nested object, which is created where it is missing."""
    held = parent.get(name)
    if not isinstance(held, dict):
        held = parent[name] = {}
    return held


def _texts(value: object) -> dict[str, str]:
    return dict(value) if isinstance(value, dict) else {}


def _own_copy(template: Body) -> Body:
    # The template belongs to an object of the informer's cache, which must not change.
    copy: Body = codec.decode(codec.encode(template), dict)
    if not isinstance(copy.get("spec"), dict):
        copy["spec"] = {}
    return copy
