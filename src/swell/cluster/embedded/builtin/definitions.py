"""The schemas of the built-in kinds, and the defaults that the published schemas do not have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from swell.api.codec import decode
from swell.api.meta import Body
from swell.cluster.embedded.patching.strategic import MergeSchema
from swell.schema.decode import SCHEMA, Decoders
from swell.schema.enums import EnumChecks

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
RBAC = "io.k8s.api.rbac.v1."
OBJECT_META = f"{META}ObjectMeta"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
FILE_MODE = 0o644

# Fixed defaults, which are the same wherever the type is used. kube-apiserver has them in code.
DEFAULTS: Mapping[str, Mapping[str, object]] = {
    f"{CORE}PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    f"{CORE}Container": {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    f"{CORE}Probe": {
        "failureThreshold": 3,
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    },
    f"{CORE}HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    f"{CORE}EndpointPort": {"protocol": "TCP"},
    f"{CORE}ObjectFieldSelector": {"apiVersion": "v1"},
    f"{CORE}ResourceFieldSelector": {"divisor": "0"},
    f"{CORE}HostPathVolumeSource": {"type": ""},
    f"{CORE}ConfigMapVolumeSource": {"defaultMode": FILE_MODE},
    f"{CORE}SecretVolumeSource": {"defaultMode": FILE_MODE},
    f"{CORE}DownwardAPIVolumeSource": {"defaultMode": FILE_MODE},
    f"{CORE}ProjectedVolumeSource": {"defaultMode": FILE_MODE},
    f"{CORE}ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    f"{CORE}Secret": {"type": "Opaque"},
    f"{CORE}ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    f"{CORE}NamespaceStatus": {"phase": "Active"},
    "io.k8s.api.apps.v1.ReplicaSetSpec": {"replicas": 1},
    "io.k8s.api.batch.v1.JobSpec": {
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "suspend": False,
    },
    "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "io.k8s.api.scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
}

GANGS = "io.k8s.api.scheduling.v1alpha2."
_TERMS = ("schedulingConstraints", "disruptionMode", "priority")
# Fields of the kinds behind gates that are there, though empty, if they are given: pointers in Go.
GATED_POINTERS: Mapping[str, tuple[str, ...]] = {
    "PodGroupSchedulingPolicy": ("basic", "gang"),
    "PodGroupSpec": ("podGroupTemplateRef", *_TERMS),
    "PodGroupTemplate": _TERMS,
    "PodGroupTemplateReference": ("workload",),
    "WorkloadSpec": ("controllerRef",),
    "PodGroupResourceClaim": ("resourceClaimName", "resourceClaimTemplateName"),
}
# Keywords of a schema of which the checks of a definition see an empty list or map; none is stored.
EMPTY_IN_SCHEMAS = (
    "allOf", "anyOf", "definitions", "dependencies", "enum", "oneOf", "patternProperties",
    "properties", "required", "x-kubernetes-list-map-keys",
)  # fmt: skip

UNCHECKED_AT_ROOT = frozenset({"apiVersion", "kind", "metadata", "status"})
# Fields left to the kinds' own rules: kube-apiserver reports other reasons there, or none at all.
ELSEWHERE: Mapping[str, frozenset[str]] = {
    f"{CORE}EndpointAddress": frozenset({"ip"}),
    f"{CORE}HostAlias": frozenset({"ip"}),
    f"{CORE}DownwardAPIVolumeFile": frozenset({"path"}),
    f"{CORE}HTTPHeader": frozenset({"name"}),
    f"{CORE}NodeSelectorRequirement": frozenset({"key", "operator"}),
    f"{CORE}ContainerRestartRule": frozenset({"action"}),
    f"{CORE}ContainerRestartRuleOnExitCodes": frozenset({"operator"}),
    f"{CORE}ContainerResizePolicy": frozenset({"resourceName", "restartPolicy"}),
    f"{CORE}Lifecycle": frozenset({"stopSignal"}),
    f"{CORE}Pod": frozenset({"metadata", "status"}),
    f"{CORE}PersistentVolumeClaimSpec": frozenset({"accessModes"}),
    f"{CORE}PersistentVolumeSpec": frozenset({"accessModes"}),
    f"{CORE}PodReadinessGate": frozenset({"conditionType"}),
    f"{CORE}PodSchedulingGate": frozenset({"name"}),
    f"{CORE}PodTemplateSpec": frozenset({"metadata"}),
    f"{CORE}ServiceAccountTokenProjection": frozenset({"path"}),
    f"{CORE}ServiceSpec": frozenset({"externalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"}),
    f"{CORE}VolumeMount": frozenset({"mountPropagation", "recursiveReadOnly"}),
    f"{CORE}Taint": frozenset({"effect", "key"}),
    f"{CORE}TopologySpreadConstraint": frozenset({"whenUnsatisfiable"}),
    f"{META}LabelSelectorRequirement": frozenset({"key", "operator"}),
    f"{EXTENSIONS}CustomResourceDefinitionNames": frozenset({"kind", "plural"}),
    f"{EXTENSIONS}CustomResourceDefinitionSpec": frozenset({"group"}),
    f"{EXTENSIONS}CustomResourceDefinitionVersion": frozenset({"name"}),
    f"{EXTENSIONS}ValidationRule": frozenset({"reason", "rule"}),
    "io.k8s.api.scheduling.v1.PriorityClass": frozenset({"preemptionPolicy"}) | UNCHECKED_AT_ROOT,
    "io.k8s.api.storage.v1.StorageClass": frozenset({"reclaimPolicy"}) | UNCHECKED_AT_ROOT,
    f"{CORE}TopologySelectorLabelRequirement": frozenset({"key"}),
    f"{CORE}ResourceClaim": frozenset({"name"}),
    f"{CORE}Sysctl": frozenset({"value"}),
    f"{RBAC}RoleRef": frozenset({"kind", "name"}),
    f"{RBAC}Subject": frozenset({"kind", "name"}),
}


@cache
def schemas() -> Mapping[str, Body]:
    files = ("builtin-schemas.json", "gated-schemas.json")
    return {name: one for file in files for name, one in read_data(file)["definitions"].items()}


@cache
def names() -> Mapping[tuple[str, str, str], str]:
    """The names of definitions by group, version and kind."""
    found: dict[tuple[str, str, str], str] = {}
    for name, schema in schemas().items():
        for owner in schema.get("x-kubernetes-group-version-kind", ()):
            found.setdefault((owner["group"], owner["version"], owner["kind"]), name)
    return found


@cache
def decoders() -> Decoders:
    return Decoders(_with_defaults(schemas()), _zero_values())


@cache
def enum_checks() -> EnumChecks:
    roots = dict.fromkeys(names().values(), UNCHECKED_AT_ROOT)
    zeros = _zero_values()
    pointers = {name: frozenset(held.get("pointers", ())) for name, held in zeros.items()}
    return EnumChecks(schemas(), {**roots, **ELSEWHERE}, pointers)


def _zero_values() -> dict[str, Any]:
    gated = {f"{GANGS}{name}": {"pointers": list(held)} for name, held in GATED_POINTERS.items()}
    found = read_data("zero-values.json") | gated
    found[SCHEMA] = {**found[SCHEMA], "emptyLists": list(EMPTY_IN_SCHEMAS)}
    # Go writes a missing list as null where its field is always written.
    found[f"{CORE}ContainerImage"] = {"nullTimes": ["names"]}
    return found


def merge_schema(name: str) -> MergeSchema:
    return MergeSchema({"$ref": name}, schemas())


def _with_defaults(definitions: Mapping[str, Body]) -> dict[str, Body]:
    filled = dict(definitions)
    for name, defaults in DEFAULTS.items():
        properties = dict(definitions[name]["properties"])
        for field, value in defaults.items():
            properties[field] = {**properties[field], "default": value}
        filled[name] = {**definitions[name], "properties": properties}
    return filled


def read_data(name: str) -> dict[str, Any]:
    """A data file of the embedded server, parsed."""
    file = resources.files("swell.cluster.embedded") / "data" / name
    return decode(file.read_bytes(), dict)
