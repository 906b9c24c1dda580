"""Hundreds of broken variants of valid manifests, each with the place and hint to be reported.

Most come from operators (another type, a misspelt name, …) applied to a table of the fields of
each manifest; the rest are written by hand, for the rules between fields.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swell.api.manifest import read
from swell.api.meta import Body

MANIFESTS = Path(__file__).parents[1] / "data" / "manifests"


@dataclass(frozen=True, slots=True)
class Broken:
    """A manifest with one fault; `on_server` says that an API server refuses it as well."""

    name: str
    body: Body
    path: str
    hint: str = ""
    on_server: bool = True


def manifest(name: str) -> Body:
    (document,) = read((MANIFESTS / f"{name}.yaml").read_bytes()).documents
    return document.body


def steps_of(path: str) -> list[str | int]:
    return [
        int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)
    ]


def field_of(body: Body, path: str) -> object:
    found: Any = body
    for step in steps_of(path):
        found = found[step]
    return found


def with_field(body: Body, path: str, value: object) -> Body:
    changed = copy.deepcopy(body)
    *before, last = steps_of(path)
    holder: Any = changed
    for step in before:
        holder = holder[step]
    holder[last] = value
    return changed


def without_field(body: Body, path: str) -> Body:
    changed = copy.deepcopy(body)
    *before, last = steps_of(path)
    holder: Any = changed
    for step in before:
        holder = holder[step]
    del holder[last]
    return changed


# What each field of a manifest holds; a list of words is a choice between them.
Fields = dict[str, str | list[str]]

WORKER = "spec.replicaSpecs.Worker"
CONTAINER = f"{WORKER}.template.spec.containers[0]"
ENDS = ["Any", "All", "None"]
ROLE_ENDS = ["Any", "Rank0", "All", "None"]

AI_TRAINING_JOB: Fields = {
    "metadata": "object",
    "metadata.name": "text",
    "metadata.labels": "object",
    "metadata.labels.team": "text",
    "spec": "object",
    "spec.frameworkType": "text",
    "spec.faultTolerant": "flag",
    "spec.priority": "text",
    "spec.schedulerName": "text",
    "spec.queue": "text",
    "spec.timeLimit": "count",
    "spec.cleanPodPolicy": ["All", "Running", "None"],
    "spec.failPolicy": ENDS,
    "spec.completePolicy": ENDS,
    "spec.restartingExitCode": "codes",
    "spec.replicaSpecs": "object",
    WORKER: "object",
    f"{WORKER}.replicas": "count",
    f"{WORKER}.minReplicas": "count",
    f"{WORKER}.maxReplicas": "count",
    f"{WORKER}.edlPolicy": ["Auto", "Manual", "Never"],
    f"{WORKER}.restartPolicy": [
        "Always", "OnFailure", "OnNodeFail", "ExitCode", "OnNodeFailWithExitCode", "Never",
    ],
    f"{WORKER}.restartScope": ["Pod", "Replica", "All"],
    f"{WORKER}.restartLimit": "count",
    f"{WORKER}.failPolicy": ROLE_ENDS,
    f"{WORKER}.completePolicy": ROLE_ENDS,
    f"{WORKER}.template": "object",
    f"{WORKER}.template.spec": "object",
    f"{WORKER}.template.spec.containers": "list",
    CONTAINER: "object",
    f"{CONTAINER}.name": "text",
    f"{CONTAINER}.image": "text",
    f"{CONTAINER}.ports": "list",
    f"{CONTAINER}.ports[0].containerPort": "count",
}  # fmt: skip
TRAINING_JOB: Fields = {
    "metadata.name": "text",
    "spec": "object",
    "spec.image": "text",
    "spec.port": "count",
    "spec.ports_num": "count",
    "spec.ports_num_for_sparse": "count",
    "spec.trainer_port": "count",
    "spec.trainer_ports_num": "count",
    "spec.fault_tolerant": "flag",
    "spec.local_job": "flag",
    "spec.is_nccl": "flag",
    "spec.passes": "count",
    "spec.host_network": "flag",
    "spec.schedulerName": "text",
    "spec.podGroupName": "text",
    "spec.volumes": "list",
    "spec.VolumeMounts": "list",
    "spec.frame_work": "object",
    "spec.frame_work.name": ["paddle", "tensorflow"],
    "spec.frame_work.type": ["local", "nccl2", "multi"],
    "spec.annotations": "object",
    "spec.annotations.walltime": "count",
    "spec.master": "object",
    "spec.master.etcd-endpoint": "text",
    "spec.pserver.min-instance": "count",
    "spec.pserver.max-instance": "count",
    "spec.pserver.grace_period_seconds": "count",
    "spec.pserver.pre_stop_cmd": "list",
    "spec.pserver.tolerations": "list",
    "spec.pserver.node_selector": "object",
    "spec.trainer.entrypoint": "text",
    "spec.trainer.workspace": "text",
    "spec.trainer.min-instance": "count",
    "spec.trainer.max-instance": "count",
    "spec.trainer.resources": "object",
    "spec.trainer.resources.limits": "object",
    "spec.trainer.resources.limits.cpu": "amount",
    "spec.pserver.resources.requests.memory": "amount",
}
POD_GROUP: Fields = {
    "spec": "object",
    "spec.minMember": "count",
    "spec.minTaskMember": "object",
    "spec.minTaskMember.worker": "count",
    "spec.queue": "text",
    "spec.priorityClassName": "text",
    "spec.minResources": "object",
    "spec.minResources.cpu": "amount",
    "spec.minResources.memory": "amount",
    "spec.networkTopology": "object",
    "spec.networkTopology.mode": ["hard", "soft"],
    "spec.networkTopology.highestTierAllowed": "count",
    "spec.subGroupPolicy": "list",
    "spec.subGroupPolicy[0].name": "text",
    "spec.subGroupPolicy[0].subGroupSize": "count",
    "spec.subGroupPolicy[0].minSubGroups": "count",
}
QUEUE: Fields = {
    "spec": "object",
    "spec.weight": "count",
    "spec.capability": "object",
    "spec.capability.cpu": "amount",
    "spec.deserved.memory": "amount",
    "spec.guarantee": "object",
    "spec.guarantee.resource": "object",
    "spec.guarantee.resource.cpu": "amount",
    "spec.reclaimable": "flag",
    "spec.parent": "text",
    "spec.affinity": "object",
    "spec.dequeueStrategy": ["fifo", "traverse"],
}

WRONG_TYPES: dict[str, object] = {
    "object": 5,
    "list": "x",
    "text": {},
    "flag": "yes",
    "count": "3",
    "codes": [],
    "amount": "ten",
    "choice": 1,
}
# Where a name that is not known is reported, and where a server refuses it too.
TELLING = {"", "metadata", "spec", WORKER, "spec.networkTopology", "spec.guarantee"}
REFUSING = {
    "AITrainingJob": {"", "metadata", "spec", WORKER},
    "TrainingJob": {"", "metadata"},
    "PodGroup": {"", "metadata"},
    "Queue": {"", "metadata"},
}


def wrong_types(body: Body, fields: Fields) -> Iterator[Broken]:
    for path, kind in fields.items():
        wrong = WRONG_TYPES[kind if isinstance(kind, str) else "choice"]
        yield Broken(f"{path} of another type", with_field(body, path, wrong), path)


def misspelt_names(body: Body, fields: Fields) -> Iterator[Broken]:
    """The last two letters of a name swapped, where unknown names are reported."""
    refusing = REFUSING[body["kind"]]
    for path in fields:
        parent, _, name = path.rpartition(".")
        wrong = name[:-2] + name[-1] + name[-2]
        if parent not in (refusing if body["kind"] == "TrainingJob" else TELLING) or wrong == name:
            continue
        where = f"{parent}.{wrong}" if parent else wrong
        changed = with_field(without_field(body, path), where, field_of(body, path))
        yield Broken(f"{path} misspelt", changed, where, name, parent in refusing)


def negative_numbers(body: Body, fields: Fields) -> Iterator[Broken]:
    for path, kind in fields.items():
        if kind == "count":
            yield Broken(f"{path} negative", with_field(body, path, -1), path, "or more")
        elif kind == "amount":
            changed = with_field(body, path, "-500m")
            yield Broken(f"{path} negative", changed, path, "0 or more", on_server=False)


def bad_choices(body: Body, fields: Fields) -> Iterator[Broken]:
    for path, terms in fields.items():
        if isinstance(terms, list):
            shouted = terms[-1].upper()
            yield Broken(f"{path} in capitals", with_field(body, path, shouted), path, terms[-1])
            yield Broken(f"{path} unheard of", with_field(body, path, "Xyzzy"), path, terms[0])
            typo = terms[0] + terms[0][-1]
            hint = f"did you mean {terms[0]}?"
            yield Broken(f"{path} with a typo", with_field(body, path, typo), path, hint)


OPERATORS: tuple[Callable[[Body, Fields], Iterator[Broken]], ...] = (
    wrong_types,
    misspelt_names,
    negative_numbers,
    bad_choices,
)
TABLES = (
    ("aitrainingjob-full", AI_TRAINING_JOB),
    ("trainingjob-full", TRAINING_JOB),
    ("podgroup", POD_GROUP),
    ("queue", QUEUE),
)


def generated() -> Iterator[Broken]:
    for name, fields in TABLES:
        body = manifest(name)
        for operator in OPERATORS:
            for broken in operator(body, fields):
                yield Broken(
                    f"{name}: {broken.name}",
                    broken.body,
                    broken.path,
                    broken.hint,
                    broken.on_server,
                )
