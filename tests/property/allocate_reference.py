"""A plain reference of the action allocate: task by task, node by node, without caches.

Follows the same rules as the real one for priority, gang, drf, proportion, predicates, nodeorder
and binpack, with dictionaries and loops, and shares no code with it but the reading of quantities.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from swell.api import quantity
from swell.api.core import Node
from swell.api.pod import Pod, PodPhase
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue, QueueState
from swell.scheduler.plan import SchedulerObjects

GPU = "nvidia.com/gpu"
NAMES = ("cpu", "memory", "pods", GPU)
EMPTY = dict.fromkeys(NAMES, 0.0)
Amounts = dict[str, float]


@dataclass
class PlainNode:
    node: Node
    allocatable: Amounts
    idle: Amounts
    future: Amounts
    # Counted: a pod that is leaving and one that is pipelined may both hold a port.
    now_ports: Counter[int] = field(default_factory=Counter)
    later_ports: Counter[int] = field(default_factory=Counter)


@dataclass
class PlainTask:
    pod: Pod
    request: Amounts
    status: str
    node: PlainNode | None = None

    @property
    def role(self) -> str:
        return self.pod.metadata.annotations.get("volcano.sh/task-spec", "")

    @property
    def asks(self) -> list[str]:
        return [n for n in NAMES if n != "pods" and self.request[n] > 0]

    @property
    def ports(self) -> set[int]:
        return {p.host_port for c in self.pod.spec.containers for p in c.ports if p.host_port}

    @property
    def order(self) -> tuple[float, int, str]:
        priority = 1 if self.pod.spec.priority is None else self.pod.spec.priority
        name = self.pod.metadata.name
        return (-priority, int(name.rpartition("-")[2]), self.pod.metadata.uid)


@dataclass
class PlainJob:
    group: PodGroup
    priority: int
    tasks: list[PlainTask]

    @property
    def key(self) -> str:
        return f"{self.group.metadata.namespace}/{self.group.metadata.name}"

    @property
    def minimums(self) -> dict[str, int]:
        minimums = self.group.spec.min_task_member
        return minimums if self.group.spec.min_member >= sum(minimums.values()) else {}

    def count(self, *statuses: str, role: str | None = None) -> int:
        return sum(t.status in statuses and (role is None or t.role == role) for t in self.tasks)

    def ready(self, role: str | None = None) -> int:
        effortless = sum(
            t.status == "Pending" and not t.asks and (role is None or t.role == role)
            for t in self.tasks
        )
        return self.count("Allocated", "Bound", "Running", role=role) + effortless

    def is_ready(self, extra: int = 0) -> bool:
        """Whether the gang is complete; with `extra`, counting pipelined tasks, too."""
        n_pipelined = self.count("Pipelined") if extra else 0
        if self.ready() + n_pipelined < self.group.spec.min_member:
            return False
        return all(
            self.ready(role) + (self.count("Pipelined", role=role) if extra else 0) >= n
            for role, n in self.minimums.items()
        )

    def missing(self, role: str) -> int:
        short = max(self.group.spec.min_member - self.ready(), 0)
        for name, n in self.minimums.items():
            gap = n - self.ready(name)
            if gap > 0 and name != role:
                return 10**6
            if gap > 0:
                short = max(short, gap)
        return short

    def held(self) -> Amounts:
        total = dict(EMPTY)
        for task in self.tasks:
            if task.status in {"Allocated", "Pipelined", "Bound", "Running"}:
                total = plus(total, task.request)
        return total


class Reference:
    """One allocate pass over given objects; `binds` is the outcome."""

    def __init__(self, objects: SchedulerObjects) -> None:
        self.nodes = [plain_node(n) for n in sorted(objects.nodes, key=lambda n: n.metadata.name)]
        by_name = {n.node.metadata.name: n for n in self.nodes}
        classes = {c.metadata.name: c.value for c in objects.priority_classes}
        self.queues = {q.metadata.name: q for q in objects.queues}
        self.jobs = [
            PlainJob(g, classes.get(g.spec.priority_class_name, 0), [])
            for g in sorted(objects.groups, key=lambda g: g.metadata.name)
        ]
        jobs = {job.group.metadata.name: job for job in self.jobs}
        for pod in sorted(objects.pods, key=lambda p: p.metadata.name):
            task = plain_task(pod, by_name)
            jobs[pod.metadata.annotations["scheduling.k8s.io/group-name"]].tasks.append(task)
        self.total = dict(EMPTY)
        for node in self.nodes:
            if is_ready(node.node):
                self.total = plus(self.total, node.allocatable)
        self.deserved = self._deserved()
        self.binds: dict[str, str] = {}

    def run(self) -> dict[str, str]:
        waiting = [job for job in self.jobs if self._takes_part(job)]
        while waiting:
            names = {job.group.spec.queue for job in waiting}
            queue = min((self.queues[name] for name in names), key=self._queue_key)
            name = queue.metadata.name
            mine = [job for job in waiting if job.group.spec.queue == name]
            if self._is_overused(name):
                waiting = [job for job in waiting if job not in mine]
                continue
            job = min(mine, key=self._job_key)
            waiting.remove(job)
            if self._serve(job):
                waiting.append(job)
        return self.binds

    def _takes_part(self, job: PlainJob) -> bool:
        live = ("Allocated", "Bound", "Running", "Pending", "Pipelined")
        return (
            job.count(*live) >= job.group.spec.min_member
            and all(job.count(*live, role=r) >= n for r, n in job.minimums.items())
            and any(t.status == "Pending" and t.asks for t in job.tasks)
        )

    def _serve(self, job: PlainJob) -> bool:
        """Serves one job once; returns whether it should get another turn."""
        before = [(t, t.status, t.node) for t in job.tasks]
        placed = self._place(job)
        if placed and job.is_ready():
            for task in job.tasks:
                if task.status == "Allocated" and task.node is not None:
                    self.binds[f"ns/{task.pod.metadata.name}"] = task.node.node.metadata.name
            return any(t.status == "Pending" and t.asks for t in job.tasks)
        if not (placed and job.is_ready(extra=1)):
            for task, status, node in before:
                if task.status != status:
                    self._undo(task)
                    task.status, task.node = status, node
        return False

    def _place(self, job: PlainJob) -> bool:
        failed: set[str] = set()
        hopeless_run: tuple[object, ...] = ()
        placed = False
        run: tuple[object, ...] = ()
        left_in_run = 0
        pending = [t for t in job.tasks if t.status == "Pending" and t.asks]
        for task in sorted(pending, key=lambda t: t.order):
            kind = class_of(task)
            if kind != run:
                if placed and job.is_ready():
                    break
                run, left_in_run = kind, max(job.missing(task.role), 1)
            if kind == hopeless_run or (task.role and task.role in failed) or not left_in_run:
                continue
            if not self._is_allocatable(job, task):
                hopeless_run = kind
                continue
            if self._put(task):
                placed = True
                left_in_run -= 1
                continue
            hopeless_run = kind
            failed.add(task.role)
            if not self._goes_on(job, failed):
                break
        return placed

    def _goes_on(self, job: PlainJob, failed: set[str]) -> bool:
        minimum, minimums = job.group.spec.min_member, job.group.spec.min_task_member
        if minimum == len(job.tasks):
            return False
        held = ("Allocated", "Bound", "Running")
        if minimum < sum(minimums.values()):
            pending = sum(t.status == "Pending" and t.role not in failed for t in job.tasks)
            return job.count(*held) + pending >= minimum
        return all(job.count(*held, role=role) >= minimums.get(role, 0) for role in failed)

    def _put(self, task: PlainTask) -> bool:
        for now in (True, False):
            best, best_score = None, -math.inf
            for node in self.nodes:
                if self._takes(node, task, now=now):
                    score = self._score(node, task)
                    if score > best_score:
                        best, best_score = node, score
            if best is not None:
                task.node, task.status = best, "Allocated" if now else "Pipelined"
                best.future = minus(best.future, task.request)
                best.later_ports.update(task.ports)
                best.now_ports.update(task.ports)
                if now:
                    best.idle = minus(best.idle, task.request)
                return True
        return False

    def _undo(self, task: PlainTask) -> None:
        node = task.node
        assert node is not None
        node.future = plus(node.future, task.request)
        node.later_ports.subtract(task.ports)
        node.now_ports.subtract(task.ports)
        if task.status == "Allocated":
            node.idle = plus(node.idle, task.request)

    def _takes(self, node: PlainNode, task: PlainTask, *, now: bool) -> bool:
        labels, spec = node.node.metadata.labels, task.pod.spec
        if not is_ready(node.node) or node.node.spec.unschedulable:
            return False
        if any(labels.get(k) != v for k, v in spec.node_selector.items()):
            return False
        if node.node.spec.taints and not spec.tolerations:
            return False
        taken = node.now_ports if now else node.later_ports
        if any(taken[port] for port in task.ports):
            return False
        rooms = [node.future, node.idle] if now else [node.future]
        compared = [n for n in NAMES if n in {"cpu", "memory"} or task.request[n] > 0]
        return all(task.request[n] < room[n] + 0.1 for room in rooms for n in compared)

    def _score(self, node: PlainNode, task: PlainTask) -> float:
        used = minus(node.allocatable, node.idle)
        names = ["cpu", "memory"] + ([GPU] if task.request[GPU] > 0 else [])
        parts = []
        for n in names:
            full = (used[n] + task.request[n]) / node.allocatable[n] if node.allocatable[n] else 0.0
            parts.append(min(full, 1.0))
        load = (parts[0] + parts[1]) / 2
        mean = sum(parts) / len(parts)
        variance = sum((part - mean) * (part - mean) for part in parts)
        balance = (1.0 - math.sqrt(variance / len(parts))) * 100.0
        taints = 100.0 * 3.0
        nodeorder = (1.0 - load) * 100.0 + balance
        return float(round((taints + nodeorder + self._packing(node, task, used)) * 1e6))

    def _packing(self, node: PlainNode, task: PlainTask, used: Amounts) -> float:
        asked = [n for n in ("cpu", "memory") if task.request[n] > 0]
        points = 0.0
        for n in asked:
            after = used[n] + task.request[n]
            if after > node.allocatable[n]:
                return 0.0
            points += after / node.allocatable[n]
        return points / len(asked) * 100.0 if asked else 0.0

    # --- order and quota

    def _queue_key(self, queue: Queue) -> tuple[object, ...]:
        name = queue.metadata.name
        share = dominant(self._held_by(name), self.deserved[name])
        return (-queue.spec.priority, share, queue.metadata.creation_timestamp, name)

    def _job_key(self, job: PlainJob) -> tuple[object, ...]:
        held = job.count("Allocated", "Bound", "Running")
        hurt = held < job.group.spec.min_member and (
            job.count("Bound", "Running") > 0 or job.group.status.phase is PodGroupPhase.RUNNING
        )
        share = dominant(job.held(), self.total)
        return (not hurt, -job.priority, job.is_ready(), share, job.key)

    def _held_by(self, queue: str) -> Amounts:
        total = dict(EMPTY)
        for job in self.jobs:
            if job.group.spec.queue == queue:
                total = plus(total, job.held())
        return total

    def _is_overused(self, queue: str) -> bool:
        held, deserved = self._held_by(queue), self.deserved[queue]
        return all(
            deserved[n] < held[n] + 0.1 or (deserved[n] == 0 and n not in {"cpu", "memory"})
            for n in NAMES
        )

    def _is_allocatable(self, job: PlainJob, task: PlainTask) -> bool:
        name = job.group.spec.queue
        if self.queues[name].status.state not in {QueueState.OPEN, QueueState.EMPTY}:
            return False
        held, deserved = self._held_by(name), self.deserved[name]
        return all(held[n] + task.request[n] <= deserved[n] for n in task.asks)

    def _wanted_by(self, queue: str) -> Amounts:
        total = self._held_by(queue)
        for job in self.jobs:
            for task in job.tasks:
                if job.group.spec.queue == queue and task.status == "Pending":
                    total = plus(total, task.request)
        return total

    def _limit_of(self, queue: str) -> Amounts:
        limit = dict(self.total)
        for n, text in self.queues[queue].spec.capability.items():
            limit[n] = min(limit[n], amount(n, text))
        return limit

    def _deserved(self) -> dict[str, Amounts]:
        names = sorted({job.group.spec.queue for job in self.jobs})
        request = {name: self._wanted_by(name) for name in names}
        limit = {name: self._limit_of(name) for name in names}
        deserved = {name: dict(EMPTY) for name in names}
        wanting, remaining = set(names), dict(self.total)
        while wanting:
            weights = float(sum(self.queues[name].spec.weight for name in wanting))
            handed = dict(EMPTY)
            for name in sorted(wanting):
                part = self.queues[name].spec.weight / weights
                raised = {
                    n: min(
                        deserved[name][n] + remaining[n] * part, limit[name][n], request[name][n]
                    )
                    for n in NAMES
                }
                is_met = all(
                    request[name][n] < raised[n] + 0.1
                    or (request[name][n] == 0 and n not in {"cpu", "memory"})
                    for n in NAMES
                )
                if is_met or raised == deserved[name]:
                    wanting.remove(name)
                handed = {n: handed[n] + (raised[n] - deserved[name][n]) for n in NAMES}
                deserved[name] = raised
            remaining = minus(remaining, handed)
            if all(v < 0.1 for v in remaining.values()) or not any(handed.values()):
                break
        return {name: snapped(deserved.get(name, EMPTY)) for name in self.queues}


def plain_node(node: Node) -> PlainNode:
    allocatable = dict(EMPTY)
    for name, text in node.status.allocatable.items():
        allocatable[name] = amount(name, text)
    return PlainNode(node, allocatable, dict(allocatable), dict(allocatable))


def plain_task(pod: Pod, nodes: dict[str, PlainNode]) -> PlainTask:
    request = dict(EMPTY)
    for container in pod.spec.containers:
        for name, text in container.resources.requests.items():
            request[name] += amount(name, text)
    request["pods"] = 1.0
    if pod.metadata.deletion_timestamp is not None:
        status = "Releasing"
    elif pod.status.phase is PodPhase.RUNNING:
        status = "Running"
    else:
        status = "Bound" if pod.spec.node_name else "Pending"
    task = PlainTask(pod, request, status, nodes.get(pod.spec.node_name))
    if task.node is not None:
        task.node.idle = minus(task.node.idle, request)
        task.node.now_ports.update(task.ports)
        if status != "Releasing":
            task.node.future = minus(task.node.future, request)
            task.node.later_ports.update(task.ports)
    return task


def class_of(task: PlainTask) -> tuple[object, ...]:
    """Returns a key that is the same for tasks that are equal to every node."""
    spec = task.pod.spec
    return (
        tuple(task.request.items()),
        tuple(sorted(spec.node_selector.items())),
        bool(spec.tolerations),
        tuple(sorted(task.ports)),
        task.role,
    )


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def amount(name: str, text: str | int | float) -> float:
    scale = quantity.milli if name in {"cpu", GPU} else quantity.units
    return float(scale(text))


def snapped(amounts: Amounts) -> Amounts:
    """Divisions leave 1.9999999 of 2: what is nearly a whole number is that number."""
    return {n: float(round(v)) if abs(v - round(v)) <= 0.1 else v for n, v in amounts.items()}


def plus(a: Amounts, b: Amounts) -> Amounts:
    return {n: a[n] + b[n] for n in NAMES}


def minus(a: Amounts, b: Amounts) -> Amounts:
    return {n: a[n] - b[n] for n in NAMES}


def dominant(amounts: Amounts, whole: Amounts) -> float:
    return max((amounts[n] / whole[n]) if whole[n] else float(amounts[n] > 0) for n in NAMES)
