"""Every resource that Swell reads or writes, with its struct."""

from __future__ import annotations

from swell.api import aitrainingjob, trainingjob
from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import ConfigMap, Event, Lease, Namespace, Node, ResourceQuota, Service
from swell.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from swell.api.meta import Body
from swell.api.native_groups import API_GROUP, API_VERSION, NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.resource import Resource
from swell.api.scheduling import PodGroup, Queue
from swell.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.api.workloads import Job, ReplicaSet

SCHEDULING = "scheduling.volcano.sh"
TOPOLOGY = "topology.volcano.sh"
# The API groups whose kinds we share with Volcano: where it installed them, they stay as they are.
SHARED_GROUPS = frozenset({SCHEDULING, TOPOLOGY})

# The kinds of Kubernetes itself.
PODS = Resource("", "v1", "Pod", "pods", Pod, short_names=("po",))
NODES = Resource("", "v1", "Node", "nodes", Node, namespaced=False, short_names=("no",))
NAMESPACES = Resource(
    "", "v1", "Namespace", "namespaces", Namespace, namespaced=False, short_names=("ns",)
)
SERVICES = Resource("", "v1", "Service", "services", Service, short_names=("svc",))
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap, short_names=("cm",))
SECRETS: Resource[Body] = Resource("", "v1", "Secret", "secrets", dict)
EVENTS = Resource("", "v1", "Event", "events", Event, short_names=("ev",))
# The same objects in the newer form, in which they are written.
RECORDED_EVENTS: Resource[Body] = Resource("events.k8s.io", "v1", "Event", "events", dict)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", ReplicaSet, short_names=("rs",))
JOBS = Resource("batch", "v1", "Job", "jobs", Job)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    PriorityClass,
    namespaced=False,
    short_names=("pc",),
)
# Served only where an administrator has switched them on.
NATIVE_GROUPS = Resource(API_GROUP, API_VERSION, "PodGroup", "podgroups", NativeGroup)
POD_DISRUPTION_BUDGETS = Resource(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    PodDisruptionBudget,
    short_names=("pdb",),
)
PERSISTENT_VOLUME_CLAIMS = Resource(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    PersistentVolumeClaim,
    short_names=("pvc",),
)
PERSISTENT_VOLUMES = Resource(
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    PersistentVolume,
    namespaced=False,
    short_names=("pv",),
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    StorageClass,
    namespaced=False,
    short_names=("sc",),
)
CSI_NODES = Resource("storage.k8s.io", "v1", "CSINode", "csinodes", CsiNode, namespaced=False)
CSI_DRIVERS = Resource(
    "storage.k8s.io", "v1", "CSIDriver", "csidrivers", CsiDriver, namespaced=False
)
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", CsiStorageCapacity
)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io",
    "v1",
    "VolumeAttachment",
    "volumeattachments",
    VolumeAttachment,
    namespaced=False,
)
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", ResourceSlice, namespaced=False
)
DEVICE_CLASSES = Resource(
    "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", DeviceClass, namespaced=False
)
RESOURCE_CLAIMS = Resource(
    "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", ResourceClaim
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    ResourceClaimTemplate,
)
DEVICE_TAINT_RULES: Resource[Body] = Resource(
    "resource.k8s.io", "v1beta2", "DeviceTaintRule", "devicetaintrules", dict, namespaced=False
)
RESOURCE_QUOTAS = Resource(
    "", "v1", "ResourceQuota", "resourcequotas", ResourceQuota, short_names=("quota",)
)
CUSTOM_RESOURCE_DEFINITIONS: Resource[Body] = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    dict,
    namespaced=False,
    short_names=("crd", "crds"),
)

# Our own kinds, and the three we share with Volcano.
AI_TRAINING_JOBS = Resource(
    aitrainingjob.API_GROUP,
    "v1",
    "AITrainingJob",
    "aitrainingjobs",
    AITrainingJob,
    short_names=("aitj",),
)
TRAINING_JOBS = Resource(
    trainingjob.API_GROUP, "v1", "TrainingJob", "trainingjobs", TrainingJob, short_names=("tj",)
)
POD_GROUPS = Resource(
    SCHEDULING, "v1beta1", "PodGroup", "podgroups", PodGroup, short_names=("pg", "podgroup-v1beta1")
)
QUEUES = Resource(
    SCHEDULING,
    "v1beta1",
    "Queue",
    "queues",
    Queue,
    namespaced=False,
    short_names=("q", "queue-v1beta1"),
)
HYPER_NODES = Resource(
    TOPOLOGY,
    "v1alpha1",
    "HyperNode",
    "hypernodes",
    HyperNode,
    namespaced=False,
    short_names=("hn",),
)

# The kinds that `swell get` knows without asking the server, in the order of a short name's search.
ALL: tuple[Resource[Body], ...] = (
    AI_TRAINING_JOBS.untyped(),
    TRAINING_JOBS.untyped(),
    POD_GROUPS.untyped(),
    QUEUES.untyped(),
    HYPER_NODES.untyped(),
    PODS.untyped(),
    NODES.untyped(),
    NAMESPACES.untyped(),
    SERVICES.untyped(),
    CONFIG_MAPS.untyped(),
    SECRETS,
    EVENTS.untyped(),
    REPLICA_SETS.untyped(),
    JOBS.untyped(),
    LEASES.untyped(),
    PRIORITY_CLASSES.untyped(),
    POD_DISRUPTION_BUDGETS.untyped(),
    CUSTOM_RESOURCE_DEFINITIONS,
)
