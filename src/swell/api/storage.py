"""Volumes, claims and classes, as far as they decide whether and where a pod can start."""

from __future__ import annotations

from swell.api.core import ObjectReference
from swell.api.meta import ApiStruct, ObjectMeta
from swell.api.pod import LabelSelector, NodeSelector, ResourceRequirements
from swell.api.quantity import QuantityText

# Whether a claim waits for its first pod before it gets a volume.
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
# The provisioner of classes whose volumes are made by hand.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
# Annotations of claims and volumes that schedulers, provisioners and the volume controller share.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
LEGACY_CLASS = "volume.beta.kubernetes.io/storage-class"


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """The kind of volume that a claim asks for and, once bound, which one it has."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True):
    """Whether a claim is bound."""

    phase: str = "Pending"


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """A claim that a pod mounts."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"


class VolumeNodeAffinity(ApiStruct, frozen=True):
    """The nodes from which a volume can be reached; None stands for all."""

    required: NodeSelector | None = None


class CsiVolumeSource(ApiStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class HostPathVolumeSource(ApiStruct, frozen=True):
    """A folder of a node."""

    path: str = ""


class LocalVolumeSource(ApiStruct, frozen=True):
    """A folder of a node, made by hand."""

    path: str = ""


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """A volume, and the claim that has it."""

    capacity: dict[str, QuantityText] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str = ""
    csi: CsiVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True):
    """Whether a volume is to be had."""

    phase: str = "Pending"


class PersistentVolume(ApiStruct, frozen=True):
    """A volume that a claim can have."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()
    api_version: str = "v1"
    kind: str = "PersistentVolume"


class TopologyLabelRequirement(ApiStruct, frozen=True):
    """The values of which a label must have one."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct, frozen=True):
    """Labels of nodes that must all be as required."""

    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()


class StorageClass(ApiStruct, frozen=True):
    """Says how volumes of a class are made, and whether that waits for the pod's node."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    reclaim_policy: str = "Delete"
    parameters: dict[str, str] = {}
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"


class VolumeNodeResources(ApiStruct, frozen=True):
    """How many volumes of a driver a node can attach."""

    count: int | None = None


class CsiNodeDriver(ApiStruct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(ApiStruct, frozen=True):
    """The CSI drivers of a node."""

    # A kubelet without drivers writes null.
    drivers: tuple[CsiNodeDriver, ...] | None = ()


class CsiNode(ApiStruct, frozen=True):
    """Lists the CSI drivers on the node of the same name, as the kubelet reports them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiNodeSpec = CsiNodeSpec()
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"


class CsiDriverSpec(ApiStruct, frozen=True):
    """How a CSI driver wants to be treated."""

    storage_capacity: bool | None = None


class CsiDriver(ApiStruct, frozen=True):
    """A CSI driver of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CsiDriverSpec = CsiDriverSpec()
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"


class CsiStorageCapacity(ApiStruct, frozen=True):
    """How much storage of a class is left for a part of the nodes."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIStorageCapacity"


class VolumeAttachmentSource(ApiStruct, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    """A volume and the node that it is attached to."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(ApiStruct, frozen=True):
    """A volume that is attached to a node, or is to be."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    api_version: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
