"""How a pod's environment variables are made."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api import quantity
from swell.api.meta import Body
from swell.api.trainingjob import RoleSpec
from swell.operator.trainingjob.addresses import (
    N_TRAINERS,
    PSERVER_LIST,
    TRAINER_LIST,
    is_distributed,
    trainer_port,
    uses_pservers,
)
from swell.operator.trainingjob.labels import COMPLETION_INDEX, Role, addresses_name
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
    if is_distributed(spec) and role is not Role.MASTER:
        made |= {one["name"]: one for one in _role_maker(snapshot, role)}
    if role is Role.MASTER and spec.master.etcd_endpoint:
        made["ETCD_ENDPOINT"] = _text("ETCD_ENDPOINT", spec.master.etcd_endpoint)
    made |= {name: _text(name, own[name]) for name in sorted(own)}
    return list(made.values())


def _role_maker(snapshot: TrainingJobSnapshot, role: Role) -> Iterator[Body]:
    """The variables that PaddlePaddle's launcher sets and its role maker reads.

    A pserver recognises itself in the list by POD_IP and PADDLE_PORT.
    """
    spec, name = snapshot.job.spec, addresses_name(snapshot.job.metadata.name)
    is_trainer = role is Role.TRAINER
    yield _text("TRAINING_ROLE", "TRAINER" if is_trainer else "PSERVER")
    yield _text("PADDLE_PORT", str(trainer_port(spec) if is_trainer else spec.port))
    yield _text("PADDLE_CURRENT_ENDPOINT", "$(POD_IP):$(PADDLE_PORT)")
    if is_trainer:
        index = f"metadata.annotations['{COMPLETION_INDEX}']"
        yield {"name": "PADDLE_TRAINER_ID", "valueFrom": {"fieldRef": {"fieldPath": index}}}
    yield _address(N_TRAINERS, name)
    has_pservers = uses_pservers(spec)
    if has_pservers:
        yield _address(PSERVER_LIST, name)
    # Trainers that work with pservers need no address of each other. Where they may come and go,
    # none of them waits for the others.
    yield _address(TRAINER_LIST, name, is_optional=has_pservers and spec.fault_tolerant)


def _address(key: str, name: str, *, is_optional: bool = False) -> Body:
    """A variable from the job's addresses; a container waits for one that is not optional."""
    chosen: Body = {"name": name, "key": key}
    reference = {**chosen, "optional": True} if is_optional else chosen
    return {"name": key, "valueFrom": {"configMapKeyRef": reference}}


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
