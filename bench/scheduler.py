"""Speed of scheduling decisions: a full plan, one new gang on a busy cluster, a preemption.

`run` returns the figures. All of it runs in one process and without a cluster.
"""

from __future__ import annotations

import dataclasses
import gc
import resource
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from bench import scheduler_baseline
from bench.budgets import Budget, at_least, at_most
from swell.api.core import Node, NodeStatus
from swell.api.meta import Condition, ObjectMeta, Uid
from swell.api.pod import Container, Pod, PodPhase, PodSpec, PodStatus, ResourceRequirements
from swell.api.policy import PriorityClass
from swell.api.scheduling import (
    NetworkTopology,
    PodGroup,
    PodGroupPhase,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueState,
    QueueStatus,
)
from swell.api.topology import (
    DOMAIN_MEMBER,
    NODE_MEMBER,
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    MemberSelector,
)
from swell.scheduler.config import DEFAULT
from swell.scheduler.cycle import SchedulingPlan, run_cycle
from swell.scheduler.model.resources import Dimensions
from swell.scheduler.plan import SchedulerObjects, plan_schedule
from swell.scheduler.plugins import network_topology

GANG = 8
N_QUEUES = 10
N_PLANS = 5  # whole plans, of which the median counts
N_ROUNDS = 7  # of ratios, whose two sides take turns
MEMORY = "memory of the plan at its peak (MiB)"
PODS = "pods decided on, median of 5 (per CPU s)"
DOUBLING = "cost of doubling (times, CPU)"
ONE_GANG = "one new gang, 50,000 running pods (s)"
PREEMPTION = "gang of 64 preempts, 1,000 full nodes (s)"
WITHIN = "gang of 64 within a block, 1,000 nodes (times without, CPU)"
RACKS = "plan 5,000 nodes with racks and blocks (times without, CPU)"
NO_TREE = "plan with topology and no tree (times without the plugin, CPU)"
ASKED: dict[str, Budget] = {
    MEMORY: at_most(250),
    PODS: at_least(50_000),
    DOUBLING: at_most(2.1),
    ONE_GANG: at_most(0.02),
    PREEMPTION: at_most(0.2),
    WITHIN: at_most(3),
    RACKS: at_most(1.5),
    NO_TREE: at_most(1.03),
}
READY = (Condition(type="Ready", status="True"),)
NODE_SHAPES = (
    {"cpu": "32", "memory": "128Gi", "pods": "110"},
    {"cpu": "64", "memory": "256Gi", "pods": "110"},
    {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
    {"cpu": "128", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": "8"},
)
# Twelve ask for cpu and memory only, eight for GPUs too.
POD_SHAPES = tuple(
    {"cpu": str(cpu), "memory": f"{cpu * per_cpu}Gi"}
    for cpu in (1, 2, 4)
    for per_cpu in (1, 2, 3, 4)
) + tuple(
    {"cpu": str(2 * gpus), "memory": f"{gpus * per_gpu}Gi", "nvidia.com/gpu": str(gpus)}
    for gpus in (1, 2)
    for per_gpu in (4, 8, 12, 16)
)


def run() -> dict[str, float]:
    """Returns all figures. On a busy machine CPU time is more reliable than wall time."""
    figures: dict[str, float] = {}
    plans = sorted(_whole_plan(5_000, 50_000) for _ in range(N_PLANS))
    once = plans[len(plans) // 2]
    figures["plan 5,000 nodes, 50,000 pods (s)"] = once.wall_s
    figures["the same (CPU s)"] = once.cpu_s
    figures["peak memory of the process so far (MiB)"] = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )
    figures[MEMORY] = _memory_of_plan(5_000, 50_000)
    cpu_s = sorted(plan.cpu_s for plan in plans)[len(plans) // 2]
    figures[PODS] = 50_000 / cpu_s
    baseline_s = _baseline_s(5_000, 50_000)
    figures["its arithmetic in numpy alone (pods per CPU s)"] = 50_000 / baseline_s
    figures["the plan (times that arithmetic, CPU)"] = cpu_s / baseline_s
    twice = _whole_plan(10_000, 100_000)
    figures["plan 10,000 nodes, 100,000 pods (s)"] = twice.wall_s
    figures[DOUBLING] = twice.cpu_s / once.cpu_s
    gang = _one_new_gang(5_000, 50_000)
    figures[ONE_GANG] = gang.wall_s
    figures[PREEMPTION] = _preemption(1_000, 64).wall_s
    figures[WITHIN] = _gang_of_64()
    figures[RACKS] = _with_network()
    figures[NO_TREE] = _without_network()
    figures["cycle after 10,000 nodes came and went (times)"] = _churn(10, 10_000)
    return figures


def whole_cluster(n_nodes: int, n_pods: int) -> SchedulerObjects:
    """Nodes of four shapes, gangs of eight over ten queues and twenty pod shapes, all pending."""
    found = SchedulerObjects(nodes=_nodes(n_nodes), queues=_queues())
    for gang in range(n_pods // GANG):
        shape = POD_SHAPES[gang % len(POD_SHAPES)]
        _add_gang(found, f"job-{gang:05}", shape, queue=f"q{gang % N_QUEUES}")
    return found


def _whole_plan(n_nodes: int, n_pods: int) -> _Spent:
    objects = whole_cluster(n_nodes, n_pods)
    plan, spent = _timed(lambda: plan_schedule(objects))
    _require(len(plan.binds) > 0.5 * n_pods, f"{len(plan.binds)} of {n_pods} placed")
    return spent


def _memory_of_plan(n_nodes: int, n_pods: int) -> float:
    """Returns what snapshot and plan take at most, in MiB, without the objects they are made of."""
    objects = whole_cluster(n_nodes, n_pods)
    gc.collect()
    tracemalloc.start()
    try:
        plan_schedule(objects)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _baseline_s(n_nodes: int, n_pods: int) -> float:
    """Returns the CPU time of the arithmetic alone, for the same nodes and gangs: a median."""
    dimensions = Dimensions(["nvidia.com/gpu"])
    n_resources = len(dimensions.names)
    room = np.array([dimensions.vector(shape) for shape in NODE_SHAPES]).T[:n_resources]
    requests = [dimensions.vector({**shape, "pods": "1"})[:n_resources] for shape in POD_SHAPES]
    gangs = [gang % len(POD_SHAPES) for gang in range(n_pods // GANG)]
    spent: list[float] = []
    for _ in range(N_PLANS):
        start_s = time.process_time()
        n_placed = scheduler_baseline.place_all(
            np.tile(room, n_nodes // len(NODE_SHAPES)), requests, gangs, GANG
        )
        spent.append(time.process_time() - start_s)
        _require(n_placed > 0.5 * n_pods, f"{n_placed} of {n_pods} placed")
    return sorted(spent)[len(spent) // 2]


def _one_new_gang(n_nodes: int, n_pods: int) -> _Spent:
    """A snapshot that is kept, as the live scheduler does, and one gang that arrives."""
    objects = SchedulerObjects(nodes=_nodes(n_nodes), queues=_queues())
    for gang in range(n_pods // GANG):
        where = [f"n{(gang * GANG + k) % n_nodes:05}" for k in range(GANG)]
        request = {"cpu": "1", "memory": "2Gi"}
        _add_gang(objects, f"job-{gang:05}", request, queue=f"q{gang % N_QUEUES}", nodes=where)
    snapshot = objects.snapshot()
    run_cycle(snapshot, DEFAULT)
    spent: list[_Spent] = []
    for attempt in range(5):
        arriving = SchedulerObjects()
        _add_gang(arriving, f"late-{attempt}", POD_SHAPES[attempt], queue="q0")

        def arrive(arriving: SchedulerObjects = arriving) -> SchedulingPlan:
            snapshot.put_group(arriving.groups[0])
            for pod in arriving.pods:
                snapshot.put_pod(pod)
            return run_cycle(snapshot, DEFAULT, report_on=snapshot.active_jobs())

        plan, once = _timed(arrive)
        _require(len(plan.binds) == GANG, f"{len(plan.binds)} of the new gang placed")
        spent.append(once)
    return sorted(spent)[len(spent) // 2]


def _preemption(n_nodes: int, n_claimers: int) -> _Spent:
    """Every node full of pods of low-priority gangs; a gang of high priority arrives."""
    nodes = [_node(f"n{n:05}", NODE_SHAPES[0]) for n in range(n_nodes)]
    objects = SchedulerObjects(nodes=nodes, queues=_queues())
    objects.priority_classes += [_priority("low", 1), _priority("high", 1000)]
    for gang in range(n_nodes):
        where = [f"n{(gang + k * 37) % n_nodes:05}" for k in range(GANG)]
        _add_gang(
            objects,
            f"low-{gang:05}",
            {"cpu": "4", "memory": "8Gi"},
            queue="q0",
            nodes=where,
            priority="low",
        )
    _add_gang(
        objects, "high", {"cpu": "8", "memory": "16Gi"}, queue="q0", priority="high", n=n_claimers
    )
    snapshot = objects.snapshot()
    plan, spent = _timed(lambda: run_cycle(snapshot, DEFAULT, report_on=[]))
    _require(len(plan.pipelined) == n_claimers, f"{len(plan.pipelined)} of the gang got room")
    return spent


def _gang_of_64() -> float:
    """The cost of one gang on 1,000 nodes, within a block of 125 racks, over that without."""
    plain, near = _one_gang(with_limit=False), _one_gang(with_limit=True)

    def cycle(objects: SchedulerObjects) -> float:
        snapshot = objects.snapshot()
        snapshot.hyper_nodes.tree(snapshot.nodes)  # kept from cycle to cycle
        plan, spent = _timed(lambda: run_cycle(snapshot, DEFAULT))
        _require(len(plan.binds) == 64, f"{len(plan.binds)} of the gang placed")
        return spent.cpu_s

    ratios = [cycle(near) / cycle(plain) for _ in range(N_ROUNDS)]
    return sorted(ratios)[len(ratios) // 2]


def _one_gang(*, with_limit: bool) -> SchedulerObjects:
    request = {"cpu": "32", "memory": "64Gi"}
    nodes = [_node(f"n{n:05}", NODE_SHAPES[0]) for n in range(1_000)]
    objects = SchedulerObjects(nodes=nodes, queues=_queues())
    _add_gang(objects, "near", request, queue="q0", n=64)
    if with_limit:
        objects.hyper_nodes = _network(1_000, 8, 13)
        limit = NetworkTopology(mode="hard", highest_tier_allowed=2)
        spec = msgspec.structs.replace(objects.groups[0].spec, network_topology=limit)
        objects.groups[0] = msgspec.structs.replace(objects.groups[0], spec=spec)
    return objects


def _with_network() -> float:
    """The cost of a whole plan without constraints where there is a tree, over that without one.

    The objects are the same, and so is the plan where no tree exists.
    """
    plain, near = whole_cluster(5_000, 50_000), whole_cluster(5_000, 50_000)
    near.hyper_nodes = _network(5_000, 8, 16)
    return _median_ratio(lambda: plan_schedule(near), lambda: plan_schedule(plain))


def _without_network() -> float:
    """The cost of a plan with the plugin for topologies and no tree, over that without it."""
    objects = whole_cluster(1_000, 10_000)
    tiers = tuple(
        tuple(one for one in tier if one.name != network_topology.NAME) for tier in DEFAULT.tiers
    )
    without = dataclasses.replace(DEFAULT, tiers=tiers)
    return _median_ratio(lambda: plan_schedule(objects), lambda: plan_schedule(objects, without))


def _median_ratio(
    work: Callable[[], SchedulingPlan], without: Callable[[], SchedulingPlan]
) -> float:
    """Returns the median ratio of interleaved rounds: the machine may be busy."""
    ratios: list[float] = []
    for _ in range(N_ROUNDS):
        base_s = _timed(without)[1].cpu_s
        ratios.append(_timed(work)[1].cpu_s / base_s)
    return sorted(ratios)[len(ratios) // 2]


def _network(n_nodes: int, per_rack: int, racks_per_block: int) -> list[HyperNode]:
    racks = [f"r{n:04}" for n in range(n_nodes // per_rack)]
    found = [
        _hyper_node(
            name, 1, NODE_MEMBER, [f"n{k:05}" for k in range(r * per_rack, (r + 1) * per_rack)]
        )
        for r, name in enumerate(racks)
    ]
    for block, start in enumerate(range(0, len(racks), racks_per_block)):
        members = racks[start : start + racks_per_block]
        found.append(_hyper_node(f"b{block:03}", 2, DOMAIN_MEMBER, members))
    return found


def _hyper_node(name: str, tier: int, kind: str, members: list[str]) -> HyperNode:
    selected = tuple(
        HyperNodeMember(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=member)))
        for member in members
    )
    meta = ObjectMeta(name=name, uid=Uid(name))
    return HyperNode(metadata=meta, spec=HyperNodeSpec(tier=tier, members=selected))


def _churn(n_nodes: int, n_guests: int) -> float:
    """The cost of a cycle after so many nodes and pods came and went, over that before."""
    objects = SchedulerObjects(nodes=_nodes(n_nodes), queues=_queues())
    # More than there is room for, so that every cycle looks at all nodes for each shape.
    for gang in range(200):
        request = {"cpu": "999", "memory": f"{gang + 1}Gi"}
        _add_gang(objects, f"job-{gang:05}", request, queue="q0", n=1)
    snapshot = objects.snapshot()

    def cycles_s() -> float:
        spent = [_timed(lambda: run_cycle(snapshot, DEFAULT, report_on=[]))[1] for _ in range(9)]
        return sorted(one.cpu_s for one in spent)[len(spent) // 2]

    run_cycle(snapshot, DEFAULT)
    before_s = cycles_s()
    for guest in range(n_guests):
        name = f"guest-{guest:05}"
        snapshot.put_node(_node(name, NODE_SHAPES[0]))
        passing = SchedulerObjects()
        request = {"cpu": "1", "memory": f"{guest + 1}Ki"}
        _add_gang(passing, name, request, queue="q0", nodes=[name], n=1)
        snapshot.put_group(passing.groups[0])
        snapshot.put_pod(passing.pods[0])
        snapshot.remove_node(name)
        snapshot.remove_pod(f"ns/{name}-worker-0")
        snapshot.remove_group(f"ns/{name}")
    return cycles_s() / before_s


def _nodes(n: int) -> list[Node]:
    return [_node(f"n{at:05}", NODE_SHAPES[at % len(NODE_SHAPES)]) for at in range(n)]


def _node(name: str, allocatable: dict[str, str]) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}),
        status=NodeStatus(allocatable=dict(allocatable), conditions=READY),
    )


def _queues() -> list[Queue]:
    return [
        Queue(
            metadata=ObjectMeta(name=f"q{n}"),
            spec=QueueSpec(weight=1 + n % 3),
            status=QueueStatus(state=QueueState.OPEN),
        )
        for n in range(N_QUEUES)
    ]


def _priority(name: str, value: int) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value)


def _add_gang(
    into: SchedulerObjects,
    name: str,
    request: Mapping[str, str],
    *,
    queue: str,
    nodes: list[str] | None = None,
    priority: str = "",
    n: int = GANG,
) -> None:
    running = nodes is not None
    into.groups.append(
        PodGroup(
            metadata=ObjectMeta(name=name, namespace="ns", uid=Uid(name)),
            spec=PodGroupSpec(min_member=n, queue=queue, priority_class_name=priority),
            status=PodGroupStatus(
                phase=PodGroupPhase.RUNNING if running else PodGroupPhase.PENDING
            ),
        )
    )
    for index in range(n):
        pod_name = f"{name}-worker-{index}"
        into.pods.append(
            Pod(
                metadata=ObjectMeta(
                    name=pod_name,
                    namespace="ns",
                    uid=Uid(pod_name),
                    labels={"index": str(index)},
                    annotations={"scheduling.k8s.io/group-name": name},
                ),
                spec=PodSpec(
                    scheduler_name="swell",
                    node_name=nodes[index] if nodes else "",
                    containers=(Container(resources=ResourceRequirements(requests=dict(request))),),
                ),
                status=PodStatus(phase=PodPhase.RUNNING if running else PodPhase.PENDING),
            )
        )


class _Spent(NamedTuple):
    wall_s: float
    cpu_s: float


def _timed(work: Callable[[], SchedulingPlan]) -> tuple[SchedulingPlan, _Spent]:
    gc.collect()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = work()
    return result, _Spent(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise RuntimeError(problem)
