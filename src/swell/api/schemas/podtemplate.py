"""The little we say about pod templates; the API server itself judges the rest."""

from __future__ import annotations

from swell.api.schemas.model import Schema, listing, table, text
from swell.api.schemas.shared import DNS_LABEL, NAME_SIZE_MAX, PORT

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
        "ports": listing(CONTAINER_PORT, size_max=256),
    },
    required=("name", "image"),
    is_open=True,
)


def pod_template() -> Schema:
    spec = table(
        {"containers": listing(CONTAINER, size_min=1, size_max=64, map_keys=("name",))},
        required=("containers",),
        is_open=True,
    )
    return table(
        {"spec": spec},
        required=("spec",),
        is_open=True,
        is_atomic=True,
        description="The pods, as a PodTemplateSpec.",
    )
