"""The scheduler's configuration, in the format of volcano-scheduler.conf: its values and defaults.

`config_file` makes it from parsed YAML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# The schedulerName of the pods that are scheduled here.
SCHEDULER_NAMES: Final = frozenset({"swell"})
# Where no other scheduler is, pods that name one, or none, would wait for ever.
SOLE_SCHEDULER_NAMES: Final = SCHEDULER_NAMES | {"volcano", "default-scheduler"}
# All switches of Volcano's format. Which of them a plugin has is in its `KnownPlugin`.
SWITCHES: Final = (
    "enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder",
    "enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder",
    "enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob",
    "enableReservedNodes", "enableJobEnqueued", "enabledVictim", "enableJobStarving",
    "enabledOverused", "enabledAllocatable", "enabledHyperNodeOrder", "enabledSubJobReady",
    "enabledSubJobPipelined", "enabledSubJobOrder", "enabledHyperNodeGradient",
)  # fmt: skip
# An argument of enqueue: admission counts what the job could evict once admitted (ADR 13).
COUNT_CLAIMABLE: Final = "countClaimable"
# Hierarchy must be asked for: by default queues are flat.
_OFF_BY_DEFAULT = frozenset({"enableHierarchy"})
# The spellings of a truth value in a text, as Go's strconv.ParseBool has them.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class SchedulerConfigError(ValueError):
    """The configuration has the wrong shape. The previous one stays in use."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of a plugin or an action. A value of the wrong type counts as absent."""

    values: Mapping[str, object] = field(default_factory=dict)

    def number(self, name: str, default: float) -> float:
        found = number_in(self.values.get(name))
        return default if found is None else found

    def text(self, name: str) -> str:
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def table(self, name: str) -> Mapping[str, object]:
        value = self.values.get(name)
        return value if isinstance(value, dict) else {}

    def flag(self, name: str, *, default: bool) -> bool:
        found = flag_in(self.values.get(name))
        return default if found is None else found


def number_in(value: object) -> float | None:
    """Returns the number that an argument gives, possibly as a text; None if it gives none."""
    try:
        found = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def flag_in(value: object) -> bool | None:
    """Returns the truth value that an argument gives, possibly as a text; None if it gives none."""
    if isinstance(value, str):
        return True if value in _TRUE else False if value in _FALSE else None
    return bool(value) if isinstance(value, bool | int) else None


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin in a tier, with its switches and arguments."""

    name: str
    switches: Mapping[str, bool] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=Arguments)

    def is_on(self, switch: str) -> bool:
        """Whether a switch is on. Hooks are on by default, hierarchy is off by default."""
        return self.switches.get(switch, switch not in _OFF_BY_DEFAULT)


Tier = tuple[PluginOption, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """The actions of a cycle in order, and the plugins in tiers of decreasing authority."""

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    action_arguments: Mapping[str, Arguments] = field(default_factory=dict)

    def arguments_of(self, action: str) -> Arguments:
        return self.action_arguments.get(action, Arguments())


DEFAULT: Final = Config(
    actions=("enqueue", "allocate", "backfill", "preempt", "reclaim"),
    tiers=(
        (
            PluginOption("priority"),
            # With these on, a gang without surplus could never be a victim. No gang is torn without
            # them, because eviction units take a gang's surplus or the whole of it (ADR 11).
            PluginOption("gang", {"enablePreemptable": False, "enableReclaimable": False}),
            PluginOption("conformance"),
            PluginOption("drf", {"enablePreemptable": False}),
            PluginOption("proportion"),
        ),
        (
            PluginOption("overcommit"),
            PluginOption("predicates"),
            PluginOption("nodeorder"),
            PluginOption("binpack"),
            # Without a HyperNode it costs nothing and changes no score.
            PluginOption("network-topology-aware"),
        ),
    ),
    # Otherwise a full queue would admit no job, and a job that is not admitted cannot preempt.
    action_arguments={"enqueue": Arguments({COUNT_CLAIMABLE: True})},
)
