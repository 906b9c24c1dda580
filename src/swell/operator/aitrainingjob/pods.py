"""Makes pods and their services of a role's template. The template is changed in named ways only:

labels, annotations, owner, scheduler, restart policy, variables before the user's own, the DNS
policy that the host network needs, the priority class, and nodes to keep away from.
"""

from __future__ import annotations

from swell.api import codec
from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body, Key
from swell.api.times import parse_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.environment import (
    common_variables,
    container_variables,
    peers_of,
    shared_variables,
)
from swell.operator.aitrainingjob.ports import containers, named_ports, objects, spec_of
from swell.operator.aitrainingjob.world import World


def owner_reference(world: World) -> Body:
    """The job as controller of what it owns; by UID, so a namesake never inherits it."""
    return {
        "apiVersion": world.job.api_version,
        "kind": world.job.kind,
        "name": world.job.metadata.name,
        "uid": world.job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_key(world: World, role: str, index: int) -> Key:
    meta = world.job.metadata
    return Key(meta.namespace, labels.pod_name(meta.name, role, index))


def pod_bodies(
    world: World, status: AITrainingJobStatus, wanted: list[tuple[str, int]], now: float
) -> list[Body]:
    """The pods of several replicas, which share one view of their peers."""
    if not wanted:
        return []
    peers = peers_of(world, status)
    shared = shared_variables(peers)
    made = []
    for role, index in wanted:
        body = _from_template(world, status, role, index)
        common = common_variables(world, status, peers, shared, (role, index))
        for kind in ("initContainers", "containers"):
            for container in objects(body["spec"].get(kind)):
                _add_variables(container, [*common, *container_variables(container)])
        _avoid_nodes(body["spec"], status, now)
        made.append(body)
    return made


def service_body(world: World, role: str, index: int) -> Body:
    """A headless service that is just a name for one pod, before it is ready, too."""
    key = pod_key(world, role, index)
    marks = _identity(world, role, index)
    ports = _service_ports(world, role)
    spec: Body = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": marks}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": marks,
            "ownerReferences": [owner_reference(world)],
        },
        "spec": {**spec, "ports": ports} if ports else spec,
    }


def _service_ports(world: World, role: str) -> list[Body]:
    """Ports of containers like ours that are named like ours; each name and number once."""
    ports: list[Body] = []
    for container in containers(world.roles[role].template):
        if str(container.get("name", "")).startswith(labels.OURS):
            for name, number in named_ports(container):
                if not any(held["name"] == name or held["port"] == number for held in ports):
                    ports.append({"name": name, "port": number})
    return ports


def _identity(world: World, role: str, index: int) -> dict[str, str]:
    """The labels that say which replica of which job something is for."""
    name = world.job.metadata.name
    return {
        labels.GROUP_NAME: labels.GROUP_VALUE,
        labels.TRAINING_JOB_NAME: name,
        labels.JOB_NAME: name,
        labels.POD_ROLE: role,
        labels.REPLICA_NAME: role,
        labels.REPLICA_INDEX: str(index),
    }


def _from_template(world: World, status: AITrainingJobStatus, role: str, index: int) -> Body:
    template = _own_copy(world.roles[role].template)
    key = pod_key(world, role, index)
    found = template.get("metadata")
    meta: Body = found if isinstance(found, dict) else {}
    spec = spec_of(template)
    ours = _identity(world, role, index)
    ours[labels.RESTART_COUNT] = str(status.restart_counts.get(role, 0))
    if world.job.spec.priority:
        ours[labels.PRIORITY] = world.job.spec.priority
    marks = {**_texts(meta.get("labels")), **world.job.metadata.labels, **ours}
    notes = {**_texts(meta.get("annotations")), labels.TASK_ANNOTATION: role}
    if world.settings.gang and world.gang_served:
        notes[labels.GANG_ANNOTATION] = world.job.metadata.name
    spec["schedulerName"] = (
        world.job.spec.scheduler_name
        or spec.get("schedulerName")
        or world.settings.default_scheduler
    )
    spec["restartPolicy"] = "Never"
    if world.job.spec.priority and world.priority_class_found:
        spec["priorityClassName"] = world.job.spec.priority
    if spec.get("hostNetwork") is True and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta,
            "name": key.name,
            "namespace": key.namespace,
            "labels": marks,
            "annotations": notes,
            "ownerReferences": [owner_reference(world)],
        },
        "spec": spec,
    }


def _add_variables(container: Body, ours: list[Body]) -> None:
    """Put ours first, so that theirs win and may refer to ours."""
    container["env"] = [*ours, *objects(container.get("env"))]


def _avoid_nodes(spec: Body, status: AITrainingJobStatus, now: float) -> None:
    """Keep away from the job's avoided nodes: one requirement a node in every required term."""
    names = [node.name for node in status.avoid_nodes if parse_time(node.until) > now]
    if not names:
        return
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]
    affinity = _object(spec, "affinity")
    node_affinity = _object(affinity, "nodeAffinity")
    required = _object(node_affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = list(objects(required.get("nodeSelectorTerms"))) or [Body()]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*objects(term.get("matchFields")), *fields]} for term in terms
    ]


def _object(parent: Body, name: str) -> Body:
    """A nested object, made where it is missing."""
    held = parent.get(name)
    if not isinstance(held, dict):
        held = parent[name] = {}
    return held


def _texts(value: object) -> dict[str, str]:
    return dict(value) if isinstance(value, dict) else {}


def _own_copy(template: Body) -> Body:
    copy: Body = codec.decode(codec.encode(template), dict)
    if not isinstance(copy.get("spec"), dict):
        copy["spec"] = {}
    return copy
