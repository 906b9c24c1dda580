"""The pods of a role: what their workload's template says.

A value that a user gives for the inside of a pod goes there unread: the API server judges it.
"""

from __future__ import annotations

import shlex

from swell.api.codec import to_body
from swell.api.meta import Body
from swell.api.trainingjob import FrameworkName, FrameworkType, RoleSpec, TrainingJobSpec
from swell.operator.aitrainingjob.labels import GANG_ANNOTATION, TASK_ANNOTATION
from swell.operator.trainingjob import labels
from swell.operator.trainingjob.environment import pod_ip, variables
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.world import World

MASTER_PORT, ETCD_PORT, ETCD_PEER_PORT = 8080, 2379, 2380
_SHARED_VOLUME = "shared"


def template(world: World, role: Role) -> Body:
    """A workload's template."""
    return {
        "metadata": {"labels": role_labels(world, role), "annotations": _annotations(world, role)},
        "spec": _pod_spec(world, role),
    }


def role_labels(world: World, role: Role) -> dict[str, str]:
    """What marks everything of a role."""
    return {labels.JOB_NAME: world.job.metadata.name, **selector_labels(world, role)}


def selector_labels(world: World, role: Role) -> dict[str, str]:
    """What a workload knows its pods by: the role's label, and the job's UID."""
    meta = world.job.metadata
    return {labels.ROLE_LABELS[role]: meta.name, labels.JOB_UID: meta.uid}


def command(spec: TrainingJobSpec, role: Role) -> list[str]:
    """What the role's container runs."""
    entrypoint = role_spec(spec, role).entrypoint
    if entrypoint.strip():
        # A job whose quotes do not match never begins; one edited so later goes on with this.
        return entrypoint.split() if _quote_problem(entrypoint) else shlex.split(entrypoint)
    verb = "start_new" if spec.fault_tolerant else "start"
    return ["paddle_k8s", f"{verb}_{role.value}"]


def command_problems(spec: TrainingJobSpec) -> tuple[str, ...]:
    """What is wrong with entrypoints: nothing else can say so before the pods run."""
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


def scheduler_name(world: World) -> str:
    spec = world.job.spec
    return spec.scheduler_name or spec.annotations.scheduler or world.settings.default_scheduler


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


def _annotations(world: World, role: Role) -> dict[str, str]:
    asked = world.job.spec.annotations
    made = {TASK_ANNOTATION: role.value}
    if world.is_gang:
        made[GANG_ANNOTATION] = world.group_name
    if asked.userid:
        made[labels.USER_ID] = asked.userid
    if asked.usergroupid:
        made[labels.USER_GROUP_ID] = asked.usergroupid
    return made


def _pod_spec(world: World, role: Role) -> Body:
    spec, own = world.job.spec, world.roles[role]
    made: Body = {
        "restartPolicy": "Never" if role is Role.TRAINER else "Always",
        "schedulerName": scheduler_name(world),
        "containers": _containers(world, role),
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
    if spec.host_network:
        made |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if spec.annotations.priority and world.priority_class_found:
        made["priorityClassName"] = spec.annotations.priority
    return made


def _containers(world: World, role: Role) -> list[Body]:
    spec, own = world.job.spec, world.roles[role]
    made: Body = {
        "name": role.value,
        "image": spec.image,
        "command": command(spec, role),
        "env": variables(world, role),
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
        return [made, _etcd(world)]
    return [made]


def _etcd(world: World) -> Body:
    client, peer = f"http://$(POD_IP):{ETCD_PORT}", f"http://$(POD_IP):{ETCD_PEER_PORT}"
    return {
        "name": "etcd",
        "image": world.settings.etcd_image,
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
    """What `nfsmount` names: `server:/path`, or a path of the node's own."""
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
