"""Makes workloads and the gang's group of a job. Their names follow from the job's alone."""

from __future__ import annotations

from swell.api.kinds import JOBS, POD_GROUPS, REPLICA_SETS
from swell.api.meta import Body
from swell.api.quantity import ZERO, Quantity
from swell.api.requests import template_requests
from swell.api.resource import Resource
from swell.operator.trainingjob import labels
from swell.operator.trainingjob.labels import Role, workload_name
from swell.operator.trainingjob.podspec import role_labels, selector_labels, template
from swell.operator.trainingjob.world import DISRUPTED, World

# A preemption is no failure, whatever the limits.
IGNORE_DISRUPTIONS: Body = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": DISRUPTED, "status": "True"}]}]
}


def parse_to_master(world: World) -> Body:
    return _replica_set(world, Role.MASTER)


def parse_to_pserver(world: World) -> Body:
    return _replica_set(world, Role.PSERVER)


def parse_to_trainer(world: World, target: int) -> Body:
    """An Indexed Job of as many trainers as there should be now."""
    spec: Body = {
        "completionMode": "Indexed",
        "parallelism": target,
        "completions": target,
        "manualSelector": True,
        "selector": {"matchLabels": selector_labels(world, Role.TRAINER)},
        "podFailurePolicy": IGNORE_DISRUPTIONS,
        "podReplacementPolicy": "Failed",
        "template": template(world, Role.TRAINER),
    }
    if world.job.spec.fault_tolerant:
        spec["backoffLimitPerIndex"] = world.settings.restart_limit
    else:
        spec["backoffLimit"] = 0
    return _body(world, JOBS, Role.TRAINER, spec)


def parse_to_group(world: World) -> Body:
    """The gang: every role's minimum must fit at once. It follows the spec, never the target."""
    minimum = {role.value: n_minimum(world, role) for role in world.roles}
    total: dict[str, Quantity] = {}
    for role in world.roles:
        for name, amount in template_requests(template(world, role)).items():
            total[name] = total.get(name, ZERO) + amount * minimum[role.value]
    spec: Body = {
        "minMember": sum(minimum.values()),
        "minTaskMember": minimum,
        "queue": "default",
        "minResources": {name: str(amount) for name, amount in sorted(total.items())},
    }
    asked = world.job.spec.annotations
    if asked.priority and world.priority_class_found:
        spec["priorityClassName"] = asked.priority
    meta = world.job.metadata
    marks = {labels.JOB_NAME: meta.name, labels.JOB_UID: meta.uid}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {**_metadata(world, world.group_name), "labels": marks},
        "spec": spec,
    }


def n_minimum(world: World, role: Role) -> int:
    """With how few pods a role can begin: a ReplicaSet's size."""
    match role:
        case Role.MASTER:
            return 1
        case Role.PSERVER:
            return world.job.spec.pserver.minimum
        case Role.TRAINER:
            return world.job.spec.trainer_minimum


def _replica_set(world: World, role: Role) -> Body:
    spec: Body = {
        "replicas": n_minimum(world, role),
        "selector": {"matchLabels": selector_labels(world, role)},
        "template": template(world, role),
    }
    return _body(world, REPLICA_SETS, role, spec)


def _body(world: World, resource: Resource[object], role: Role, spec: Body) -> Body:
    name = workload_name(world.job.metadata.name, role)
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**_metadata(world, name), "labels": role_labels(world, role)},
        "spec": spec,
    }


def _metadata(world: World, name: str) -> Body:
    """With the job as controller, by UID: a namesake never inherits it."""
    meta = world.job.metadata
    owner = {
        "apiVersion": world.job.api_version,
        "kind": world.job.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name, "namespace": meta.namespace, "ownerReferences": [owner]}
