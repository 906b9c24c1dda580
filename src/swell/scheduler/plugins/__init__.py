"""The plugins: the rules of a session, one file each.

A plugin is a function `open_<name>` that opens it for a session and returns its hooks. By what they
decide:

- `priority`, `gang`, `sla`: the order of jobs, and when a job is complete.
- `drf`, `share_tree`: fair shares between jobs, and between queues in a weighted tree.
- `quota`: arithmetic of limits, shared by the next three.
- `proportion`, `capacity`: what queues may hold, deserve and take back.
- `overcommit`: how much is admitted into the whole cluster.
- `predicates`: which nodes may take a pod.
- `nodeorder`, `binpack`: which of those nodes is best.
- `conformance`, `pdb`: which pods are never victims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swell.scheduler.hooks import Plugin
from swell.scheduler.plugins import (
    binpack,
    capacity,
    conformance,
    drf,
    gang,
    nodeorder,
    overcommit,
    pdb,
    predicates,
    priority,
    proportion,
    sla,
)

PLUGINS: Final[Mapping[str, Plugin]] = {
    "binpack": binpack.open_binpack,
    "capacity": capacity.open_capacity,
    "conformance": conformance.open_conformance,
    "drf": drf.open_drf,
    "gang": gang.open_gang,
    "nodeorder": nodeorder.open_nodeorder,
    "overcommit": overcommit.open_overcommit,
    "pdb": pdb.open_pdb,
    "predicates": predicates.open_predicates,
    "priority": priority.open_priority,
    "proportion": proportion.open_proportion,
    "sla": sla.open_sla,
}

# The names of the arguments that each plugin accepts; most accept none.
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(PLUGINS, ()),
    "binpack": binpack.ARGUMENTS,
    "capacity": capacity.ARGUMENTS,
    "nodeorder": nodeorder.ARGUMENTS,
    "overcommit": overcommit.ARGUMENTS,
    "predicates": predicates.ARGUMENTS,
    "sla": sla.ARGUMENTS,
}
