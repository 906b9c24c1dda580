"""The scheduler's configuration, in the format of volcano-scheduler.conf.

Turns parsed YAML into actions and tiers. Unknown names are left out with a warning, so that a file
written for Volcano works; a value of the wrong type makes the whole configuration invalid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# All switches of Volcano's format. Several belong to hooks that do not exist here; they are
# accepted without effect.
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
_ACTION_ARGUMENTS = {
    "enqueue": frozenset({COUNT_CLAIMABLE}),
    "preempt": frozenset({"enableTopologyAwarePreemption"}),
}


class SchedulerConfigError(ValueError):
    """The configuration has the wrong shape. The previous one stays in use."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of a plugin or an action. A value of the wrong type counts as absent."""

    values: Mapping[str, object] = field(default_factory=dict)

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        try:
            return float(value) if isinstance(value, int | float | str) else default
        except ValueError:
            return default

    def text(self, name: str) -> str:
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.values.get(name, default)
        return value.lower() == "true" if isinstance(value, str) else bool(value)


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
        ),
    ),
    # Otherwise a full queue would admit no job, and a job that is not admitted cannot preempt.
    action_arguments={"enqueue": Arguments({COUNT_CLAIMABLE: True})},
)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that a configuration may use: actions, and plugins with their arguments."""

    actions: Collection[str]
    # An argument that ends in "." stands for all names with this prefix.
    plugins: Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """A configuration with one warning for each name that was ignored."""

    config: Config
    warnings: tuple[str, ...]


def parse(body: object, known: KnownNames) -> ParsedConfig:
    """Returns the configuration of parsed YAML; raises SchedulerConfigError for a wrong shape.

    Absent actions or tiers are the default ones; `None` as a whole is the default configuration.
    Arguments of actions are never filled in, so a Volcano file means here what it means there.
    """
    if body is None:
        return ParsedConfig(DEFAULT, ())
    root = _mapping(body, "the configuration")
    fields = {"actions", "tiers", "configurations", "metrics"}
    warnings = [f"unknown field {name!r} is ignored" for name in root if name not in fields]
    actions = _actions(root.get("actions"), known, warnings)
    tiers = tuple(_tier(tier, known, warnings) for tier in _sequence(root.get("tiers"), "tiers"))
    arguments = _action_arguments(root.get("configurations"), known, warnings)
    return ParsedConfig(
        Config(
            actions=actions if root.get("actions") is not None else DEFAULT.actions,
            tiers=tiers if root.get("tiers") is not None else DEFAULT.tiers,
            action_arguments=arguments,
        ),
        tuple(warnings),
    )


def _actions(value: object, known: KnownNames, warnings: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, str):
        raise SchedulerConfigError("actions must be a text of names with commas between them")
    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in known.actions]
    warnings.extend(f"unknown action {name!r} is ignored" for name in unknown)
    return tuple(name for name in names if name in known.actions)


def _tier(value: object, known: KnownNames, warnings: list[str]) -> Tier:
    plugins = _sequence(_mapping(value, "a tier").get("plugins"), "plugins of a tier")
    options = (_plugin(plugin, known, warnings) for plugin in plugins)
    return tuple(option for option in options if option is not None)


def _plugin(value: object, known: KnownNames, warnings: list[str]) -> PluginOption | None:
    row = _mapping(value, "a plugin")
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise SchedulerConfigError("a plugin must have a name")
    if name not in known.plugins:
        warnings.append(f"unknown plugin {name!r} is ignored")
        return None
    switches: dict[str, bool] = {}
    for key, setting in row.items():
        if key in {"name", "arguments"}:
            continue
        if key not in SWITCHES:
            warnings.append(f"plugin {name}: unknown switch {key!r} is ignored")
        elif not isinstance(setting, bool):
            raise SchedulerConfigError(f"plugin {name}: {key} must be true or false")
        else:
            switches[key] = setting
    arguments = _arguments(f"plugin {name}", row.get("arguments"), known.plugins[name], warnings)
    return PluginOption(name, switches, arguments)


def _action_arguments(
    value: object, known: KnownNames, warnings: list[str]
) -> dict[str, Arguments]:
    found: dict[str, Arguments] = {}
    for entry in _sequence(value, "configurations"):
        row = _mapping(entry, "an entry of configurations")
        name = row.get("name")
        if not isinstance(name, str):
            raise SchedulerConfigError("an entry of configurations must have a name")
        if name not in known.actions:
            warnings.append(f"configuration of unknown action {name!r} is ignored")
            continue
        accepted = _ACTION_ARGUMENTS.get(name, frozenset())
        found[name] = _arguments(f"action {name}", row.get("arguments"), accepted, warnings)
    return found


def _arguments(
    owner: str, value: object, accepted: Collection[str], warnings: list[str]
) -> Arguments:
    if value is None:
        return Arguments()
    values = _mapping(value, f"{owner}: arguments")
    # binpack has arguments named after resources: binpack.resources.<name>.
    prefixes = tuple(name for name in accepted if name.endswith("."))
    kept: dict[str, object] = {}
    for name, setting in values.items():
        if name in accepted or (prefixes and name.startswith(prefixes)):
            kept[name] = setting
        else:
            warnings.append(f"{owner}: unknown argument {name!r} is ignored")
    return Arguments(kept)


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SchedulerConfigError(f"{what} must be a mapping")
    return value


def _sequence(value: object, what: str) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SchedulerConfigError(f"{what} must be a list")
    return value
