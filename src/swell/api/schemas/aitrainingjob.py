"""The schema of AITrainingJob, with the rules between its fields."""

from __future__ import annotations

from dataclasses import replace

from swell.api.aitrainingjob import (
    AITrainingJobSpec,
    CleanPodPolicy,
    EdlPolicy,
    JobEndPolicy,
    ReplicaSpec,
    RequeuePolicy,
    RestartPolicy,
    RestartScope,
    RoleEndPolicy,
    StragglerPolicy,
)
from swell.api.defaults import MAX_REPLICAS, MIN_REPLICAS
from swell.api.schemas.aitrainingjob_status import ROLES_MAX, job_status
from swell.api.schemas.model import (
    INT32_MAX,
    INT64_MAX,
    Pattern,
    Schema,
    SchemaType,
    ValidationRule,
    boolean,
    choice,
    integer,
    mapping,
    table,
    text,
)
from swell.api.schemas.scheduling import NETWORK_TOPOLOGY
from swell.api.schemas.shared import (
    DNS_LABEL_LETTER_FIRST,
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    NAME_SIZE_MAX,
    REPLICAS_MAX,
    metadata_schema,
    or_empty,
    pod_template,
    type_names,
)
from swell.api.schemas.training import MANAGED_BY, MANAGER_STAYS, NOT_AFTER_ITSELF, life
from swell.api.schemas.transitions import freeze_rule

RESERVED_ROLE = "trainingjob"

_EXIT_CODE = "([1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
EXIT_CODES = Pattern(
    f" *({_EXIT_CODE} *(, *{_EXIT_CODE} *)*)?",
    "must be exit codes from 1 to 255, separated by commas",
    "137,128",
)
ROLE_NAME = Pattern(
    "[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?",
    "must be letters, digits and '-', with a letter first and no '-' last",
    "trainer",
)

MIN_WITHIN_REPLICAS = ValidationRule(
    "!has(self.minReplicas) || !has(self.replicas) || self.minReplicas <= self.replicas",
    "minReplicas must not be greater than replicas",
    ".minReplicas",
)
REPLICAS_WITHIN_MAX = ValidationRule(
    "!has(self.replicas) || !has(self.maxReplicas) || self.replicas <= self.maxReplicas",
    "replicas must not be greater than maxReplicas",
    ".maxReplicas",
)
MIN_WITHIN_MAX = ValidationRule(
    "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
    "minReplicas must not be greater than maxReplicas",
    ".minReplicas",
)
_ROLE = "self.replicaSpecs[role]"
_RESIZABLE = (
    f"(has({_ROLE}.edlPolicy) && {_ROLE}.edlPolicy == '{EdlPolicy.MANUAL.value}'"
    f" && {MIN_REPLICAS.in_cel(_ROLE)} < {MAX_REPLICAS.in_cel(_ROLE)})"
)
_SCALED = f"(has(self.scale.role) ? role == self.scale.role : {_RESIZABLE})"
SCALED_ROLE = ValidationRule(
    "!has(self.scale) || (has(self.scale.role)"
    f" ? self.replicaSpecs.exists(role, role == self.scale.role && {_RESIZABLE})"
    f" : self.replicaSpecs.exists_one(role, {_RESIZABLE}))",
    "scale must name a role whose edlPolicy is Manual and whose minReplicas is below its"
    " maxReplicas, unless there is only one",
    ".scale",
)
# The numbers are in our own validation: a message with them would have to look for the role, whose
# name may have any length here, and so cost more than servers allow.
SCALE_WITHIN_BOUNDS = ValidationRule(
    "!has(self.scale) || !has(self.scale.replicas) || self.replicaSpecs.all(role,"
    f" !{_SCALED} || ({MIN_REPLICAS.in_cel(_ROLE)} <= self.scale.replicas"
    f" && self.scale.replicas <= {MAX_REPLICAS.in_cel(_ROLE)}))",
    "scale.replicas must be within minReplicas and maxReplicas of its role",
    ".scale.replicas",
)
ROLE_NAMES = ValidationRule(
    f"self.all(role, size(role) <= {NAME_SIZE_MAX} && role.matches('^{ROLE_NAME.regex}$'))",
    f"a role's name {ROLE_NAME.requirement}",
)
ROLE_NOT_RESERVED = ValidationRule(
    f"self.all(role, !role.matches('(?i)^{RESERVED_ROLE}$'))",
    f"a role must not be named {RESERVED_ROLE}",
)
# The names of pods have roles in lower case. So each role is used as a pattern that ignores case;
# the characters of a role have no special meaning there. A single role needs no pattern.
ROLES_DISTINCT = ValidationRule(
    "size(self) == 1"
    " || self.all(role, self.exists_one(other, role.matches('(?i)^' + other + '$')))",
    "roles must differ in more than upper and lower case",
)
_LAST_INDEX = f"{MAX_REPLICAS.in_cel('self.spec.replicaSpecs[role]')} - 1"
# The server evaluates this at every write, and reading a field is expensive there. So the first
# half accepts names that fit with the longest index, without looking at the sizes.
_INDEX_SIZE_MAX = len(str(INT32_MAX - 1))
POD_NAMES_FIT = ValidationRule(
    "self.spec.replicaSpecs.all(role,"
    f" size(self.metadata.name) + size(role) + {_INDEX_SIZE_MAX + 2} <= {NAME_SIZE_MAX}"
    " || size(self.metadata.name) + size(role)"
    f" + size(string({_LAST_INDEX})) + 2 <= {NAME_SIZE_MAX})",
    f"the names of pods, <job>-<role>-<index>, must have at most {NAME_SIZE_MAX} characters",
)


# The values that readers of the structs see when a field is missing, so that both agree.
_UNSET_ROLE = ReplicaSpec()
_UNSET = AITrainingJobSpec()


def replica_spec() -> Schema:
    return table(
        {
            "replicas": integer(
                "Pods of this role; minReplicas or 1 if not given.", minimum=1, maximum=REPLICAS_MAX
            ),
            "minReplicas": integer(
                "As few pods as the role can work with.", minimum=1, maximum=REPLICAS_MAX
            ),
            "maxReplicas": integer("As many pods as the role can use.", minimum=1),
            "edlPolicy": choice(
                EdlPolicy,
                "Who resizes the role: Auto the autoscaler, Manual you, Never nobody.",
                default=_UNSET_ROLE.edl_policy,
            ),
            "restartPolicy": choice(
                RestartPolicy,
                "Which failures are followed by a restart.",
                default=_UNSET_ROLE.restart_policy,
            ),
            "restartScope": choice(
                RestartScope, "How much is restarted.", default=_UNSET_ROLE.restart_scope
            ),
            "restartLimit": integer("How many restarts; without it, any number."),
            "hangSeconds": integer(
                "A program of the training library without a step for so long ends and restarts.",
                minimum=1,
                example="600",
            ),
            "failPolicy": choice(
                RoleEndPolicy, "Which failed pods fail the role.", default=_UNSET_ROLE.fail_policy
            ),
            "completePolicy": choice(
                RoleEndPolicy,
                "Which succeeded pods complete the role.",
                default=_UNSET_ROLE.complete_policy,
            ),
            "replicaType": text(
                "TRAININGJOB_REPLICA_TYPE of its pods; without it, the role's name.",
                pattern=LABEL_VALUE,
                size_max=NAME_SIZE_MAX,
                example="worker",
            ),
            "networkTopology": NETWORK_TOPOLOGY,
            "template": pod_template(),
        },
        required=("template",),
        rules=(MIN_WITHIN_REPLICAS, REPLICAS_WITHIN_MAX, MIN_WITHIN_MAX),
        description="One role: a set of equal pods.",
    )


def spec() -> Schema:
    roles = mapping(
        replica_spec(), size_min=1, size_max=ROLES_MAX, description="The job's roles by name."
    )
    return table(
        {
            "frameworkType": text(
                "Adds discovery variables: paddlepaddle, tensorflow, pytorch, jax, or anything."
            ),
            "faultTolerant": boolean("Kept for old manifests; changes nothing."),
            "priority": text("A PriorityClass.", pattern=LABEL_VALUE, size_max=NAME_SIZE_MAX),
            "schedulerName": text("Who schedules the pods.", pattern=or_empty(DNS_SUBDOMAIN)),
            "queue": text("The queue.", pattern=or_empty(DNS_SUBDOMAIN), default=_UNSET.queue),
            "timeLimit": integer("Seconds the job may run.", maximum=INT64_MAX, example="3600"),
            "cleanPodPolicy": choice(
                CleanPodPolicy,
                "Which pods are deleted after success or failure.",
                default=_UNSET.clean_pod_policy,
            ),
            "failPolicy": choice(
                JobEndPolicy, "How many failed roles fail the job.", default=_UNSET.fail_policy
            ),
            "completePolicy": choice(
                JobEndPolicy, "How many complete roles complete it.", default=_UNSET.complete_policy
            ),
            "restartingExitCode": Schema(
                type=SchemaType.INT_OR_STRING,
                description="Exit codes worth a restart, such as 137 or 137,128.",
                minimum=1,
                maximum=255,
                size_max=1024,
                pattern=EXIT_CODES,
                example="137,128",
            ),
            "reporting": boolean(
                "Whether the programs train together by Swell's library or launcher, and report."
            ),
            **_life(),
            "networkTopology": NETWORK_TOPOLOGY,
            "replicaSpecs": replace(roles, rules=(ROLE_NAMES, ROLE_NOT_RESERVED, ROLES_DISTINCT)),
        },
        required=("replicaSpecs",),
        rules=(MANAGER_STAYS, SCALED_ROLE, SCALE_WITHIN_BOUNDS),
        description="The job as its user wants it.",
    )


def _life() -> dict[str, Schema]:
    """The fields about when a job begins, pauses, saves, ends and goes, and who looks after it."""
    return {
        **life(DNS_LABEL_LETTER_FIRST),
        "managedBy": MANAGED_BY,
        "scale": table(
            {
                "role": text(
                    "The role; by default the only elastic Manual one.",
                    size_max=NAME_SIZE_MAX,
                ),
                "replicas": integer(
                    "Its size, instead of the role's replicas.",
                    minimum=1,
                    maximum=REPLICAS_MAX,
                ),
            },
            description="What the scale subresource changes: kubectl scale, autoscalers.",
        ),
        "requeuePolicy": choice(
            RequeuePolicy,
            "What becomes of a rigid job that the scheduler preempts: it queues anew, or ends.",
            default=_UNSET.requeue_policy,
        ),
        "stragglerPolicy": choice(
            StragglerPolicy,
            "What becomes of a pod whose steps take much longer than those of its peers.",
            default=_UNSET.straggler_policy,
        ),
        "maxRetriesOnPreemption": integer(
            "How often it queues anew, before it ends as Preempted; without it, any number.",
            maximum=INT32_MAX,
        ),
        "saveSeconds": integer(
            "Seconds that the program may take to save before a pod that could stay goes.",
            maximum=INT32_MAX,
            example="60",
        ),
    }


def ai_training_job() -> Schema:
    return table(
        {
            **type_names(),
            "metadata": metadata_schema(DNS_LABEL_LETTER_FIRST),
            "spec": spec(),
            "status": job_status(),
        },
        required=("spec",),
        rules=(POD_NAMES_FIT, NOT_AFTER_ITSELF, freeze_rule()),
        description="An elastic job of one or more roles, each a set of equal pods.",
    )
