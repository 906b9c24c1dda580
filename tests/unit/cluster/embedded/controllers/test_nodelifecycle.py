"""Conditions and taints of nodes whose Lease is no longer renewed."""

from __future__ import annotations

import pytest

from swell.api.codec import convert
from swell.api.core import Node
from swell.api.meta import Body
from swell.cluster.embedded.controllers.nodelifecycle import (
    NOT_READY,
    UNREACHABLE,
    NodeLeaseSnapshot,
    decide_node,
)
from swell.runtime.plan import NOTHING, PatchObject, Plan
from tests.unit.cluster.embedded.controllers.builders import NOW


def decide(silent_s: float | None, ready: str = "True", *taints: Body) -> Plan:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    body = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"taints": list(taints)},
        "status": {"conditions": [*conditions, {"type": "MemoryPressure", "status": "False"}]},
    }
    return decide_node(NodeLeaseSnapshot(convert(body, Node), silent_s, 40.0), NOW)


def patched(plan: Plan) -> Body:
    (patch,) = plan.each_action()
    assert isinstance(patch, PatchObject)
    assert isinstance(patch.patch.body, dict)
    return patch.patch.body


def taint(key: str, effect: str = "NoSchedule") -> Body:
    return {"key": key, "effect": effect}


def test_node_without_lease_is_left_alone() -> None:
    """A node without a Lease is left alone, whatever its conditions."""
    for ready in ("True", "False", "Unknown", ""):
        assert decide(None, ready, taint(NOT_READY)) == NOTHING


def test_living_node_is_looked_at_when_it_would_be_late() -> None:
    """Nothing is written, and nothing done before the grace period ends."""
    assert decide(15.0) == Plan(wake_at=NOW + 25)


def test_silent_node_is_of_unknown_state() -> None:
    """Ready and the pressures it reported become Unknown, others stay; taints follow."""
    body = patched(decide(40.0))

    assert body["metadata"] == {"uid": "u", "resourceVersion": "7"}
    assert {c["type"]: c["status"] for c in body["status"]["conditions"]} == {
        "Ready": "Unknown",
        "MemoryPressure": "Unknown",
    }


@pytest.mark.parametrize(
    ("ready", "keys"),
    [("True", []), ("False", [NOT_READY]), ("Unknown", [NOT_READY, UNREACHABLE])],
)
def test_taints_follow_readiness(ready: str, keys: list[str]) -> None:
    """Our taints are those of its state; those of others stay, first."""
    other = taint("example.com/mine")
    stale = taint(UNREACHABLE) if ready != "Unknown" else taint(NOT_READY, "NoExecute")
    kept = [other] if ready != "Unknown" else [other, stale]
    body = patched(decide(0.0, ready, other, stale))

    assert (body["spec"]["taints"] or []) == [*kept, *map(taint, keys)]


def test_last_taint_is_taken_off() -> None:
    """With the last taint the field is removed."""
    assert patched(decide(0.0, "True", taint(NOT_READY)))["spec"] == {"taints": None}


def test_node_that_said_nothing_yet_keeps_its_taint() -> None:
    """A node without a Ready condition is not known to be ready."""
    assert not decide(0.0, "", taint(NOT_READY)).actions


def test_lost_node_is_not_written_again() -> None:
    """Once conditions and taints are written, nothing is due until the next renewal."""
    body = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"taints": [taint(NOT_READY), taint(UNREACHABLE)]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }

    assert decide_node(NodeLeaseSnapshot(convert(body, Node), 99.0, 40.0), NOW) == Plan()
