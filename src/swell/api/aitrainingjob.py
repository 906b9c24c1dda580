"""AITrainingJob: an elastic job of one or more roles, each a set of equal pods.

Holds what users write (`spec`) and what the operator, the scheduler and the autoscaler record
(`status`). The pod template stays raw JSON: it goes into pods as it came.
"""

from __future__ import annotations

from enum import Enum

from swell.api.defaults import MAX_REPLICAS, MIN_REPLICAS, REPLICAS
from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta

API_GROUP = "elasticdeeplearning.ai"


class AITrainingJobPhase(Enum):
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
    """Over how many roles a job ends."""

    ANY = "Any"
    ALL = "All"
    NONE = "None"


class RoleEndPolicy(Enum):
    """Over how many pods a role ends."""

    ANY = "Any"
    RANK0 = "Rank0"
    ALL = "All"
    NONE = "None"


class EdlPolicy(Enum):
    """Who may resize a role: the autoscaler, a person, nobody."""

    AUTO = "Auto"
    MANUAL = "Manual"
    NEVER = "Never"


class RestartPolicy(Enum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    ON_NODE_FAIL = "OnNodeFail"
    EXIT_CODE = "ExitCode"
    ON_NODE_FAIL_WITH_EXIT_CODE = "OnNodeFailWithExitCode"
    NEVER = "Never"


class RestartScope(Enum):
    POD = "Pod"
    REPLICA = "Replica"
    ALL = "All"


class ResizeAuthor(Enum):
    """Who changed a role's target."""

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
    fail_policy: RoleEndPolicy = RoleEndPolicy.ANY
    complete_policy: RoleEndPolicy = RoleEndPolicy.ALL
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
        """How many pods of the role must start together."""
        return self.minimum if self.is_elastic else self.size


class AITrainingJobSpec(ApiStruct, frozen=True):
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
    replica_specs: dict[str, ReplicaSpec] = {}

    @property
    def retryable_exit_codes(self) -> frozenset[int]:
        """The codes in `restartingExitCode`; what is no number there is left out."""
        parts = str(self.restarting_exit_code).split(",")
        return frozenset(int(part) for part in map(str.strip, parts) if part.isdecimal())


# What is recorded is written whole: people and scripts read it, and a missing field says nothing.


class PhaseRecord(ApiStruct, frozen=True, omit_defaults=False):
    phase: AITrainingJobPhase = AITrainingJobPhase.EMPTY
    time: str = ""
    message: str = ""


class ReplicaStatus(ApiStruct, frozen=True, omit_defaults=False):
    """Pods of one role by what they do."""

    pending: int = 0
    scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    restarting: int = 0
    failed: int = 0


# As many resizes, phases and avoided nodes as a status keeps; the schema states the same limit.
RECORDS_MAX = 20


class ScaleRecord(
    ApiStruct, frozen=True, omit_defaults=False, rename={"from_": "from", "for_": "for"}
):
    """One resize: `for_` names the group that was to get the room."""

    time: str = ""
    role: str = ""
    from_: int = 0
    to: int = 0
    by: ResizeAuthor = ResizeAuthor.OPERATOR
    reason: str = ""
    for_: str = ""


class Restart(ApiStruct, frozen=True, omit_defaults=False):
    """A restart under way: the pods to go are those in scope labelled with an older count."""

    scope: RestartScope = RestartScope.ALL
    role: str = ""
    indexes: tuple[int, ...] = ()
    counts: dict[str, int] = {}
    started_at: str = ""
    not_before: str | None = None


class Ending(ApiStruct, frozen=True, omit_defaults=False):
    """How the job will end, written before anything is deleted for it."""

    phase: AITrainingJobPhase = AITrainingJobPhase.EMPTY
    reason: str = ""
    message: str = ""
    decided_at: str = ""


class AvoidedNode(ApiStruct, frozen=True, omit_defaults=False):
    name: str = ""
    until: str = ""
    reason: str = ""


class AITrainingJobStatus(ApiStruct, frozen=True):
    phase: AITrainingJobPhase = AITrainingJobPhase.EMPTY
    reason: str = ""
    message: str = ""
    ready: str = ""
    restarts: int = 0
    conditions: tuple[Condition, ...] = ()
    phase_history: tuple[PhaseRecord, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] = {}
    target_replicas: dict[str, int] = {}
    scale_records: tuple[ScaleRecord, ...] = ()
    restart_counts: dict[str, int] = {}
    restart: Restart | None = None
    last_restart_time: dict[str, str] = {}
    uncharged: dict[str, int] = {}
    backoff: dict[str, int] = {}
    ending: Ending | None = None
    epoch: int = 0
    avoid_nodes: tuple[AvoidedNode, ...] = ()
    start_time: str | None = None
    start_running_time: str | None = None
    end_time: str | None = None
    last_reconcile_time: str | None = None
    observed_generation: int = 0


class AITrainingJob(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: AITrainingJobSpec = AITrainingJobSpec()
    status: AITrainingJobStatus = AITrainingJobStatus()
    api_version: str = f"{API_GROUP}/v1"
    kind: str = "AITrainingJob"
