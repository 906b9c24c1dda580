"""The schemas of PodGroup and Queue: everything that Volcano accepts is valid.

A newer Volcano may have more fields, so servers keep unknown ones; validation reports them all the
same.
"""

from __future__ import annotations

from dataclasses import replace
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
from swell.api.schemas.shared import (
    DNS_SUBDOMAIN,
    MESSAGE_SIZE_MAX,
    RESOURCES,
    metadata_schema,
    type_names,
)


class TopologyMode(Enum):
    """Whether a network topology is a requirement or a preference."""

    HARD = "hard"
    SOFT = "soft"


_TOPOLOGY = table(
    {
        "mode": choice(TopologyMode, "A requirement, or a preference.", default=TopologyMode.HARD),
        "highestTierAllowed": integer("The highest tier the pods may span."),
        "highestTierName": text("The same by name."),
    },
    is_open=True,
    reports_unknown=True,
    description="How far apart in the network the pods may be.",
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
        "name": text("The policy's name."),
        "labelSelector": open_object("The pods that it is about."),
        "matchLabelKeys": listing(
            text(size_max=316),
            size_max=64,
            description="Pods with equal values of these labels are one sub-group.",
        ),
        "subGroupSize": integer("Pods of one sub-group.", minimum=1),
        "minSubGroups": integer("Sub-groups that must start together."),
        "networkTopology": _TOPOLOGY,
    },
    is_open=True,
    reports_unknown=True,
)


def pod_group() -> Schema:
    spec = table(
        {
            "minMember": integer("How many pods must start together."),
            "minTaskMember": mapping(integer(), size_max=1024, description="The same, by role."),
            "queue": text("The queue.", default="default"),
            "priorityClassName": text("A PriorityClass."),
            "minResources": RESOURCES,
            "networkTopology": _TOPOLOGY,
            "subGroupPolicy": listing(
                _SUB_GROUP, size_max=1024, description="Parts of the gang that stay close together."
            ),
            "preemptable": boolean("Whether others may evict its pods."),
        },
        is_open=True,
        reports_unknown=True,
        description="What the gang needs to start.",
    )
    condition = table(
        {
            "type": text("What it is about."),
            "status": text("Whether it holds: True, False or Unknown."),
            "reason": text("Why, as one word for programs.", size_max=1024),
            "message": text("Why, as a sentence for people.", size_max=MESSAGE_SIZE_MAX),
            "lastTransitionTime": moment("When the status last changed."),
            "transitionID": text("The scheduling cycle that changed it."),
        },
        is_open=True,
        reports_unknown=True,
    )
    status = table(
        {
            "phase": text("Where the gang is in its life."),
            "conditions": listing(condition, size_max=64, description="What holds now."),
            "running": integer("Pods that run."),
            "succeeded": integer("Pods that have succeeded."),
            "failed": integer("Pods that have failed."),
        },
        is_open=True,
        reports_unknown=True,
        is_atomic=True,
        description="What the scheduler has recorded.",
    )
    return table(
        {
            **type_names(),
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
        "requiredDuringSchedulingIgnoredDuringExecution": listing(
            text(), size_max=1024, description="Groups that must be kept to."
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": listing(
            text(), size_max=1024, description="Groups that are kept to where there is room."
        ),
    },
    is_open=True,
    reports_unknown=True,
    description="Groups of nodes, by name.",
)


def queue() -> Schema:
    spec = table(
        {
            "weight": integer(
                "The queue's share against its siblings.", minimum=1, default=QueueSpec().weight
            ),
            "capability": replace(RESOURCES, description="As much as the queue may ever use."),
            "deserved": replace(
                RESOURCES, description="As much as the queue may take back from others."
            ),
            "guarantee": table(
                {"resource": RESOURCES},
                is_open=True,
                reports_unknown=True,
                description="What is kept free for the queue.",
            ),
            "reclaimable": boolean("Whether others may take back what is lent; true if not given."),
            "parent": text("The queue above this one; root if not given."),
            "priority": integer(
                "Higher is served first.", minimum=-INT32_MAX - 1, maximum=INT32_MAX
            ),
            "type": text("Accepted and ignored."),
            "affinity": table(
                {"nodeGroupAffinity": _NODE_GROUPS, "nodeGroupAntiAffinity": _NODE_GROUPS},
                is_open=True,
                reports_unknown=True,
                description="Groups of nodes of the queue, for the plugin nodegroup.",
            ),
            "extendClusters": listing(
                open_object(), size_max=1024, description="Accepted and ignored."
            ),
            "dequeueStrategy": choice(DequeueStrategy, "Accepted and ignored."),
        },
        is_open=True,
        reports_unknown=True,
        description="The share of the queue, and its limits.",
    )
    status = table(
        {
            "state": text("Whether jobs may enter: Open, Closing or Closed."),
            "unknown": integer("Groups that some pods of are lost."),
            "pending": integer("Groups that wait."),
            "running": integer("Groups that run."),
            "inqueue": integer("Groups that may have pods, and wait for nodes."),
            "completed": integer("Groups that have ended."),
            "reservation": open_object("Written by Volcano, and ignored."),
            "allocated": replace(RESOURCES, description="What the queue uses."),
        },
        is_open=True,
        reports_unknown=True,
        description="What the scheduler has recorded.",
    )
    return table(
        {
            **type_names(),
            "metadata": metadata_schema(DNS_SUBDOMAIN, name_size_max=253, namespaced=False),
            "spec": spec,
            "status": status,
        },
        description="A share of the cluster for some of its users.",
    )
