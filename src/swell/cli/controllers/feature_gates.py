"""Feature gates of the operator: a switch for each feature that is not settled, with its stage.

    alpha   off unless asked for; may change or go
    beta    on; may be switched off
    GA      on for good: the gate is still accepted, and cannot be switched off

A gate that is given decides; without it the feature's own flags do, where it has some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar, cast

from swell.cli.booleans import parsed_boolean
from swell.cli.command_line import USAGE, CommandError
from swell.history.settings import HistorySettings
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.gpu_states import REPORT
from swell.operator.framework.settings import NATIVE_GANGS, VOLCANO_GANGS, OperatorSettings

FLAG = "--feature-gates"
S = TypeVar("S", bound=OperatorSettings)


class Stage(StrEnum):
    """How settled a feature is."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: whether settings have it on, and the settings that have it on or off."""

    stage: Stage
    says: str
    is_on: Callable[[OperatorSettings], bool]
    switch: Callable[[OperatorSettings, bool], OperatorSettings]


def _native_gangs(settings: OperatorSettings, on: bool) -> OperatorSettings:
    return replace(settings, gang_api=NATIVE_GANGS if on else VOLCANO_GANGS)


def _suspects(settings: OperatorSettings, on: bool) -> OperatorSettings:
    return replace(settings, cordon_suspects=on)


def _history(settings: OperatorSettings, on: bool) -> OperatorSettings:
    return replace(settings, history=(settings.history or HistorySettings()) if on else None)


def _gpu_faults(settings: OperatorSettings, on: bool) -> OperatorSettings:
    if on:
        return settings
    return replace(
        settings,
        gpu_fault_conditions=(),
        gpu_fault_taints=(),
        gpu_fault_device_taints=(),
        gpu_allocatable_drop=REPORT,
    )


def _stragglers(settings: OperatorSettings, on: bool) -> OperatorSettings:
    if on or not isinstance(settings, AITrainingJobSettings):
        return settings
    return replace(settings, straggler_ratio=math.inf)


def _names_stragglers(settings: OperatorSettings) -> bool:
    return isinstance(settings, AITrainingJobSettings) and math.isfinite(settings.straggler_ratio)


FEATURES: Mapping[str, Feature] = {
    "GPUFaults": Feature(
        Stage.BETA,
        "pods leave nodes that report a broken GPU",
        lambda one: bool(
            one.gpu_fault_conditions or one.gpu_fault_taints or one.gpu_fault_device_taints
        ),
        _gpu_faults,
    ),
    "JobHistory": Feature(
        Stage.BETA,
        "records of jobs outlive them, in ConfigMaps",
        lambda one: one.history is not None,
        _history,
    ),
    "NativeGangs": Feature(
        Stage.ALPHA,
        "PodGroups of Kubernetes itself, where it serves them",
        lambda one: one.gang_api == NATIVE_GANGS,
        _native_gangs,
    ),
    "Stragglers": Feature(
        Stage.BETA, "members that hold the others up are named", _names_stragglers, _stragglers
    ),
    "SuspectTaints": Feature(
        Stage.ALPHA,
        "nodes on which several jobs failed are tainted",
        lambda one: one.cordon_suspects,
        _suspects,
    ),
}


def gates(text: str, features: Mapping[str, Feature] = FEATURES) -> dict[str, bool]:
    """Read `Name=true,Other=false`; CommandError for a name or a value that makes no sense."""
    found = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, _, value = part.partition("=")
        if name not in features:
            near = get_close_matches(name, features, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(features)}"
            raise CommandError(f"{FLAG}: no feature {name!r}", hint, USAGE)
        on = parsed_boolean(value)
        if on is None:
            raise CommandError(f"{FLAG}: {part!r}", f"write {name}=true or {name}=false", USAGE)
        if features[name].stage is Stage.GA and not on:
            hint = "leave the gate out"
            raise CommandError(f"{FLAG}: {name} is GA and cannot be switched off", hint, USAGE)
        found[name] = on
    return found


def gated(settings: S, given: Mapping[str, bool]) -> S:
    """The settings with the features on or off as the gates say."""
    changed: OperatorSettings = settings
    for name, on in given.items():
        changed = FEATURES[name].switch(changed, on)
    return cast("S", changed)


def states(settings: OperatorSettings) -> Iterable[tuple[str, str, bool]]:
    """Every feature with its stage, and whether it is on."""
    for name, feature in FEATURES.items():
        yield name, feature.stage.value, feature.is_on(settings)
