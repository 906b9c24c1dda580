"""The schema of Queue: takes what is valid for Volcano, and keeps what it does not know.

A newer Volcano may have more fields, so servers keep them; validation tells them all the same.
"""

from __future__ import annotations

from enum import Enum

from swell.api.schemas.model import (
    INT32_MAX,
    Schema,
    boolean,
    choice,
    integer,
    listing,
    open_object,
    table,
    text,
)
from swell.api.schemas.shared import DNS_SUBDOMAIN, RESOURCES, metadata_schema


class DequeueStrategy(Enum):
    FIFO = "fifo"
    TRAVERSE = "traverse"


_NODE_GROUPS = table(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": listing(text(), size_max=1024),
        "preferredDuringSchedulingIgnoredDuringExecution": listing(text(), size_max=1024),
    },
    is_open=True,
    tells_unknown=True,
)


def queue() -> Schema:
    count = integer()
    spec = table(
        {
            "weight": integer("The queue's share against its siblings.", minimum=1, default=1),
            "capability": RESOURCES,
            "deserved": RESOURCES,
            "guarantee": table({"resource": RESOURCES}, is_open=True, tells_unknown=True),
            "reclaimable": boolean("Whether others may take back what is lent; true if not given."),
            "parent": text("The queue above this one; root if not given."),
            "priority": integer(
                "Higher is served first.", minimum=-INT32_MAX - 1, maximum=INT32_MAX
            ),
            "type": text(),
            "affinity": table(
                {"nodeGroupAffinity": _NODE_GROUPS, "nodeGroupAntiAffinity": _NODE_GROUPS},
                is_open=True,
                tells_unknown=True,
            ),
            "extendClusters": listing(open_object(), size_max=1024),
            "dequeueStrategy": choice(DequeueStrategy),
        },
        is_open=True,
        tells_unknown=True,
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
        tells_unknown=True,
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
