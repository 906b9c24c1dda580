"""The order in which surplus pods are deleted."""

from __future__ import annotations

import pytest

from swell.api.pod import Pod
from swell.cluster.embedded.controllers.ranking import (
    DELETION_COST,
    cheapest_first,
    deletion_cost,
    dispensable_first,
)
from tests.unit.cluster.embedded.controllers.builders import NOW, a_pod, ago, ready

ON_NODE = {"nodeName": "n1"}


def is_ready(name: str, since: float, **changes: object) -> Pod:
    return a_pod(name, spec=ON_NODE, status={"conditions": [ready(ago(since))]}, **changes)


def restarted(name: str, count: int) -> Pod:
    return a_pod(
        name, spec=ON_NODE, status={"containerStatuses": [{"name": "m", "restartCount": count}]}
    )


def created(name: str, seconds_ago: float) -> Pod:
    return a_pod(name, spec=ON_NODE, metadata={"creationTimestamp": ago(seconds_ago)})


PENDING = a_pod("pending", spec=ON_NODE, phase="Pending")
UNKNOWN = a_pod("unknown", spec=ON_NODE, phase="Unknown")
PLAIN_ORDERS = [
    [a_pod("unassigned"), a_pod("assigned", spec=ON_NODE, phase="Pending")],
    [PENDING, UNKNOWN],
    [UNKNOWN, a_pod("running", spec=ON_NODE)],
    [a_pod("not-ready", spec=ON_NODE), is_ready("ready", 0)],
    [is_ready("just", 10), is_ready("long", 5000)],
    [restarted("often", 5), restarted("once", 1)],
    [created("young", 10), created("old", 5000)],
]


@pytest.mark.parametrize("order", PLAIN_ORDERS, ids=lambda order: order[0].metadata.name)
def test_what_costs_less_goes_first(order: list[Pod]) -> None:
    """Both orders agree on all that is not particular to a ReplicaSet."""
    assert dispensable_first(reversed(order)) == order
    assert cheapest_first(reversed(order), (), NOW) == order


def test_deletion_cost_goes_before_age_but_not_before_readiness() -> None:
    """The annotation decides between pods of one stage; a Job does not look at it."""
    dear = a_pod("dear", spec=ON_NODE, metadata={"annotations": {DELETION_COST: "10"}})
    cheap = a_pod(
        "cheap",
        spec=ON_NODE,
        metadata={"annotations": {DELETION_COST: "-10"}, "creationTimestamp": ago(9999)},
    )

    assert cheapest_first([dear, cheap], (), NOW) == [cheap, dear]
    assert cheapest_first([is_ready("r", 1), dear], (), NOW)[0] is dear
    assert dispensable_first([cheap, dear]) == [dear, cheap]


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("-5", -5), ("0", 0), ("+5", 0), ("05", 0), ("x", 0), ("", 0), ("2147483648", 0)],
)
def test_deletion_cost_of_what_is_no_number(text: str, cost: int) -> None:
    """An annotation that is no plain 32-bit number counts as 0."""
    assert deletion_cost(a_pod(metadata={"annotations": {DELETION_COST: text}})) == cost


def test_crowded_nodes_give_up_first() -> None:
    """Of ready pods the one with more related pods on its node goes."""
    crowded, alone = (
        is_ready("crowded", 5000),
        a_pod("alone", spec={"nodeName": "n2"}, status={"conditions": [ready(ago(10))]}),
    )
    related = [crowded, alone, is_ready("other", 1)]

    assert cheapest_first([alone, crowded], related, NOW) == [crowded, alone]


def test_ages_alike_in_magnitude_are_decided_by_uid() -> None:
    """50 and 60 seconds are alike, so that not always the youngest goes; for a Job they differ."""
    young = a_pod("z", spec=ON_NODE, metadata={"creationTimestamp": ago(50)})
    old = a_pod("a", spec=ON_NODE, metadata={"creationTimestamp": ago(60)})

    assert cheapest_first([young, old], (), NOW) == [old, young]
    assert dispensable_first([young, old]) == [young, old]
