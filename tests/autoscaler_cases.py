"""Builders for the autoscaler's tests: small clusters in few words, and random ones by seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import AutoscalerSnapshot, ClusterResource
from swell.autoscaler.plan import AutoscalerObjects, inquiry_resource
from swell.autoscaler.policies.fulfillment import fulfillment
from swell.autoscaler.policies.interface import Parameters, RoleTargets, parse_max_load
from swell.scheduler.config import DEFAULT, Config

NAMESPACE = "ns"
GI = 2**30


def a_node(name: str, *, ready: bool = True, cordoned: bool = False, **amounts: object) -> Node:
    """Amounts by resource; `gpu` and `dongle` stand for extended ones."""
    labels = amounts.pop("labels", {})
    taints = amounts.pop("taints", [])
    body: Body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": {
            "allocatable": _amounts(amounts),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return convert(body, Node)


def a_role(
    minimum: int = 1,
    maximum: int = 3,
    *,
    replicas: int | None = None,
    edl: str = "Auto",
    restart: str = "Never",
    spec: Body | None = None,
    **amounts: object,
) -> Body:
    resources = {"requests": _amounts(amounts), "limits": _gpus(amounts)}
    return {
        "replicas": minimum if replicas is None else replicas,
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "edlPolicy": edl,
        "restartPolicy": restart,
        "template": {
            "spec": {"containers": [{"name": "aitj-t", "resources": resources}], **(spec or {})}
        },
    }


def a_job(
    name: str,
    *,
    phase: str = "Running",
    targets: Mapping[str, int] | None = None,
    records: list[Body] | None = None,
    namespace: str = NAMESPACE,
    **roles: Body,
) -> AITrainingJob:
    sizes = {role: body["replicas"] for role, body in roles.items()}
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
        },
        "spec": {"replicaSpecs": roles},
        "status": {
            "phase": phase,
            "targetReplicas": {**sizes, **(targets or {})},
            "scaleRecords": records or [],
        },
    }
    return convert(body, AITrainingJob)


def a_training_job(
    name: str, minimum: int = 1, maximum: int = 3, *, phase: str = "Running", **amounts: object
) -> TrainingJob:
    status: Body = {"phase": phase}
    if "target" in amounts:
        status["trainer_target"] = amounts.pop("target")
    trainer = {
        "min-instance": minimum,
        "max-instance": maximum,
        "resources": {"requests": _amounts(amounts), "limits": _gpus(amounts)},
    }
    pserver = {"min-instance": 1, "max-instance": 1, "resources": {"requests": {"cpu": "100m"}}}
    body = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
        },
        "spec": {"image": "i", "fault_tolerant": True, "trainer": trainer, "pserver": pserver},
        "status": status,
    }
    return convert(body, TrainingJob)


def a_pod(
    job: str,
    role: str,
    index: int,
    node: str = "",
    *,
    phase: str = "",
    leaving: bool = False,
    uid: str = "",
    created: str = "2026-01-01T00:00:00Z",
    **amounts: object,
) -> Pod:
    """A replica of an AITrainingJob."""
    owner = {"kind": "AITrainingJob", "name": job, "uid": uid or f"uid-{job}", "controller": True}
    pod = a_stranger(f"{job}-{role}-{index}", node, phase=phase, leaving=leaving, **amounts)
    meta = {
        "name": pod.metadata.name,
        "namespace": NAMESPACE,
        "creationTimestamp": created,
        "ownerReferences": [owner],
        "labels": {"TrainingJobReplicaName": role, "TrainingJobReplicaIndex": str(index)},
        **({"deletionTimestamp": created} if leaving else {}),
    }
    return convert(
        {
            "metadata": meta,
            "spec": _spec(node, amounts),
            "status": {"phase": phase or ("Running" if node else "Pending")},
        },
        Pod,
    )


def a_trainer(job: str, index: int, node: str = "", *, phase: str = "", **amounts: object) -> Pod:
    """A trainer of a TrainingJob."""
    return convert(
        {
            "metadata": {
                "name": f"{job}-trainer-{index}-x{len(phase)}",
                "namespace": NAMESPACE,
                "labels": {
                    "paddle-job": job,
                    "paddle-job-uid": f"uid-{job}",
                    "batch.kubernetes.io/job-completion-index": str(index),
                },
                "ownerReferences": [{"kind": "Job", "name": f"{job}-trainer", "controller": True}],
            },
            "spec": _spec(node, amounts),
            "status": {"phase": phase or ("Running" if node else "Pending")},
        },
        Pod,
    )


def a_stranger(
    name: str, node: str = "", *, phase: str = "", leaving: bool = False, **amounts: object
) -> Pod:
    """A pod without a job."""
    meta: Body = {"name": name, "namespace": NAMESPACE}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return convert(
        {
            "metadata": meta,
            "spec": _spec(node, amounts),
            "status": {"phase": phase or ("Running" if node else "Pending")},
        },
        Pod,
    )


def a_group(name: str, *, phase: str = "Pending", reason: str = "") -> PodGroup:
    conditions = [{"type": "Unschedulable", "status": "True", "reason": reason}] if reason else []
    return convert(
        {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"phase": phase, "conditions": conditions},
        },
        PodGroup,
    )


def a_queue(name: str, *, parent: str = "", state: str = "", **amounts: object) -> Queue:
    """Amounts are the capability of the queue."""
    spec = {"parent": parent, "capability": _amounts(amounts)}
    return convert({"metadata": {"name": name}, "spec": spec, "status": {"state": state}}, Queue)


def in_queue(job: AITrainingJob, queue: str, priority: str = "") -> AITrainingJob:
    return replace(job, spec=replace(job.spec, queue=queue, priority=priority))


def a_rack(name: str, *nodes: str) -> HyperNode:
    """A HyperNode of tier 1 with these nodes."""
    selectors = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    return convert(
        {"metadata": {"name": name}, "spec": {"tier": 1, "members": selectors}}, HyperNode
    )


Thing = (
    Node
    | Pod
    | AITrainingJob
    | TrainingJob
    | PodGroup
    | NativeGroup
    | Queue
    | PriorityClass
    | HyperNode
)


def objects_of(*things: Thing) -> AutoscalerObjects:
    return AutoscalerObjects(
        nodes=[one for one in things if isinstance(one, Node)],
        pods=[one for one in things if isinstance(one, Pod)],
        groups=[one for one in things if isinstance(one, PodGroup)],
        native_groups=[one for one in things if isinstance(one, NativeGroup)],
        queues=[one for one in things if isinstance(one, Queue)],
        priority_classes=[one for one in things if isinstance(one, PriorityClass)],
        hyper_nodes=[one for one in things if isinstance(one, HyperNode)],
        training_jobs=[one for one in things if isinstance(one, AITrainingJob)],
        trainer_jobs=[one for one in things if isinstance(one, TrainingJob)],
    )


def look(*things: Thing, scheduler: Config = DEFAULT) -> AutoscalerSnapshot:
    return inquiry_resource(objects_of(*things), scheduler=scheduler)


def decide(snapshot: AutoscalerSnapshot, max_load: str = "0.97") -> RoleTargets:
    return fulfillment(snapshot.jobs, snapshot.cluster, Parameters(parse_max_load(max_load)))


def sizes(targets: RoleTargets) -> dict[str, int]:
    """Targets by `job/role`, without the namespace."""
    return {f"{id_.job.name}/{id_.role}": target.target for id_, target in targets.items()}


def random_objects(seed: int) -> AutoscalerObjects:
    """A small cluster in any state: nodes that do not count, pods of all kinds, odd sizes."""
    chance = Random(seed)
    nodes = [_random_node(chance, n) for n in range(chance.randint(0, 6))]
    found = objects_of(*nodes)
    names = [node.metadata.name for node in nodes] + ["gone"]
    for n in range(chance.randint(0, 6)):
        job = _random_job(chance, f"job-{n}")
        found.training_jobs.append(job)
        found.pods += _random_pods(chance, job, names)
        if chance.random() < 0.2:
            reason = chance.choice(["", "QueueClosed", "NotEnoughResources"])
            found.groups.append(a_group(job.metadata.name, reason=reason))
    for n in range(chance.randint(0, 2)):
        trainer = a_training_job(
            f"old-{n}",
            1,
            chance.randint(1, 5),
            phase=chance.choice(["", "Creating", "Running", "Scaling", "Failed"]),
            target=chance.randint(0, 6),
            cpu=f"{chance.choice([100, 500, 1000])}m",
        )
        found.trainer_jobs.append(trainer)
        found.pods += [
            a_trainer(trainer.metadata.name, index, chance.choice(["", *names]), cpu="1")
            for index in range(chance.randint(0, 4))
        ]
    for n in range(chance.randint(0, 4)):
        node = chance.choice(["", *names])
        phase = chance.choice(["", "", "Succeeded", "Failed"])
        found.pods.append(
            a_stranger(
                f"stranger-{n}",
                node,
                phase=phase,
                leaving=chance.random() < 0.2,
                cpu=f"{chance.choice([250, 1000])}m",
                memory=f"{chance.randint(1, 4)}Gi",
            )
        )
    return found


def _random_node(chance: Random, n: int) -> Node:
    gpus = {"gpu": chance.randint(1, 4)} if chance.random() < 0.4 else {}
    taints = (
        [{"key": "only", "value": "x", "effect": "NoSchedule"}] if chance.random() < 0.2 else []
    )
    return a_node(
        f"n{n}",
        ready=chance.random() < 0.9,
        cordoned=chance.random() < 0.1,
        cpu=chance.randint(1, 16),
        memory=f"{chance.randint(1, 32)}Gi",
        labels={"zone": chance.choice("ab")},
        taints=taints,
        **gpus,
    )


def _random_job(chance: Random, name: str) -> AITrainingJob:
    roles: dict[str, Body] = {}
    targets: dict[str, int] = {}
    for role in chance.sample(["trainer", "pserver", "chief"], chance.randint(1, 2)):
        minimum = chance.randint(1, 3)
        maximum = minimum + chance.randint(0, 6)
        roles[role] = a_role(
            minimum,
            maximum,
            edl=chance.choice(["Auto", "Auto", "Auto", "Never"]),
            restart=chance.choice(["Never", "OnFailure"]),
            spec=_random_constraints(chance),
            cpu=f"{chance.choice([0, 250, 500, 1000, 2000])}m",
            memory=f"{chance.choice([0, 1, 2, 3])}Gi",
            gpu=chance.choice([0, 0, 0, 1, 2]),
        )
        targets[role] = max(0, chance.randint(minimum - 1, maximum + 2))
    phase = chance.choice(["", "Pending", "Running", "Running", "Running", "Restarting", "Succeed"])
    return a_job(name, phase=phase, targets=targets, **roles)  # type: ignore[arg-type]


def _random_constraints(chance: Random) -> Body:
    spec: Body = {}
    if chance.random() < 0.2:
        spec["nodeSelector"] = {"zone": chance.choice("ab")}
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": "only", "operator": "Exists"}]
    return spec


def _random_pods(chance: Random, job: AITrainingJob, nodes: list[str]) -> list[Pod]:
    pods: list[Pod] = []
    for role, spec in job.spec.replica_specs.items():
        requests = spec.template["spec"]["containers"][0]["resources"]["requests"]
        amounts = {"gpu" if "gpu" in name else name: amount for name, amount in requests.items()}
        for index in range(job.status.target_replicas[role] + chance.randint(0, 1)):
            if chance.random() < 0.2:
                continue
            node = chance.choice(["", *nodes])
            phase = chance.choice(["", "", "", "", "", "Failed"]) if node else ""
            if node and chance.random() < 0.03:
                phase = "Succeeded"
            uid = "uid-of-another" if chance.random() < 0.05 else ""
            pods.append(
                a_pod(
                    job.metadata.name,
                    role,
                    index,
                    node,
                    phase=phase,
                    leaving=chance.random() < 0.1,
                    uid=uid,
                    **amounts,
                )
            )
    return pods


def _spec(node: str, amounts: Mapping[str, object]) -> Body:
    resources = {"requests": _amounts(amounts), "limits": _gpus(amounts)}
    return {"nodeName": node, "containers": [{"name": "c", "resources": resources}]}


def _amounts(amounts: Mapping[str, object]) -> Body:
    return {_resource(name): amount for name, amount in amounts.items()}


def _gpus(amounts: Mapping[str, object]) -> Body:
    return {_resource(name): amount for name, amount in amounts.items() if name == "gpu"}


def _resource(name: str) -> str:
    return {"gpu": "nvidia.com/gpu", "dongle": "example.com/dongle"}.get(name, name)


def idle_on(cluster: ClusterResource, node: str) -> dict[str, int]:
    """Returns the idle amounts of one node by resource."""
    at = next(n for n, one in enumerate(cluster.nodes) if one.name == node)
    return {name: int(amounts[at]) for name, amounts in cluster.idle.items()}
