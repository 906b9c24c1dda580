"""The plugin predicates filters the nodes that may take a pod, as kube-scheduler does.

Resources are not checked here but in `placement`, for all nodes and resources at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from swell.api.core import Taint
from swell.api.matching import tolerates
from swell.scheduler.config import Config, PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.devices.refusals import SWITCHED_OFF
from swell.scheduler.model.gpus import faults_text
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import Mask, Vector
from swell.scheduler.model.tasks import Shape, Task
from swell.scheduler.plugins.node_terms import SpreadDomains, affinity_masks, tolerated
from swell.scheduler.plugins.proportional import Proportional, reserve_rules
from swell.scheduler.session import Session

_SWITCHES: Final = {
    "affinity": "predicate.NodeAffinityEnable",
    "ports": "predicate.NodePortsEnable",
    "taints": "predicate.TaintTolerationEnable",
    "pod affinity": "predicate.PodAffinityEnable",
    "spread": "predicate.PodTopologySpreadEnable",
    "volumes": "predicate.VolumeBindingEnable",
    "volume zones": "predicate.VolumeZoneEnable",
    "volume limits": "predicate.NodeVolumeLimitsEnable",
    "devices": "predicate.DynamicResourceAllocationEnable",
}
# How long the volumes of a gang may take to be bound, in seconds.
BIND_TIMEOUT: Final = "volumebinding.bindTimeoutSeconds"
# Older Volcano's names for what resource-strategy-fit calls `proportional`.
PROPORTIONAL: Final = "predicate.ProportionalEnable"
RESOURCES: Final = "predicate.resources"
RATES_OF: Final = "predicate.resources."


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields what switched-off rules lead to, and settings that mean nothing without others."""
    given = option.arguments
    if not given.flag(_SWITCHES["volumes"], default=True):
        yield (
            f"{_SWITCHES['volumes']} is false: "
            "pods with claims that are not bound will hang on their nodes"
        )
    about_reserve = [name for name in given.values if name.startswith(RESOURCES)]
    if about_reserve and not given.flag(PROPORTIONAL, default=False):
        yield f"argument {about_reserve[0]!r} has no effect without {PROPORTIONAL}: true"
    elif given.flag(PROPORTIONAL, default=False):
        yield from reserve_of(option).remarks


def reserve_of(option: PluginOption) -> Proportional:
    """Returns the rule of the older names."""
    rates = {
        name.removeprefix(RATES_OF): value
        for name, value in option.arguments.values.items()
        if name.startswith(RATES_OF)
    }
    return Proportional.of(option.arguments.text(RESOURCES), rates)


KNOWN: Final = KnownPlugin(
    switches=("enablePredicate",),
    arguments={
        **dict.fromkeys(_SWITCHES.values(), ArgumentKind.FLAG),
        BIND_TIMEOUT: ArgumentKind.NUMBER,
        PROPORTIONAL: ArgumentKind.FLAG,
        RESOURCES: ArgumentKind.TEXT,
        RATES_OF: ArgumentKind.NUMBER,
    },
    remarks=remarks,
    idle={
        "volumebinding.weight": "nodes are not scored by their storage",
        "volumebinding.shape": "nodes are not scored by their storage",
        "dynamicresources.filterTimeoutSeconds": "the search for devices is limited by its steps",
    },
    # Answers are always remembered for pods of one shape, which is all that this asks for.
    silent=("predicate.CacheEnable",),
)
_BIND_TIMEOUT_S: Final = 600.0  # as in kube-scheduler and Volcano
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_AFFINITY_REASONS = {
    "affinity": WaitReason.POD_AFFINITY,
    "anti-affinity": WaitReason.POD_ANTI_AFFINITY,
    "spread": WaitReason.TOPOLOGY_SPREAD,
}


def binds_volumes(config: Config) -> bool:
    """Whether the scheduler chooses volumes; without the plugin it has no rules about them."""
    option = _option(config)
    return option is not None and option.arguments.flag(_SWITCHES["volumes"], default=True)


def binds_devices(config: Config) -> bool:
    """Whether the scheduler chooses devices; without the plugin it has no rules about them."""
    option = _option(config)
    return option is not None and option.arguments.flag(_SWITCHES["devices"], default=True)


def volume_bind_timeout_s(config: Config) -> float:
    """Returns how long the volumes of a gang may take; without a positive number the default."""
    option = _option(config)
    seconds = _BIND_TIMEOUT_S
    if option is not None:
        seconds = option.arguments.number(BIND_TIMEOUT, _BIND_TIMEOUT_S)
    return seconds if seconds > 0 else _BIND_TIMEOUT_S


def _option(config: Config) -> PluginOption | None:
    options = (option for tier in config.tiers for option in tier)
    return next((option for option in options if option.name == "predicates"), None)


def open_predicates(session: Session, option: PluginOption) -> Hooks:
    rules = _PredicateRules(session, option)
    reserve = None
    if option.arguments.flag(PROPORTIONAL, default=False):
        reserve = reserve_rules(session.snapshot, reserve_of(option))

    def diagnose(task: Task) -> Iterator[tuple[WaitReason, Mask, str]]:
        yield from rules.diagnose(task)
        if reserve is not None:
            yield from reserve.diagnose(task)

    return Hooks(
        node_filter=rules.node_filter,
        task_filter=rules.task_filter,
        diagnose=diagnose,
        task_score=rules.task_score,
        usable_room=None if reserve is None else reserve.usable_room,
    )


class _PredicateRules:
    """The filters of one session, without those that are switched off."""

    def __init__(self, session: Session, option: PluginOption) -> None:
        self._nodes = session.snapshot.nodes
        self._affinity_index = session.snapshot.affinity_index
        self._volumes = session.snapshot.volumes
        self._devices = session.snapshot.devices
        self._spread_domains = SpreadDomains(self._nodes)
        self._on = {
            rule: option.arguments.flag(switch, default=True) for rule, switch in _SWITCHES.items()
        }

    def node_filter(self, shape: Shape) -> Mask:
        allowed = np.ones(len(self._nodes), dtype=np.bool_)
        for _, passing in self._fixed(shape):
            allowed &= passing
        return allowed

    def task_filter(self, task: Task, now: bool) -> Mask | None:
        allowed: Mask | None = None
        shape = task.shape
        if not (shape.ports or shape.has_claims or self._affinity_index.concerns(task)):
            return None  # the usual case, for which no generator is made
        for _, passing, _ in self._changing(task, now=now):
            allowed = passing if allowed is None else allowed & passing
        if shape.claims_devices:
            # Without the reasons, which cost more than the answer.
            reached = self._reaching_devices(task, now=now)
            if reached is not None:
                allowed = reached if allowed is None else allowed & reached
        return allowed

    def task_score(self, task: Task) -> Vector | None:
        """Returns how much better some nodes are for the volumes and devices of a task."""
        shape = task.shape
        if not shape.has_claims:
            return None
        total: Vector | None = None
        if shape.claims_volumes and self._on["volumes"]:
            total = self._volumes.scores(task)
        if shape.claims_devices and self._on["devices"]:
            of_devices = self._devices.scores(task)
            if of_devices is not None:
                total = of_devices if total is None else total + of_devices
        return total

    def diagnose(self, task: Task) -> Iterator[tuple[WaitReason, Mask, str]]:
        for reason, passing in self._fixed(task.shape):
            is_fault = reason is WaitReason.GPU_FAULT
            yield reason, passing, faults_text(self._nodes.gpu_faults) if is_fault else ""
        yield from self._changing(task, now=True)
        if task.shape.claims_devices:
            yield from self._device_rules(task)

    def _fixed(self, shape: Shape) -> Iterator[tuple[WaitReason, Mask]]:
        """Yields the filters whose answer no other pod can change."""
        nodes, spec = self._nodes, shape.spec
        # A cordon counts as a taint of this name: a pod that tolerates it may go there.
        if not any(tolerates(toleration, _CORDON) for toleration in spec.tolerations):
            yield WaitReason.NODE_UNSCHEDULABLE, ~nodes.cordoned
        if shape.shares_devices:
            # Bound without the annotations that name its share it would fail on the node.
            yield WaitReason.DEVICE_SHARING_UNSUPPORTED, np.zeros(len(nodes), dtype=np.bool_)
        if nodes.gpu_faults and nodes.gpu_places(shape.request).any():
            yield WaitReason.GPU_FAULT, ~nodes.has_gpu_fault
        if self._on["affinity"]:
            yield from affinity_masks(nodes, shape)
        if self._on["taints"]:
            yield WaitReason.TAINT, tolerated(nodes, shape)

    def _changing(self, task: Task, *, now: bool) -> Iterator[tuple[WaitReason, Mask, str]]:
        """Yields the filters whose answer depends on the pods already placed."""
        if self._on["ports"]:
            for port in task.shape.ports:
                yield WaitReason.HOST_PORT, self._nodes.port_is_free(port, at_once=now), ""
        if task.shape.claims_volumes and self._on["volumes"]:
            for verdict in self._volumes.verdicts(
                task,
                at_once=now,
                zones=self._on["volume zones"],
                limits=self._on["volume limits"],
            ):
                yield verdict.reason, verdict.passing, verdict.detail
        if not self._affinity_index.concerns(task):
            return
        counted = self._spread_domains.counted_for(task.shape)
        for name, passing in self._affinity_index.allows(task, counted, at_once=now):
            if self._on["spread" if name == "spread" else "pod affinity"]:
                yield _AFFINITY_REASONS[name], passing, ""

    def _eligible(self, shape: Shape) -> Mask:
        """Returns the nodes that pass the pod's node affinity."""
        eligible = np.ones(len(self._nodes), dtype=np.bool_)
        for _, passing in affinity_masks(self._nodes, shape):
            eligible &= passing
        return eligible

    def _reaching_devices(self, task: Task, *, now: bool) -> Mask | None:
        if not self._on["devices"]:
            return self._devices.offered(task)
        return self._devices.passing(task, at_once=now, eligible=lambda: self._eligible(task.shape))

    def _device_rules(self, task: Task) -> Iterator[tuple[WaitReason, Mask, str]]:
        if not self._on["devices"]:
            # Bound without its devices the pod would hang on its node.
            offered = self._devices.offered(task)
            yield WaitReason.DEVICE_UNSUPPORTED, offered, SWITCHED_OFF
            return
        for verdict in self._devices.verdicts(
            task, at_once=True, eligible=lambda: self._eligible(task.shape)
        ):
            yield verdict.reason, verdict.passing, verdict.detail
