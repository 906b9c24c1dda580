"""Why a group or a pod waits: one enumeration for conditions, events, logs and the command line.

A refusal is a value, never an exception: a reason, and one sentence with the numbers. `WAITING` and
`NODES` describe each reason for the reference page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec


class WaitReason(Enum):
    """The reasons. The values are part of the API: conditions and events show them."""

    # not admitted
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_QUOTA = "QueueQuotaExceeded"
    QUEUE_TREE = "QueueTreeInvalid"
    CLUSTER_FULL = "ClusterFull"
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
    TOPOLOGY_NO_DOMAIN = "TopologyNoDomain"
    TOPOLOGY_HELD = "TopologyHeld"
    TOPOLOGY_TREE = "TopologyTreeInvalid"
    TOPOLOGY_LEVEL = "TopologyLevelUnknown"
    TOPOLOGY_HIDDEN = "TopologyNotReadable"
    TOPOLOGY_NOT_SUPPORTED = "TopologyNotSupported"
    POD_GROUP_NOT_FOUND = "PodGroupNotFound"
    MIXED_SCHEDULERS = "MixedSchedulers"
    NOT_SUPPORTED = "NotSupported"
    GATED = "SchedulingGated"
    UNREADABLE = "Unreadable"
    # placed, but not bound yet
    PREPARING = "Preparing"
    VOLUME_BIND_TIMEOUT = "VolumeBindTimeout"
    # a node refuses a pod
    NODE_NOT_READY = "NodeNotReady"
    NODE_UNREADABLE = "NodeUnreadable"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_SELECTOR = "NodeSelectorMismatch"
    NODE_AFFINITY = "NodeAffinityMismatch"
    TAINT = "UntoleratedTaint"
    GPU_FAULT = "GpuFault"
    DEVICE_CLAIM_MISSING = "DeviceClaimMissing"
    DEVICE_CLAIM_DELETING = "DeviceClaimDeleting"
    DEVICE_CLASS_MISSING = "DeviceClassMissing"
    DEVICE_SELECTOR_ERROR = "DeviceSelectorError"
    DEVICE_UNSUPPORTED = "DeviceUnsupported"
    DEVICES_NOT_SERVED = "DevicesNotServed"
    DEVICE_ELSEWHERE = "DeviceElsewhere"
    DEVICE_POOL_INCOMPLETE = "DevicePoolIncomplete"
    NO_DEVICE_FITS = "NoDeviceFits"
    DEVICE_SHARING_UNSUPPORTED = "DeviceSharingUnsupported"
    NODE_GROUP_MISMATCH = "NodeGroupMismatch"
    NODE_GROUP_LIMIT = "NodeGroupLimit"
    RESERVED = "ReservedForScarceResource"
    HOST_PORT = "HostPortTaken"
    POD_AFFINITY = "PodAffinityUnsatisfied"
    POD_ANTI_AFFINITY = "PodAntiAffinityViolated"
    TOPOLOGY_SPREAD = "TopologySpreadViolated"
    VOLUME_NOT_FOUND = "VolumeNotFound"
    VOLUME_NOT_BOUND = "VolumeNotBound"
    VOLUME_NODE_MISMATCH = "VolumeNodeMismatch"
    VOLUME_PINNED = "VolumePinned"
    NO_VOLUME_FITS = "NoVolumeFits"
    STORAGE_EXHAUSTED = "StorageExhausted"
    VOLUME_ZONE_MISMATCH = "VolumeZoneMismatch"
    VOLUME_LIMIT = "VolumeLimitReached"
    VOLUME_IN_USE = "VolumeInUse"
    TOO_MANY_PODS = "TooManyPods"
    INSUFFICIENT = "InsufficientResource"


# Refusals for an amount that a limit allows: of the queue, or of all that the cluster has.
LIMIT_REASONS: Final = frozenset({WaitReason.QUEUE_QUOTA, WaitReason.CLUSTER_FULL})
_NODE_TEXTS = {
    WaitReason.NODE_NOT_READY: "not ready",
    WaitReason.NODE_UNREADABLE: "closed because of an object that cannot be read",
    WaitReason.NODE_UNSCHEDULABLE: "cordoned",
    WaitReason.NODE_SELECTOR: "not matching the node selector",
    WaitReason.NODE_AFFINITY: "not matching the node affinity",
    WaitReason.TAINT: "with a taint that is not tolerated",
    WaitReason.GPU_FAULT: "with a broken GPU:",
    WaitReason.DEVICE_CLAIM_MISSING: "refused because",
    WaitReason.DEVICE_CLAIM_DELETING: "refused because",
    WaitReason.DEVICE_CLASS_MISSING: "refused because",
    WaitReason.DEVICE_SELECTOR_ERROR: "refused because",
    WaitReason.DEVICE_UNSUPPORTED: "refused because",
    WaitReason.DEVICES_NOT_SERVED: "refused because",
    WaitReason.DEVICE_ELSEWHERE: "refused because",
    WaitReason.DEVICE_POOL_INCOMPLETE: "refused because",
    WaitReason.NO_DEVICE_FITS: "refused because",
    WaitReason.DEVICE_SHARING_UNSUPPORTED: (
        "refused because parts of GPUs (volcano.sh/vgpu-*, volcano.sh/gpu-*) are not handed out "
        "(DeviceSharingUnsupported): use MIG by DRA"
    ),
    WaitReason.NODE_GROUP_MISMATCH: "of a node group that the queue may not use",
    WaitReason.NODE_GROUP_LIMIT: "of a node group where the queue is at its limit:",
    WaitReason.RESERVED: "keeping cpu and memory for pods that ask for",
    WaitReason.HOST_PORT: "with the host port in use",
    WaitReason.POD_AFFINITY: "without the pods the affinity asks for",
    WaitReason.POD_ANTI_AFFINITY: "with pods the anti-affinity forbids",
    WaitReason.TOPOLOGY_SPREAD: "against the topology spread",
    WaitReason.VOLUME_NOT_FOUND: "refused because",
    WaitReason.VOLUME_NOT_BOUND: "refused because",
    WaitReason.VOLUME_NODE_MISMATCH: "refused because",
    WaitReason.VOLUME_PINNED: "refused because",
    WaitReason.NO_VOLUME_FITS: "refused because",
    WaitReason.STORAGE_EXHAUSTED: "refused because",
    WaitReason.VOLUME_ZONE_MISMATCH: "refused because",
    WaitReason.VOLUME_LIMIT: "refused because",
    WaitReason.VOLUME_IN_USE: "refused because",
    WaitReason.TOO_MANY_PODS: "without a free pod slot",
    WaitReason.INSUFFICIENT: "short of",
}


class QueueLimit(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A limit on one resource that is in the way, with the numbers as texts.

    Without a queue it is the cluster's. `swell explain -o json` shows it as it is.
    """

    queue: str
    resource: str
    held: str
    asked: str
    allowed: str
    is_whole: bool = False  # the limit is all that the cluster has

    def __str__(self) -> str:
        whole = " (all there is)" if self.is_whole else ""
        return f"{self.resource} {self.held} of {self.allowed}{whole}, {self.asked} more asked for"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason with its sentence; and the limits, where limits are in the way."""

    reason: WaitReason
    message: str
    limits: tuple[QueueLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeCount:
    """How many nodes refuse a pod for one reason.

    `resource` names what they lack; `detail` is a sentence that ends the text of some reasons.
    """

    reason: WaitReason
    n_nodes: int
    resource: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        """The reason as an attribute of these nodes: `short of cpu`, `cordoned`."""
        return " ".join(filter(None, (_NODE_TEXTS[self.reason], self.resource, self.detail)))

    def __str__(self) -> str:
        return f"{self.n_nodes} {self.text}"


def histogram(n_fitting: int, n_nodes: int, counts: Iterable[NodeCount]) -> str:
    """Returns one line: how many nodes fit, and why the others do not, the most common first."""
    ranked = sorted((c for c in counts if c.n_nodes), key=lambda c: (-c.n_nodes, str(c)))
    detail = ", ".join(map(str, ranked))
    head = f"{n_fitting}/{n_nodes} nodes fit"
    return f"{head}: {detail}" if detail else head


# What the reasons of groups and pods mean, and what helps.
WAITING: Final[Mapping[WaitReason, tuple[str, str]]] = {
    WaitReason.QUEUE_NOT_FOUND: (
        "the group names a queue that does not exist",
        "create the queue, or name another",
    ),
    WaitReason.QUEUE_CLOSED: ("its queue is closed or closing", "`swell queue open`"),
    WaitReason.QUEUE_QUOTA: (
        "with it, its queue would have more than it may have or deserves",
        "wait for others in the queue, raise its limits or weight, or ask for less",
    ),
    WaitReason.QUEUE_TREE: (
        "the tree of queues is broken, so nothing can be counted",
        "the message names the queue",
    ),
    WaitReason.CLUSTER_FULL: (
        "with it, more would be in use than the whole cluster has",
        "wait, ask for less, or add nodes",
    ),
    WaitReason.OVERCOMMIT: (
        "more is admitted already than the cluster has, with some to spare",
        "wait, or add nodes",
    ),
    WaitReason.WAITING_FOR_ADMISSION: ("it has not been looked at yet", "nothing"),
    WaitReason.BACK_OFF: (
        "it was admitted and found no room for long, so it gave up its reservation",
        "nothing: it is admitted again after a while",
    ),
    WaitReason.NOT_ENOUGH_TASKS: (
        "fewer pods exist than must start together",
        "see what creates the pods: `swell describe`",
    ),
    WaitReason.NOT_ENOUGH_PODS_OF_TASK: (
        "of one role fewer pods exist than must start together",
        "see what creates the pods: `swell describe`",
    ),
    WaitReason.NOT_ENOUGH_RESOURCES: (
        "no room on enough nodes; the message counts nodes by what they lack",
        "`swell explain` tells who holds it",
    ),
    WaitReason.GANG_SHORT: (
        "this pod has room, the others of its gang do not",
        "as for the group",
    ),
    WaitReason.QUEUE_OVERUSED: (
        "its queue has all it deserves while others want theirs",
        "wait for others in the queue, or raise its weight",
    ),
    WaitReason.WAITING_FOR_VICTIMS: ("nodes are promised; pods there are leaving", "nothing"),
    WaitReason.TOPOLOGY_NO_DOMAIN: (
        "no part of the network that its topology allows has room for its minimum",
        "wait, allow a higher tier, or ask for `mode: soft`; `swell explain` counts the domains",
    ),
    WaitReason.TOPOLOGY_HELD: (
        "its pods must stay close to those that run, and there is no room there",
        "wait, or restart it as a whole: it may fit elsewhere",
    ),
    WaitReason.TOPOLOGY_TREE: (
        "it would fit into a HyperNode that is left out because it contradicts others",
        "the message names the HyperNode; its condition `Valid` says what is wrong",
    ),
    WaitReason.TOPOLOGY_LEVEL: (
        "its annotations name a level of the network that is not known",
        "name one of those in the message, or list the label in `topology.labels`",
    ),
    WaitReason.TOPOLOGY_HIDDEN: (
        "it has to stay within a part of the network, and the scheduler may not read HyperNodes",
        "give the scheduler the right to list and watch `hypernodes.topology.volcano.sh`",
    ),
    WaitReason.TOPOLOGY_NOT_SUPPORTED: (
        "its annotations about topology contradict each other, or ask for what is not supported",
        "the message says which; correct the annotations of the pod template",
    ),
    WaitReason.POD_GROUP_NOT_FOUND: (
        "the pod's `schedulingGroup` names a PodGroup that does not exist",
        "create the PodGroup, or see what should have",
    ),
    WaitReason.MIXED_SCHEDULERS: (
        "waiting pods of one PodGroup name different schedulers",
        "give all pods of the group one `schedulerName`",
    ),
    WaitReason.NOT_SUPPORTED: (
        "the PodGroup asks for something that is not supported",
        "the message names it",
    ),
    WaitReason.GATED: ("the pod has scheduling gates", "whoever set them removes them"),
    WaitReason.UNREADABLE: (
        "the pod, its group or its queue has a field of a wrong type, which was never readable",
        "correct or delete the object that the message names",
    ),
    WaitReason.PREPARING: (
        "nodes are chosen; volumes of its pods are being bound, or devices are being reserved",
        "nothing, unless it takes long: `kubectl describe pvc` shows what the provisioner says",
    ),
    WaitReason.VOLUME_BIND_TIMEOUT: (
        "its volumes were not bound in time, so its pods are placed anew",
        "see what the provisioner says; `volumebinding.bindTimeoutSeconds` sets the time",
    ),
}
# What the reasons of nodes mean. In messages they are shown with the number of nodes.
NODES: Final[Mapping[WaitReason, str]] = {
    WaitReason.NODE_NOT_READY: "its Ready condition is not True",
    WaitReason.NODE_UNREADABLE: (
        "the node, a pod on it or a claim for devices has a field of a wrong type, so its room is"
        " not known"
    ),
    WaitReason.NODE_UNSCHEDULABLE: "it is cordoned",
    WaitReason.NODE_SELECTOR: "its labels are not those of nodeSelector",
    WaitReason.NODE_AFFINITY: "required node affinity does not match",
    WaitReason.TAINT: "it has a taint that the pod does not tolerate",
    WaitReason.DEVICE_CLAIM_MISSING: (
        "a resource claim of the pod does not exist, or has not been made by its template yet"
    ),
    WaitReason.DEVICE_CLAIM_DELETING: "a resource claim of the pod is being deleted",
    WaitReason.DEVICE_CLASS_MISSING: "a resource claim names a device class that does not exist",
    WaitReason.DEVICE_SELECTOR_ERROR: "an expression that selects devices has no result",
    WaitReason.DEVICE_UNSUPPORTED: (
        "a resource claim asks for something that is not supported; the message names the field"
    ),
    WaitReason.DEVICES_NOT_SERVED: "the server has no `resource.k8s.io/v1`",
    WaitReason.DEVICE_ELSEWHERE: "the devices of a claim are not reached from there",
    WaitReason.DEVICE_POOL_INCOMPLETE: "nothing fits there, and a pool of devices is being updated",
    WaitReason.NO_DEVICE_FITS: "the devices there do not fit the claims; the message counts them",
    WaitReason.DEVICE_SHARING_UNSUPPORTED: (
        "the pod asks for a part of a GPU by Volcano's `deviceshare`, which is not supported: use "
        "MIG by DRA"
    ),
    WaitReason.NODE_GROUP_MISMATCH: "plugin nodegroup: its group is not one of the pod's queue",
    WaitReason.NODE_GROUP_LIMIT: (
        "plugin nodegroup: with the pod, its queue would have more of this group than it may"
    ),
    WaitReason.RESERVED: (
        "`proportional`: its free processors and memory are kept for pods that ask for a scarce "
        "resource"
    ),
    WaitReason.GPU_FAULT: "it reports a broken GPU, and the pod asks for one",
    WaitReason.HOST_PORT: "a host port is in use",
    WaitReason.POD_AFFINITY: "the pods that required affinity asks for are not there",
    WaitReason.POD_ANTI_AFFINITY: "pods are there that anti-affinity forbids, on either side",
    WaitReason.TOPOLOGY_SPREAD: "the pod would break a hard topology spread",
    WaitReason.VOLUME_NOT_FOUND: "a volume claim of the pod is missing, lost or being deleted",
    WaitReason.VOLUME_NOT_BOUND: "a claim of the pod waits for the volume controller, not for us",
    WaitReason.VOLUME_NODE_MISMATCH: "the volume of a bound claim is not reached from there",
    WaitReason.VOLUME_PINNED: "the volume of a claim is being provisioned for another node",
    WaitReason.NO_VOLUME_FITS: "no volume there fits a claim, and none can be provisioned",
    WaitReason.STORAGE_EXHAUSTED: "too little storage is left to provision a claim there",
    WaitReason.VOLUME_ZONE_MISMATCH: "the labels of a volume name another zone or region",
    WaitReason.VOLUME_LIMIT: "it cannot attach more volumes of a driver",
    WaitReason.VOLUME_IN_USE: "another pod uses a claim that is for one pod at a time",
    WaitReason.TOO_MANY_PODS: "it has no pod slot left",
    WaitReason.INSUFFICIENT: "too little of a resource is free",
}
