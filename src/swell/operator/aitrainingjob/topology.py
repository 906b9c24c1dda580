"""The network topology of a job, as its PodGroup has it: of the whole, and of single roles.

A role with a topology of its own is a sub-group of the gang, with the role's minimum of pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.meta import Body
from swell.api.scheduling import NetworkTopology, PodGroupSpec, SubGroupPolicy
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot


def topology_of(snapshot: AITrainingJobSnapshot, minimum: Mapping[str, int]) -> Body:
    """Returns the fields of the group's spec that say where its pods may be; none if it says not.

    `minimum` is how many pods of each role must start together.
    """
    whole = snapshot.job.spec.network_topology
    found: Body = {} if whole is None else {"networkTopology": _body(whole)}
    policies = [
        _policy(role, minimum[role], spec.network_topology)
        for role, spec in snapshot.roles.items()
        if spec.network_topology is not None
    ]
    return {**found, "subGroupPolicy": policies} if policies else found


def held_topology(held: PodGroupSpec) -> Body:
    """Returns the same fields as a group has them, for a comparison."""
    return {
        "networkTopology": _body(held.network_topology) if held.network_topology else None,
        "subGroupPolicy": [_held_policy(policy) for policy in held.sub_group_policy],
    }


def _policy(role: str, minimum: int, topology: NetworkTopology) -> Body:
    return {
        "name": role,
        "labelSelector": {"matchLabels": {labels.REPLICA_NAME: role}},
        "subGroupSize": max(minimum, 1),
        # A role whose pods have all finished has no sub-group any more.
        "minSubGroups": min(minimum, 1),
        "networkTopology": _body(topology),
    }


def _held_policy(policy: SubGroupPolicy) -> Body:
    selector = policy.label_selector
    return {
        "name": policy.name,
        "labelSelector": {"matchLabels": dict(selector.match_labels) if selector else {}},
        "subGroupSize": policy.sub_group_size,
        "minSubGroups": policy.min_sub_groups,
        "networkTopology": _body(policy.network_topology) if policy.network_topology else None,
    }


def _body(topology: NetworkTopology) -> Body:
    body: Body = {"mode": topology.mode or "hard"}
    if topology.highest_tier_allowed is not None:
        body["highestTierAllowed"] = topology.highest_tier_allowed
    if topology.highest_tier_name:
        body["highestTierName"] = topology.highest_tier_name
    return body
