"""batch/v1 Jobs: the trainers of a TrainingJob, and what the embedded Job controller reads."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.pod import LabelSelector


class ExitCodesRequirement(ApiStruct, frozen=True):
    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class PodConditionPattern(ApiStruct, frozen=True):
    type: str = ""
    status: str = "True"


class PodFailureRule(ApiStruct, frozen=True):
    action: str = ""
    on_exit_codes: ExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(ApiStruct, frozen=True):
    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(ApiStruct, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(ApiStruct, frozen=True):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(ApiStruct, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    manual_selector: bool = False
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str = ""
    success_policy: SuccessPolicy | None = None
    managed_by: str = ""
    selector: LabelSelector | None = None
    template: Body = {}


class UncountedPods(ApiStruct, frozen=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(ApiStruct, frozen=True):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] = ()
    uncounted_terminated_pods: UncountedPods | None = None
    start_time: str | None = None
    completion_time: str | None = None


class Job(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
    api_version: str = "batch/v1"
    kind: str = "Job"


class ReplicaSetSpec(ApiStruct, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: Body = {}


class ReplicaSetStatus(ApiStruct, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
