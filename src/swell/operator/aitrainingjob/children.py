"""The steps from the children an AITrainingJob has to those that its status asks for.

Children are the PodGroup, the members ConfigMap, the pods and their services. The content of pods
and services is made in `pods`, that of the ConfigMap in `membership`, that of the group here.
"""

from __future__ import annotations

from itertools import islice

from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body
from swell.api.pod import PodPhase
from swell.api.quantity import Quantity
from swell.api.requests import template_requests
from swell.operator.aitrainingjob import labels, restarts
from swell.operator.aitrainingjob.causes import Cause
from swell.operator.aitrainingjob.cleanup import delete_services
from swell.operator.aitrainingjob.departures import MAKES_ROOM, depart, evicted
from swell.operator.aitrainingjob.instances import Instances, raised_instances
from swell.operator.aitrainingjob.membership import members_body, members_data, members_notes
from swell.operator.aitrainingjob.native_gang import native_gang
from swell.operator.aitrainingjob.pods import pod_bodies, service_body
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    Replica,
    current,
    is_restarting,
    is_surplus,
    missing,
)
from swell.operator.aitrainingjob.topology import held_topology, topology_of
from swell.operator.framework.children import controller_reference, gang_spec, together
from swell.operator.framework.training import (
    MEMBERS_EPOCH,
    REPORT_TOKEN,
    issue_secret,
    replace_secret,
)
from swell.runtime.plan import Action, CreateObject, DeleteSecret, Step, patch_object

# One pass creates no more pods and no more services for one job, so that a large job does not keep
# others waiting; the rest follows in the next passes.
CREATES_MAX = 500


def child_steps(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    final: tuple[Cause, ...],
    now: float,
    *,
    is_written: bool,
) -> list[Step]:
    """The steps in order: group and membership, then deletes, then new pods and services.

    Pods read the membership when they start, so it is written before them. `is_written` says that
    the cluster has, or gets in this plan, the status that the steps are for. While the write of
    its numbers is put off, a change of the group is put off with it.
    """
    owner = controller_reference(snapshot.job)
    waits = restarts.must_wait(snapshot, status, now)
    native = native_gang(snapshot, status, waits=waits) if snapshot.uses_native_gang else None
    every = missing(snapshot, status) if native is None else native.wanted
    wanted = [] if waits else list(islice(every, CREATES_MAX))
    numbers = raised_instances(snapshot, status, wanted, now)
    group = "" if native is None else native.group
    pods = pod_bodies(snapshot, status, wanted, numbers, now, native_group=group)
    shared = [*_dry_run(snapshot, pods), *_members_steps(snapshot, status, numbers, owner)]
    if native is not None:
        # A write is put off only if nothing that a group depends on has changed.
        shared += native.actions
    elif snapshot.group is None or is_written:
        shared += _group_steps(snapshot, status, final, owner)
    deletes = [
        *depart(_leaving(snapshot, status), snapshot, status, now),
        *delete_services(snapshot, _surplus_services(snapshot, status)),
    ]
    steps: list[Step] = [*together(shared), *together(deletes), *_secret_steps(snapshot, wanted)]
    if not waits:
        # Pods first: by the time a pod looks for its peers' services, a node has started it.
        services = _service_steps(snapshot, status)[:CREATES_MAX]
        steps += together([*(CreateObject(PODS, body) for body in pods), *services])
    return [*steps, *together(_touches(snapshot, status))]


def _leaving(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> list[tuple[Replica, str]]:
    """The pods that have to go, each with the reason that it is told."""
    found = {one.name: (one, MAKES_ROOM) for one in evicted(snapshot)}
    for one in snapshot.replicas:
        if is_restarting(one, status):
            found[one.name] = (one, "its job restarts")
        elif is_surplus(one, status) or one.is_released:
            found[one.name] = (one, "its role shrinks")
    return list(found.values())


def _touches(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> list[Action]:
    """Patch the first pods of the job that were not told of this epoch.

    A kubelet that sees its pod change renews its volumes at once.
    """
    if not snapshot.is_training:
        return []
    running = (one for one in current(snapshot, status) if one.is_bound and not one.is_finished)
    first = islice(running, snapshot.settings.touched_pods_max)
    epoch = str(status.epoch)
    note: Body = {"metadata": {"annotations": {MEMBERS_EPOCH: epoch}}}
    return [
        patch_object(PODS, one.pod.metadata.key, one.pod.metadata.uid, note)
        for one in first
        if not one.is_leaving and one.pod.metadata.annotations.get(MEMBERS_EPOCH) != epoch
    ]


def _dry_run(snapshot: AITrainingJobSnapshot, pods: list[Body]) -> list[Action]:
    """A dry run of the first pod of a new job.

    If the API server refuses the template, the job reports it before anything has been created.
    """
    if snapshot.job.status.phase is not Phase.EMPTY or snapshot.pods:
        return []
    return [CreateObject(PODS, body, dry_run=True) for body in pods[:1]]


def _secret_steps(snapshot: AITrainingJobSnapshot, wanted: list[tuple[str, int]]) -> list[Step]:
    """The steps to the job's secret, before the first pod that mounts it.

    The record on the job says that it exists. Without a record there may be one all the same, if
    an operator died between the two; nobody uses it yet, and it is replaced.
    """
    meta = snapshot.job.metadata
    has_one = REPORT_TOKEN in meta.annotations or bool(snapshot.pods)
    if not snapshot.is_training or not wanted or has_one:
        return []
    marks = labels.of_job(meta.name)
    if snapshot.job.status.phase is Phase.EMPTY:
        return [issue_secret(AI_TRAINING_JOBS, snapshot.job, marks)]
    return replace_secret(AI_TRAINING_JOBS, snapshot.job, marks)


def must_be_certain(snapshot: AITrainingJobSnapshot, steps: list[Step]) -> bool:
    """Whether the steps are right only if something is missing that a stale cache may lack.

    A secret in use must not be replaced, nor pods numbered as if none had been before.
    """
    if not snapshot.is_training or snapshot.job.status.phase is Phase.EMPTY:
        return False
    return snapshot.members is None or any(isinstance(step, DeleteSecret) for step in steps)


def _members_steps(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    numbers: Instances | None,
    owner: Body,
) -> list[Action]:
    held = snapshot.members
    if held is None:
        return [CreateObject(CONFIG_MAPS, members_body(snapshot, status, numbers, owner))]
    data = members_data(snapshot, status, numbers)
    if data == held.data:
        return []
    stale: Body = {name: None for name in held.data if name not in data}
    meta = held.metadata
    notes = members_notes(status, numbers)
    body: Body = {"data": {**data, **stale}, "metadata": {"annotations": notes}}
    # The version prevents that a late write puts an older membership over a newer one.
    version = meta.resource_version
    return [patch_object(CONFIG_MAPS, meta.key, meta.uid, body, version=version)]


def _wanted_names(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> dict[str, tuple[str, int]]:
    job = snapshot.job.metadata.name
    return {
        labels.pod_name(job, role, index): (role, index)
        for role in snapshot.roles
        for index in range(status.target_replicas.get(role, 0))
    }


def _surplus_services(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> frozenset[str]:
    wanted = _wanted_names(snapshot, status)
    return frozenset(service.metadata.name for service in snapshot.services) - wanted.keys()


def _service_steps(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> list[Action]:
    held = {service.metadata.name for service in snapshot.services}
    return [
        CreateObject(SERVICES, service_body(snapshot, role, index))
        for name, (role, index) in _wanted_names(snapshot, status).items()
        if name not in held
    ]


def _group_steps(
    snapshot: AITrainingJobSnapshot,
    status: AITrainingJobStatus,
    final: tuple[Cause, ...],
    owner: Body,
) -> list[Action]:
    if not snapshot.uses_volcano_gang:
        return []
    spec = _group_spec(snapshot, status, final)
    if snapshot.group is None:
        return [CreateObject(POD_GROUPS, _group_body(snapshot, spec, owner))]
    change = _group_change(snapshot, status, spec)
    meta = snapshot.group.metadata
    if not change or meta.deletion_timestamp is not None:
        return []
    return [patch_object(POD_GROUPS, meta.key, meta.uid, {"spec": change})]


def _group_spec(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, final: tuple[Cause, ...]
) -> Body:
    """The spec of the group. Pods that have finished for good no longer need room.

    The minimum follows the job's spec, never the targets: growing must not raise the number of
    pods without which a running job is not scheduled.
    """
    done = [(cause.role, cause.index) for cause in final]
    done += [
        (one.role, one.index)
        for one in current(snapshot, status)
        if one.phase is PodPhase.SUCCEEDED
    ]
    minimum: dict[str, int] = {}
    for role, spec in snapshot.roles.items():
        n_done = sum(name == role for name, _ in dict.fromkeys(done))
        minimum[role] = max(spec.gang_minimum - n_done, 0)
    job = snapshot.job.spec
    gang = gang_spec(
        minimum,
        {role: _requests(spec.template) for role, spec in snapshot.roles.items()},
        queue=job.queue or "default",
        priority_class=job.priority if snapshot.priority_class_found else "",
    )
    return {**gang, **topology_of(snapshot, minimum)}


def _requests(template: Body) -> dict[str, Quantity]:
    """The requests of one pod; none for an invalid template, which the API server will refuse."""
    try:
        return template_requests(template)
    except ValueError:
        return {}


def _group_body(snapshot: AITrainingJobSnapshot, spec: Body, owner: Body) -> Body:
    meta = snapshot.job.metadata
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": {**meta.labels, **labels.of_job(meta.name)},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _group_change(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, spec: Body) -> Body:
    """A merge patch to the group's spec; empty when nothing has to change.

    A smaller minimum matters while a pod of the job waits to be scheduled. While none does, it is
    written when half of the job has finished, and not pod by pod.
    """
    held = snapshot.group.spec if snapshot.group else None
    if held is None:
        return {}
    n_full = sum(role.gang_minimum for role in snapshot.roles.values())
    n_fewer = held.min_member - spec["minMember"]
    if 0 < n_fewer < n_full / 2 and held.min_member <= n_full and not _waits(snapshot, status):
        return {}
    now: Body = {
        "minMember": held.min_member,
        "minTaskMember": held.min_task_member,
        "queue": held.queue,
        "minResources": held.min_resources or {},
        "priorityClassName": held.priority_class_name,
        **held_topology(held),
    }
    # What the job asks for no more goes from the group, too.
    nothing: Body = {"priorityClassName": "", "networkTopology": None, "subGroupPolicy": []}
    wanted = {**nothing, **spec}
    return {name: _over(now[name], value) for name, value in wanted.items() if value != now[name]}


def _waits(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> bool:
    """Whether a pod of the job has no node yet."""
    here = current(snapshot, status)
    n_wanted = sum(status.target_replicas.values())
    return len(here) < n_wanted or any(not one.is_bound for one in here)


def _over(held: object, wanted: object) -> object:
    """A merge patch from one value to another; null removes what a map no longer has."""
    if not isinstance(held, dict) or not isinstance(wanted, dict):
        return wanted
    return {**dict.fromkeys(held), **wanted}
