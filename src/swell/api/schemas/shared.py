"""Parts that the schemas of several kinds share: names, metadata, amounts, pod templates.

Of a pod template only the fields that Swell reads are described; the API server validates the rest
when a pod is created.
"""

from __future__ import annotations

from swell.api.schemas.model import (
    INT64_MAX,
    Pattern,
    Schema,
    SchemaType,
    integer,
    listing,
    mapping,
    moment,
    open_object,
    table,
    text,
)

NAME_SIZE_MAX = 63  # of a DNS label, because names of pods are host names
MESSAGE_SIZE_MAX = 32768  # Kubernetes' limit for the message of a condition
QUANTITY_FORMAT = "quantity"  # only our validation knows it; CRDs leave it out

DNS_LABEL = Pattern(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    "must be lower-case letters, digits and '-', with a letter or digit first and last",
    "my-job",
)
DNS_LABEL_LETTER_FIRST = Pattern(
    r"[a-z]([-a-z0-9]*[a-z0-9])?",
    "must be lower-case letters, digits and '-', with a letter first and no '-' last",
    "my-job",
)
DNS_SUBDOMAIN = Pattern(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    "must be lower-case letters, digits, '-' and '.', with a letter or digit first and last",
    "my-queue",
)
LABEL_VALUE = Pattern(
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    "must be letters, digits, '-', '_' and '.', with a letter or digit first and last",
    "high-priority",
)
# Pods of one role. The largest clusters have 5,000 nodes, and a pass over a job looks at all its
# pods: a billion by mistake must not reach a controller. A role may be allowed to grow to any size.
REPLICAS_MAX = 10_000
PORT = integer("A port number.", minimum=1, maximum=65535, example="24446")

QUANTITY_TEXT = Pattern(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
    "must be a number with an optional suffix",
    "500m",
)
# It has no declared type: manifests have 500m, 2 and 1.5, and int-or-string does not take 1.5.
QUANTITY = Schema(
    type=SchemaType.ANY,
    description="An amount of a resource, such as 500m, 2 or 1.5Gi.",
    example="500m",
    pattern=QUANTITY_TEXT,
    format=QUANTITY_FORMAT,
)
RESOURCES = mapping(QUANTITY, size_max=64, description="Amounts by resource name.")

_FREE_TEXTS = mapping(text(size_max=262144), size_max=4096)


def or_empty(pattern: Pattern) -> Pattern:
    """The pattern, or no text at all."""
    return Pattern(f"({pattern.regex})?", pattern.requirement, pattern.example)


def type_names() -> dict[str, Schema]:
    """The two fields that say which kind an object is of."""
    return {
        "apiVersion": text("The group and version of the kind."),
        "kind": text("The kind."),
    }


def metadata_schema(
    name: Pattern, *, name_size_max: int = NAME_SIZE_MAX, namespaced: bool = True
) -> Schema:
    """Returns the schema of metadata, as users write it and as servers return it."""
    namespace = {"namespace": text(pattern=DNS_LABEL, size_max=NAME_SIZE_MAX)} if namespaced else {}
    return table(
        {
            "name": text(
                "The object's name.",
                pattern=name,
                size_max=name_size_max,
                example=name.example,
            ),
            "generateName": text("What the server begins a name with.", size_max=253),
            **namespace,
            "labels": _FREE_TEXTS,
            "annotations": _FREE_TEXTS,
            "finalizers": listing(text(), size_max=256),
            "ownerReferences": listing(open_object(), size_max=256),
            "uid": text(),
            "resourceVersion": text(),
            "generation": integer(maximum=INT64_MAX),
            "creationTimestamp": text(),
            "deletionTimestamp": text(),
            "deletionGracePeriodSeconds": integer(maximum=INT64_MAX),
            "managedFields": listing(open_object(), size_max=4096),
            "selfLink": text(size_max=4096),
        }
    )


CONDITIONS = listing(
    table(
        {
            "type": text("What it is about.", size_max=316),
            "status": Schema(
                type=SchemaType.STRING,
                enum=("True", "False", "Unknown"),
                description="Whether it holds.",
            ),
            "reason": text("Why, as one word for programs.", size_max=1024),
            "message": text("Why, as a sentence for people.", size_max=MESSAGE_SIZE_MAX),
            "lastTransitionTime": moment("When the status last changed."),
            "observedGeneration": integer(
                "The generation of the spec that it is about.", maximum=INT64_MAX
            ),
        },
        required=("type", "status"),
    ),
    size_max=64,
    map_keys=("type",),
    description="What holds now, one entry a type.",
)


CONTAINER_PORT = table(
    {"name": text("Ports named aitj-… become part of the pod's service."), "containerPort": PORT},
    required=("containerPort",),
    is_open=True,
)

CONTAINER = table(
    {
        "name": text(
            "Containers named aitj-… decide over the pod's exit code.",
            pattern=DNS_LABEL,
            size_max=NAME_SIZE_MAX,
            example="aitj-trainer",
        ),
        "image": text(
            "What to run; ignored where containers are local processes.",
            size_min=1,
            size_max=4096,
            example="python:3.12",
        ),
        "ports": listing(CONTAINER_PORT, size_max=256, description="The container's ports."),
    },
    required=("name", "image"),
    is_open=True,
)


def pod_template() -> Schema:
    spec = table(
        {
            "containers": listing(
                CONTAINER,
                size_min=1,
                size_max=64,
                map_keys=("name",),
                description="The containers of a pod.",
            )
        },
        required=("containers",),
        is_open=True,
        description="As the spec of a Pod.",
    )
    return table(
        {"spec": spec},
        required=("spec",),
        is_open=True,
        is_atomic=True,
        description="The pods, as a PodTemplateSpec.",
    )
