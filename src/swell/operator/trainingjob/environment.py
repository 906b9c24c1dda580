"""The variables by which a container learns what job it is part of."""

from __future__ import annotations

from swell.api import quantity
from swell.api.meta import Body
from swell.api.trainingjob import RoleSpec
from swell.operator.trainingjob.labels import Role
from swell.operator.trainingjob.world import World

_MILLI = 1000


def variables(world: World, role: Role) -> list[Body]:
    """What every container of a role gets; the role's own come last and win."""
    job, spec = world.job.metadata, world.job.spec
    n_trainers = str(spec.trainer_minimum)
    gpus = n_gpus(spec.trainer, world.settings.gpu_resources)
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
    own = world.roles[role].envs
    made: dict[str, Body] = {name: _text(name, value) for name, value in texts.items()}
    made["POD_IP"] = pod_ip()
    if role is Role.MASTER and spec.master.etcd_endpoint:
        made["ETCD_ENDPOINT"] = _text("ETCD_ENDPOINT", spec.master.etcd_endpoint)
    made |= {name: _text(name, own[name]) for name in sorted(own)}
    return list(made.values())


def pod_ip() -> Body:
    return {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def n_gpus(role: RoleSpec, names: tuple[str, ...]) -> int:
    """The whole GPUs one pod of a role has."""
    amounts = {**role.resources.requests, **role.resources.limits}
    return sum(quantity.milli(amounts[name]) // _MILLI for name in names if name in amounts)


def n_cpus(role: RoleSpec) -> int:
    """The whole CPUs one pod of a role has, at least one."""
    amounts = {**role.resources.requests, **role.resources.limits}
    return max(1, quantity.milli(amounts.get("cpu", 0)) // _MILLI)


def _text(name: str, value: str) -> Body:
    return {"name": name, "value": value}
