"""The schemas of PodGroup and Queue: everything that Volcano accepts is valid.

A newer Volcano may have more fields, so servers keep unknown ones; validation reports them all the
same.
"""

from __future__ import annotations

from enum import Enum

from swell.api.scheduling import QueueSpec
from swell.api.schemas.model import (
    INT32_MAX,
    Schema,
    ValidationRule,
    boolean,
    choice,
    integer,
    listing,
    mapping,
    moment,
    open_object,
    table,
    text,
)
from swell.api.schemas.shared import DNS_SUBDOMAIN, MESSAGE_SIZE_MAX, RESOURCES, metadata_schema


class TopologyMode(Enum):
    """Whether a network topology is a requirement or a preference."""

    HARD = "hard"
    SOFT = "soft"


_TOPOLOGY = table(
    {
        "mode": choice(TopologyMode, default=TopologyMode.HARD),
        "highestTierAllowed": integer("The highest tier the pods may span."),
        "highestTierName": text("The same by name."),
    },
    is_open=True,
    reports_unknown=True,
)

ONE_LIMIT = ValidationRule(
    "!(has(self.highestTierAllowed) && has(self.highestTierName))",
    "highestTierName must not stand beside highestTierAllowed",
)
# The same for our own kinds, which have no fields that we do not know.
NETWORK_TOPOLOGY = table(
    dict(_TOPOLOGY.properties),
    rules=(ONE_LIMIT,),
    description="How far apart in the network the pods may be; copied to the PodGroup.",
)

_SUB_GROUP = table(
    {
        "name": text(),
        "labelSelector": open_object(),
        "matchLabelKeys": listing(text(size_max=316), size_max=64),
        "subGroupSize": integer("Pods of one sub-group.", minimum=1),
        "minSubGroups": integer("Sub-groups that must start together."),
        "networkTopology": _TOPOLOGY,
    },
    is_open=True,
    reports_unknown=True,
)


def pod_group() -> Schema:
    count = integer()
    spec = table(
        {
            "minMember": integer("How many pods must start together."),
            "minTaskMember": mapping(count, size_max=1024, description="The same, by role."),
            "queue": text("The queue.", default="default"),
            "priorityClassName": text("A PriorityClass."),
            "minResources": RESOURCES,
            "networkTopology": _TOPOLOGY,
            "subGroupPolicy": listing(_SUB_GROUP, size_max=1024),
            "preemptable": boolean(),
        },
        is_open=True,
        reports_unknown=True,
    )
    condition = table(
        {
            "type": text(),
            "status": text(),
            "reason": text(size_max=1024),
            "message": text(size_max=MESSAGE_SIZE_MAX),
            "lastTransitionTime": moment(),
            "transitionID": text(),
        },
        is_open=True,
        reports_unknown=True,
    )
    status = table(
        {
            "phase": text(),
            "conditions": listing(condition, size_max=64),
            "running": count,
            "succeeded": count,
            "failed": count,
        },
        is_open=True,
        reports_unknown=True,
        is_atomic=True,
    )
    return table(
        {
            "apiVersion": text(),
            "kind": text(),
            "metadata": metadata_schema(DNS_SUBDOMAIN, name_size_max=253),
            "spec": spec,
            "status": status,
        },
        description="A gang: pods that start together or not at all.",
    )


class DequeueStrategy(Enum):
    """Volcano's choices for the order within a queue. Swell accepts and ignores them."""

    FIFO = "fifo"
    TRAVERSE = "traverse"


_NODE_GROUPS = table(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": listing(text(), size_max=1024),
        "preferredDuringSchedulingIgnoredDuringExecution": listing(text(), size_max=1024),
    },
    is_open=True,
    reports_unknown=True,
)


def queue() -> Schema:
    count = integer()
    spec = table(
        {
            "weight": integer(
                "The queue's share against its siblings.", minimum=1, default=QueueSpec().weight
            ),
            "capability": RESOURCES,
            "deserved": RESOURCES,
            "guarantee": table({"resource": RESOURCES}, is_open=True, reports_unknown=True),
            "reclaimable": boolean("Whether others may take back what is lent; true if not given."),
            "parent": text("The queue above this one; root if not given."),
            "priority": integer(
                "Higher is served first.", minimum=-INT32_MAX - 1, maximum=INT32_MAX
            ),
            "type": text(),
            "affinity": table(
                {"nodeGroupAffinity": _NODE_GROUPS, "nodeGroupAntiAffinity": _NODE_GROUPS},
                is_open=True,
                reports_unknown=True,
            ),
            "extendClusters": listing(open_object(), size_max=1024),
            "dequeueStrategy": choice(DequeueStrategy),
        },
        is_open=True,
        reports_unknown=True,
    )
    status = table(
        {
            "state": text(),
            "unknown": count,
            "pending": count,
            "running": count,
            "inqueue": count,
            "completed": count,
            "reservation": open_object(),
            "allocated": RESOURCES,
        },
        is_open=True,
        reports_unknown=True,
    )
    return table(
        {
            "apiVersion": text(),
            "kind": text(),
            "metadata": metadata_schema(DNS_SUBDOMAIN, name_size_max=253, namespaced=False),
            "spec": spec,
            "status": status,
        },
        description="A share of the cluster for some of its users.",
    )
