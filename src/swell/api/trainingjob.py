"""TrainingJob: the older interface of three fixed roles, master, pserver and trainer.

The field names on the wire are those of existing manifests, which mix three styles. What goes into
pods unread (probes, tolerations, volumes) stays raw JSON.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from swell.api.aitrainingjob import QUEUE_LABEL, AfterPolicy, ScaleStatus, Suspension
from swell.api.defaults import MAX_INSTANCE, MIN_INSTANCE
from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.pod import ResourceRequirements
from swell.api.training import TrainingStatus

API_GROUP = "paddlepaddle.org"
# Volcano's annotation by which a job of any kind names its queue.
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE = "default"
# Labels of a TrainingJob's objects: its UID, its name, and by role one more that holds its name.
JOB_UID_LABEL = "paddle-job-uid"
JOB_NAME_LABEL = "paddle-job-name"
ROLE_LABELS = {
    "master": "paddle-job-master",
    "pserver": "paddle-job-pserver",
    "trainer": "paddle-job",
}
# Kubernetes' annotation with a trainer's index.
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class TrainingJobPhase(Enum):
    """The phase of a TrainingJob. Nothing leaves the three final phases.

    "" --> Creating --> Running <--> Scaling
     |      ^  |           |            |
     |      +--------------+------------+      when it is suspended
     +---------+-----------+------------+--> Succeed, Failed, Timeout
    """

    EMPTY = ""
    CREATING = "Creating"
    RUNNING = "Running"
    SCALING = "Scaling"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TIMEOUT = "Timeout"


FINAL_PHASES = frozenset(
    {TrainingJobPhase.SUCCEED, TrainingJobPhase.FAILED, TrainingJobPhase.TIMEOUT}
)  # nothing leaves these


class FrameworkName(Enum):
    """The frameworks that the older interface knows."""

    PADDLE = "paddle"
    TENSORFLOW = "tensorflow"


class FrameworkType(Enum):
    """How the pods work together: alone, as equals, or with parameter servers."""

    LOCAL = "local"
    NCCL2 = "nccl2"
    MULTI = "multi"


class Framework(ApiStruct, frozen=True):
    """The framework of a job."""

    name: FrameworkName | None = None
    type: FrameworkType | None = None


class JobAnnotations(ApiStruct, frozen=True, rename=None):
    """The annotations block within the spec, which existing manifests have."""

    usergroupid: str = ""
    userid: str = ""
    priority: str = ""
    scheduler: str = ""
    walltime: int | None = None


class RoleSpec(ApiStruct, frozen=True, rename=None):
    """A role. Fields a role has no use for keep their defaults."""

    entrypoint: str = ""
    workspace: str = ""
    etcd_endpoint: str = msgspec.field(default="", name="etcd-endpoint")
    min_instance: int | None = msgspec.field(default=None, name="min-instance")
    max_instance: int | None = msgspec.field(default=None, name="max-instance")
    resources: ResourceRequirements = ResourceRequirements()
    envs: dict[str, str] = {}
    grace_period_seconds: int | None = None
    pre_stop_cmd: tuple[str, ...] = ()
    tolerations: tuple[Body, ...] = ()
    node_selector: dict[str, str] = {}
    liveness_probe: Body | None = None
    readiness_probe: Body | None = None
    image_pull_secrets: tuple[Body, ...] = msgspec.field(default=(), name="imagePullSecrets")

    @property
    def minimum(self) -> int:
        return MIN_INSTANCE.of_struct(self)

    @property
    def maximum(self) -> int:
        return MAX_INSTANCE.of_struct(self)


class TrainerScale(ApiStruct, frozen=True):
    """The number of trainers, where the scale subresource reads and writes it."""

    replicas: int | None = None


class TrainingJobSpec(ApiStruct, frozen=True, rename=None):
    """The spec of a TrainingJob."""

    image: str = ""
    port: int = 7164
    ports_num: int = 1
    ports_num_for_sparse: int = 1
    trainer_port: int = 0
    trainer_ports_num: int = 0
    fault_tolerant: bool = False
    local_job: bool = False
    is_nccl: bool = False
    passes: int = 1
    host_network: bool = False
    scheduler_name: str = msgspec.field(default="", name="schedulerName")
    pod_group_name: str = msgspec.field(default="", name="podGroupName")
    queue: str = ""
    managed_by: str = msgspec.field(default="", name="managedBy")
    save_seconds: int | None = msgspec.field(default=None, name="saveSeconds")
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = msgspec.field(
        default=None, name="ttlSecondsAfterFinished"
    )
    deadline: str | None = None
    after: tuple[str, ...] = ()
    after_policy: AfterPolicy = msgspec.field(default=AfterPolicy.FAIL, name="afterPolicy")
    scale: TrainerScale | None = None
    volumes: tuple[Body, ...] = ()
    volume_mounts: tuple[Body, ...] = msgspec.field(default=(), name="VolumeMounts")
    mountpath: str = ""
    nfsmount: str = ""
    frame_work: Framework | None = None
    annotations: JobAnnotations = JobAnnotations()
    master: RoleSpec = RoleSpec()
    pserver: RoleSpec = RoleSpec()
    trainer: RoleSpec = RoleSpec()

    @property
    def is_local(self) -> bool:
        """Whether the job is one trainer and nothing else."""
        framework = self.frame_work
        return self.local_job or (framework is not None and framework.type is FrameworkType.LOCAL)

    @property
    def is_elastic(self) -> bool:
        return self.trainer_minimum < self.trainer_maximum

    @property
    def trainer_minimum(self) -> int:
        return 1 if self.is_local else self.trainer.minimum

    @property
    def trainer_maximum(self) -> int:
        return 1 if self.is_local else self.trainer.maximum

    @property
    def scaled_trainers(self) -> int | None:
        """The number of trainers that `scale` asks for, within the bounds; None without one."""
        asked = self.scale.replicas if self.scale is not None else None
        if asked is None:
            return None
        return max(self.trainer_minimum, min(asked, self.trainer_maximum))

    @property
    def has_pservers(self) -> bool:
        framework = self.frame_work
        if framework is None or framework.type is None:
            return not self.is_local and not self.is_nccl
        return framework.type is FrameworkType.MULTI


class TrainerScaleRecord(ApiStruct, frozen=True, rename={"from_": "from"}):
    """One change of the number of trainers."""

    time: str = ""
    from_: int = 0
    to: int = 0
    by: str = ""
    result: str = ""
    reason: str = ""


class RoleStatus(ApiStruct, frozen=True):
    """Counts of the pods of one role."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0


class TrainingJobStatus(ApiStruct, frozen=True, rename=None):
    """The status of a TrainingJob, as its controller and the autoscaler record it."""

    phase: TrainingJobPhase = TrainingJobPhase.EMPTY
    reason: str = ""
    trainer_target: int | None = None
    scale_records: tuple[TrainerScaleRecord, ...] = ()
    replica_statuses: dict[str, RoleStatus] = {}
    start_time: str | None = msgspec.field(default=None, name="startTime")
    scale: ScaleStatus | None = None
    dependencies: dict[str, str] = {}
    suspension: Suspension | None = None
    paused_at: str | None = msgspec.field(default=None, name="pausedAt")
    paused_seconds: int = msgspec.field(default=0, name="pausedSeconds")
    released: bool = False
    observed_generation: int = msgspec.field(default=0, name="observedGeneration")
    conditions: tuple[Condition, ...] = ()
    training: TrainingStatus | None = None


class TrainingJob(ApiStruct, frozen=True):
    """A job of three fixed roles."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TrainingJobSpec = TrainingJobSpec()
    status: TrainingJobStatus = TrainingJobStatus()
    api_version: str = f"{API_GROUP}/v1"
    kind: str = "TrainingJob"

    @property
    def wants_suspension(self) -> bool:
        """Whether the job is to have no pods. Kueue's jobs are suspended until Kueue says so."""
        if self.spec.suspend is not None:
            return self.spec.suspend
        return QUEUE_LABEL in self.metadata.labels

    @property
    def queue(self) -> str:
        """The scheduling queue: by the spec, by the annotation, or the default one."""
        return self.spec.queue or self.metadata.annotations.get(QUEUE_ANNOTATION) or DEFAULT_QUEUE
