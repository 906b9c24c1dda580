"""The addresses by which PaddlePaddle's processes find each other, in a ConfigMap of the job.

Pods have no addresses before they are on a node, and PaddlePaddle wants the addresses of all in
the environment of each. So the variables refer to keys of this ConfigMap, and a node starts a
container when its keys are there: when every pserver, and every trainer that others connect to,
has an address. While one of them is missing or being replaced its list is taken away, so that no
container starts with an address of a pod that is gone.

    PADDLE_PSERVERS_IP_PORT_LIST  every pserver; a replaced one takes the place of the former
    PADDLE_TRAINER_ENDPOINTS      every trainer, in the order of their indexes
    PADDLE_TRAINERS_NUM           how many trainers there should be
    pservers                      the last complete list of pservers: it remembers their places
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.api.trainingjob import FrameworkName, TrainingJobSpec, TrainingJobStatus
from swell.operator.framework.children import controller_reference
from swell.operator.trainingjob import labels, sizes
from swell.operator.trainingjob.labels import addresses_name
from swell.operator.trainingjob.snapshot import (
    TrainingJobSnapshot,
    completion_index,
    is_finished,
    is_leaving,
    number_in,
)
from swell.runtime.plan import CreateObject, Step, patch_object

PSERVER_LIST = "PADDLE_PSERVERS_IP_PORT_LIST"
TRAINER_LIST = "PADDLE_TRAINER_ENDPOINTS"
N_TRAINERS = "PADDLE_TRAINERS_NUM"
_PLACES = "pservers"


def is_distributed(spec: TrainingJobSpec) -> bool:
    """Whether the job's pods are PaddlePaddle's and look for each other."""
    framework = spec.frame_work
    is_other = framework is not None and framework.name is FrameworkName.TENSORFLOW
    return not is_other and not spec.is_local


def uses_pservers(spec: TrainingJobSpec) -> bool:
    """Whether trainers work with parameter servers; otherwise they work with each other."""
    return spec.has_pservers and spec.pserver.minimum > 0


def trainer_port(spec: TrainingJobSpec) -> int:
    return spec.trainer_port or spec.port


def published_size(held: ConfigMap | None) -> int | None:
    """How many trainers there should be by the ConfigMap; None if it does not say so."""
    text = held.data.get(N_TRAINERS, "") if held is not None else ""
    return number_in(text)


def publish_addresses(snapshot: TrainingJobSnapshot, status: TrainingJobStatus) -> list[Step]:
    """Create the ConfigMap, or bring it up to date."""
    spec, held = snapshot.job.spec, snapshot.addresses
    if not is_distributed(spec):
        return []
    data = _data(snapshot, status, held.data if held is not None else {})
    if held is None:
        name = addresses_name(snapshot.job.metadata.name)
        return [CreateObject(CONFIG_MAPS, config_map(snapshot, name, data))]
    return _update(held, data)


def _data(
    snapshot: TrainingJobSnapshot, status: TrainingJobStatus, held: Mapping[str, str]
) -> dict[str, str]:
    spec, target = snapshot.job.spec, sizes.target(snapshot, status)
    data = {N_TRAINERS: str(target)}
    trainers = _trainers(snapshot, target)
    if len(trainers) == target:
        data[TRAINER_LIST] = _listed(trainers, trainer_port(spec))
    if not uses_pservers(spec):
        return data
    places = tuple(filter(None, held.get(_PLACES, "").split(",")))
    pservers = _placed(places, _pservers(snapshot), spec)
    if pservers:
        data[PSERVER_LIST] = ",".join(pservers)
    if pservers or places:
        data[_PLACES] = ",".join(pservers or places)
    return data


def _placed(
    places: tuple[str, ...], there: tuple[str, ...], spec: TrainingJobSpec
) -> tuple[str, ...]:
    """The addresses of all pservers, each in the place it had; none while one is missing."""
    count = spec.pserver.minimum
    if len(there) < count:
        return ()
    kept = [address if address in there else "" for address in places[:count]]
    kept += [""] * (count - len(kept))
    new = iter([address for address in there if address not in kept])
    return tuple(address or next(new) for address in kept)


def _pservers(snapshot: TrainingJobSnapshot) -> tuple[str, ...]:
    """The addresses of the pservers that work, those of the oldest first."""
    port = snapshot.job.spec.port
    ordered = sorted(snapshot.pservers, key=_seniority)
    working = (pod for pod in ordered if not is_finished(pod) and not is_leaving(pod.metadata))
    return tuple(f"{pod.status.pod_ip}:{port}" for pod in working if pod.status.pod_ip)


def _trainers(snapshot: TrainingJobSnapshot, target: int) -> list[str]:
    """The address of the latest pod of each index, as far as it has one."""
    latest: dict[int, str] = {}
    for pod in sorted(snapshot.trainers, key=_seniority):
        index = completion_index(pod)
        is_there = pod.status.phase is not PodPhase.FAILED and not is_leaving(pod.metadata)
        if index is not None and index < target and is_there and pod.status.pod_ip:
            latest[index] = pod.status.pod_ip
    return [latest[index] for index in sorted(latest)]


def _listed(hosts: list[str], port: int) -> str:
    return ",".join(f"{host}:{port}" for host in hosts)


def _seniority(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def config_map(snapshot: TrainingJobSnapshot, name: str, data: dict[str, str]) -> Body:
    """A ConfigMap that belongs to the job."""
    meta = snapshot.job.metadata
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {labels.JOB_NAME: meta.name, labels.JOB_UID: meta.uid},
            "ownerReferences": [controller_reference(snapshot.job)],
        },
        "data": data,
    }


def _update(held: ConfigMap, data: dict[str, str]) -> list[Step]:
    meta = held.metadata
    if held.data == data or is_leaving(meta):
        return []
    change: dict[str, str | None] = {**dict.fromkeys(held.data.keys() - data.keys()), **data}
    # The version keeps an update that arrives late from bringing back an old address.
    patch = patch_object(
        CONFIG_MAPS, meta.key, meta.uid, {"data": change}, version=meta.resource_version
    )
    return [patch]
