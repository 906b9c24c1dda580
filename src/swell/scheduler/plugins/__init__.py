"""The plugins: the rules of a session, one file each.

A plugin is a function `open_<name>` that opens it for a session and returns its hooks. By what they
decide:

- `priority`, `gang`, `sla`: the order of jobs, and when a job is complete.
- `drf`, `share_tree`: fair shares between jobs, and between queues in a weighted tree.
- `quota`: arithmetic of limits, shared by the next three.
- `proportion`, `capacity`: what queues may hold, deserve and take back.
- `overcommit`: how much is admitted into the whole cluster.
- `predicates`: which nodes may take a pod.
- `node_terms`, `proportional`: what of that other plugins share: labels and taints that pods ask
  for, and room that is kept beside scarce resources.
- `nodegroup`: which nodes a queue uses.
- `nodeorder`, `spreading`, `binpack`, `resource_strategy_fit`: which of those nodes is best.
- `gang_packing`: which of them keep a gang together.
- `network_topology`: which part of the network is best for a gang.
- `domain_packing`: how full its parts are, and what that is worth to other pods.
- `conformance`, `pdb`: which pods are never victims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swell.scheduler.config_file import KnownPlugin
from swell.scheduler.hooks import Plugin
from swell.scheduler.plugins import (
    binpack,
    capacity,
    conformance,
    drf,
    gang,
    gang_packing,
    network_topology,
    nodegroup,
    nodeorder,
    overcommit,
    pdb,
    predicates,
    priority,
    proportion,
    resource_strategy_fit,
    sla,
)

PLUGINS: Final[Mapping[str, Plugin]] = {
    "binpack": binpack.open_binpack,
    "capacity": capacity.open_capacity,
    "conformance": conformance.open_conformance,
    "drf": drf.open_drf,
    "gang": gang.open_gang,
    "gang-packing": gang_packing.open_gang_packing,
    "network-topology-aware": network_topology.open_network_topology,
    "nodegroup": nodegroup.open_nodegroup,
    "nodeorder": nodeorder.open_nodeorder,
    "overcommit": overcommit.open_overcommit,
    "pdb": pdb.open_pdb,
    "predicates": predicates.open_predicates,
    "priority": priority.open_priority,
    "proportion": proportion.open_proportion,
    "resource-strategy-fit": resource_strategy_fit.open_resource_strategy_fit,
    "sla": sla.open_sla,
}

_VICTIMS = ("enablePreemptable", "enableReclaimable")
# The settings of each plugin that have an effect. Plugins with arguments describe themselves.
KNOWN: Final[Mapping[str, KnownPlugin]] = {
    "binpack": binpack.KNOWN,
    "capacity": capacity.KNOWN,
    "conformance": KnownPlugin(switches=_VICTIMS),
    "drf": KnownPlugin(
        switches=("enableHierarchy", "enableJobOrder", "enablePreemptable"),
        hierarchical=("enableQueueOrder", "enableReclaimable"),
    ),
    "gang": KnownPlugin(
        switches=(
            "enableJobOrder", "enableJobReady", "enableJobPipelined", "enableJobStarving",
            "enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder", *_VICTIMS,
        )
    ),
    "gang-packing": gang_packing.KNOWN,
    "network-topology-aware": network_topology.KNOWN,
    "nodegroup": nodegroup.KNOWN,
    "nodeorder": nodeorder.KNOWN,
    "overcommit": overcommit.KNOWN,
    "pdb": KnownPlugin(switches=_VICTIMS),
    "predicates": predicates.KNOWN,
    "priority": KnownPlugin(
        switches=(
            "enableTaskOrder", "enableJobOrder", "enableJobStarving", "enablePreemptable",
            "enabledSubJobOrder",
        )
    ),
    "proportion": KnownPlugin(
        switches=(
            "enableQueueOrder", "enabledOverused", "enabledAllocatable", "enablePreemptive",
            "enableReclaimable", "enableJobEnqueued",
        )
    ),
    "resource-strategy-fit": resource_strategy_fit.KNOWN,
    "sla": sla.KNOWN,
}  # fmt: skip

# Plugins of Volcano that are not here, and what to use instead.
INSTEAD: Final[Mapping[str, str]] = {
    "cdp": "a victim takes its room back from its preemptor after 5 minutes at the earliest",
    "deviceshare": "use MIG by DRA; pods that ask for volcano.sh/vgpu-* or gpu-* are refused",
    "extender": "write a plugin",
    "numaaware": "use the kubelet's topology manager, or a DRA driver with matchAttribute",
    "numa-aware": "use the kubelet's topology manager, or a DRA driver with matchAttribute",
    "rescheduling": "make room by preempt and reclaim",
    "resourcequota": "the API server enforces quotas",
    "task-topology": "use pod affinity and anti-affinity",
    "tdm": "open and close nodes by taints",
    "usage": "nodeorder and binpack score by requests",
}
