"""By what a node or a DRA driver reports a broken GPU, as administrators configure it. Pure.

A condition is written `Type[=Status][:Reason|Reason...][!Reason|Reason...]`: the status of a fault
(True if left out), the only reasons that count, and reasons that do not. A taint is written
`key[=value][:effect]`, one of a node as one of a device. A condition that a node does not have is
never a fault, and neither is a taint of a device that keeps nobody away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, Protocol, TypeVar

from swell.api.core import Node
from swell.api.meta import Condition

STATUSES: Final = ("True", "False", "Unknown")
# Conditions of node-problem-detector and its kin, of the EKS agent (a broken monitor is no broken
# GPU), and of NVSentinel without heat and power, which pass by themselves.
DEFAULT_CONDITIONS: Final = (
    "GPUUnhealthy",
    "GpuUnhealthy",
    "GPUFault",
    "GPUMissing",
    "GpuXidError",
    "NVLinkStatusInactive",
    "NvidiaGPUProblem",
    "XIDError",
    "XIDErrors",
    "AcceleratedHardwareReady=False!DCGMError",
    "GpuMemWatch",
    "GpuNvlinkWatch",
    "GpuPcieWatch",
    "GpuSmWatch",
    "GpuInforomWatch",
    "GpuMcuWatch",
    "GpuPmuWatch",
    "GpuDriverWatch",
    "SysLogsXIDError",
    "SysLogsSXIDError",
    "SysLogsGPUFallenOff",
    "NVSwitchFatalError",
    "NVSwitchDown",
)
DEFAULT_TAINTS: Final = (
    "nvidia.com/gpu-unhealthy",
    "nvidia.com/gpu-fault",
    "amd.com/gpu-unhealthy",
    "nvidia.com/gpu-xid-error",
    "nvidia.com/gpu-nvlink-error",
    "nvidia.com/gpu-error",
)
# NVIDIA's driver: an error of the GPU, with its code as the value, and one that has gone.
DEFAULT_DEVICE_TAINTS: Final = ("gpu.nvidia.com/xid", "gpu.nvidia.com/gpu-lost")
# What drivers of devices call themselves that give out whole GPUs or parts of them.
DEFAULT_DRIVERS: Final = ("gpu.nvidia.com", "gpu.amd.com")
_CONDITION = re.compile(
    r"(?P<type>[A-Za-z0-9./_-]+)(=(?P<status>[A-Za-z]+))?"
    r"(:(?P<only>[^:!|]+(\|[^:!|]+)*))?(!(?P<but>[^:!|]+(\|[^:!|]+)*))?"
)
_TAINT = re.compile(r"(?P<key>[A-Za-z0-9./_-]+)(=(?P<value>[A-Za-z0-9._-]*))?(:(?P<effect>\w+))?")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Drivers also publish taints of the effect None, which only inform.
_DEVICE_EFFECTS: Final = ("NoSchedule", "NoExecute")


class GpuRuleError(ValueError):
    """An entry that cannot be read, with the problem."""

    def __init__(self, entry: str, problem: str) -> None:
        super().__init__(f"{entry!r} {problem}")


@dataclass(frozen=True, slots=True)
class ConditionRule:
    """A condition whose status means a fault, for some of its reasons."""

    type: str
    status: str = "True"
    only: frozenset[str] = frozenset()  # empty: every reason
    but: frozenset[str] = frozenset()

    def holds(self, condition: Condition) -> bool:
        return (
            (condition.type, condition.status) == (self.type, self.status)
            and (not self.only or condition.reason in self.only)
            and condition.reason not in self.but
        )


class AnyTaint(Protocol):
    """A taint of a node or of a device."""

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def effect(self) -> str: ...


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A taint that means a fault, whatever value and effect it has unless these are named."""

    key: str
    value: str | None = None
    effect: str | None = None

    def holds(self, taint: AnyTaint) -> bool:
        return (
            taint.key == self.key
            and self.value in {None, taint.value}
            and self.effect in {None, taint.effect}
        )


@dataclass(frozen=True, slots=True)
class GpuFaultRules:
    """All rules of a process."""

    conditions: Mapping[str, tuple[ConditionRule, ...]]  # by the type that they are about
    taints: tuple[TaintRule, ...]
    device_taints: tuple[TaintRule, ...] = ()

    def fault_of(self, node: Node) -> str:
        """Returns in words by what the node reports a broken GPU; empty if by nothing."""
        condition = next(self._holding(node), None)
        if condition is not None:
            detail = ": ".join(filter(None, (condition.reason, condition.message)))
            polarity = "" if condition.status == "True" else f"={condition.status}"
            return f"{condition.type}{polarity}" + (f" ({detail})" if detail else "")
        return next(
            (t.key for t in node.spec.taints if any(rule.holds(t) for rule in self.taints)), ""
        )

    def is_device_fault(self, taint: AnyTaint) -> bool:
        """Whether a taint of a device says that it is broken."""
        if taint.effect not in _DEVICE_EFFECTS:
            return False
        return any(rule.holds(taint) for rule in self.device_taints)

    def is_unsure(self, node: Node) -> bool:
        """Whether a node reports only that it does not know how its GPUs are."""
        if any(rule.holds(taint) for taint in node.spec.taints for rule in self.taints):
            return False
        statuses = {condition.status for condition in self._holding(node)}
        return statuses == {"Unknown"}

    def _holding(self, node: Node) -> Iterator[Condition]:
        for condition in node.status.conditions:
            rules = self.conditions.get(condition.type)
            if rules is not None and any(rule.holds(condition) for rule in rules):
                yield condition


RuleT = TypeVar("RuleT", ConditionRule, TaintRule)


@lru_cache(maxsize=64)
def rules_of(
    conditions: tuple[str, ...] = DEFAULT_CONDITIONS,
    taints: tuple[str, ...] = DEFAULT_TAINTS,
    device_taints: tuple[str, ...] = (),
) -> GpuFaultRules:
    """Returns the rules that these entries mean; raises GpuRuleError for one that means none."""
    by_type: dict[str, tuple[ConditionRule, ...]] = {}
    for rule in _distinct(conditions, _condition):
        by_type[rule.type] = (*by_type.get(rule.type, ()), rule)
    return GpuFaultRules(
        by_type,
        tuple(_distinct(taints, partial(_taint, _EFFECTS))),
        tuple(_distinct(device_taints, partial(_taint, _DEVICE_EFFECTS))),
    )


def _distinct(entries: tuple[str, ...], read: Callable[[str], RuleT]) -> Iterator[RuleT]:
    """Yields what the entries mean. Two that mean the same are a mistake, however written."""
    seen: set[RuleT] = set()
    for entry in entries:
        rule = read(entry)
        if rule in seen:
            raise GpuRuleError(entry, "is given twice")
        seen.add(rule)
        yield rule


def _condition(entry: str) -> ConditionRule:
    found = _CONDITION.fullmatch(entry)
    if found is None:
        raise GpuRuleError(entry, "is not of the form Type[=Status][:Reason|...][!Reason|...]")
    status = found["status"] or "True"
    if status not in STATUSES:
        raise GpuRuleError(entry, f"has the status {status}; it must be {', '.join(STATUSES)}")
    return ConditionRule(
        found["type"],
        status,
        frozenset(filter(None, (found["only"] or "").split("|"))),
        frozenset(filter(None, (found["but"] or "").split("|"))),
    )


def _taint(effects: tuple[str, ...], entry: str) -> TaintRule:
    found = _TAINT.fullmatch(entry)
    if found is None:
        raise GpuRuleError(entry, "is not of the form key[=value][:effect]")
    effect = found["effect"]
    if effect is not None and effect not in effects:
        raise GpuRuleError(entry, f"has the effect {effect}; it must be {', '.join(effects)}")
    return TaintRule(found["key"], found["value"], effect)
