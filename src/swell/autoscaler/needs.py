"""The needs of one replica: its amounts, and the nodes it accepts. Values only.

Cpu is in milli, everything else in whole units (bytes, devices). Of GPUs the limit counts. Equal
needs from one reader are one object, so that a planner finds replicas of one shape by identity.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from swell.api.core import Node
from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.pod import Container, NodeSelector, PodSpec, ResourceRequirements, Toleration
from swell.api.quantity import Quantity, QuantityText, parse
from swell.api.requests import CPU, MEMORY, PODS, pod_limits, pod_requests

Amounts = Mapping[str, int]

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
# A constraint of topology spread with any other value is a preference.
_FORBIDS = "DoNotSchedule"
# More pods than any node has.
NO_POD_LIMIT = 2**40
# Shapes kept by one reader. Far more than a cluster has; it only bounds memory where every pod
# differs.
_KNOWN_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Constraints:
    """The node selector, node affinity and tolerations of a replica."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()

    def accept(self, node: Node) -> bool:
        labels = node.metadata.labels
        return (
            all(labels.get(key) == value for key, value in self.selector)
            and (self.affinity is None or node_selector_matches(self.affinity, node))
            and (not node.spec.taints or tolerates_all(self.tolerations, node.spec.taints))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """The non-zero amounts of one replica, and its constraints. Compared by identity."""

    requests: Amounts
    limits: Amounts
    gpus: int
    constraints: Constraints = Constraints()
    # Whether it matters to the replica which other pods a node has: host ports, affinity, spread.
    is_peculiar: bool = False

    @property
    def cpu_milli(self) -> int:
        return self.requests.get(CPU, 0)

    @property
    def memory_bytes(self) -> int:
        return self.requests.get(MEMORY, 0)

    def fit_in(self, room: Amounts) -> bool:
        return all(room.get(name, 0) >= amount for name, amount in self.requests.items())


class NeedsReader:
    """Reads needs from pod specs, and reads each shape only once."""

    def __init__(self, gpu_resources: Iterable[str] = GPU_RESOURCES) -> None:
        self.gpu_resources = tuple(gpu_resources)
        self._known: dict[Hashable, Needs] = {}

    def of(self, spec: PodSpec) -> Needs:
        """Returns the needs of a pod. Raises QuantityError if an amount cannot be parsed."""
        shape = (_shape(spec), _constraints(spec), is_peculiar(spec))
        found = self._known.get(shape)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                # Costs only time: equal needs are then found by value once more.
                self._known.clear()
            found = self._known[shape] = self._read(spec, shape[1])
        return found

    def of_node(self, allocatable: Mapping[str, QuantityText]) -> Amounts:
        """Returns the amounts that a node offers, in the same units."""
        return _amounts({name: parse(raw) for name, raw in allocatable.items()})

    def pod_slots_of_node(self, allocatable: Mapping[str, QuantityText]) -> int:
        """Returns how many pods a node takes. Kubelets always say; without it there is no limit."""
        return parse(allocatable[PODS]).value() if PODS in allocatable else NO_POD_LIMIT

    def gpus_in(self, amounts: Amounts) -> int:
        return sum(amounts.get(name, 0) for name in self.gpu_resources)

    def _read(self, spec: PodSpec, constraints: Constraints) -> Needs:
        limits = _amounts(pod_limits(spec))
        requests = _amounts(pod_requests(spec))
        # Of GPUs the limit counts: Kubernetes has request and limit of an extended resource equal.
        for name in self.gpu_resources:
            requests.pop(name, None)
            if name in limits:
                requests[name] = limits[name]
        return Needs(requests, limits, self.gpus_in(limits), constraints, is_peculiar(spec))


def amounts_of(spec: PodSpec) -> Amounts:
    """Returns the requests of a pod."""
    return _amounts(pod_requests(spec))


def is_peculiar(spec: PodSpec) -> bool:
    """Whether other pods of a node decide about this one, beyond the amounts they leave.

    What a pod prefers keeps it from no node, so it decides nothing about sizes.
    """
    affinity = spec.affinity
    sides = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
    return bool(
        any(one.when_unsatisfiable == _FORBIDS for one in spec.topology_spread_constraints)
        or any(one and one.required_during_scheduling_ignored_during_execution for one in sides)
        or any(
            port.host_port or spec.host_network
            for container in (*spec.containers, *spec.init_containers)
            for port in container.ports
        )
    )


def _amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Convert to scheduling units, without the number of pods: see `pod_slots_of_node`."""
    amounts = {
        name: quantity.milli_value() if name == CPU else quantity.value()
        for name, quantity in quantities.items()
        if name != PODS
    }
    return {name: amount for name, amount in amounts.items() if amount}


def _constraints(spec: PodSpec) -> Constraints:
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = (
        node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    )
    return Constraints(tuple(sorted(spec.node_selector.items())), required, spec.tolerations)


def _shape(spec: PodSpec) -> Hashable:
    """Returns everything that the amounts of a pod depend on."""
    return (
        tuple(map(_container_shape, spec.containers)),
        tuple(map(_container_shape, spec.init_containers)),
        _requirements_shape(spec.resources) if spec.resources else None,
        tuple(spec.overhead.items()),
    )


def _container_shape(container: Container) -> Hashable:
    return _requirements_shape(container.resources), container.restart_policy


def _requirements_shape(resources: ResourceRequirements) -> Hashable:
    return tuple(resources.requests.items()), tuple(resources.limits.items())
