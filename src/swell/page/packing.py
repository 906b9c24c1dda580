"""How much of each node its pods take, kept by what changed. Pure.

A pod that comes, moves or ends costs two additions, whatever the size of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from swell.api.meta import ApiStruct, Body, Key, ObjectMeta
from swell.api.pod import Container, PodPhase, PodSpec, ResourceRequirements
from swell.api.quantity import QuantityText
from swell.api.requests import CPU, MEMORY, pod_requests, scheduling_amount
from swell.api.resource import Resource

_OVER = frozenset({PodPhase.SUCCEEDED.value, PodPhase.FAILED.value})
_GPU_SUFFIX = "/gpu"


class PackedSpec(ApiStruct, frozen=True, gc=False):
    """The part of a pod's spec that says where it is and what it requests."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: dict[str, QuantityText] = msgspec.field(default_factory=dict)


class PackedStatus(ApiStruct, frozen=True, gc=False):
    """The phase of a pod; an unknown one counts as not over."""

    phase: str = ""


class PackedPod(ApiStruct, frozen=True):
    """A pod as the packing of nodes needs it: a fraction of the whole."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PackedSpec = PackedSpec()
    status: PackedStatus = PackedStatus()
    api_version: str = "v1"
    kind: str = "Pod"


PACKED_PODS = Resource("", "v1", "Pod", "pods", PackedPod)


class PodShare(msgspec.Struct, frozen=True, gc=False):
    """The room that one pod takes on its node."""

    node: str
    cpu_milli: int
    memory_bytes: int
    gpus: int


@dataclass(slots=True)
class NodeUse:
    """The room that all pods of a node take."""

    pods: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    def add(self, share: PodShare, sign: int) -> None:
        self.pods += sign
        self.cpu_milli += sign * share.cpu_milli
        self.memory_bytes += sign * share.memory_bytes
        self.gpus += sign * share.gpus


@dataclass(slots=True)
class NodePacking:
    """The room that pods take on every node."""

    uses: dict[str, NodeUse] = field(default_factory=dict)
    _shares: dict[Key, PodShare] = field(default_factory=dict)

    def put(self, key: Key, pod: PackedPod | None) -> list[str]:
        """Take note of a pod, or of its end; returns the nodes of which less or more is free."""
        share = share_of(pod) if pod is not None else None
        former = self._shares.pop(key, None)
        if share is not None:
            self._shares[key] = share
        if share == former:
            return []
        touched = []
        for one, sign in ((former, -1), (share, 1)):
            if one is not None:
                self.uses.setdefault(one.node, NodeUse()).add(one, sign)
                touched.append(one.node)
        if former is not None and not self.uses[former.node].pods:
            del self.uses[former.node]
        return touched

    def used(self, node: str) -> Body:
        """Returns what is taken of a node, in the units of its row."""
        use = self.uses.get(node, _NOTHING)
        return {
            "pods": use.pods,
            "cpuMilli": use.cpu_milli,
            "memoryBytes": use.memory_bytes,
            "gpus": use.gpus,
        }


_NOTHING = NodeUse()


def share_of(pod: PackedPod) -> PodShare | None:
    """Returns the room that a pod takes; None for one without a node, and for one that is over."""
    node = pod.spec.node_name
    if not node or pod.status.phase in _OVER:
        return None
    spec = pod.spec
    amounts = pod_requests(
        PodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            resources=spec.resources,
            overhead=spec.overhead,
        )
    )
    units = {name: scheduling_amount(name, amount) for name, amount in amounts.items()}
    gpus = sum(amount for name, amount in units.items() if name.endswith(_GPU_SUFFIX))
    return PodShare(node, units.get(CPU, 0), units.get(MEMORY, 0), gpus // 1000)
