"""Pods, as far as operator, scheduler, autoscaler and node agent read them."""

from __future__ import annotations

from enum import Enum

import msgspec

from swell.api import quantity
from swell.api.meta import ApiStruct, Condition, ObjectMeta

QuantityText = quantity.QuantityText


class PodPhase(Enum):
    """The phase of a pod, as the kubelet reports it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ResourceRequirements(ApiStruct, frozen=True):
    """The requests and limits of a container or of a pod."""

    requests: dict[str, QuantityText] = {}
    limits: dict[str, QuantityText] = {}


class ContainerPort(ApiStruct, frozen=True):
    """A port of a container. Host ports are a resource of the node."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(ApiStruct, frozen=True):
    """A container, or an init container; with `restart_policy` Always that is a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class Toleration(ApiStruct, frozen=True):
    """A taint that a pod tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """One requirement on the labels or fields of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    """A term that raises a node's score by its weight."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True):
    """The nodes a pod must or would rather run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class LabelSelectorRequirement(ApiStruct, frozen=True):
    """One requirement on labels."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True):
    """Selects objects by labels. None selects nothing, an empty selector everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True):
    """Pods near which, within a topology domain, a pod wants to be or not to be."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    """A term that raises a node's score by its weight."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True):
    """The terms a pod requires and prefers, for affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True):
    """The affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    """How unevenly pods may be spread over topology domains."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True):
    """Keeps a pod from being scheduled until it is removed."""

    name: str = ""


class PersistentVolumeClaimSource(ApiStruct, frozen=True):
    """Names the claim behind a volume."""

    claim_name: str = ""


class EphemeralVolumeSource(ApiStruct, frozen=True):
    """Asks for a claim that is made for this pod and goes with it."""


class ImageVolumeSource(ApiStruct, frozen=True):
    """An image whose files a volume holds."""

    reference: str = ""


class Volume(ApiStruct, frozen=True):
    """A volume of a pod. Only claims decide whether the pod can start."""

    name: str = ""
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodResourceClaim(ApiStruct, frozen=True):
    """A claim of devices by a pod: one that exists, or one that is made for it by a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(ApiStruct, frozen=True):
    """The PodGroup of Kubernetes itself that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """The part of a pod's spec that decisions read."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: dict[str, QuantityText] = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    host_network: bool = False
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    volumes: tuple[Volume, ...] = ()


class StateWaiting(ApiStruct, frozen=True):
    """A container that has not started, and why."""

    reason: str = ""
    message: str = ""


class StateRunning(ApiStruct, frozen=True):
    """A container that runs."""

    started_at: str | None = None


class StateTerminated(ApiStruct, frozen=True):
    """A container that has ended, and how."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(ApiStruct, frozen=True):
    """One of the three states of a container; the other two are None."""

    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class DeviceHealth(ApiStruct, frozen=True):
    """A device of a container, and how it is: Healthy, Unhealthy or Unknown."""

    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = ""


class AllocatedResourceStatus(ApiStruct, frozen=True):
    """The devices of a resource that a container has."""

    name: str = ""
    resources: tuple[DeviceHealth, ...] = ()


class ContainerStatus(ApiStruct, frozen=True):
    """The state of a container, and how often it was restarted."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources_status: tuple[AllocatedResourceStatus, ...] = ()


class PodResourceClaimStatus(ApiStruct, frozen=True):
    """The claim that was made for a pod by a template; without a name none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(ApiStruct, frozen=True):
    """The claim behind a pod's extended resources, and which container has what of it."""

    resource_claim_name: str = ""
    request_mappings: tuple[dict[str, str], ...] = ()


class PodStatus(ApiStruct, frozen=True):
    """The part of a pod's status that decisions read."""

    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(ApiStruct, frozen=True):
    """A pod, as operator, scheduler, autoscaler and node agent read it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    api_version: str = "v1"
    kind: str = "Pod"
