"""Finds broken rules in a scheduling plan, slowly and plainly, from the objects and the answer.

It does not know how the plan was made. Every check names something that must never happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from swell.api import quantity
from swell.api.aitrainingjob import AITrainingJob, EdlPolicy
from swell.api.core import Node
from swell.api.pod import LabelSelector, Pod, PodPhase
from swell.api.scheduling import PodGroup, QueueState
from swell.scheduler.plan import SchedulerObjects

Amounts = dict[str, float]


@dataclass
class World:
    """The cluster before the plan, with the changes that the plan makes."""

    objects: SchedulerObjects
    binds: dict[str, str]
    pipelined: dict[str, str]
    evictions: list[dict[str, str]]
    shrinks: dict[str, dict[str, int]]

    def __post_init__(self) -> None:
        self.pods = {key_of(pod): pod for pod in self.objects.pods}
        self.nodes = {node.metadata.name: node for node in self.objects.nodes}
        self.groups = {key_of(group): group for group in self.objects.groups}
        self.queues = {queue.metadata.name: queue for queue in self.objects.queues}
        self.training_jobs = {key_of(job): job for job in self.objects.training_jobs}
        self.shrunk = {key for key, pod in self.pods.items() if self._is_shrunk(pod)}
        self.evicted = {eviction["pod"] for eviction in self.evictions} | self.shrunk
        self.classes = {c.metadata.name: c.value for c in self.objects.priority_classes}

    def _is_shrunk(self, pod: Pod) -> bool:
        """Whether the index of the pod is above the new size of its role."""
        labels = pod.metadata.labels
        roles = self.shrinks.get(f"{pod.metadata.namespace}/{labels.get('TrainingJobName')}", {})
        target = roles.get(labels.get("TrainingJobReplicaName", ""))
        return target is not None and int(labels["TrainingJobReplicaIndex"]) >= target

    @property
    def has_tree(self) -> bool:
        return "root" in self.queues

    def line_of(self, queue: str) -> list[str]:
        """Returns the queue and its ancestors."""
        line = [queue]
        while (parent := self.queues[line[-1]].spec.parent) and parent in self.queues:
            line.append(parent)
        return line if line[-1] == "root" else [*line, "root"]

    def placed_in(self, queues: list[str]) -> list[Pod]:
        """Returns the pods of these queues that the plan places, now or later."""
        pods = (self.pods[key] for key in {**self.binds, **self.pipelined})
        return [pod for pod in pods if self.group_of(pod).spec.queue in queues]

    def group_of(self, pod: Pod) -> PodGroup:
        name = pod.metadata.annotations["scheduling.k8s.io/group-name"]
        return self.groups[f"{pod.metadata.namespace}/{name}"]

    def members(self, group: PodGroup) -> list[Pod]:
        return [pod for pod in self.objects.pods if self.group_of(pod) is group]

    def priority(self, group: PodGroup) -> int:
        return self.classes.get(group.spec.priority_class_name, 0)

    def stays(self, pod: Pod) -> bool:
        """Whether the pod is on a node and not about to leave it."""
        return is_there(pod) and not is_leaving(pod) and key_of(pod) not in self.evicted

    def on(self, node: str, *, later: bool) -> list[Pod]:
        """Returns the pods on a node: now with new bindings, or later with pipelined pods, too."""
        there = [p for p in self.objects.pods if p.spec.node_name == node and is_there(p)]
        if later:
            there = [pod for pod in there if self.stays(pod)]
        added = {**self.binds, **(self.pipelined if later else {})}
        return there + [self.pods[key] for key, place in added.items() if place == node]


def violations(objects: SchedulerObjects, answer: dict[str, Any]) -> list[str]:
    """Returns a line for every rule that the answer breaks."""
    world = World(
        objects=objects,
        binds=answer["binds"],
        pipelined=answer["pipelined"],
        evictions=answer["evictions"],
        shrinks=answer.get("shrinks", {}),
    )
    return [f"{check.__name__}: {problem}" for check in CHECKS for problem in check(world)]


def overcommitted_nodes(world: World) -> Iterator[str]:
    for name, node in world.nodes.items():
        for later in (False, True):
            pods = world.on(name, later=later)
            used = total(map(request_of, pods))
            for resource, amount in used.items():
                if amount > amount_in(resource, node.status.allocatable.get(resource, 0)):
                    yield f"{name} has {amount} {resource} in use, later={later}"


def clashing_host_ports(world: World) -> Iterator[str]:
    for name in world.nodes:
        for later in (False, True):
            ports = [port for pod in world.on(name, later=later) for port in ports_of(pod)]
            if len(ports) != len(set(ports)):
                yield f"{name}: {sorted(ports)}, later={later}"


def torn_gangs(world: World) -> Iterator[str]:
    """A group that gets any binding has its whole minimum afterwards."""
    for key, group in world.groups.items():
        members = world.members(group)
        if not any(key_of(pod) in world.binds for pod in members):
            continue
        held = [pod for pod in members if world.stays(pod) or key_of(pod) in world.binds]
        held += [p for p in members if is_pending(p) and not asks(p) and p not in held]
        for role, minimum in minimums_of(group):
            n = sum(role is None or role_of(pod) == role for pod in held)
            if n < minimum:
                yield f"{key} has {n} of {minimum} {role or 'pods'}"


def forbidden_places(world: World) -> Iterator[str]:
    for key, name in {**world.binds, **world.pipelined}.items():
        pod, node = world.pods[key], world.nodes[name]
        if not is_ready(node) or node.spec.unschedulable:
            yield f"{key} on {name}, which takes no pods"
        labels = node.metadata.labels
        if any(labels.get(k) != v for k, v in pod.spec.node_selector.items()):
            yield f"{key} on {name} against its selector"
        tolerated = {(t.key, t.value) for t in pod.spec.tolerations}
        if any((t.key, t.value) not in tolerated for t in node.spec.taints):
            yield f"{key} on {name} against a taint"


def violated_anti_affinity(world: World) -> Iterator[str]:
    """No two pods in a domain where one has an anti-affinity against the other."""
    for name in world.nodes:
        for later in (False, True):
            pods = world.on(name, later=later)
            for pod in pods:
                for other in pods:
                    if pod is not other and refuses(pod, other):
                        yield f"{key_of(pod)} beside {key_of(other)} on {name}"


def uneven_spread(world: World) -> Iterator[str]:
    """Pods that must be spread over zones are, counting those that were placed together."""
    for key, name in world.binds.items():
        pod = world.pods[key]
        alike = [
            bool(m.spec.topology_spread_constraints)
            and m.spec.node_selector == pod.spec.node_selector
            for m in world.members(world.group_of(pod))
        ]
        if not all(alike):
            continue  # pods of other needs may have come before or after, where they could
        eligible = [
            node
            for node in world.nodes.values()
            if pod.spec.node_selector.items() <= node.metadata.labels.items()
        ]
        for constraint in pod.spec.topology_spread_constraints:
            zone = world.nodes[name].metadata.labels[constraint.topology_key]
            counts: dict[str, int] = {}
            for node in eligible:  # what runs where it could not go itself does not count
                domain = node.metadata.labels[constraint.topology_key]
                counts[domain] = counts.get(domain, 0) + sum(
                    matches(constraint.label_selector, other)
                    for other in world.on(node.metadata.name, later=True)
                )
            # Others of the group may have come after it, to other zones or this one.
            others = [n for domain, n in counts.items() if domain != zone]
            if others and counts[zone] - min(others) > constraint.max_skew:
                yield f"{key} in {zone}: {counts}"


def preempted_equals(world: World) -> Iterator[str]:
    for eviction in world.evictions:
        if eviction["action"] != "preempt":
            continue
        victim, preemptor = world.pods[eviction["pod"]], world.groups[eviction["for"]]
        group = world.group_of(victim)
        if group is preemptor:
            continue
        if world.priority(group) >= world.priority(preemptor):
            yield f"{eviction} is not less important"
        if group.spec.queue != preemptor.spec.queue:
            yield f"{eviction} is of another queue"


def wrong_reclaims(world: World) -> Iterator[str]:
    for eviction in world.evictions:
        if eviction["action"] == "reclaim":
            group = world.group_of(world.pods[eviction["pod"]])
            if group.spec.queue == world.groups[eviction["for"]].spec.queue:
                yield f"{eviction} is of the same queue"
            if world.queues[group.spec.queue].spec.reclaimable is False:
                yield f"{eviction} is of a queue that gives nothing back"


def protected_victims(world: World) -> Iterator[str]:
    for eviction in world.evictions:
        pod = world.pods[eviction["pod"]]
        if pod.metadata.annotations.get("volcano.sh/preemptable") == "false":
            yield f"{eviction} must not be evicted"
        if is_leaving(pod) or not is_there(pod):
            yield f"{eviction} is not there to be evicted"


def evictions_without_effect(world: World) -> Iterator[str]:
    """A group for which others are evicted has its whole minimum placed or pipelined."""
    for key in sorted({eviction["for"] for eviction in world.evictions}):
        group = world.groups[key]
        members = world.members(group)
        placed = [
            pod
            for pod in members
            if world.stays(pod) or key_of(pod) in world.binds or key_of(pod) in world.pipelined
        ]
        placed += [p for p in members if is_pending(p) and not asks(p) and p not in placed]
        if not any(key_of(pod) in world.pipelined for pod in members):
            yield f"nothing is pipelined for {key}"
        for role, minimum in minimums_of(group):
            n = sum(role is None or role_of(pod) == role for pod in placed)
            if n < minimum:
                yield f"{key} gets {n} of {minimum} {role or 'pods'}"


def torn_victims(world: World) -> Iterator[str]:
    """A victim job keeps its minimum or loses everything."""
    for key, group in world.groups.items():
        members = world.members(group)
        own = {e["pod"] for e in world.evictions if e["for"] == key}
        lost = [pod for pod in members if key_of(pod) in world.evicted - own]
        there = [pod for pod in members if world.stays(pod)]
        if lost and there and len(there) < group.spec.min_member:
            yield f"{key} keeps {len(there)} of {group.spec.min_member}"


def wrong_shrinks(world: World) -> Iterator[str]:
    """Only Auto roles are shrunk, never below their minimum, and lose no pod by eviction."""
    for key, roles in world.shrinks.items():
        for role, target in roles.items():
            spec = world.training_jobs[key].spec.replica_specs[role]
            if spec.edl_policy is not EdlPolicy.AUTO or target < spec.minimum:
                yield f"{key} {role} to {target}"
    for key in sorted(world.shrunk & {e["pod"] for e in world.evictions}):
        yield f"{key} is shrunk and evicted"
    for key in sorted(world.shrunk & {*world.binds, *world.pipelined}):
        yield f"{key} is placed and shrunk"
    for pod in (world.pods[key] for key in sorted(world.shrunk)):
        there = is_there(pod) and not is_leaving(pod)
        if there and pod.metadata.annotations.get("volcano.sh/preemptable") == "false":
            yield f"{key_of(pod)} must not be evicted"


def exceeded_queues(world: World) -> Iterator[str]:
    """A closed queue takes nothing, and none gets more than its own capability."""
    for name, queue in world.queues.items():
        new = world.placed_in([name])
        if any(map(asks, new)) and queue.status.state is QueueState.CLOSED:
            yield f"{name} is closed"
        yield from _exceeded(world, name, [name])


def exceeded_parents(world: World) -> Iterator[str]:
    """What is placed below a queue stays within its capability, where the tree of queues counts."""
    for name in world.queues if world.has_tree else ():
        below = [other for other in world.queues if name in world.line_of(other)]
        yield from _exceeded(world, name, below)


def _exceeded(world: World, name: str, below: list[str]) -> Iterator[str]:
    new = world.placed_in(below)
    kept = [
        pod
        for pod in world.objects.pods
        if world.group_of(pod).spec.queue in below and world.stays(pod)
    ]
    used, added = total(map(request_of, kept + new)), total(map(request_of, new))
    for resource, limit in world.queues[name].spec.capability.items():
        if added.get(resource) and used[resource] > amount_in(resource, limit):
            yield f"{name} has {used[resource]} {resource}"


CHECKS: tuple[Callable[[World], Iterator[str]], ...] = (
    overcommitted_nodes,
    clashing_host_ports,
    torn_gangs,
    forbidden_places,
    violated_anti_affinity,
    uneven_spread,
    preempted_equals,
    wrong_reclaims,
    protected_victims,
    evictions_without_effect,
    torn_victims,
    wrong_shrinks,
    exceeded_queues,
    exceeded_parents,
)


def key_of(thing: Pod | PodGroup | AITrainingJob) -> str:
    return f"{thing.metadata.namespace}/{thing.metadata.name}"


def role_of(pod: Pod) -> str:
    return pod.metadata.annotations.get("volcano.sh/task-spec", "")


def is_there(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase in {PodPhase.PENDING, PodPhase.RUNNING}


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not is_leaving(pod)


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def minimums_of(group: PodGroup) -> list[tuple[str | None, int]]:
    roles = group.spec.min_task_member
    in_force = group.spec.min_member >= sum(roles.values())
    return [(None, group.spec.min_member), *(roles.items() if in_force else ())]


def amount_in(resource: str, text: str | int | float) -> float:
    return float(quantity.milli(text) if resource != "memory" else quantity.units(text))


def request_of(pod: Pod) -> Amounts:
    amounts: Amounts = {"pods": 1000.0}
    for container in pod.spec.containers:
        for resource, text in container.resources.requests.items():
            amounts[resource] = amounts.get(resource, 0.0) + amount_in(resource, text)
    return amounts


def asks(pod: Pod) -> bool:
    return len(request_of(pod)) > 1


def total(amounts: Any) -> Amounts:
    summed: Amounts = {}
    for one in amounts:
        for resource, amount in one.items():
            summed[resource] = summed.get(resource, 0.0) + amount
    return summed


def ports_of(pod: Pod) -> list[int]:
    return [p.host_port for c in pod.spec.containers for p in c.ports if p.host_port]


def matches(selector: LabelSelector | None, pod: Pod) -> bool:
    labels = pod.metadata.labels
    return selector is not None and selector.match_labels.items() <= labels.items()


def refuses(pod: Pod, other: Pod) -> bool:
    affinity = pod.spec.affinity
    side = affinity.pod_anti_affinity if affinity else None
    terms = side.required_during_scheduling_ignored_during_execution if side else ()
    return any(matches(term.label_selector, other) for term in terms)
