"""What each reason means and what helps, in words: for the reference, and whoever else explains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swell.scheduler.model.reasons import Reason

# Of groups and pods that wait.
WAITING: Final[Mapping[Reason, tuple[str, str]]] = {
    Reason.QUEUE_NOT_FOUND: (
        "the group names a queue that does not exist",
        "create the queue, or name another",
    ),
    Reason.QUEUE_CLOSED: ("its queue is closed or closing", "`swell queue open`"),
    Reason.QUEUE_QUOTA: (
        "with it, its queue would have more than it may have or deserves",
        "wait for others in the queue, raise its limits or weight, or ask for less",
    ),
    Reason.QUEUE_TREE: (
        "the tree of queues is broken, so nothing can be counted",
        "the message names the queue",
    ),
    Reason.OVERCOMMIT: (
        "more is admitted already than the cluster has, with some to spare",
        "wait, or add nodes",
    ),
    Reason.WAITING_FOR_ADMISSION: ("it has not been looked at yet", "nothing"),
    Reason.BACK_OFF: (
        "it was admitted and found no room for long, so it gave up its reservation",
        "nothing: it is admitted again after a while",
    ),
    Reason.NOT_ENOUGH_TASKS: (
        "fewer pods exist than must start together",
        "see what creates the pods: `swell describe`",
    ),
    Reason.NOT_ENOUGH_PODS_OF_TASK: (
        "of one role fewer pods exist than must start together",
        "see what creates the pods: `swell describe`",
    ),
    Reason.NOT_ENOUGH_RESOURCES: (
        "no room on enough nodes; the message counts nodes by what they lack",
        "`swell explain` tells who holds it",
    ),
    Reason.GANG_SHORT: (
        "this pod has room, the others of its gang do not",
        "as for the group",
    ),
    Reason.QUEUE_OVERUSED: (
        "its queue has all it deserves while others want theirs",
        "wait for others in the queue, or raise its weight",
    ),
    Reason.WAITING_FOR_VICTIMS: ("nodes are promised; pods there are leaving", "nothing"),
    Reason.GATED: ("the pod has scheduling gates", "whoever set them removes them"),
}
# Of nodes that refuse a pod; in messages they stand with the number of nodes.
NODES: Final[Mapping[Reason, str]] = {
    Reason.NODE_NOT_READY: "its Ready condition is not True",
    Reason.NODE_UNSCHEDULABLE: "it is cordoned",
    Reason.NODE_SELECTOR: "its labels are not those of nodeSelector",
    Reason.NODE_AFFINITY: "required node affinity does not match",
    Reason.TAINT: "it has a taint that the pod does not tolerate",
    Reason.HOST_PORT: "a host port is in use",
    Reason.POD_AFFINITY: "the pods that required affinity asks for are not there",
    Reason.POD_ANTI_AFFINITY: "pods are there that anti-affinity forbids, on either side",
    Reason.TOPOLOGY_SPREAD: "the pod would break a hard topology spread",
    Reason.VOLUME: "a volume claim of the pod is not bound",
    Reason.TOO_MANY_PODS: "it has no pod slot left",
    Reason.INSUFFICIENT: "too little of a resource is free",
}
