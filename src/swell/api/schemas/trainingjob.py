"""The schema of TrainingJob, which is the same in both of its versions.

Existing manifests have stray fields, so the server keeps unknown ones everywhere in the spec.
"""

from __future__ import annotations

from dataclasses import replace

from swell.api.defaults import MIN_INSTANCE
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
)
from swell.api.schemas.training import MANAGED_BY, MANAGER_STAYS, training_status
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
# The values that readers of the struct see when a field is missing, so that both agree.
_UNSET = TrainingJobSpec()
_FREE_TEXTS = mapping(text(size_max=65536), size_max=1024)
_OPEN_OBJECTS = listing(open_object(), size_max=1024)
_REQUIREMENTS = table({"requests": RESOURCES, "limits": RESOURCES}, is_open=True)


def training_job() -> Schema:
    metadata = metadata_schema(DNS_LABEL, name_size_max=NAME_SIZE_MAX)
    return table(
        {
            "apiVersion": text(),
            "kind": text(),
            "metadata": metadata,
            "spec": spec(),
            "status": status(),
        },
        required=("spec",),
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
            "managedBy": MANAGED_BY,
            "saveSeconds": integer(
                "Seconds that a trainer may take to save before it leaves.", maximum=INT32_MAX
            ),
            "volumes": _OPEN_OBJECTS,
            "VolumeMounts": _OPEN_OBJECTS,
            "mountpath": text(size_max=4096),
            "nfsmount": text(size_max=4096),
            "frame_work": table(
                {"name": choice(FrameworkName), "type": choice(FrameworkType)}, is_open=True
            ),
            "annotations": _annotations(),
            "master": _role({"etcd-endpoint": text("An etcd to use instead of our own.")}),
            "pserver": _role(_instances(minimum=0), rules=(MIN_WITHIN_MAX,)),
            "trainer": _role(
                {**_instances(minimum=1), "workspace": text("Where to start.", size_max=4096)},
                rules=(MIN_WITHIN_MAX,),
            ),
        },
        required=("image",),
        is_open=True,
        rules=(ELASTIC_IS_FAULT_TOLERANT, MANAGER_STAYS),
    )


def status() -> Schema:
    count = integer(maximum=INT64_MAX)
    role_status = table(dict.fromkeys(("active", "ready", "succeeded", "failed"), count))
    scale_record = table(
        {
            "time": moment(),
            "from": integer(),
            "to": integer(),
            "by": text(),
            "result": text(),
            "reason": text(size_max=1024),
        }
    )
    return table(
        {
            "phase": choice(TrainingJobPhase),
            "reason": text(size_max=MESSAGE_SIZE_MAX),
            "trainer_target": integer("How many trainers there should be."),
            "scale_records": listing(scale_record, size_max=20),
            "replica_statuses": mapping(role_status, size_max=16),
            "startTime": moment(),
            "released": boolean("Whether the pods of a finished job were given back."),
            "observedGeneration": count,
            "conditions": CONDITIONS,
            "training": training_status(),
        },
        is_atomic=True,
    )


def _annotations() -> Schema:
    return table(
        {
            "usergroupid": text(),
            "userid": text(),
            "priority": text("A PriorityClass."),
            "scheduler": text(),
            "walltime": integer("Seconds the job may run.", maximum=INT64_MAX, example="3600"),
        },
        is_open=True,
    )


def _instances(minimum: int) -> dict[str, Schema]:
    return {
        "min-instance": integer(
            "As few pods as the role works with.", minimum=minimum, maximum=REPLICAS_MAX
        ),
        "max-instance": integer("As many pods as the role can use.", minimum=minimum),
    }


def _role(own: dict[str, Schema], rules: tuple[ValidationRule, ...] = ()) -> Schema:
    return table(
        {
            "entrypoint": text("The command to run.", size_max=65536),
            **own,
            "resources": _REQUIREMENTS,
            "envs": _FREE_TEXTS,
            "grace_period_seconds": integer("Seconds between SIGTERM and SIGKILL."),
            "pre_stop_cmd": listing(text(size_max=65536), size_max=1024),
            "tolerations": _OPEN_OBJECTS,
            "node_selector": _FREE_TEXTS,
            "liveness_probe": open_object(),
            "readiness_probe": open_object(),
            "imagePullSecrets": _OPEN_OBJECTS,
        },
        is_open=True,
        rules=rules,
    )
