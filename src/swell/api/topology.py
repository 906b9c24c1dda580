"""HyperNode: Volcano's description of the network, a tree of domains above the nodes."""

from __future__ import annotations

from swell.api.meta import ApiStruct, Condition, ObjectMeta
from swell.api.pod import LabelSelector

# Values of a member's type.
NODE_MEMBER = "Node"
DOMAIN_MEMBER = "HyperNode"
# The condition of a HyperNode that says whether it is part of the tree.
VALID = "Valid"


class ExactMatch(ApiStruct, frozen=True):
    """One node or HyperNode by its name."""

    name: str = ""


class RegexMatch(ApiStruct, frozen=True):
    """Nodes by a pattern that occurs anywhere in their names."""

    pattern: str = ""


class MemberSelector(ApiStruct, frozen=True):
    """Selects the members of a domain in one of three ways."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(ApiStruct, frozen=True):
    """Nodes, or one HyperNode, that belong to a domain."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ApiStruct, frozen=True):
    """The tier of a domain (lower is closer), its name, and its members."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNodeStatus(ApiStruct, frozen=True):
    """How many nodes a domain has, and whether it is part of the tree."""

    node_count: int = 0
    conditions: tuple[Condition, ...] = ()


class HyperNode(ApiStruct, frozen=True):
    """A part of the network whose nodes are close to each other."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
    api_version: str = "topology.volcano.sh/v1alpha1"
    kind: str = "HyperNode"
