"""The rows in which the page shows jobs, queues and nodes, as JSON. Pure."""

from __future__ import annotations

from swell.api.aitrainingjob import FINAL_PHASES as AI_FINAL_PHASES
from swell.api.aitrainingjob import AITrainingJob, EdlPolicy
from swell.api.codec import to_body
from swell.api.core import Node
from swell.api.gpu_faults import rules_of
from swell.api.meta import Body
from swell.api.node_faults import read_faults
from swell.api.quantity import parse
from swell.api.requests import CPU, MEMORY, PODS, scheduling_amounts
from swell.api.scheduling import Queue
from swell.api.times import format_time
from swell.api.topology import DOMAIN_MEMBER, HyperNode
from swell.api.trainingjob import FINAL_PHASES, TrainingJob
from swell.outlook.starts import estimate_of

# Labels that say where in the network or the building a node is.
_DOMAIN_PREFIXES = ("topology.", "network.topology.")
_DOMAIN_LABELS = frozenset({"rack", "block", "spine", "zone"})
_GOOD_WHEN_TRUE = ("Ready", "Healthy", "Available")
# Rows of jobs are sent by the thousand; a message is cut, and whole in the view of its job.
MESSAGE_MAX = 160


def job_row(job: AITrainingJob | TrainingJob) -> Body:
    """Returns a job as a row of the list."""
    return _ai_training_job(job) if isinstance(job, AITrainingJob) else _training_job(job)


def _ai_training_job(job: AITrainingJob) -> Body:
    meta, status = job.metadata, job.status
    training = status.training
    return {
        "kind": "aitrainingjobs",
        "namespace": meta.namespace,
        "name": meta.name,
        "phase": status.phase.value or "New",
        "isOver": status.phase in AI_FINAL_PHASES,
        "ready": status.ready,
        "queue": job.spec.queue,
        "priority": job.spec.priority,
        "reason": status.reason,
        "message": status.message[:MESSAGE_MAX],
        "restarts": status.restarts,
        "created": meta.creation_timestamp,
        "ended": status.end_time,
        "progress": training.progress if training is not None else "",
        "start": to_body(start) if (start := estimate_of(job)) is not None else None,
        "isSuspended": job.wants_suspension,
        "roles": {
            name: {
                "size": status.target_replicas.get(name.lower(), spec.size),
                "min": spec.minimum,
                "max": spec.maximum,
                "scalable": spec.edl_policy is EdlPolicy.MANUAL,
            }
            for name, spec in job.spec.replica_specs.items()
        },
    }


def _training_job(job: TrainingJob) -> Body:
    meta, status = job.metadata, job.status
    trainers = status.replica_statuses.get("trainer")
    target = status.trainer_target or job.spec.trainer_minimum
    return {
        "kind": "trainingjobs",
        "namespace": meta.namespace,
        "name": meta.name,
        "phase": status.phase.value or "New",
        "isOver": status.phase in FINAL_PHASES,
        "ready": f"{trainers.ready if trainers is not None else 0}/{target}",
        "queue": job.queue,
        "priority": job.spec.annotations.priority,
        "reason": "",
        "message": status.reason[:MESSAGE_MAX],
        "restarts": 0,
        "created": meta.creation_timestamp,
        "ended": None,
        "progress": "",
        "start": None,
        "isSuspended": False,
        "roles": {
            "trainer": {
                "size": target,
                "min": job.spec.trainer_minimum,
                "max": job.spec.trainer_maximum,
                "scalable": False,
            }
        },
    }


def queue_row(queue: Queue) -> Body:
    """Returns a queue as a row: its place in the tree, its limits, and what it has."""
    spec, status = queue.spec, queue.status
    return {
        "name": queue.metadata.name,
        "parent": spec.parent,
        "weight": spec.weight,
        "state": status.state.value or "Open",
        "pending": status.pending + status.inqueue,
        "running": status.running,
        "capability": dict(spec.capability),
        "guarantee": dict(spec.guarantee.resource),
        "deserved": dict(spec.deserved),
        "allocated": dict(status.allocated),
    }


def node_row(node: Node) -> Body:
    """Returns a node as a row: what it has, and what is wrong with it."""
    meta, status = node.metadata, node.status
    has = scheduling_amounts({name: parse(raw) for name, raw in status.allocatable.items()})
    return {
        "name": meta.name,
        "isCordoned": node.spec.unschedulable,
        "taints": [f"{one.key}={one.value}:{one.effect}" for one in node.spec.taints],
        "faults": node_faults(node),
        "marks": fault_marks(node),
        "allocatable": {name: str(raw) for name, raw in status.allocatable.items()},
        "has": {
            "pods": has.get(PODS, 0),
            "cpuMilli": has.get(CPU, 0),
            "memoryBytes": has.get(MEMORY, 0),
            "gpus": sum(one for name, one in has.items() if name.endswith("/gpu")) // 1000,
        },
        "used": None,  # until all pods are known
        "labels": {
            name: value
            for name, value in meta.labels.items()
            if name.startswith(_DOMAIN_PREFIXES) or name in _DOMAIN_LABELS
        },
    }


def fault_marks(node: Node) -> list[Body]:
    """Returns the failures that jobs blame on a node, with the time at which each is forgotten."""
    return [
        {"job": one.job, "reason": one.reason, "time": one.time, "until": format_time(end)}
        for one, end in read_faults(node.metadata.annotations).ends()
    ]


def node_faults(node: Node) -> list[str]:
    """Returns what is wrong with a node: conditions, and GPUs that it reports as broken.

    A condition of another kind is bad when it is True, as Kubernetes and its problem detectors
    write them, unless its name says that True is good.
    """
    faults = [
        f"{one.type}: {one.reason or one.status}"
        for one in node.status.conditions
        if (one.status != "True" if one.type == "Ready" else one.status == _bad_status(one.type))
    ]
    broken = rules_of().fault_of(node)
    if broken and not any(one.partition(":")[0] in broken for one in faults):
        faults.append(broken)
    return faults


def _bad_status(type_: str) -> str:
    return "False" if type_.endswith(_GOOD_WHEN_TRUE) else "True"


def domain_row(domain: HyperNode) -> Body:
    """Returns a topology domain as a row: its tier, and how many nodes it has."""
    return {
        "name": domain.metadata.name,
        "tier": domain.spec.tier,
        "tierName": domain.spec.tier_name,
        "nodes": domain.status.node_count,
        "children": [
            one.selector.exact_match.name
            for one in domain.spec.members
            if one.type == DOMAIN_MEMBER and one.selector.exact_match is not None
        ],
    }
