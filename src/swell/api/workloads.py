"""Jobs and ReplicaSets: a TrainingJob is made of them, and the embedded controllers run them."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Body, Condition, ObjectMeta
from swell.api.pod import LabelSelector


class ExitCodesRequirement(ApiStruct, frozen=True):
    """Exit codes for which a failure rule applies."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class PodConditionPattern(ApiStruct, frozen=True):
    """A pod condition for which a failure rule applies."""

    type: str = ""
    status: str = "True"


class PodFailureRule(ApiStruct, frozen=True):
    """One rule of a failure policy: an action, and when it applies."""

    action: str = ""
    on_exit_codes: ExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(ApiStruct, frozen=True):
    """Rules in order; the first that applies to a failed pod decides."""

    rules: tuple[PodFailureRule, ...] | None = None


class SuccessRule(ApiStruct, frozen=True):
    """Indexes, or a number of them, whose success completes a Job."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(ApiStruct, frozen=True):
    """Rules of which one must hold for a Job to complete early."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(ApiStruct, frozen=True):
    """The spec of a Job. The pod template stays raw JSON."""

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
    """Finished pods that are not counted yet, because they still have their finalizer."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(ApiStruct, frozen=True):
    """Counts of pods, and the indexes that are done."""

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
    """A batch/v1 Job: the trainers of a TrainingJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
    api_version: str = "batch/v1"
    kind: str = "Job"


class ReplicaSetSpec(ApiStruct, frozen=True):
    """The spec of a ReplicaSet. The pod template stays raw JSON."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: Body = {}


class ReplicaSetStatus(ApiStruct, frozen=True):
    """Counts of pods."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(ApiStruct, frozen=True):
    """An apps/v1 ReplicaSet: the masters or parameter servers of a TrainingJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
