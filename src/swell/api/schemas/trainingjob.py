"""The schema of TrainingJob, which is the same in both of its versions.

Existing manifests have stray fields, so the server keeps unknown ones everywhere in the spec.
"""

from __future__ import annotations

from dataclasses import replace

from swell.api.defaults import MAX_INSTANCE, MIN_INSTANCE
from swell.api.schemas.model import (
    INT32_MAX,
    INT64_MAX,
    Schema,
    ValidationRule,
    boolean,
    choice,
    integer,
    listing,
    mapping,
    moment,
    open_object,
    table,
    text,
)
from swell.api.schemas.shared import (
    CONDITIONS,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    MESSAGE_SIZE_MAX,
    PORT,
    REPLICAS_MAX,
    RESOURCES,
    metadata_schema,
    or_empty,
    type_names,
)
from swell.api.schemas.training import (
    DEPENDENCIES,
    MANAGED_BY,
    MANAGER_STAYS,
    NOT_AFTER_ITSELF,
    SCALE_STATUS,
    SUSPENSION,
    life,
    training_status,
)
from swell.api.trainingjob import FrameworkName, FrameworkType, TrainingJobPhase, TrainingJobSpec

# The index label of a pod is <job>-pserver-idx, and a label's name has at most 63 characters.
NAME_SIZE_MAX = 51

MIN_WITHIN_MAX = ValidationRule(
    f"!has(self.max__dash__instance) || {MIN_INSTANCE.in_cel('self')} <= self.max__dash__instance",
    "min-instance must not be greater than max-instance",
    "['min-instance']",
)
ELASTIC_IS_FAULT_TOLERANT = ValidationRule(
    "(has(self.fault_tolerant) && self.fault_tolerant)"
    " || (has(self.local_job) && self.local_job)"
    " || (has(self.frame_work) && has(self.frame_work.type) && self.frame_work.type == 'local')"
    " || !has(self.trainer) || !has(self.trainer.max__dash__instance)"
    f" || self.trainer.max__dash__instance <= {MIN_INSTANCE.in_cel('self.trainer')}",
    "an elastic trainer (min-instance below max-instance) needs fault_tolerant: true",
    ".fault_tolerant",
)
_LEAST, _MOST = (one.in_cel("self.trainer") for one in (MIN_INSTANCE, MAX_INSTANCE))
# The numbers are in our own validation: in a message they would cost more than servers allow.
SCALE_WITHIN_BOUNDS = ValidationRule(
    "!has(self.scale) || !has(self.scale.replicas) || !has(self.trainer)"
    f" || ({_LEAST} <= self.scale.replicas && self.scale.replicas <= {_MOST})",
    "scale.replicas must be within min-instance and max-instance of the trainer",
    ".scale.replicas",
)
# The values that readers of the struct see when a field is missing, so that both agree.
_UNSET = TrainingJobSpec()
_REQUIREMENTS = table(
    {"requests": RESOURCES, "limits": RESOURCES},
    is_open=True,
    description="What each pod asks for, and what it may use.",
)


def _free_texts(description: str) -> Schema:
    return mapping(text(size_max=65536), size_max=1024, description=description)


def _open_objects(description: str) -> Schema:
    return listing(open_object(), size_max=1024, description=description)


def training_job() -> Schema:
    metadata = metadata_schema(DNS_LABEL, name_size_max=NAME_SIZE_MAX)
    return table(
        {
            **type_names(),
            "metadata": metadata,
            "spec": spec(),
            "status": status(),
        },
        required=("spec",),
        rules=(NOT_AFTER_ITSELF,),
        description="A job of three fixed roles: master, pserver and trainer.",
    )


def spec() -> Schema:
    return table(
        {
            "image": text(
                "What all roles run.", size_min=1, size_max=4096, example="paddlepaddle/paddle"
            ),
            "port": replace(PORT, default=_UNSET.port, description="The first port of a pserver."),
            "ports_num": integer(
                "Ports for dense updates.", default=_UNSET.ports_num, maximum=1024
            ),
            "ports_num_for_sparse": integer(
                "Ports for sparse updates.", default=_UNSET.ports_num_for_sparse, maximum=1024
            ),
            "trainer_port": integer("The first port of a trainer.", maximum=65535),
            "trainer_ports_num": integer("Ports of a trainer.", maximum=1024),
            "fault_tolerant": boolean("Whether failed trainers are replaced."),
            "local_job": boolean("One trainer and nothing else."),
            "is_nccl": boolean("Trainers talk to each other, without pservers."),
            "passes": integer("How often to go over the data.", default=_UNSET.passes),
            "host_network": boolean("Whether pods use the network of their node."),
            "schedulerName": text("Who schedules the pods."),
            "podGroupName": text("A PodGroup to join instead of one of our own."),
            "queue": text(
                "The queue; without it, that of the annotation scheduling.volcano.sh/queue-name.",
                pattern=or_empty(DNS_SUBDOMAIN),
            ),
            **_life(),
            "volumes": _open_objects("Volumes of all pods, as in a Pod."),
            "VolumeMounts": _open_objects("Where they are mounted, as in a Pod."),
            "mountpath": text("Where nfsmount is mounted.", size_max=4096),
            "nfsmount": text(
                "A volume of all pods: server:/path, or a path on the node.", size_max=4096
            ),
            "frame_work": table(
                {
                    "name": choice(FrameworkName, "The framework."),
                    "type": choice(FrameworkType, "Which roles the job has."),
                },
                is_open=True,
                description="The framework, and how its processes work together.",
            ),
            "annotations": _annotations(),
            "master": _role(
                "Hands out work to trainers that may fail.",
                {"etcd-endpoint": text("An etcd to use instead of our own.")},
            ),
            "pserver": _role("Parameter servers.", _instances(minimum=0), rules=(MIN_WITHIN_MAX,)),
            "trainer": _role(
                "The pods that train.",
                {**_instances(minimum=1), "workspace": text("Where to start.", size_max=4096)},
                rules=(MIN_WITHIN_MAX,),
            ),
        },
        required=("image",),
        is_open=True,
        rules=(ELASTIC_IS_FAULT_TOLERANT, SCALE_WITHIN_BOUNDS, MANAGER_STAYS),
        description="The job as its user wants it.",
    )


def _life() -> dict[str, Schema]:
    """The fields about when a job begins, pauses, saves, is due and goes, and who sizes it."""
    return {
        "managedBy": MANAGED_BY,
        "saveSeconds": integer(
            "Seconds that a trainer may take to save before it leaves.", maximum=INT32_MAX
        ),
        **life(DNS_LABEL),
        "scale": table(
            {
                "replicas": integer(
                    "How many trainers there are to be; the autoscaler leaves them alone then.",
                    minimum=1,
                    maximum=REPLICAS_MAX,
                )
            },
            description="What the scale subresource changes: kubectl scale, autoscalers.",
        ),
    }


def status() -> Schema:
    role_status = table(
        {
            "active": _count("Pods that are there and have not ended."),
            "ready": _count("Pods that are ready."),
            "succeeded": _count("Pods that have succeeded."),
            "failed": _count("Pods that have failed."),
        }
    )
    scale_record = table(
        {
            "time": moment("When the number changed."),
            "from": integer("Trainers before."),
            "to": integer("Trainers after."),
            "by": text("The component or person that changed it."),
            "result": text("What came of it."),
            "reason": text("Why.", size_max=1024),
        }
    )
    return table(
        {
            "phase": choice(TrainingJobPhase, "Where the job is in its life; derived."),
            "reason": text("Why, as a sentence for people.", size_max=MESSAGE_SIZE_MAX),
            "trainer_target": integer("How many trainers there should be."),
            "scale_records": listing(
                scale_record, size_max=20, description="The last resizes, oldest first."
            ),
            "replica_statuses": mapping(
                role_status, size_max=16, description="Counts of pods, by role."
            ),
            "startTime": moment("When the job was accepted."),
            "scale": SCALE_STATUS,
            "dependencies": DEPENDENCIES,
            "suspension": SUSPENSION,
            "pausedAt": moment("Since when the job has been suspended, if it ran before."),
            "pausedSeconds": _count("Seconds of former suspensions, which walltime leaves out."),
            "released": boolean("Whether the pods of a finished job were given back."),
            "observedGeneration": _count("The generation of the spec that this status is about."),
            "conditions": CONDITIONS,
            "training": training_status(),
        },
        is_atomic=True,
        description="What the operator and the autoscaler have recorded.",
    )


def _count(description: str) -> Schema:
    return integer(description, maximum=INT64_MAX)


def _annotations() -> Schema:
    return table(
        {
            "usergroupid": text("The user's group; becomes an annotation of pods."),
            "userid": text("The user; becomes an annotation of pods."),
            "priority": text("A PriorityClass."),
            "scheduler": text("Who schedules the pods."),
            "walltime": integer("Seconds the job may run.", maximum=INT64_MAX, example="3600"),
        },
        is_open=True,
        description="What original manifests say beside the roles.",
    )


def _instances(minimum: int) -> dict[str, Schema]:
    return {
        "min-instance": integer(
            "As few pods as the role works with.", minimum=minimum, maximum=REPLICAS_MAX
        ),
        "max-instance": integer("As many pods as the role can use.", minimum=minimum),
    }


def _role(
    description: str, own: dict[str, Schema], rules: tuple[ValidationRule, ...] = ()
) -> Schema:
    return table(
        {
            "entrypoint": text("The command to run.", size_max=65536),
            **own,
            "resources": _REQUIREMENTS,
            "envs": _free_texts("Variables of the container."),
            "grace_period_seconds": integer("Seconds between SIGTERM and SIGKILL."),
            "pre_stop_cmd": listing(
                text(size_max=65536), size_max=1024, description="Run before SIGTERM."
            ),
            "tolerations": _open_objects("As in a Pod."),
            "node_selector": _free_texts("Labels of the nodes that may be used."),
            "liveness_probe": open_object("As in a container of a Pod."),
            "readiness_probe": open_object("As in a container of a Pod."),
            "imagePullSecrets": _open_objects("As in a Pod."),
        },
        is_open=True,
        rules=rules,
        description=description,
    )
