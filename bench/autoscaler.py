"""Speed of autoscaling decisions: whole plans, as roles and nodes grow in number.

`run` gives the figures. No cluster is needed.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

from swell.api.aitrainingjob import (
    AITrainingJob,
    AITrainingJobPhase,
    AITrainingJobSpec,
    AITrainingJobStatus,
    EdlPolicy,
    ReplicaSpec,
)
from swell.api.core import Node, NodeStatus
from swell.api.meta import Condition, ObjectMeta, OwnerReference, Uid
from swell.api.pod import Container, Pod, PodPhase, PodSpec, PodStatus, ResourceRequirements
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.plan import AutoscalerObjects, inquiry_resource
from swell.autoscaler.policies.fulfillment import fulfillment
from swell.autoscaler.policies.interface import Parameters, RoleTargets

T = TypeVar("T")

READY = (Condition(type="Ready", status="True"),)
NODE_SHAPES = (
    {"cpu": "32", "memory": "128Gi", "pods": "110"},
    {"cpu": "64", "memory": "256Gi", "pods": "110"},
    {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
    {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": "8"},
)
MAXIMUM = 64


N_ROLES, N_NODES = 10_000, 5_000
MEMORY_MIB_MAX = 500


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one plan: the time to sum up a cluster's objects and to decide, and the process's memory.

    Processor time is printed as well: on a busy machine it says more.
    """

    read_s: float
    plan_s: float
    plan_cpu_s: float
    peak_mib: float
    n_grown: int


def run() -> dict[str, float]:
    """All figures. Each plan has a process of its own, so that memory is what it takes alone."""
    figures: dict[str, float] = {}
    for times in (1, 2, 4):
        n_roles, n_nodes = times * N_ROLES, times * N_NODES
        cost = apart(n_roles, n_nodes)
        require(cost.n_grown > n_roles, "the cluster was to fill up")
        figures[f"plan {n_roles:,} roles of 1 to {MAXIMUM}, {n_nodes:,} nodes (s)"] = cost.plan_s
        figures[f"  of the processor, {times}x (s)"] = cost.plan_cpu_s
        figures[f"  their objects summed up, {times}x (s)"] = cost.read_s
        figures[f"  peak memory, {times}x (MiB)"] = cost.peak_mib
        if times == 1:
            require(cost.peak_mib < MEMORY_MIB_MAX, f"a plan took {cost.peak_mib:.0f} MiB")
    own = apart(N_ROLES, N_NODES, own_shapes=True)
    figures[f"plan {N_ROLES:,} roles, each a shape of its own (s)"] = own.plan_s
    shrunk = apart(N_ROLES, N_NODES, size=MAXIMUM)
    require(shrunk.n_grown < 0, "the cluster was to be over-committed")
    figures[f"plan {N_ROLES:,} roles that shrink from the maximum (s)"] = shrunk.plan_s
    return figures


def apart(n_roles: int, n_nodes: int, *, size: int = 1, own_shapes: bool = False) -> Cost:
    """What a plan costs in a process that does nothing else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_cost, n_roles, n_nodes, size, own_shapes).result()


def _cost(n_roles: int, n_nodes: int, size: int, own_shapes: bool) -> Cost:
    objects = cluster(n_roles, n_nodes, size=size, own_shapes=own_shapes)
    snapshot, read_s = timed(lambda: inquiry_resource(objects))
    before_s = time.process_time()
    targets, plan_s = timed(lambda: decide(snapshot))
    plan_cpu_s = time.process_time() - before_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(read_s, plan_s, plan_cpu_s, peak_mib, grown(targets))


def decide(snapshot: AutoscalerSnapshot) -> RoleTargets:
    return fulfillment(snapshot.jobs, snapshot.cluster, Parameters())


def cluster(
    n_roles: int, n_nodes: int, *, size: int = 1, own_shapes: bool = False
) -> AutoscalerObjects:
    """Nodes of four shapes; jobs of twenty shapes, or each of its own, with one pod running."""
    objects = AutoscalerObjects(nodes=[_node(n) for n in range(n_nodes)])
    for n in range(n_roles):
        _add_job(objects, n, size, n_nodes, own_shape=own_shapes)
    return objects


def _node(n: int) -> Node:
    return Node(
        metadata=ObjectMeta(name=f"n{n:05}"),
        status=NodeStatus(allocatable=dict(NODE_SHAPES[n % 4]), conditions=READY),
    )


def _request(n: int, *, own_shape: bool) -> dict[str, str]:
    cpu = 1 + n % 4
    request = {"cpu": str(cpu), "memory": f"{cpu * (1 + n % 5)}Gi"}
    if own_shape:
        request = {"cpu": f"{1000 + n % 3000}m", "memory": f"{2048 + n}Mi"}
    if n % 20 < 4:
        request["nvidia.com/gpu"] = "1"
    return request


def _add_job(
    objects: AutoscalerObjects, n: int, size: int, n_nodes: int, *, own_shape: bool
) -> None:
    request = _request(n, own_shape=own_shape)
    name, uid = f"job-{n:05}", Uid(f"job-{n}")
    template = {"spec": {"containers": [{"name": "aitj-t", "resources": {"limits": request}}]}}
    role = ReplicaSpec(
        replicas=1,
        min_replicas=1,
        max_replicas=MAXIMUM,
        edl_policy=EdlPolicy.AUTO,
        template=template,
    )
    objects.training_jobs.append(
        AITrainingJob(
            metadata=ObjectMeta(name=name, namespace="ns", uid=uid),
            spec=AITrainingJobSpec(replica_specs={"trainer": role}),
            status=AITrainingJobStatus(
                phase=AITrainingJobPhase.RUNNING, target_replicas={"trainer": size}
            ),
        )
    )
    owner = OwnerReference(kind="AITrainingJob", name=name, uid=uid, controller=True)
    objects.pods.append(
        Pod(
            metadata=ObjectMeta(
                name=f"{name}-trainer-0",
                namespace="ns",
                uid=Uid(f"pod-{n}"),
                owner_references=(owner,),
            ),
            spec=PodSpec(
                node_name=f"n{n % n_nodes:05}",
                containers=(Container(resources=ResourceRequirements(limits=dict(request))),),
            ),
            status=PodStatus(phase=PodPhase.RUNNING),
        )
    )


def grown(targets: RoleTargets) -> int:
    return sum(target.delta for target in targets.values())


def timed(work: Callable[[], T]) -> tuple[T, float]:
    gc.collect()
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def require(holds: bool, problem: str) -> None:
    if not holds:
        raise RuntimeError(problem)
