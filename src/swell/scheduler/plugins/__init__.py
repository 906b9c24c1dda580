"""The rules of a session, one file each: a function that opens the plugin and gives its hooks."""

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

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "binpack": binpack.ARGUMENTS,
    "capacity": capacity.ARGUMENTS,
    "conformance": conformance.ARGUMENTS,
    "drf": drf.ARGUMENTS,
    "gang": gang.ARGUMENTS,
    "nodeorder": nodeorder.ARGUMENTS,
    "overcommit": overcommit.ARGUMENTS,
    "pdb": pdb.ARGUMENTS,
    "predicates": predicates.ARGUMENTS,
    "priority": priority.ARGUMENTS,
    "proportion": proportion.ARGUMENTS,
    "sla": sla.ARGUMENTS,
}
