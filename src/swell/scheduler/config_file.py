"""Makes a configuration from parsed YAML, with one warning for every setting that has no effect.

A file written for Volcano works here. What it asks for and does not get is left out, the rest stays
in force, and a warning names the plugin or action, the setting, and what to use instead. A value of
the wrong shape, such as a list where a name belongs, makes the whole configuration invalid.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from swell.scheduler.config import (
    COUNT_CLAIMABLE,
    DEFAULT,
    SWITCHES,
    Arguments,
    Config,
    PluginOption,
    SchedulerConfigError,
    Tier,
    flag_in,
    number_in,
)

# How alike a misspelt name must be to be guessed: one letter of seven may be wrong.
_LIKENESS = 0.85


class ArgumentKind(Enum):
    """The values that an argument takes; the values here are how warnings call them."""

    NUMBER = "a number"
    FLAG = "true or false"
    TEXT = "a text"
    TABLE = "a mapping"

    def accepts(self, value: object) -> bool:
        match self:
            case ArgumentKind.NUMBER:
                return number_in(value) is not None
            case ArgumentKind.FLAG:
                return flag_in(value) is not None
            case ArgumentKind.TEXT:
                return isinstance(value, str)
            case ArgumentKind.TABLE:
                return isinstance(value, dict) and all(isinstance(key, str) for key in value)


@dataclass(frozen=True, slots=True)
class KnownPlugin:
    """The settings of one plugin. A name that ends in "." stands for all with this prefix."""

    switches: Collection[str] = ()
    # Switches of hooks that the plugin has only with enableHierarchy.
    hierarchical: Collection[str] = ()
    arguments: Mapping[str, ArgumentKind] = field(default_factory=dict)
    # Arguments of Volcano that have no effect here, with what to do instead, if anything.
    idle: Mapping[str, str] = field(default_factory=dict)
    # Arguments that need none: the scheduler always works as if they were given.
    silent: Collection[str] = ()
    # What else of a configured plugin has no effect, in sentences that begin with its setting.
    remarks: Callable[[PluginOption], Iterable[str]] = lambda _: ()
    # Why settings of a configured plugin make the whole configuration invalid.
    problems: Callable[[PluginOption], Iterable[str]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that a configuration may use, and what stands in for those it may not."""

    actions: Mapping[str, Mapping[str, ArgumentKind]]  # with their arguments
    plugins: Mapping[str, KnownPlugin]
    # Actions, their arguments and plugins of Volcano that are not here: what to use instead.
    instead: Mapping[str, str] = field(default_factory=dict)
    # Other names of actions.
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """A configuration with one warning for each setting that has no effect."""

    config: Config
    warnings: tuple[str, ...]


def parse(body: object, known: KnownNames) -> ParsedConfig:
    """Returns the configuration of parsed YAML; raises SchedulerConfigError for a wrong shape.

    Absent actions or tiers are the default ones; `None` as a whole is the default configuration.
    Arguments of actions are never filled in, so a Volcano file means here what it means there.
    """
    if body is None:
        return ParsedConfig(DEFAULT, ())
    reader = _ConfigReader(known)
    config = reader.read(_mapping(body, "the configuration"))
    return ParsedConfig(config, tuple(dict.fromkeys(reader.warnings)))


class _ConfigReader:
    """Reads one configuration and collects the warnings."""

    def __init__(self, known: KnownNames) -> None:
        self._known = known
        self.warnings: list[str] = []

    def read(self, root: Mapping[str, object]) -> Config:
        fields = {"actions", "tiers", "configurations"}
        for name in root:
            if name == "metrics":
                self._warn("field 'metrics' has no effect: no plugin reads measured load")
            elif name not in fields:
                self._warn(f"unknown field {name!r} is ignored", near=(name, fields))
        actions = DEFAULT.actions
        if root.get("actions") is not None:
            actions = self._actions(root["actions"])
        tiers = tuple(self._tier(tier) for tier in _sequence(root.get("tiers"), "tiers"))
        return Config(
            actions=actions,
            tiers=tiers if root.get("tiers") is not None else DEFAULT.tiers,
            action_arguments=self._action_arguments(root.get("configurations"), actions),
        )

    def _warn(self, text: str, near: tuple[str, Iterable[str]] | None = None) -> None:
        """Adds a warning; `near` is a name and those that could be meant instead of it."""
        if near is not None:
            instead = self._known.instead.get(near[0], "")
            meant = difflib.get_close_matches(near[0], list(near[1]), 1, _LIKENESS)
            if instead:
                text = f"{text}: {instead}"
            elif meant:
                text = f"{text}: did you mean {meant[0]!r}?"
        self.warnings.append(text)

    def _actions(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, str):
            raise SchedulerConfigError("actions must be a text of names with commas between them")
        known = self._known.actions
        names = [name.strip() for name in value.split(",") if name.strip()]
        found: list[str] = []
        for name in names:
            own = self._known.aliases.get(name, name)
            if own not in known:
                self._warn(f"unknown action {name!r} is ignored", near=(name, known))
            elif own in found and self._is_alias_beside(own, names):
                self._warn(f"action {name!r} is ignored: it is another name for {own!r}")
            else:
                found.append(own)
        return tuple(found)

    def _is_alias_beside(self, own: str, names: Sequence[str]) -> bool:
        """Whether an action is asked for under two names."""
        return any(name != own and self._known.aliases.get(name) == own for name in names)

    def _tier(self, value: object) -> Tier:
        row = _mapping(value, "a tier")
        for name in row:
            if name != "plugins":
                self._warn(f"a tier: unknown field {name!r} is ignored", near=(name, ["plugins"]))
        plugins = _sequence(row.get("plugins"), "plugins of a tier")
        options = (self._plugin(plugin) for plugin in plugins)
        return tuple(option for option in options if option is not None)

    def _plugin(self, value: object) -> PluginOption | None:
        row = _mapping(value, "a plugin")
        name = row.get("name")
        if not isinstance(name, str) or not name:
            raise SchedulerConfigError("a plugin must have a name")
        if name not in self._known.plugins:
            near = (name, self._known.plugins)
            self._warn(f"unknown plugin {name!r} is ignored", near=near)
            return None
        known = self._known.plugins[name]
        switches = self._switches(name, row)
        self._warn_of_idle_switches(name, known, switches)
        arguments = self._arguments(f"plugin {name}", row.get("arguments"), known)
        option = PluginOption(name, switches, arguments)
        for problem in known.problems(option):
            raise SchedulerConfigError(f"plugin {name}: {problem}")
        for remark in known.remarks(option):
            self._warn(f"plugin {name}: {remark}")
        return option

    def _switches(self, plugin: str, row: Mapping[str, object]) -> dict[str, bool]:
        switches: dict[str, bool] = {}
        for name, setting in row.items():
            if name in {"name", "arguments"}:
                continue
            if name not in SWITCHES:
                text = f"plugin {plugin}: unknown switch {name!r} is ignored"
                self._warn(text, near=(name, SWITCHES))
            elif not isinstance(setting, bool):
                raise SchedulerConfigError(f"plugin {plugin}: {name} must be true or false")
            else:
                switches[name] = setting
        return switches

    def _warn_of_idle_switches(
        self, plugin: str, known: KnownPlugin, switches: Mapping[str, bool]
    ) -> None:
        for name in switches:
            if name in known.switches:
                continue
            if name not in known.hierarchical:
                why = "the plugin has no such hook"
            elif not switches.get("enableHierarchy"):
                why = "the plugin has this hook only with enableHierarchy"
            else:
                continue
            self._warn(f"plugin {plugin}: switch {name!r} has no effect: {why}")

    def _action_arguments(self, value: object, actions: Sequence[str]) -> dict[str, Arguments]:
        found: dict[str, Arguments] = {}
        for entry in _sequence(value, "configurations"):
            row = _mapping(entry, "an entry of configurations")
            name = row.get("name")
            if not isinstance(name, str):
                raise SchedulerConfigError("an entry of configurations must have a name")
            fields = ["name", "arguments"]
            for other in row:
                if other not in fields:
                    text = f"configuration of {name!r}: unknown field {other!r} is ignored"
                    self._warn(text, near=(other, fields))
            name = self._known.aliases.get(name, name)
            if name not in self._known.actions:
                text = f"configuration of unknown action {name!r} is ignored"
                self._warn(text, near=(name, self._known.actions))
                continue
            if name not in actions:
                self._warn(f"configuration of {name!r} has no effect: it is not among the actions")
            known = KnownPlugin(arguments=self._known.actions[name])
            found[name] = self._arguments(f"action {name}", row.get("arguments"), known)
        counts = found.get("enqueue", Arguments()).flag(COUNT_CLAIMABLE, default=False)
        if counts and not {"preempt", "reclaim"} & set(actions):
            self._warn(
                f"action enqueue: argument {COUNT_CLAIMABLE!r} has no effect: "
                "neither preempt nor reclaim is among the actions"
            )
        return found

    def _arguments(self, owner: str, value: object, known: KnownPlugin) -> Arguments:
        if value is None:
            return Arguments()
        kept: dict[str, object] = {}
        for name, setting in _mapping(value, f"{owner}: arguments").items():
            kind = known.arguments.get(_entry(name, known.arguments))
            idle = _entry(name, known.idle)
            if kind is not None and kind.accepts(setting):
                kept[name] = setting
            elif kind is not None:
                self._warn(
                    f"{owner}: argument {name!r} has no effect: {setting!r} is not {kind.value}"
                )
            elif idle:
                instead = known.idle[idle]
                text = f"{owner}: argument {name!r} has no effect"
                self._warn(f"{text}: {instead}" if instead else text)
            elif name not in known.silent:
                text = f"{owner}: unknown argument {name!r} is ignored"
                self._warn(text, near=(name, known.arguments))
        return Arguments(kept)


def _entry(name: str, names: Iterable[str]) -> str:
    """Returns the entry that a name belongs to: itself, or the prefix that it begins with."""
    if name in names:
        return name
    return next((one for one in names if one.endswith(".") and name.startswith(one)), "")


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
