"""AITrainingJob: an elastic job of one or more roles, each a set of equal pods.

The spec is written by users, the status by operator, scheduler and autoscaler. The pod template
stays raw JSON: it goes into pods as it came.
"""

from __future__ import annotations

from enum import Enum

from swell.api.defaults import MAX_REPLICAS, MIN_REPLICAS, REPLICAS
from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.scheduling import NetworkTopology
from swell.api.training import MANAGER, TrainingStatus

API_GROUP = "elasticdeeplearning.ai"
# On a job of either kind: somebody has stopped it; the value is the message. It ends as Failed,
# or as the annotation of another ending says that stands beside it.
STOPPED_ANNOTATION = f"{API_GROUP}/stopped"
# Kueue's label on a job that it admits.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


class AITrainingJobPhase(Enum):
    """The phase of a job. Nothing leaves the final phases.

        "" --> Pending <--> Creating <--> Running
                  ^            ^             ^
                  +------------+-------------+---> Terminating <--> Restarting
                                                        |
                          all pods are gone             v
                                         Succeed, Failed, Timeout, Preempted, NodeFail

    Pods come and go between two looks, so any living phase may follow any other. A job that ends
    before anything was created for it goes from "" to its final phase. The table is in
    `swell.operator.aitrainingjob.phases`.
    """

    EMPTY = ""
    PENDING = "Pending"
    CREATING = "Creating"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    TERMINATING = "Terminating"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    TIMEOUT = "Timeout"
    PREEMPTED = "Preempted"
    NODE_FAIL = "NodeFail"


FINAL_PHASES = frozenset(
    {
        AITrainingJobPhase.SUCCEED,
        AITrainingJobPhase.FAILED,
        AITrainingJobPhase.TIMEOUT,
        AITrainingJobPhase.PREEMPTED,
        AITrainingJobPhase.NODE_FAIL,
    }
)  # nothing leaves these


class CleanPodPolicy(Enum):
    """Which pods are deleted when the job has succeeded or failed."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class JobEndPolicy(Enum):
    """How many of its roles must end for a job to end."""

    ANY = "Any"
    ALL = "All"
    NONE = "None"


class RoleEndPolicy(Enum):
    """Which of its pods must end for a role to end."""

    ANY = "Any"
    RANK0 = "Rank0"
    ALL = "All"
    NONE = "None"


class EdlPolicy(Enum):
    """Says whether the autoscaler, a user or neither may resize a role."""

    AUTO = "Auto"
    MANUAL = "Manual"
    NEVER = "Never"


class RestartPolicy(Enum):
    """Which causes are followed by a restart."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    ON_NODE_FAIL = "OnNodeFail"
    EXIT_CODE = "ExitCode"
    ON_NODE_FAIL_WITH_EXIT_CODE = "OnNodeFailWithExitCode"
    NEVER = "Never"


class RestartScope(Enum):
    """How much is restarted: the pod, its role, or the job."""

    POD = "Pod"
    REPLICA = "Replica"
    ALL = "All"


class RequeuePolicy(Enum):
    """The fate of a rigid job that the scheduler preempts: it queues anew, or ends."""

    REQUEUE = "Requeue"
    END = "End"


class StragglerPolicy(Enum):
    """The fate of a pod that is much slower than its peers: it is named, or moved as well."""

    REPORT = "Report"
    REPLACE = "Replace"


class AfterPolicy(Enum):
    """The fate of a job when one that it comes after fails or goes."""

    FAIL = "Fail"
    WAIT = "Wait"


class ResizeAuthor(Enum):
    """The component or person that changed a role's target."""

    USER = "user"
    AUTOSCALER = "autoscaler"
    SCHEDULER = "scheduler"
    OPERATOR = "operator"


class ReplicaSpec(ApiStruct, frozen=True):
    """One role. Sizes may be left out; read `size`, `minimum` and `maximum`, which fill them in."""

    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    edl_policy: EdlPolicy = EdlPolicy.NEVER
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    restart_scope: RestartScope = RestartScope.ALL
    restart_limit: int | None = None
    hang_seconds: int | None = None
    fail_policy: RoleEndPolicy = RoleEndPolicy.ANY
    complete_policy: RoleEndPolicy = RoleEndPolicy.ALL
    replica_type: str = ""
    network_topology: NetworkTopology | None = None
    template: Body = {}

    @property
    def size(self) -> int:
        return REPLICAS.of_struct(self)

    @property
    def minimum(self) -> int:
        return MIN_REPLICAS.of_struct(self)

    @property
    def maximum(self) -> int:
        return MAX_REPLICAS.of_struct(self)

    @property
    def is_elastic(self) -> bool:
        return self.edl_policy is not EdlPolicy.NEVER and self.minimum < self.maximum

    @property
    def gang_minimum(self) -> int:
        """The number of pods of the role that must start together."""
        return self.minimum if self.is_elastic else self.size


class ScaleTarget(ApiStruct, frozen=True):
    """The size of one role, where the scale subresource reads and writes it."""

    role: str = ""
    replicas: int | None = None


class ScaleStatus(ApiStruct, frozen=True, omit_defaults=False):
    """The present size of that role, and the labels of its pods, for the scale subresource."""

    replicas: int = 0
    selector: str = ""


class AITrainingJobSpec(ApiStruct, frozen=True):
    """The spec of a job."""

    framework_type: str = ""
    fault_tolerant: bool = False
    priority: str = ""
    scheduler_name: str = ""
    queue: str = "default"
    time_limit: int | None = None
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.ALL
    fail_policy: JobEndPolicy = JobEndPolicy.ANY
    complete_policy: JobEndPolicy = JobEndPolicy.ALL
    restarting_exit_code: str | int = ""
    reporting: bool | None = None
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None
    managed_by: str = ""
    save_seconds: int | None = None
    deadline: str | None = None
    after: tuple[str, ...] = ()
    after_policy: AfterPolicy = AfterPolicy.FAIL
    requeue_policy: RequeuePolicy = RequeuePolicy.REQUEUE
    straggler_policy: StragglerPolicy = StragglerPolicy.REPORT
    max_retries_on_preemption: int | None = None
    network_topology: NetworkTopology | None = None
    scale: ScaleTarget | None = None
    replica_specs: dict[str, ReplicaSpec] = {}

    @property
    def scaled_role(self) -> str | None:
        """The role that `scale` is about, in lower case; None if there is none, or no `scale`."""
        if self.scale is None:
            return None
        manual = [
            name
            for name, spec in self.replica_specs.items()
            if spec.edl_policy is EdlPolicy.MANUAL and spec.is_elastic
        ]
        if self.scale.role:
            return self.scale.role.lower()
        return manual[0].lower() if len(manual) == 1 else None

    @property
    def retryable_exit_codes(self) -> frozenset[int]:
        """The exit codes in `restartingExitCode`; parts that are no number are ignored."""
        parts = str(self.restarting_exit_code).split(",")
        return frozenset(int(part) for part in map(str.strip, parts) if part.isdecimal())


# Records are written in full, defaults included: people and scripts read them.


class PhaseRecord(ApiStruct, frozen=True, omit_defaults=False):
    """A phase the job was in, since when, and why it came. Earlier releases wrote no reason."""

    phase: AITrainingJobPhase = AITrainingJobPhase.EMPTY
    time: str = ""
    message: str = ""
    reason: str = ""


class ReplicaStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Counts of the pods of one role."""

    pending: int = 0
    scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    restarting: int = 0
    failed: int = 0


class ReclaimablePods(ApiStruct, frozen=True, omit_defaults=False):
    """How many pods of a role need their quota no more, as Kueue's own kinds of job say it."""

    name: str = ""
    count: int = 0


# As many resizes, phases, avoided nodes and faults as a status keeps; the schema says the same.
RECORDS_MAX = 20


class ScaleRecord(
    ApiStruct, frozen=True, omit_defaults=False, rename={"from_": "from", "for_": "for"}
):
    """One resize of a role. `for_` names the group that was to get the room."""

    time: str = ""
    role: str = ""
    from_: int = 0
    to: int = 0
    by: ResizeAuthor = ResizeAuthor.OPERATOR
    reason: str = ""
    for_: str = ""


class Restart(ApiStruct, frozen=True, omit_defaults=False):
    """A restart under way. Its victims are the pods in scope that carry an older restart count."""

    scope: RestartScope = RestartScope.ALL
    role: str = ""
    indexes: tuple[int, ...] = ()
    counts: dict[str, int] = {}
    started_at: str = ""
    not_before: str | None = None


class RestartsRecord(ApiStruct, frozen=True):
    """The restarts of a job, kept beside its status in case that is lost.

    It is written with the epoch, which every restart raises, and so costs no write of its own.
    """

    restart_counts: dict[str, int] = {}
    uncharged: dict[str, int] = {}
    restart: Restart | None = None
    creation_restarts: dict[str, int] = {}


class Ending(ApiStruct, frozen=True, omit_defaults=False):
    """How the job will end. It is recorded before anything is deleted for it."""

    phase: AITrainingJobPhase = AITrainingJobPhase.EMPTY
    reason: str = ""
    message: str = ""
    decided_at: str = ""


class Suspension(ApiStruct, frozen=True, omit_defaults=False):
    """A job that gives back all its pods, or has done so. It is recorded before any of them goes.

    The record outlasts the wish: a job that is to go on first loses all pods that it had.
    """

    started_at: str = ""


class Yield(ApiStruct, frozen=True, omit_defaults=False):
    """A job that gives its devices to others for a while, as the autoscaler has decided.

    It is suspended meanwhile, and goes on when the autoscaler takes the record away or its time is
    over, whichever comes first. So no job waits for an autoscaler that is gone.
    """

    since: str = ""
    until: str = ""
    reason: str = ""


class AvoidedNode(ApiStruct, frozen=True, omit_defaults=False):
    """A node that new pods of the job must not use until a time."""

    name: str = ""
    until: str = ""
    reason: str = ""


class NodeFault(ApiStruct, frozen=True, omit_defaults=False):
    """A failure of the job on a node. It is `blamed` on the node, or evidence for the next one."""

    node: str = ""
    time: str = ""
    reason: str = ""
    message: str = ""
    blamed: bool = False


class StartEstimate(ApiStruct, frozen=True):
    """When a waiting job will start: three percentiles, each missing where it is unknown.

    `depends_on` names the running job of unknown end that an unknown start hangs on.
    """

    estimated_at: str = ""
    p10: str | None = None
    p50: str | None = None
    p90: str | None = None
    depends_on: str = ""


class AITrainingJobStatus(ApiStruct, frozen=True):
    """The status of a job, as operator, scheduler and autoscaler record it."""

    phase: AITrainingJobPhase = AITrainingJobPhase.EMPTY
    reason: str = ""
    message: str = ""
    ready: str = ""
    restarts: int = 0
    conditions: tuple[Condition, ...] = ()
    phase_history: tuple[PhaseRecord, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] = {}
    reclaimable_pods: tuple[ReclaimablePods, ...] = ()  # of jobs with Kueue's label alone
    target_replicas: dict[str, int] = {}
    scale_records: tuple[ScaleRecord, ...] = ()
    restart_counts: dict[str, int] = {}
    restart: Restart | None = None
    last_restart_time: dict[str, str] = {}
    uncharged: dict[str, int] = {}
    creation_restarts: dict[str, int] = {}
    backoff: dict[str, int] = {}
    ending: Ending | None = None
    scale: ScaleStatus | None = None
    suspension: Suspension | None = None
    yielded: Yield | None = None
    dependencies: dict[str, str] = {}
    preemptions: int = 0
    preempted_epoch: int = 0
    paused_at: str | None = None
    paused_seconds: int = 0
    epoch: int = 0
    # How many native PodGroups have replaced the first, and how many were made for pods that came
    # again after others had finished.
    gang_number: int = 0
    retry_gangs: int = 0
    avoid_nodes: tuple[AvoidedNode, ...] = ()
    node_faults: tuple[NodeFault, ...] = ()
    training: TrainingStatus | None = None
    start_estimate: StartEstimate | None = None
    start_time: str | None = None
    start_running_time: str | None = None
    end_time: str | None = None
    last_reconcile_time: str | None = None
    observed_generation: int = 0


class AITrainingJob(ApiStruct, frozen=True):
    """An elastic job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AITrainingJobSpec = AITrainingJobSpec()
    status: AITrainingJobStatus = AITrainingJobStatus()
    api_version: str = f"{API_GROUP}/v1"
    kind: str = "AITrainingJob"

    @property
    def wants_suspension(self) -> bool:
        """Whether the job is to have no pods, by its spec or for the sake of others."""
        return self.is_suspended_by_spec or self.yields

    @property
    def is_suspended_by_spec(self) -> bool:
        """Whether its users suspend it. Kueue's jobs are suspended until Kueue says so."""
        if self.spec.suspend is not None:
            return self.spec.suspend
        return QUEUE_LABEL in self.metadata.labels

    @property
    def yields(self) -> bool:
        """Whether it has given its devices to others. `suspend: false` in the spec forbids that."""
        return self.status.yielded is not None and self.spec.suspend is None

    def largest(self, spec: ReplicaSpec) -> int:
        """As many pods as a role may have. Of an Auto one, what Kueue admitted, if it does."""
        if QUEUE_LABEL in self.metadata.labels and spec.edl_policy is EdlPolicy.AUTO:
            return min(spec.maximum, max(spec.size, spec.minimum))
        return spec.maximum

    @property
    def goes_on(self) -> bool:
        """Whether the job is ours, and has or will have pods: no end is near, no suspension."""
        status = self.status
        is_held = status.suspension is not None or self.wants_suspension
        if self.spec.managed_by not in {"", MANAGER}:
            return False
        return status.ending is None and status.phase not in FINAL_PHASES and not is_held
