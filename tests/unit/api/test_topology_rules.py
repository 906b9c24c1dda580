"""Validation of topologies: in HyperNodes, and in jobs that ask for one."""

from __future__ import annotations

import pytest

from swell.api.meta import Body
from swell.api.validation import validate
from tests.property.broken_manifests import manifest


def hyper_node(**selector: object) -> Body:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "rack-1"},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": selector}]},
    }


EXACT = {"name": "node-1"}
NEAR = {"mode": "hard", "highestTierAllowed": 1}


@pytest.mark.parametrize(
    "selector",
    [
        {"exactMatch": EXACT},
        {"regexMatch": {"pattern": "^rack-1-"}},
        {"labelMatch": {"matchLabels": {"rack": "1"}}},
        {"labelMatch": {}},
    ],
)
def test_hyper_node_selects_in_one_way(selector: dict[str, object]) -> None:
    assert validate(hyper_node(**selector)) == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, "must have exactly one of"),
        ({"exactMatch": EXACT, "regexMatch": {"pattern": "x"}}, "must have exactly one of"),
        ({"regexMatch": {"pattern": "("}}, "is no regular expression of RE2"),
        ({"regexMatch": {"pattern": "(?=x)"}}, "is no regular expression of RE2"),
        ({"exactMatch": {"name": "Node_1"}}, "must be"),
    ],
)
def test_selector_that_is_none_is_refused(selector: dict[str, object], expected: str) -> None:
    assert any(expected in problem.message for problem in validate(hyper_node(**selector)))


def test_hyper_node_without_members_is_refused() -> None:
    body = hyper_node()
    body["spec"]["members"] = []

    assert [problem.path for problem in validate(body)] == ["spec.members"]


def job(**spec: object) -> Body:
    body = manifest("aitrainingjob-full")
    body["spec"].update(spec)
    return body


def test_job_may_ask_for_a_topology() -> None:
    body = job(networkTopology={"mode": "soft"})
    body["spec"]["replicaSpecs"]["ps"]["networkTopology"] = NEAR

    assert validate(body) == []


def test_limit_by_number_and_by_name_is_refused() -> None:
    both = {**NEAR, "highestTierName": "rack"}

    assert [p.path for p in validate(job(networkTopology=both))] == [
        "spec.networkTopology.highestTierName"
    ]


def test_topology_beside_annotations_is_refused() -> None:
    """Both say where pods may be; which of them counts would be a guess."""
    body = job(networkTopology=NEAR)
    name = "kueue.x-k8s.io/podset-required-topology"
    template = body["spec"]["replicaSpecs"]["ps"]["template"]
    template.setdefault("metadata", {})["annotations"] = {name: "rack"}

    (problem,) = validate(body)
    assert "must not stand beside networkTopology" in problem.message
    del body["spec"]["networkTopology"]
    assert validate(body) == []
