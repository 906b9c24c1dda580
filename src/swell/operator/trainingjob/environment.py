"""How a pod's environment variables are made."""

from __future__ import annotations

from swell.api import quantity
from swell.api.meta import Body
from swell.api.trainingjob import RoleSpec
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.snapshot import TrainingJobSnapshot

_MILLI = 1000


def variables(snapshot: TrainingJobSnapshot, role: Role) -> list[Body]:
    """The variables of every container of a role; the user's own override the others."""
    job, spec = snapshot.job.metadata, snapshot.job.spec
    n_trainers = str(spec.trainer_minimum)
    gpus = n_gpus(spec.trainer, snapshot.settings.gpu_resources)
    texts = {
        "PADDLE_JOB_NAME": job.name,
        "TRAINERS": n_trainers,
        "PSERVERS": str(spec.pserver.minimum if spec.has_pservers else 0),
        "ENTRY": spec.trainer.entrypoint,
        "TOPOLOGY": spec.trainer.entrypoint,
        "TRAINER_PACKAGE": spec.trainer.workspace,
        "PADDLE_INIT_PORT": str(spec.port),
        "PADDLE_INIT_TRAINER_COUNT": str(gpus or n_cpus(spec.trainer)),
        "PADDLE_INIT_PORTS_NUM": str(spec.ports_num),
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": str(spec.ports_num_for_sparse),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": n_trainers,
        "PADDLE_INIT_NUM_PASSES": str(spec.passes),
        "PADDLE_INIT_USE_GPU": "1" if gpus else "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/usr/local/nvidia/lib64",
        "NAMESPACE": job.namespace,
    }
    own = snapshot.roles[role].envs
    made: dict[str, Body] = {name: _text(name, value) for name, value in texts.items()}
    made["POD_IP"] = pod_ip()
    if role is Role.MASTER and spec.master.etcd_endpoint:
        made["ETCD_ENDPOINT"] = _text("ETCD_ENDPOINT", spec.master.etcd_endpoint)
    made |= {name: _text(name, own[name]) for name in sorted(own)}
    return list(made.values())


def pod_ip() -> Body:
    return {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def n_gpus(role: RoleSpec, names: tuple[str, ...]) -> int:
    """The number of whole GPUs that one pod of a role has."""
    amounts = {**role.resources.requests, **role.resources.limits}
    return sum(quantity.milli(amounts[name]) // _MILLI for name in names if name in amounts)


def n_cpus(role: RoleSpec) -> int:
    """The number of whole CPUs that one pod of a role has, at least one."""
    amounts = {**role.resources.requests, **role.resources.limits}
    return max(1, quantity.milli(amounts.get("cpu", 0)) // _MILLI)


def _text(name: str, value: str) -> Body:
    return {"name": name, "value": value}
