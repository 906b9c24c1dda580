"""Pods as a node agent reads them: what to run, its inputs, and the status reported so far.

Defaults are those of the Kubernetes API.
"""

from __future__ import annotations

import msgspec

from swell.api.meta import ApiStruct, Condition, ObjectMeta
from swell.api.pod import (
    ContainerPort,
    ContainerState,
    PodPhase,
    ResourceRequirements,
)
from swell.api.resource import Resource

GRACE_S_DEFAULT = 30  # Kubernetes' default
JOB_LABEL = "TrainingJobName"  # on every pod of a job


class KeyReference(ApiStruct, frozen=True):
    """A key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldReference(ApiStruct, frozen=True):
    """A field of the pod, for the downward API."""

    field_path: str = ""


class ResourceReference(ApiStruct, frozen=True):
    """A request or limit of a container, for the downward API."""

    container_name: str = ""
    resource: str = ""
    divisor: str | int | float = "0"


class EnvSource(ApiStruct, frozen=True):
    """The source of a variable's value; exactly one field is set."""

    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    config_map_key_ref: KeyReference | None = None
    secret_key_ref: KeyReference | None = None


class EnvVar(ApiStruct, frozen=True):
    """One variable of a container."""

    name: str = ""
    value: str = ""
    value_from: EnvSource | None = None


class WholeReference(ApiStruct, frozen=True):
    """A ConfigMap or Secret as a whole."""

    name: str = ""
    optional: bool = False


class EnvFrom(ApiStruct, frozen=True):
    """All keys of a ConfigMap or Secret as variables."""

    prefix: str = ""
    config_map_ref: WholeReference | None = None
    secret_ref: WholeReference | None = None


class ExecAction(ApiStruct, frozen=True):
    """A command in the container, for a probe or preStop."""

    command: tuple[str, ...] = ()


class HttpHeader(ApiStruct, frozen=True):
    """One header of an HTTP probe."""

    name: str = ""
    value: str = ""


class HttpGetAction(ApiStruct, frozen=True):
    """An HTTP request to the container. A port may be a name."""

    path: str = "/"
    port: int | str = 0
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocketAction(ApiStruct, frozen=True):
    """A TCP connection to the container."""

    port: int | str = 0
    host: str = ""


class SleepAction(ApiStruct, frozen=True):
    """A pause, for preStop."""

    seconds: int = 0


class Probe(ApiStruct, frozen=True):
    """One probe of a container, with Kubernetes' defaults."""

    exec_: ExecAction | None = msgspec.field(default=None, name="exec")
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(ApiStruct, frozen=True):
    """One hook in the life of a container."""

    exec_: ExecAction | None = msgspec.field(default=None, name="exec")
    http_get: HttpGetAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(ApiStruct, frozen=True):
    """The hooks of a container. postStart is not run here."""

    pre_stop: LifecycleHandler | None = None


class VolumeMount(ApiStruct, frozen=True):
    """A volume, or a path in it, at a place in the container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    read_only: bool = False


class SecurityContext(ApiStruct, frozen=True):
    """The user that a pod or a container is to run as. Other fields of it are not used here."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()  # only of pods, as is the next
    fs_group: int | None = None


class BoundContainer(ApiStruct, frozen=True):
    """One container of a pod, init containers and sidecars included."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restart_policy: str = ""
    message_path: str = msgspec.field(default="/dev/termination-log", name="terminationMessagePath")
    message_policy: str = msgspec.field(default="File", name="terminationMessagePolicy")
    security_context: SecurityContext = SecurityContext()

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container goes on running beside the main containers."""
        return self.restart_policy == "Always"


class KeyToPath(ApiStruct, frozen=True):
    """A key of a ConfigMap or Secret as a file of another name."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapVolume(ApiStruct, frozen=True):
    """A volume with the keys of a ConfigMap as files."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretVolume(ApiStruct, frozen=True):
    """A volume with the keys of a Secret as files."""

    secret_name: str = ""
    name: str = ""  # what a projected volume calls it
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False

    @property
    def source_name(self) -> str:
        return self.secret_name or self.name


class EmptyDirVolume(ApiStruct, frozen=True):
    """A folder that lives as long as the pod."""


class HostPathVolume(ApiStruct, frozen=True):
    """A folder of the machine."""

    path: str = ""
    type: str = ""


class DownwardFile(ApiStruct, frozen=True):
    """A file with a field or resource of the pod."""

    path: str = ""
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    mode: int | None = None


class DownwardVolume(ApiStruct, frozen=True):
    """A volume with facts about the pod as files."""

    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class VolumePart(ApiStruct, frozen=True):
    """One source of files. Service account tokens of projected volumes are ignored."""

    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")


class ProjectedVolume(ApiStruct, frozen=True):
    """A volume that joins the files of several sources."""

    sources: tuple[VolumePart, ...] = ()


class ClaimVolume(ApiStruct, frozen=True):
    """A volume that a claim was bound to."""

    claim_name: str = ""
    read_only: bool = False


class BoundVolume(ApiStruct, frozen=True):
    """A volume of a pod; exactly one kind is set."""

    name: str = ""
    projected: ProjectedVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    host_path: HostPathVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")

    def parts(self) -> tuple[VolumePart, ...]:
        """Returns the sources of files that the agent writes for the pod."""
        if self.projected is not None:
            return self.projected.sources
        own = VolumePart(
            config_map=self.config_map, secret=self.secret, downward_api=self.downward_api
        )
        return (own,) if own != VolumePart() else ()


class BoundSpec(ApiStruct, frozen=True):
    """The part of a pod's spec that its node needs."""

    node_name: str = ""
    containers: tuple[BoundContainer, ...] = ()
    init_containers: tuple[BoundContainer, ...] = ()
    volumes: tuple[BoundVolume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    security_context: SecurityContext = SecurityContext()


class ReportedContainer(ApiStruct, frozen=True):
    """One entry of containerStatuses."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None


class ReportedStatus(ApiStruct, frozen=True):
    """The part of a pod's status that its node writes."""

    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ReportedContainer, ...] = ()
    init_container_statuses: tuple[ReportedContainer, ...] = ()
    start_time: str | None = None
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")


class BoundPod(ApiStruct, frozen=True):
    """A pod as its node reads it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BoundSpec = BoundSpec()
    status: ReportedStatus = ReportedStatus()

    @property
    def is_final(self) -> bool:
        """Whether a final phase has been reported; such a report never changes."""
        return self.status.phase in FINAL

    @property
    def grace_s(self) -> int:
        """Returns the grace period: 30 s by default; 0 stays 0, as for a forced deletion."""
        own = self.spec.termination_grace_period_seconds
        return GRACE_S_DEFAULT if own is None else max(1, own) if own else 0


FINAL = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})

BOUND_PODS = Resource("", "v1", "Pod", "pods", BoundPod)
