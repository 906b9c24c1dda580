"""The schema of HyperNode: everything that Volcano accepts is valid."""

from __future__ import annotations

from enum import Enum

from swell.api.schemas.model import (
    Schema,
    ValidationRule,
    choice,
    integer,
    listing,
    mapping,
    table,
    text,
)
from swell.api.schemas.shared import CONDITIONS, DNS_SUBDOMAIN, metadata_schema, type_names
from swell.api.topology import DOMAIN_MEMBER, NODE_MEMBER

# As for the fields of Kubernetes that these texts end up being compared with.
_PATTERN_SIZE_MAX = 4096
_VALUES_MAX = 256


class MemberType(Enum):
    """The kinds of members that a domain may have."""

    NODE = NODE_MEMBER
    DOMAIN = DOMAIN_MEMBER


class SelectorOperator(Enum):
    """The comparisons of a label selector."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_ONE_OF = ValidationRule(
    "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0)"
    " + (has(self.labelMatch) ? 1 : 0) == 1",
    "must have exactly one of exactMatch, regexMatch and labelMatch",
)
_LABELS = table(
    {
        "matchLabels": mapping(
            text(size_max=63), size_max=64, description="Labels with the values they must have."
        ),
        "matchExpressions": listing(
            table(
                {
                    "key": text("The label.", size_max=316),
                    "operator": choice(SelectorOperator, "How it is compared."),
                    "values": listing(
                        text(size_max=63), size_max=_VALUES_MAX, description="With what."
                    ),
                },
                required=("key", "operator"),
            ),
            size_max=64,
            description="Comparisons that must all hold.",
        ),
    },
    description="Nodes whose labels match; an empty selector matches none.",
)
_SELECTOR = table(
    {
        "exactMatch": table(
            {"name": text("The name.", pattern=DNS_SUBDOMAIN, example="node-1")},
            required=("name",),
            description="One node or HyperNode by name.",
        ),
        "regexMatch": table(
            {
                "pattern": text(
                    "An RE2 pattern, found anywhere in the name.",
                    size_min=1,
                    size_max=_PATTERN_SIZE_MAX,
                    example="^rack-1-",
                )
            },
            required=("pattern",),
            description="Nodes by a pattern of their names.",
        ),
        "labelMatch": _LABELS,
    },
    rules=(_ONE_OF,),
    description="Which nodes or HyperNodes.",
)
_MEMBER = table(
    {
        "type": choice(MemberType, "Whether nodes or a HyperNode are meant."),
        "selector": _SELECTOR,
    },
    required=("type", "selector"),
)


def hyper_node() -> Schema:
    spec = table(
        {
            "tier": integer("How far apart its nodes are; lower is closer."),
            "tierName": text("A name for all HyperNodes of this tier."),
            "members": listing(
                _MEMBER, size_min=1, size_max=16384, description="What it is made of."
            ),
        },
        required=("members",),
        is_open=True,
        reports_unknown=True,
        description="Which nodes it has, and how close they are.",
    )
    status = table(
        {
            "nodeCount": integer("Nodes in it and below it.", maximum=2**53),
            "conditions": CONDITIONS,
        },
        is_open=True,
        reports_unknown=True,
        description="What has been found out about it.",
    )
    return table(
        {
            **type_names(),
            "metadata": metadata_schema(DNS_SUBDOMAIN, name_size_max=253, namespaced=False),
            "spec": spec,
            "status": status,
        },
        description="A part of the network whose nodes are close to each other.",
    )
