"""Why a group or a pod waits: one enumeration for conditions, events, logs and the command line.

A refusal is a value: a reason and one sentence with the numbers. Never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Values are what the API shows."""

    # not admitted
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_QUOTA = "QueueQuotaExceeded"
    QUEUE_TREE = "QueueTreeInvalid"
    OVERCOMMIT = "ClusterOvercommitted"
    WAITING_FOR_ADMISSION = "WaitingForAdmission"
    BACK_OFF = "AdmissionBackOff"
    # admitted, but not whole
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
    # no room
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    GANG_SHORT = "GangShort"
    QUEUE_OVERUSED = "QueueOverused"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    GATED = "SchedulingGated"
    # a node refuses a pod
    NODE_NOT_READY = "NodeNotReady"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_SELECTOR = "NodeSelectorMismatch"
    NODE_AFFINITY = "NodeAffinityMismatch"
    TAINT = "UntoleratedTaint"
    HOST_PORT = "HostPortTaken"
    POD_AFFINITY = "PodAffinityUnsatisfied"
    POD_ANTI_AFFINITY = "PodAntiAffinityViolated"
    TOPOLOGY_SPREAD = "TopologySpreadViolated"
    VOLUME = "VolumeNotBound"
    TOO_MANY_PODS = "TooManyPods"
    INSUFFICIENT = "InsufficientResource"


_NODE_WORDS = {
    Reason.NODE_NOT_READY: "not ready",
    Reason.NODE_UNSCHEDULABLE: "cordoned",
    Reason.NODE_SELECTOR: "not matching the node selector",
    Reason.NODE_AFFINITY: "not matching the node affinity",
    Reason.TAINT: "with a taint that is not tolerated",
    Reason.HOST_PORT: "with the host port in use",
    Reason.POD_AFFINITY: "without the pods the affinity asks for",
    Reason.POD_ANTI_AFFINITY: "with pods the anti-affinity forbids",
    Reason.TOPOLOGY_SPREAD: "against the topology spread",
    Reason.VOLUME: "refused because a volume claim of the pod is not bound",
    Reason.TOO_MANY_PODS: "without a free pod slot",
    Reason.INSUFFICIENT: "short of",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What keeps a queue, or the cluster when none is named, from getting more of a resource."""

    queue: str
    resource: str
    held: str
    asked: str
    allowed: str
    is_whole: bool = False  # there is no more in the whole cluster

    def __str__(self) -> str:
        whole = " (all there is)" if self.is_whole else ""
        return f"{self.resource} {self.held} of {self.allowed}{whole}, {self.asked} more asked for"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, in one sentence; where a limit is in the way, which."""

    reason: Reason
    message: str
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeCount:
    """How many nodes refuse for one reason; `resource` for those that lack one."""

    reason: Reason
    n_nodes: int
    resource: str = ""

    @property
    def words(self) -> str:
        """What these nodes are: `short of cpu`, `cordoned`."""
        words = _NODE_WORDS[self.reason]
        return f"{words} {self.resource}" if self.resource else words

    def __str__(self) -> str:
        return f"{self.n_nodes} {self.words}"


def histogram(n_fitting: int, n_nodes: int, counts: Iterable[NodeCount]) -> str:
    """One line: of so many nodes so many fit, and what keeps the others out, most common first."""
    ranked = sorted((c for c in counts if c.n_nodes), key=lambda c: (-c.n_nodes, str(c)))
    detail = ", ".join(map(str, ranked))
    head = f"{n_fitting}/{n_nodes} nodes fit"
    return f"{head}: {detail}" if detail else head
