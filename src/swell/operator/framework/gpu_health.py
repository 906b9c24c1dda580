"""The health of all GPUs of a cluster, by what nodes, drivers and device plugins report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from swell.api.core import EventSeverity, Node
from swell.api.devices import ResourceClaim, ResourceSlice
from swell.api.gpu_faults import rules_of
from swell.api.kinds import NODES
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.operator.framework.devicewatch import DeviceWatch
from swell.operator.framework.fault_guard import FaultGuard
from swell.operator.framework.gpu_drops import GpuDropWatch
from swell.operator.framework.gpu_states import FAULT, PodDevices, broken_device_of
from swell.operator.framework.gpuwatch import GpuFaultLimits, GpuFaultWatch
from swell.operator.framework.nodewatch import NodeFaultWatches
from swell.operator.framework.settings import OperatorSettings
from swell.runtime.clock import Clock
from swell.runtime.executor import EventSink
from swell.runtime.informer import Informer
from swell.runtime.logs import get_logger
from swell.runtime.plan import EmitEvent

log = get_logger(__name__)

_NONE: Final = PodDevices()

# The reasons of events on nodes: a fault that is held back with those of many others, and GPUs that
# pods have and their node cannot allocate any more.
FAULTS_HELD: Final = "GpuFaultsHeld"
GPUS_WITHDRAWN: Final = "GpusWithdrawn"


@dataclass(frozen=True, slots=True)
class GpuInformers:
    """The caches by which GPUs are followed; without the last two no device of a claim is known."""

    nodes: Informer[Node]
    pods: Informer[Pod]
    slices: Informer[ResourceSlice] | None
    claims: Informer[ResourceClaim] | None


class GpuHealth:
    """The watches of one operator. `wake` is given pods whose devices have changed."""

    def __init__(
        self,
        settings: OperatorSettings,
        informers: GpuInformers,
        clock: Clock,
        sink: EventSink,
        *,
        pods_on: Callable[[str], Iterable[Pod]],
        wake: Callable[[Key], None],
    ) -> None:
        self._settings, self._informers = settings, informers
        self._clock, self._sink = clock, sink
        rules = rules_of(
            settings.gpu_fault_conditions,
            settings.gpu_fault_taints,
            settings.gpu_fault_device_taints,
        )
        limits = GpuFaultLimits(
            after_s=settings.gpu_fault_after_s, nodes_max_share=settings.gpu_fault_max_share
        )
        guard = FaultGuard(limits.nodes_max_share, limits.nodes_max_least, self._report_held)
        resources = settings.gpu_resources
        faults = GpuFaultWatch(rules, limits, resources, clock, guard)
        drops = GpuDropWatch(
            resources,
            limits,
            clock,
            guard,
            self._report_drop,
            is_fault=settings.gpu_allocatable_drop == FAULT,
        )
        self._after_s = limits.after_s
        # Pods of which a kubelet reports a broken device, and since when.
        self._uids: dict[Key, Uid] = {}
        self._unhealthy: dict[Uid | None, float] = {}
        # Jobs are woken for a change of a pod by a handler that is added later.
        informers.pods.add_handler(self._note_pod)
        self.of_nodes = NodeFaultWatches(faults, drops, pods_on)
        self._devices = None
        if informers.slices is not None and informers.claims is not None:
            self._devices = DeviceWatch(
                informers.slices,
                informers.claims,
                rules=rules,
                limits=limits,
                drivers=settings.gpu_drivers,
                clock=clock,
                guard=guard,
                on_change=wake,
            )

    def devices_of(self, pods: Iterable[Pod]) -> dict[str, PodDevices]:
        """Returns what is known of the devices of pods, by their names, in wall time."""
        offset = self._clock.now() - self._clock.monotonic()
        found: dict[str, PodDevices] = {}
        for pod in pods:
            devices = self._devices.devices_of(pod) if self._devices is not None else _NONE
            since = self._unhealthy.get(pod.metadata.uid)
            if since is not None:
                devices = replace(devices, unhealthy_at=since + self._after_s + offset)
            if devices != _NONE:
                found[pod.metadata.name] = replace(devices, at=devices.at + offset)
        return found

    def _note_pod(self, key: Key) -> None:
        """Note since when a kubelet reports a device of a pod as broken."""
        pod, settings = self._informers.pods.get(key), self._settings
        uid = self._uids.pop(key, None)
        if pod is None or not broken_device_of(pod, settings.gpu_resources, settings.gpu_drivers):
            self._unhealthy.pop(uid, None)
            return
        if uid != pod.metadata.uid:
            self._unhealthy.pop(uid, None)
        self._uids[key] = pod.metadata.uid
        self._unhealthy.setdefault(pod.metadata.uid, self._clock.monotonic())

    def _report_held(self, node: str, why: str) -> None:
        found = self._informers.nodes.get(Key("", node))
        if found is None:
            log.warning("faults of GPUs held back", node=node, why=why)
        else:
            self._emit(found, FAULTS_HELD, why)

    def _report_drop(self, node: Node, text: str) -> None:
        self._emit(node, GPUS_WITHDRAWN, f"{text}; nothing says which pod has the broken one")

    def _emit(self, node: Node, reason: str, text: str) -> None:
        meta = node.metadata
        self._sink.record(EmitEvent(NODES, meta.key, meta.uid, EventSeverity.WARNING, reason, text))
