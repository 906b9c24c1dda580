"""Random clusters for the scheduler: small, crowded, with every rule in play.

Pods that already run fit their nodes, so any over-commitment afterwards is the plan's fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from swell.api.aitrainingjob import (
    AITrainingJob,
    AITrainingJobSpec,
    AITrainingJobStatus,
    EdlPolicy,
    ReplicaSpec,
)
from swell.api.core import Node, NodeSpec, NodeStatus, Taint
from swell.api.meta import Condition, ObjectMeta, Uid
from swell.api.pod import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodPhase,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from swell.api.policy import PriorityClass
from swell.api.scheduling import (
    PodGroup,
    PodGroupPhase,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueState,
    QueueStatus,
)
from swell.scheduler.plan import SchedulerObjects

BORN = "2026-01-01T00:00:00Z"
HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
TAINT = Taint(key="reserved", value="yes", effect="NoSchedule")
TOLERATION = Toleration(key="reserved", operator="Equal", value="yes", effect="NoSchedule")


@dataclass(frozen=True)
class Traits:
    """Which features may occur; all of them by default."""

    pod_affinity: bool = True
    best_effort: bool = True
    running: bool = True
    ports: bool = True
    elastic: bool = True
    tree: bool = False  # queues are leaves below parents that have limits


@dataclass
class _Room:
    """The free resources of a node while running pods are distributed."""

    node: Node
    cpu: int
    memory: int
    gpus: int
    pods: int
    ports: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Shape:
    cpu: int
    memory: int
    gpus: int
    port: int
    tolerates: bool
    kind: str
    apart: bool
    spread: bool


def random_cluster(chance: Random, traits: Traits = Traits()) -> SchedulerObjects:  # noqa: B008
    found = SchedulerObjects(queues=_queues(chance))
    found.priority_classes = [_priority("low", 10), _priority("high", 1000)]
    found.nodes = [_node(chance, at) for at in range(chance.choice([1, 2, 3, 4, 6, 9]))]
    rooms = [_room(node) for node in found.nodes]
    for at in range(chance.randint(1, 8)):
        _add_job(chance, traits, found, rooms, f"job{at}")
    if traits.tree:
        found.queues = _tree(chance, found.queues)
    return found


def shuffled(objects: SchedulerObjects, chance: Random) -> SchedulerObjects:
    """Returns the same objects in another order."""

    def mixed(things: list) -> list:  # type: ignore[type-arg]
        return chance.sample(things, len(things))

    return SchedulerObjects(
        nodes=mixed(objects.nodes),
        pods=mixed(objects.pods),
        groups=mixed(objects.groups),
        queues=mixed(objects.queues),
        priority_classes=mixed(objects.priority_classes),
        training_jobs=mixed(objects.training_jobs),
    )


def _priority(name: str, value: int) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value)


def _queues(chance: Random) -> list[Queue]:
    return [
        Queue(
            metadata=ObjectMeta(name=f"q{at}", creation_timestamp=BORN),
            spec=QueueSpec(
                weight=chance.randint(1, 3),
                priority=chance.choice([0, 0, 0, 5]),
                reclaimable=chance.random() < 0.9,
                capability=({"cpu": str(chance.randint(2, 12))} if chance.random() < 0.3 else {}),
                deserved={"cpu": str(chance.randint(1, 6)), "memory": "8Gi"},
            ),
            status=QueueStatus(
                state=QueueState.CLOSED if chance.random() < 0.1 else QueueState.OPEN
            ),
        )
        for at in range(chance.randint(1, 3))
    ]


def _tree(chance: Random, leaves: list[Queue]) -> list[Queue]:
    """Returns the leaves below up to four parents, some below each other, most with a limit."""
    parents: list[Queue] = [Queue(metadata=ObjectMeta(name="root", creation_timestamp=BORN))]
    for at in range(chance.randint(1, 4)):
        amounts: dict[str, str | int | float] = {"cpu": str(chance.randint(2, 10))}
        spec = QueueSpec(
            parent=chance.choice(parents).metadata.name,
            capability=amounts if chance.random() < 0.8 else {},
            deserved={"cpu": str(chance.randint(1, 8))},
        )
        parents.append(
            Queue(metadata=ObjectMeta(name=f"p{at}", creation_timestamp=BORN), spec=spec)
        )
    placed = [
        Queue(
            metadata=leaf.metadata,
            spec=QueueSpec(
                weight=leaf.spec.weight,
                priority=leaf.spec.priority,
                reclaimable=leaf.spec.reclaimable,
                capability=leaf.spec.capability,
                deserved=leaf.spec.deserved if chance.random() < 0.8 else {},
                parent=chance.choice(parents[-2:]).metadata.name,
            ),
            status=leaf.status,
        )
        for leaf in leaves
    ]
    return [*parents, *placed]


def _node(chance: Random, at: int) -> Node:
    name = f"n{at}"
    allocatable: dict[str, str | int | float] = {
        "cpu": str(chance.choice([2, 4, 8])),
        "memory": f"{chance.choice([4, 8, 16])}Gi",
        "pods": str(chance.choice([2, 4, 10])),
    }
    if chance.random() < 0.4:
        allocatable[GPU] = str(chance.choice([1, 4]))
    return Node(
        metadata=ObjectMeta(
            name=name,
            labels={HOST: name, "zone": chance.choice("ab"), "kind": chance.choice("xy")},
        ),
        spec=NodeSpec(
            unschedulable=chance.random() < 0.08,
            taints=(TAINT,) if chance.random() < 0.2 else (),
        ),
        status=NodeStatus(
            allocatable=allocatable,
            conditions=(
                Condition(type="Ready", status="False" if chance.random() < 0.08 else "True"),
            ),
        ),
    )


def _room(node: Node) -> _Room:
    amounts = node.status.allocatable
    return _Room(
        node=node,
        cpu=int(amounts["cpu"]),
        memory=int(str(amounts["memory"]).removesuffix("Gi")),
        gpus=int(amounts.get(GPU, 0)),
        pods=int(amounts["pods"]),
    )


def _shape(chance: Random, traits: Traits) -> _Shape:
    best_effort = traits.best_effort and chance.random() < 0.1
    return _Shape(
        cpu=0 if best_effort else chance.choice([1, 1, 2, 4]),
        memory=0 if best_effort else chance.choice([1, 2, 4]),
        gpus=0 if best_effort or chance.random() < 0.75 else 1,
        port=chance.choice([8080, 9090]) if traits.ports and chance.random() < 0.15 else 0,
        tolerates=chance.random() < 0.4,
        kind=chance.choice("xy") if chance.random() < 0.2 else "",
        apart=traits.pod_affinity and chance.random() < 0.12,
        spread=traits.pod_affinity and chance.random() < 0.08,
    )


def _add_job(
    chance: Random, traits: Traits, into: SchedulerObjects, rooms: list[_Room], name: str
) -> None:
    roles = ["worker"] if chance.random() < 0.7 else ["master", "worker"]
    shapes = {role: _shape(chance, traits) for role in roles}
    n_pods = chance.choice([1, 1, 2, 3, 4, 5, 9, 12])
    runs = traits.running and chance.random() < 0.5
    named = chance.random() < 0.8
    low = 0 if chance.random() < 0.1 else 1
    min_member = chance.randint(low, n_pods) if chance.random() < 0.95 else n_pods + 1
    n_running = 0
    for index in range(n_pods):
        role = roles[min(index, len(roles) - 1)]
        pod = _pod(chance, name, role if named else "", index, shapes[role])
        if runs and _fits_somewhere(chance, rooms, shapes[role], pod, into):
            n_running += 1
        else:
            into.pods.append(pod)
    if traits.elastic and len(roles) == 1 and min_member < n_pods and chance.random() < 0.5:
        into.training_jobs.append(_training_job(chance, name, max(min_member, 1), n_pods))
    minimums = dict.fromkeys(roles, 1) if named and min_member >= len(roles) else {}
    into.groups.append(
        PodGroup(
            metadata=ObjectMeta(name=name, namespace="ns", uid=Uid(name), creation_timestamp=BORN),
            spec=PodGroupSpec(
                min_member=min_member,
                min_task_member=minimums if chance.random() < 0.5 else {},
                queue=chance.choice(into.queues).metadata.name,
                priority_class_name=chance.choice(["low", "high", ""]),
                min_resources=(
                    {"cpu": str(min_member), "memory": "1Gi"} if chance.random() < 0.4 else None
                ),
            ),
            status=PodGroupStatus(phase=_phase(chance, n_running, min_member)),
        )
    )


def _training_job(chance: Random, name: str, minimum: int, size: int) -> AITrainingJob:
    policy = EdlPolicy.AUTO if chance.random() < 0.8 else EdlPolicy.MANUAL
    return AITrainingJob(
        metadata=ObjectMeta(name=name, namespace="ns"),
        spec=AITrainingJobSpec(
            replica_specs={
                "worker": ReplicaSpec(
                    replicas=size, min_replicas=minimum, max_replicas=size, edl_policy=policy
                )
            }
        ),
        status=AITrainingJobStatus(target_replicas={"worker": size}),
    )


def _phase(chance: Random, n_running: int, min_member: int) -> PodGroupPhase:
    if n_running:
        return PodGroupPhase.RUNNING if n_running >= min_member else PodGroupPhase.INQUEUE
    return chance.choice([PodGroupPhase.PENDING, PodGroupPhase.INQUEUE])


def _pod(chance: Random, job: str, role: str, index: int, shape: _Shape) -> Pod:
    name = f"{job}-w-{index}"
    requests: dict[str, str | int | float] = {}
    if shape.cpu:
        requests = {"cpu": str(shape.cpu), "memory": f"{shape.memory}Gi"}
    if shape.gpus:
        requests[GPU] = str(shape.gpus)
    ports = (ContainerPort(container_port=shape.port, host_port=shape.port),) if shape.port else ()
    notes = {"scheduling.k8s.io/group-name": job}
    if role:
        notes["volcano.sh/task-spec"] = role
    if chance.random() < 0.1:
        notes["volcano.sh/preemptable"] = "false"
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=Uid(name),
            creation_timestamp=BORN,
            labels={
                "job": job,
                "app": chance.choice("uv"),
                "TrainingJobName": job,
                "TrainingJobReplicaName": "worker",
                "TrainingJobReplicaIndex": str(index),
            },
            annotations=notes,
        ),
        spec=PodSpec(
            scheduler_name="swell",
            priority=chance.choice([None, 1, 5]),
            containers=(Container(resources=ResourceRequirements(requests=requests), ports=ports),),
            node_selector={"kind": shape.kind} if shape.kind else {},
            tolerations=(TOLERATION,) if shape.tolerates else (),
            affinity=_apart(job) if shape.apart else None,
            topology_spread_constraints=(_spread(job),) if shape.spread else (),
        ),
    )


def _apart(job: str) -> Affinity:
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"job": job}), topology_key=HOST
    )
    return Affinity(
        pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


def _spread(job: str) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1, topology_key="zone", label_selector=LabelSelector(match_labels={"job": job})
    )


def _fits_somewhere(
    chance: Random, rooms: list[_Room], shape: _Shape, pod: Pod, into: SchedulerObjects
) -> bool:
    """Starts the pod on a random node that has room, sometimes already leaving again."""
    for room in chance.sample(rooms, len(rooms)):
        fits = (
            shape.cpu <= room.cpu
            and shape.memory <= room.memory
            and shape.gpus <= room.gpus
            and room.pods > 0
            and shape.port not in room.ports
            and not shape.apart
            and not shape.spread
        )
        if fits:
            room.cpu -= shape.cpu
            room.memory -= shape.memory
            room.gpus -= shape.gpus
            room.pods -= 1
            if shape.port:
                room.ports.add(shape.port)
            into.pods.append(_started(chance, pod, room.node.metadata.name))
            return True
    return False


def _started(chance: Random, pod: Pod, node: str) -> Pod:
    meta, spec = pod.metadata, pod.spec
    leaving = chance.random() < 0.15
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=BORN,
            labels=meta.labels,
            annotations=meta.annotations,
            deletion_timestamp=BORN if leaving else None,
        ),
        spec=PodSpec(
            scheduler_name=spec.scheduler_name,
            node_name=node,
            priority=spec.priority,
            containers=spec.containers,
            node_selector=spec.node_selector,
            tolerations=spec.tolerations,
        ),
        status=PodStatus(phase=PodPhase.RUNNING if chance.random() < 0.8 else PodPhase.PENDING),
    )
