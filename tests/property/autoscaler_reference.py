"""The fulfillment policy and the cluster's resources once more, as plainly as they can be written.

Slow on purpose: every sentence of the rules in its own words, everything worked out anew each time.
The real ones are held against these on random clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    AITrainingJobPhase,
    EdlPolicy,
    RestartPolicy,
)
from swell.api.codec import convert
from swell.api.core import Node
from swell.api.matching import tolerates_all
from swell.api.meta import ObjectMeta
from swell.api.pod import Container, Pod, PodPhase, PodSpec, QuantityText
from swell.api.quantity import Quantity
from swell.api.requests import pod_limits, pod_requests
from swell.api.scheduling import Queue
from swell.api.trainingjob import FINAL_PHASES as TRAINING_FINAL
from swell.api.trainingjob import TrainingJob, TrainingJobPhase
from swell.autoscaler.plan import AutoscalerObjects

GPU = "nvidia.com/gpu"
REFUSED = {"QueueClosed", "QueueNotFound", "QueueQuotaExceeded"}


@dataclass
class RefRole:
    job: str
    text: str  # namespace/name
    kind: str
    role: str
    minimum: int
    maximum: int
    target: int
    gang: int
    auto: bool
    replaces: bool
    spec: PodSpec
    pods: list[Pod]
    numbered: bool = False
    queue: str = "default"
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def gpu(self) -> int:
        return amounts(pod_limits(self.spec)).get(GPU, 0)

    @property
    def request(self) -> dict[str, int]:
        return request_of(self.spec)


@dataclass
class RefJob:
    name: str
    waiting: bool
    running: bool
    roles: list[RefRole]
    refused: bool
    hopeless: bool = False

    @property
    def pending(self) -> bool:
        return self.waiting and not self.hopeless


@dataclass
class RefCluster:
    nodes: dict[str, Node]
    total: dict[str, int]
    requested: dict[str, int] = field(default_factory=dict)
    limited: dict[str, int] = field(default_factory=dict)
    idle: dict[str, dict[str, int]] = field(default_factory=dict)
    placed: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    n_misplaced: int = 0  # replicas that a plan counted without a node
    queues: dict[str, Queue] = field(default_factory=dict)
    held: dict[str, dict[str, int]] = field(default_factory=dict)  # by queue, without those below
    # By node: pods that may still come, host ports in use, and labels and specs of the pods there.
    slots: dict[str, int] = field(default_factory=dict)
    there: dict[str, list[tuple[dict[str, str], PodSpec]]] = field(default_factory=dict)

    def count(self, spec: PodSpec, node: str) -> None:
        for name, amount in request_of(spec).items():
            self.requested[name] = self.requested.get(name, 0) + amount
            if node:
                self.idle[node][name] = self.idle[node].get(name, 0) - amount
        for name, amount in amounts(pod_limits(spec)).items():
            self.limited[name] = self.limited.get(name, 0) + amount

    def line(self, name: str) -> list[Queue | None]:
        """The queue and all above it; None for one that does not exist."""
        found: list[Queue | None] = []
        while name:
            queue = self.queues.get(name)
            found.append(queue)
            name = (queue.spec.parent or ("" if name == "root" else "root")) if queue else ""
        return found

    def allows(self, role: RefRole) -> bool:
        """Whether the role's queue and each one above it has quota for one replica more."""
        for queue in self.line(role.queue):
            if queue is None or queue.status.state.value in {"Closed", "Closing"}:
                return False
            below = [n for n in self.queues if queue in self.line(n)]
            for resource, limit in amounts(_read(queue.spec.capability)).items():
                asked = role.request.get(resource, 0)
                held = sum(self.held.get(name, {}).get(resource, 0) for name in below)
                if asked and held + asked > limit:
                    return False
        return True

    def admits(self, role: RefRole, node: str) -> bool:
        """Whether a node has a pod slot and free ports, and no pod there is to be avoided."""
        if self.slots[node] < 1:
            return False
        for labels, spec in self.there[node]:
            if ports_of(spec) & ports_of(role.spec):
                return False
            if avoids(role.spec, labels) or avoids(spec, role.labels):
                return False
        return True

    def hold(self, role: RefRole, n: int) -> None:
        """Charge the role's queue with n replicas."""
        held = self.held.setdefault(role.queue, {})
        for name, amount in role.request.items():
            held[name] = held.get(name, 0) + n * amount

    def put(self, role: RefRole, node: str) -> None:
        self.slots[node] -= 1
        self.there[node].append((role.labels, role.spec))


def ports_of(spec: PodSpec) -> set[int]:
    return {port.host_port for one in spec.containers for port in one.ports if port.host_port}


def avoids(spec: PodSpec, labels: dict[str, str]) -> bool:
    """Whether a pod keeps away from nodes with such a pod; the terms here are all by host name."""
    side = spec.affinity.pod_anti_affinity if spec.affinity else None
    terms = side.required_during_scheduling_ignored_during_execution if side else ()
    return any(
        term.label_selector is not None
        and all(labels.get(k) == v for k, v in term.label_selector.match_labels.items())
        for term in terms
    )


def _read(quantities: dict[str, QuantityText]) -> dict[str, Quantity]:
    return pod_requests(PodSpec(overhead=quantities))


def amounts(quantities: dict[str, Quantity]) -> dict[str, int]:
    read = {n: q.milli_value() if n == "cpu" else q.value() for n, q in quantities.items()}
    return {name: amount for name, amount in read.items() if amount}


def request_of(spec: PodSpec) -> dict[str, int]:
    found = amounts(pod_requests(spec))
    found.pop(GPU, None)
    found.pop("pods", None)
    limits = amounts(pod_limits(spec))
    return {**found, GPU: limits[GPU]} if GPU in limits else found


def jobs_of(objects: AutoscalerObjects) -> list[RefJob]:
    refused = {
        (g.metadata.namespace, g.metadata.name)
        for g in objects.groups
        if any(c.reason in REFUSED and c.status == "True" for c in g.status.conditions)
    }
    jobs = [_ai_job(job, objects.pods) for job in objects.training_jobs if _is_live(job)]
    jobs += [
        _training_job(job, objects.pods)
        for job in objects.trainer_jobs
        if job.status.phase not in TRAINING_FINAL
    ]
    for job in jobs:
        job.refused = tuple(job.roles[0].text.split("/")) in refused
    return jobs


def _is_live(job: AITrainingJob) -> bool:
    return job.status.phase not in FINAL_PHASES and job.metadata.deletion_timestamp is None


def _ai_job(job: AITrainingJob, pods: list[Pod]) -> RefJob:
    text = f"{job.metadata.namespace}/{job.metadata.name}"
    roles = []
    for name, spec in job.spec.replica_specs.items():
        own = [
            pod
            for pod in pods
            if any(o.uid == job.metadata.uid for o in pod.metadata.owner_references)
            and pod.metadata.labels["TrainingJobReplicaName"] == name
        ]
        roles.append(
            RefRole(
                job=text,
                text=text,
                kind="AITrainingJob",
                role=name,
                minimum=spec.minimum,
                maximum=spec.maximum,
                target=job.status.target_replicas.get(name, spec.size),
                gang=spec.gang_minimum,
                auto=spec.edl_policy is EdlPolicy.AUTO and spec.minimum < spec.maximum,
                replaces=spec.restart_policy is not RestartPolicy.NEVER,
                spec=convert(spec.template["spec"], PodSpec),
                pods=own,
                queue=job.spec.queue,
                labels={
                    **spec.template.get("metadata", {}).get("labels", {}),
                    "TrainingJobName": job.metadata.name,
                    "TrainingJobReplicaName": name,
                },
            )
        )
    phase = job.status.phase
    waiting = phase in {AITrainingJobPhase.EMPTY, AITrainingJobPhase.PENDING}
    return RefJob(text, waiting, phase is AITrainingJobPhase.RUNNING, roles, refused=False)


def _training_job(job: TrainingJob, pods: list[Pod]) -> RefJob:
    text = f"{job.metadata.namespace}/{job.metadata.name}"
    own = [pod for pod in pods if pod.metadata.labels.get("paddle-job") == job.metadata.name]
    spec = job.spec
    target = job.status.trainer_target
    trainer = RefRole(
        job=f"TrainingJob/{text}",
        text=text,
        kind="TrainingJob",
        role="trainer",
        minimum=spec.trainer.minimum,
        maximum=spec.trainer.maximum,
        target=spec.trainer.minimum if target is None else target,
        gang=spec.trainer.minimum,
        auto=spec.trainer.minimum < spec.trainer.maximum,
        replaces=True,
        spec=PodSpec(containers=(Container(resources=spec.trainer.resources),)),
        pods=own,
    )
    pserver = RefRole(
        f"TrainingJob/{text}", text, "TrainingJob", "pserver", 1, 1, 1, 1, False, True,
        PodSpec(containers=(Container(resources=spec.pserver.resources),)), [], numbered=True,
    )  # fmt: skip
    master = RefRole(
        f"TrainingJob/{text}", text, "TrainingJob", "master", 1, 1, 1, 1, False, True,
        PodSpec(containers=(Container(resources=spec.master.resources),)), [], numbered=True,
    )  # fmt: skip
    phase = job.status.phase
    unscheduled = any(
        not pod.spec.node_name and not pod.metadata.deletion_timestamp and not _finished(pod)
        for pod in own
    )
    waiting = phase is TrainingJobPhase.EMPTY or (
        phase is TrainingJobPhase.CREATING and unscheduled
    )
    name = f"TrainingJob/{text}"
    running = phase is TrainingJobPhase.RUNNING
    return RefJob(name, waiting, running, [trainer, pserver, master], refused=False)


def _finished(pod: Pod) -> bool:
    return pod.status.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}


def index_of(pod: Pod) -> int:
    labels = pod.metadata.labels
    return int(
        labels.get("TrainingJobReplicaIndex") or labels["batch.kubernetes.io/job-completion-index"]
    )


def accepts(spec: PodSpec, node: Node) -> bool:
    selected = all(node.metadata.labels.get(k) == v for k, v in spec.node_selector.items())
    return selected and tolerates_all(spec.tolerations, node.spec.taints)


def fits(request: dict[str, int], room: dict[str, int]) -> bool:
    return all(room.get(name, 0) >= amount for name, amount in request.items())


def resources_of(objects: AutoscalerObjects) -> tuple[RefCluster, list[RefJob]]:
    nodes = {
        node.metadata.name: node
        for node in objects.nodes
        if not node.spec.unschedulable
        and any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    }
    offers = {name: amounts(_parsed(node)) for name, node in nodes.items()}
    slots = {name: offer.pop("pods", 10**9) for name, offer in offers.items()}
    total: dict[str, int] = {}
    for offer in offers.values():
        for name, amount in offer.items():
            total[name] = total.get(name, 0) + amount
    cluster = RefCluster(nodes, total, idle={name: dict(offer) for name, offer in offers.items()})
    cluster.slots, cluster.there = slots, {name: [] for name in nodes}
    _read_limits(cluster, objects)
    jobs = jobs_of(objects)
    for job in jobs:
        bound = any(pod.spec.node_name for role in job.roles for pod in role.pods)
        refused = job.refused and not bound  # a refusal is of the time before the first binding
        job.hopeless = job.waiting and (refused or _impossible(job, cluster, offers))
    taken = set()
    for job in jobs:
        for role in job.roles:
            taken |= {pod.metadata.key for pod in role.pods}
            cluster.hold(role, role.target)
            for index in range(role.target):
                _count_index(cluster, job, role, index)
    for pod in objects.pods:
        if pod.metadata.key in taken or _finished(pod) or pod.metadata.deletion_timestamp:
            continue
        if not pod.spec.node_name or pod.spec.node_name in nodes:
            cluster.count(pod.spec, pod.spec.node_name)
    return cluster, jobs


def _read_limits(cluster: RefCluster, objects: AutoscalerObjects) -> None:
    """The queues, two of which are always there, and the pods that nodes have."""
    cluster.queues = {
        "root": Queue(metadata=ObjectMeta(name="root")),
        "default": Queue(metadata=ObjectMeta(name="default")),
        **{queue.metadata.name: queue for queue in objects.queues},
    }
    for pod in objects.pods:
        node = pod.spec.node_name
        if node in cluster.nodes and not _finished(pod) and not pod.metadata.deletion_timestamp:
            cluster.slots[node] -= 1
            cluster.there[node].append((pod.metadata.labels, pod.spec))


def _parsed(node: Node) -> dict[str, Quantity]:
    return pod_requests(PodSpec(overhead=node.status.allocatable))


def _impossible(job: RefJob, cluster: RefCluster, offers: dict[str, dict[str, int]]) -> bool:
    asked: dict[str, int] = {}
    for role in job.roles:
        for name, amount in role.request.items():
            asked[name] = asked.get(name, 0) + role.gang * amount
        if not any(
            accepts(role.spec, node) and fits(role.request, offers[name])
            for name, node in cluster.nodes.items()
        ):
            return True
    return any(amount > cluster.total.get(name, 0) for name, amount in asked.items())


def _count_index(cluster: RefCluster, job: RefJob, role: RefRole, index: int) -> None:
    found = [] if role.numbered else [pod for pod in role.pods if index_of(pod) == index]
    pod = found[0] if found else None
    if pod is not None and pod.status.phase is PodPhase.SUCCEEDED:
        return
    if pod is not None and pod.status.phase is PodPhase.FAILED and not role.replaces:
        return
    stays = pod is not None and not pod.metadata.deletion_timestamp and not _finished(pod)
    if pod is not None and stays and pod.spec.node_name in cluster.nodes:
        cluster.count(pod.spec, pod.spec.node_name)
    elif not job.hopeless:
        asks = pod is not None and stays and not pod.spec.node_name
        cluster.count(pod.spec if pod is not None and asks else role.spec, "")


def plan(cluster: RefCluster, jobs: list[RefJob], max_load: str) -> dict[tuple[str, str], int]:
    """Targets of every role considered."""
    considered = {
        (role.job, role.role): role
        for job in jobs
        for role in job.roles
        if role.auto and not any(p.status.phase is PodPhase.SUCCEEDED for p in role.pods)
    }
    somebody_waits = any(job.pending for job in jobs)
    candidates = [
        considered[role.job, role.role]
        for job in jobs
        if not job.hopeless and (somebody_waits or job.running)
        for role in job.roles
        if (role.job, role.role) in considered
    ]
    planned = {key: role.target for key, role in considered.items()}
    most_cpu = int(Decimal(max_load) * cluster.total.get("cpu", 0))
    most_memory = int(Decimal(max_load) * cluster.total.get("memory", 0))
    gpus = cluster.total.get(GPU, 0)
    used = {
        "cpu": cluster.requested.get("cpu", 0),
        "memory": cluster.requested.get("memory", 0),
        GPU: cluster.limited.get(GPU, 0),
    }
    most = {"cpu": most_cpu, "memory": most_memory, GPU: gpus}
    while Round(cluster, planned, used, most).run(candidates):
        pass
    return planned


@dataclass
class Round:
    """One round of a plan, over what is planned and used so far."""

    cluster: RefCluster
    planned: dict[tuple[str, str], int]
    used: dict[str, int]
    most: dict[str, int]
    changed: bool = False

    def run(self, candidates: list[RefRole]) -> bool:
        ordered = sorted(candidates, key=self._order)
        for role in ordered:
            self._up(role)
        for role in reversed(ordered):
            self._down(role)
        return self.changed

    def _order(self, role: RefRole) -> tuple[Fraction, int, int, int, str, str, str]:
        fulfilled = self.planned[role.job, role.role] - role.minimum
        request = role.request
        return (
            Fraction(fulfilled, role.maximum - role.minimum),
            role.gpu,
            request.get("cpu", 0),
            request.get("memory", 0),
            role.text,
            role.role,
            role.kind,
        )

    def _up(self, role: RefRole) -> None:
        now = self.planned[role.job, role.role]
        if now > role.maximum:
            self._move(role, role.maximum - now)
        elif now < role.minimum:
            self.cluster.n_misplaced += role.minimum - now
            self._move(role, role.minimum - now)
        elif now < role.maximum and all(
            used + role.request.get(name, 0) <= self.most[name] for name, used in self.used.items()
        ):
            node = _first_node(self.cluster, role) if self.cluster.allows(role) else None
            if node is not None:
                self.cluster.put(role, node)
                for name, amount in role.request.items():
                    self.cluster.idle[node][name] -= amount
                self.cluster.placed.setdefault((role.job, role.role), []).append(node)
                self._move(role, 1)

    def _down(self, role: RefRole) -> None:
        presses = any(
            role.request.get(name, 0) and used > self.most[name] for name, used in self.used.items()
        )
        if self.planned[role.job, role.role] > role.minimum and presses:
            self._move(role, -1)

    def _move(self, role: RefRole, n: int) -> None:
        self.changed = True
        self.planned[role.job, role.role] += n
        self.cluster.hold(role, n)
        for name in self.used:
            self.used[name] += n * role.request.get(name, 0)


def _first_node(cluster: RefCluster, role: RefRole) -> str | None:
    for name in sorted(cluster.nodes):
        fitting = accepts(role.spec, cluster.nodes[name]) and fits(role.request, cluster.idle[name])
        if fitting and cluster.admits(role, name):
            return name
    return None
