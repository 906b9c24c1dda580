"""Creates the children a TrainingJob lacks: the group first, then addresses and workloads.

The names of children follow from the job's name alone, so a second attempt to create one finds
the first.
"""

from __future__ import annotations

from swell.api.kinds import JOBS, NATIVE_GROUPS, POD_GROUPS, REPLICA_SETS
from swell.api.meta import Body
from swell.api.requests import template_requests
from swell.api.resource import Resource
from swell.api.trainingjob import TrainingJobStatus
from swell.operator.framework.children import controller_reference, gang_spec
from swell.operator.framework.native_groups import (
    REQUIRED_TOPOLOGY,
    native_group_body,
    native_group_spec,
)
from swell.operator.framework.settings import NATIVE_GANGS
from swell.operator.trainingjob import labels, sizes
from swell.operator.trainingjob.addresses import publish_addresses
from swell.operator.trainingjob.labels import Role, workload_name
from swell.operator.trainingjob.membership import publish_members, trains_together
from swell.operator.trainingjob.pods import command, role_labels, selector_labels, template
from swell.operator.trainingjob.snapshot import DISRUPTED, TrainingJobSnapshot, is_leaving
from swell.runtime.plan import CreateObject, Step, patch_object

# A preemption is no failure of the trainer, and does not count against any limit.
IGNORE_DISRUPTIONS: Body = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": DISRUPTED, "status": "True"}]}]
}


def create_training_job(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, now: float
) -> list[Step]:
    """Create the children that are missing, and correct the size of ReplicaSets."""
    steps = _create_group(snapshot)
    steps += publish_addresses(snapshot, status)
    if trains_together(snapshot, {"command": command(snapshot.job.spec, Role.TRAINER)}):
        steps += publish_members(snapshot, status, now)
    for role in snapshot.roles:
        steps += (
            _create_trainer(snapshot, status)
            if role is Role.TRAINER
            else _create_set(snapshot, role)
        )
    return steps


def parse_to_master(snapshot: TrainingJobSnapshot) -> Body:
    """The ReplicaSet of the master."""
    return _replica_set(snapshot, Role.MASTER)


def parse_to_pserver(snapshot: TrainingJobSnapshot) -> Body:
    """The ReplicaSet of the pservers."""
    return _replica_set(snapshot, Role.PSERVER)


def parse_to_trainer(snapshot: TrainingJobSnapshot, target: int) -> Body:
    """The Indexed Job of the trainers, with as many of them as there should be now."""
    spec: Body = {
        "completionMode": "Indexed",
        "parallelism": target,
        "completions": target,
        # Without it Kubernetes adds a selector and labels of its own.
        "manualSelector": True,
        "selector": {"matchLabels": selector_labels(snapshot, Role.TRAINER)},
        "podFailurePolicy": IGNORE_DISRUPTIONS,
        # A replacement waits until the old pod has ended: an index never runs twice at once.
        "podReplacementPolicy": "Failed",
        "template": template(snapshot, Role.TRAINER),
    }
    if snapshot.job.spec.fault_tolerant:
        spec["backoffLimitPerIndex"] = snapshot.settings.restart_limit
    else:
        spec["backoffLimit"] = 0  # the first failure fails the Job
    return _body(snapshot, JOBS, Role.TRAINER, spec)


def parse_to_group(snapshot: TrainingJobSnapshot) -> Body:
    """The PodGroup: the minimum of every role must be scheduled together.

    It follows the job's spec, never the target: growing must not raise the minimum of a running
    job.
    """
    asked, meta = snapshot.job.spec.annotations, snapshot.job.metadata
    spec = gang_spec(
        {role.value: sizes.n_minimum(snapshot, role) for role in snapshot.roles},
        {role.value: template_requests(template(snapshot, role)) for role in snapshot.roles},
        queue=snapshot.job.queue,
        priority_class=asked.priority if snapshot.priority_class_found else "",
    )
    marks = {labels.JOB_NAME: meta.name, labels.JOB_UID: meta.uid}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {**_metadata(snapshot, snapshot.group_name), "labels": marks},
        "spec": spec,
    }


def parse_to_native_group(snapshot: TrainingJobSnapshot) -> Body:
    """The PodGroup of Kubernetes itself. It cannot say how many pods each role must have."""
    asked, meta = snapshot.job.spec.annotations, snapshot.job.metadata
    spec = native_group_spec(
        sum(sizes.n_minimum(snapshot, role) for role in snapshot.roles),
        is_elastic=snapshot.job.spec.is_elastic,
        priority_class=asked.priority if snapshot.priority_class_found else "",
        topology_key=meta.annotations.get(REQUIRED_TOPOLOGY, ""),
    )
    marks = {labels.JOB_NAME: meta.name, labels.JOB_UID: meta.uid}
    return native_group_body(
        snapshot.job, snapshot.group_name, spec, queue=snapshot.job.queue, labels=marks
    )


def _create_group(snapshot: TrainingJobSnapshot) -> list[Step]:
    """The group of the pods, of the kind that the job has, unless its spec names another one."""
    if not snapshot.has_group:
        return []
    if snapshot.gang_api == NATIVE_GANGS:
        if snapshot.native_group is not None:
            return []
        return [CreateObject(NATIVE_GROUPS, parse_to_native_group(snapshot))]
    return [] if snapshot.group else [CreateObject(POD_GROUPS, parse_to_group(snapshot))]


def _create_set(snapshot: TrainingJobSnapshot, role: Role) -> list[Step]:
    """The ReplicaSet of a role; one that was resized by others is corrected."""
    held = snapshot.replica_sets.get(role)
    if held is None:
        is_master = role is Role.MASTER
        body = parse_to_master(snapshot) if is_master else parse_to_pserver(snapshot)
        return [CreateObject(REPLICA_SETS, body)]
    wanted, meta = sizes.n_minimum(snapshot, role), held.metadata
    if held.spec.replicas == wanted or is_leaving(meta):
        return []
    change: Body = {"spec": {"replicas": wanted}}
    # The version keeps this from arriving after the release has set the replicas to 0.
    return [patch_object(REPLICA_SETS, meta.key, meta.uid, change, version=meta.resource_version)]


def _create_trainer(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> list[Step]:
    if snapshot.trainer is not None:
        return []
    return [CreateObject(JOBS, parse_to_trainer(snapshot, sizes.target(snapshot, status)))]


def _replica_set(snapshot: TrainingJobSnapshot, role: Role) -> Body:
    spec: Body = {
        "replicas": sizes.n_minimum(snapshot, role),
        "selector": {"matchLabels": selector_labels(snapshot, role)},
        "template": template(snapshot, role),
    }
    return _body(snapshot, REPLICA_SETS, role, spec)


def _body(
    snapshot: TrainingJobSnapshot, resource: Resource[object], role: Role, spec: Body
) -> Body:
    name = workload_name(snapshot.job.metadata.name, role)
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**_metadata(snapshot, name), "labels": role_labels(snapshot, role)},
        "spec": spec,
    }


def _metadata(snapshot: TrainingJobSnapshot, name: str) -> Body:
    owners = [controller_reference(snapshot.job)]
    return {
        "name": name,
        "namespace": snapshot.job.metadata.namespace,
        "ownerReferences": owners,
    }
