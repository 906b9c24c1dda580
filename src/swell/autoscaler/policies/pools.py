"""Pools of equal devices, and the roles that share each. Values only, one pass over the nodes.

A pool is the nodes with one type of GPU, by its resource and its product label; the cpus of all
nodes are one more pool, for roles without GPUs. A role belongs to the pool that most of its pods
are in, or else to the one with the most room among those that take its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from swell.api.requests import CPU
from swell.autoscaler.cluster_resource import ClusterResource, IntArray
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.needs import Needs
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.views import AutoscalerNode

# Labels by which nodes tell the type of their GPUs: those of the vendors' node labellers, and the
# older one of cluster autoscalers.
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "accelerator",
    "cloud.google.com/gke-accelerator",
)


@dataclass(slots=True)
class Pool:
    """The nodes of one type: their positions in the cluster, and what they have and lack."""

    name: str
    resource: str
    positions: list[int] = field(default_factory=list)
    total: int = 0
    used: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used


class Pools:
    """The pools of a cluster, and the pool of each role."""

    def __init__(
        self, cluster: ClusterResource, gpu_resources: Sequence[str], max_load: Fraction
    ) -> None:
        self._cluster = cluster
        self._by_node: dict[str, str] = {}
        self.pools: dict[str, Pool] = {}
        for at, node in enumerate(cluster.nodes):
            for resource in gpu_resources:
                if node.allocatable.get(resource, 0) > 0:
                    name = _pool_name(node, resource)
                    pool = self.pools.setdefault(name, Pool(name, resource))
                    pool.positions.append(at)
                    self._by_node[node.name] = name
        self.pools[CPU] = Pool(CPU, CPU, list(range(len(cluster.nodes))))
        for pool in self.pools.values():
            amounts = [cluster.nodes[at].allocatable.get(pool.resource, 0) for at in pool.positions]
            idle = _idle(cluster, pool)
            pool.total, pool.used = sum(amounts), sum(amounts) - int(idle.sum())
        cpu = self.pools[CPU]
        # As the other policy: of cpu only a share may be used.
        cpu.total = int(cpu.total * max_load)
        self._accepted: dict[Needs, tuple[str, ...]] = {}
        self._per_node: dict[tuple[Needs, str], int] = {}
        self._kinds: dict[str, list[AutoscalerNode]] = {}

    def of(self, state: RoleState) -> Pool | None:
        """Returns the pool of a role, or None if no node takes its pods."""
        needs = state.view.needs
        accepted = self._accepting(needs)
        if not accepted:
            return None
        if not needs.gpus:
            return self.pools[CPU]
        held: dict[str, int] = {}
        for pod in state.pods:
            if pod.is_bound and pod.node in self._by_node:
                held[self._by_node[pod.node]] = held.get(self._by_node[pod.node], 0) + 1
        own = [name for name in held if name in accepted]
        if own:
            return self.pools[max(own, key=lambda name: (held[name], name))]
        return self.pools[max(accepted, key=lambda name: (self.pools[name].free, name))]

    def units(self, needs: Needs, pool: Pool) -> int:
        """Returns how much of the pool one replica takes."""
        return needs.gpus if pool.resource != CPU else needs.cpu_milli

    def per_node(self, needs: Needs, pool: Pool) -> int:
        """Returns how many replicas the roomiest node of the pool takes when empty."""
        key = (needs, pool.name)
        found = self._per_node.get(key)
        if found is None:
            found = self._per_node[key] = max(
                (_capacity(node, needs) for node in self._kinds_of(pool)), default=0
            )
        return found

    def _kinds_of(self, pool: Pool) -> list[AutoscalerNode]:
        """Returns one node of each size: a large pool has few of them."""
        found = self._kinds.get(pool.name)
        if found is None:
            nodes = [self._cluster.nodes[at] for at in pool.positions]
            sizes = {(*sorted(one.allocatable.items()), one.n_pods_max): one for one in nodes}
            found = self._kinds[pool.name] = list(sizes.values())
        return found

    def _accepting(self, needs: Needs) -> tuple[str, ...]:
        found = self._accepted.get(needs)
        if found is None:
            nodes = self._cluster.nodes
            found = self._accepted[needs] = tuple(
                name
                for name, pool in self.pools.items()
                if (name == CPU) != bool(needs.gpus)
                and needs.requests.get(pool.resource, 0)
                and any(
                    needs.fit_in(nodes[at].allocatable) and needs.constraints.accept(nodes[at].node)
                    for at in pool.positions
                )
            )
        return found


def held_units(
    roles: Iterable[tuple[RoleState, Pool]], pools: Pools, cluster: ClusterResource
) -> dict[str, int]:
    """Returns how much of each pool the bound pods of these roles hold."""
    counted = {node.name for node in cluster.nodes}
    held: dict[str, int] = {}
    for state, pool in roles:
        n_bound = sum(
            pod.is_bound and not pod.is_finished and pod.node in counted for pod in state.pods
        )
        held[pool.name] = held.get(pool.name, 0) + n_bound * pools.units(state.view.needs, pool)
    return held


def asked_units(
    jobs: Iterable[JobState], pools: Pools, sized: frozenset[RoleId]
) -> Mapping[str, int]:
    """Returns what replicas without a node ask of each pool, of roles that are not sized now."""
    asked: dict[str, int] = {}
    for job in jobs:
        for state in job.roles if job.asking and not job.is_hopeless else ():
            role = state.view
            n_missing = role.target - len(state.bound())
            pool = pools.of(state) if RoleId(job.view.id, role.name) not in sized else None
            if pool is not None and n_missing > 0:
                units = n_missing * pools.units(role.needs, pool)
                asked[pool.name] = asked.get(pool.name, 0) + units
    return asked


def _pool_name(node: AutoscalerNode, resource: str) -> str:
    labels = node.node.metadata.labels
    product = next((labels[name] for name in PRODUCT_LABELS if name in labels), "")
    return f"{resource} {product}".strip()


def _idle(cluster: ClusterResource, pool: Pool) -> IntArray:
    idle = cluster.idle.get(pool.resource)
    return np.zeros(0, np.int64) if idle is None else idle[pool.positions]


def _capacity(node: AutoscalerNode, needs: Needs) -> int:
    amounts = [node.allocatable.get(name, 0) // n for name, n in needs.requests.items() if n > 0]
    return min([*amounts, node.n_pods_max])
