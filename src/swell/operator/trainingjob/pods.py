"""The pod template of each role's workload, and the index labels of the pods it creates.

Values that a user gives for the inside of a pod are copied unread: the API server checks them.

A trainer has the index that its Job gave it. Pservers are numbered here: an index belongs to one
pod until that pod is gone or has finished, and then to the pod that has waited longest for one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from swell.api.codec import to_body
from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.saving import SAVE_SECONDS_ANNOTATION
from swell.api.trainingjob import FrameworkName, FrameworkType, RoleSpec, TrainingJobSpec
from swell.operator.framework.children import GANG_ANNOTATION, TASK_ANNOTATION, together
from swell.operator.framework.native_groups import TOPOLOGY_PREFIX
from swell.operator.framework.settings import NATIVE_GANGS, VOLCANO_GANGS
from swell.operator.trainingjob import labels
from swell.operator.trainingjob.environment import pod_ip, variables
from swell.operator.trainingjob.labels import Role, index_label
from swell.operator.trainingjob.membership import add_trainer_parts
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    completion_index,
    is_finished,
    is_leaving,
)
from swell.runtime.plan import PatchObject, Step, patch_object

MASTER_PORT, ETCD_PORT, ETCD_PEER_PORT = 8080, 2379, 2380
_SHARED_VOLUME = "shared"
_DIGITS_MAX = 9  # more digits than any index has


def template(snapshot: TrainingJobSnapshot, role: Role) -> Body:
    """The pod template of a role's workload."""
    return {
        "metadata": {
            "labels": role_labels(snapshot, role),
            "annotations": _annotations(snapshot, role),
        },
        "spec": _pod_spec(snapshot, role),
    }


def role_labels(snapshot: TrainingJobSnapshot, role: Role) -> dict[str, str]:
    """The labels of all objects of a role."""
    return {labels.JOB_NAME: snapshot.job.metadata.name, **selector_labels(snapshot, role)}


def selector_labels(snapshot: TrainingJobSnapshot, role: Role) -> dict[str, str]:
    """The labels by which a workload selects its pods: the role's label, and the job's UID."""
    meta = snapshot.job.metadata
    return {labels.ROLE_LABELS[role]: meta.name, labels.JOB_UID: meta.uid}


def command(spec: TrainingJobSpec, role: Role) -> list[str]:
    """The command of the role's container."""
    entrypoint = role_spec(spec, role).entrypoint
    if entrypoint.strip():
        # A job whose quotes do not match fails at its start; one that is edited so later goes on
        # with this.
        return entrypoint.split() if _quote_problem(entrypoint) else shlex.split(entrypoint)
    verb = "start_new" if spec.fault_tolerant else "start"
    return ["paddle_k8s", f"{verb}_{role.value}"]


def command_problems(spec: TrainingJobSpec) -> tuple[str, ...]:
    """The entrypoints that cannot be split: the API server does not look into them."""
    found = ((role, _quote_problem(role_spec(spec, role).entrypoint)) for role in Role)
    return tuple(
        f"spec.{role.value}.entrypoint: cannot be split into words ({problem})"
        for role, problem in found
        if problem
    )


def _quote_problem(entrypoint: str) -> str:
    try:
        shlex.split(entrypoint)
    except ValueError as error:
        return str(error).lower()
    return ""


def ports(spec: TrainingJobSpec, role: Role) -> list[Body]:
    """The ports of the role's own container."""
    match role:
        case Role.MASTER:
            return [{"name": "master-port", "containerPort": MASTER_PORT}]
        case Role.PSERVER:
            return _job_ports(spec.port, spec.ports_num + spec.ports_num_for_sparse)
        case Role.TRAINER if _trainers_talk(spec):
            return _job_ports(spec.trainer_port or spec.port, spec.trainer_ports_num or 1)
        case Role.TRAINER:
            return []


def role_spec(spec: TrainingJobSpec, role: Role) -> RoleSpec:
    match role:
        case Role.MASTER:
            return spec.master
        case Role.PSERVER:
            return spec.pserver
        case Role.TRAINER:
            return spec.trainer


def scheduler_name(snapshot: TrainingJobSnapshot) -> str:
    """The scheduler of the pods: by the spec, by its annotations, or the operator's default."""
    spec = snapshot.job.spec
    return spec.scheduler_name or spec.annotations.scheduler or snapshot.settings.default_scheduler


def _trainers_talk(spec: TrainingJobSpec) -> bool:
    """Whether trainers talk to each other: nccl, or tensorflow on many machines."""
    framework = spec.frame_work
    if spec.is_nccl or (framework and framework.type is FrameworkType.NCCL2):
        return True
    return (
        framework is not None
        and framework.name is FrameworkName.TENSORFLOW
        and framework.type is FrameworkType.MULTI
    )


def _job_ports(first: int, count: int) -> list[Body]:
    return [{"name": f"jobport-{n}", "containerPort": n} for n in range(first, first + count)]


def _annotations(snapshot: TrainingJobSnapshot, role: Role) -> dict[str, str]:
    asked = snapshot.job.spec.annotations
    made = {TASK_ANNOTATION: role.value}
    if snapshot.gang_api == VOLCANO_GANGS:
        made[GANG_ANNOTATION] = snapshot.group_name
    # The job has no templates that could be annotated, so its own annotations count for all roles.
    given = snapshot.job.metadata.annotations.items()
    made |= {name: text for name, text in given if name.startswith(TOPOLOGY_PREFIX)}
    if role is Role.TRAINER and snapshot.job.spec.save_seconds is not None:
        made[SAVE_SECONDS_ANNOTATION] = str(snapshot.job.spec.save_seconds)
    if asked.userid:
        made[labels.USER_ID] = asked.userid
    if asked.usergroupid:
        made[labels.USER_GROUP_ID] = asked.usergroupid
    return made


def _pod_spec(snapshot: TrainingJobSnapshot, role: Role) -> Body:
    spec, own = snapshot.job.spec, snapshot.roles[role]
    made: Body = {
        # A Job with a podFailurePolicy must have Never, a ReplicaSet must have Always.
        "restartPolicy": "Never" if role is Role.TRAINER else "Always",
        "schedulerName": scheduler_name(snapshot),
        "containers": _containers(snapshot, role),
    }
    optional: Body = {
        "tolerations": list(own.tolerations),
        "nodeSelector": own.node_selector,
        "imagePullSecrets": list(own.image_pull_secrets),
        "volumes": [*spec.volumes, *_shared_volume(spec)],
    }
    made |= {name: value for name, value in optional.items() if value}
    if own.grace_period_seconds is not None:
        made["terminationGracePeriodSeconds"] = own.grace_period_seconds
    if snapshot.gang_api == NATIVE_GANGS:
        made["schedulingGroup"] = {"podGroupName": snapshot.group_name}
    if spec.host_network:
        made |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if spec.annotations.priority and snapshot.priority_class_found:
        made["priorityClassName"] = spec.annotations.priority
    if role is Role.TRAINER:
        add_trainer_parts(snapshot, made)
    return made


def _containers(snapshot: TrainingJobSnapshot, role: Role) -> list[Body]:
    spec, own = snapshot.job.spec, snapshot.roles[role]
    made: Body = {
        "name": role.value,
        "image": spec.image,
        "command": command(spec, role),
        "env": variables(snapshot, role),
    }
    optional: Body = {
        "ports": ports(spec, role),
        "resources": to_body(own.resources),
        "volumeMounts": [*spec.volume_mounts, *_shared_mount(spec)],
        "livenessProbe": own.liveness_probe,
        "readinessProbe": own.readiness_probe,
    }
    made |= {name: value for name, value in optional.items() if value}
    if own.pre_stop_cmd and own.grace_period_seconds is not None:
        made["lifecycle"] = {"preStop": {"exec": {"command": list(own.pre_stop_cmd)}}}
    if role is Role.MASTER and not own.etcd_endpoint:
        return [made, _etcd(snapshot)]
    return [made]


def _etcd(snapshot: TrainingJobSnapshot) -> Body:
    client, peer = f"http://$(POD_IP):{ETCD_PORT}", f"http://$(POD_IP):{ETCD_PEER_PORT}"
    return {
        "name": "etcd",
        "image": snapshot.settings.etcd_image,
        "command": [
            "etcd",
            "--name=etcd0",
            f"--advertise-client-urls={client}",
            f"--listen-client-urls=http://0.0.0.0:{ETCD_PORT}",
            f"--initial-advertise-peer-urls={peer}",
            f"--listen-peer-urls=http://0.0.0.0:{ETCD_PEER_PORT}",
            f"--initial-cluster=etcd0={peer}",
            "--initial-cluster-state=new",
        ],
        "env": [pod_ip()],
        "ports": [{"name": "etcd-port", "containerPort": ETCD_PORT}],
    }


def _shared_volume(spec: TrainingJobSpec) -> list[Body]:
    """The volume that `nfsmount` names: `server:/path`, or a path on the node."""
    if not spec.nfsmount:
        return []
    server, colon, path = spec.nfsmount.partition(":")
    if colon:
        return [{"name": _SHARED_VOLUME, "nfs": {"server": server, "path": path}}]
    return [{"name": _SHARED_VOLUME, "hostPath": {"path": spec.nfsmount}}]


def _shared_mount(spec: TrainingJobSpec) -> list[Body]:
    if not spec.nfsmount:
        return []
    at = spec.mountpath or spec.nfsmount.rpartition(":")[2]
    return [{"name": _SHARED_VOLUME, "mountPath": at}]


def trace_labels_of_pods(snapshot: TrainingJobSnapshot) -> list[Step]:
    """Label every pod with its index. An index is taken from one pod before another gets it."""
    job = snapshot.job.metadata.name
    changes = [
        (pod, index_label(job, Role.TRAINER), index)
        for pod, index in _trainer_indexes(snapshot.trainers, index_label(job, Role.TRAINER))
    ]
    if snapshot.indexes_pservers and snapshot.pserver is not None:
        label = index_label(job, Role.PSERVER)
        changes += [
            (pod, label, index)
            for pod, index in free_indexes(snapshot.pservers, label, snapshot.pserver.spec.replicas)
        ]
    taken = [_labelled(pod, label, None) for pod, label, index in changes if index is None]
    given = [_labelled(pod, label, index) for pod, label, index in changes if index is not None]
    return [*together(taken), *together(given)]


def free_indexes(pods: Iterable[Pod], label: str, count: int) -> list[tuple[Pod, int | None]]:
    """The changes after which every index below `count` is unique, and given to a pod if one waits.

    An index of None removes the label.
    """
    ordered = sorted(pods, key=_seniority)
    held = _holders(ordered, label, count)
    free = iter([index for index in range(count) if index not in held])
    changes: list[tuple[Pod, int | None]] = []
    for pod in ordered:
        if held.get(_shown(pod, label)) is pod:
            continue
        can_have = not is_finished(pod) and not is_leaving(pod.metadata)
        index = next(free, None) if can_have else None
        if index is not None or label in pod.metadata.labels:
            changes.append((pod, index))
    return changes


def _holders(ordered: Iterable[Pod], label: str, count: int) -> Mapping[int, Pod]:
    """The pod that keeps each index: the oldest unfinished one that is labelled with it."""
    held: dict[int, Pod] = {}
    for pod in ordered:
        index = _shown(pod, label)
        if 0 <= index < count and not is_finished(pod):
            held.setdefault(index, pod)
    return held


def _trainer_indexes(pods: Iterable[Pod], label: str) -> list[tuple[Pod, int | None]]:
    """The unfinished trainers that are not labelled with their index yet."""
    return [
        (pod, index)
        for pod in sorted(pods, key=_seniority)
        if (index := completion_index(pod)) is not None
        and index != _shown(pod, label)
        and not is_finished(pod)
        and not is_leaving(pod.metadata)
    ]


def _shown(pod: Pod, label: str) -> int:
    text = pod.metadata.labels.get(label, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if is_number and str(int(text)) == text else -1


def _seniority(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def _labelled(pod: Pod, label: str, index: int | None) -> PatchObject:
    meta = pod.metadata
    # The version keeps a patch that arrives late from giving an index to a second pod.
    body: Body = {"metadata": {"labels": {label: None if index is None else str(index)}}}
    return patch_object(PODS, meta.key, meta.uid, body, version=meta.resource_version)
