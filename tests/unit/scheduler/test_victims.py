"""The choice of victims: only jobs that hold what is lacking are evicted."""

from __future__ import annotations

from typing import Any

import pytest

from swell.scheduler.plan import answer, plan_schedule
from tests.scheduler_cases import Case, objects_of

GPU = "nvidia.com/gpu"
WITH_GPU, WITHOUT = {"cpu": "1", GPU: "1"}, {"cpu": "1"}


def evicted(claim: dict[str, str], cpu: str) -> list[str]:
    """Returns the pods evicted for an important job on a node with two less important ones."""
    names = {"cheap": (WITHOUT, "low"), "dear": (WITH_GPU, "middle"), "claim": (claim, "high")}
    case: Case = {
        "priorityClasses": {"low": {"value": 1}, "middle": {"value": 5}, "high": {"value": 10}},
        "nodes": [{"name": "n1", "allocatable": {"cpu": cpu, GPU: "1", "pods": "20"}}],
        "queues": [{"name": "q", "weight": 1}],
        "podGroups": [group(name, priority) for name, (_, priority) in names.items()],
        "pods": [pod(name, requests) for name, (requests, _) in names.items()],
    }
    decided: dict[str, Any] = answer(plan_schedule(objects_of(case)))
    return sorted(eviction["pod"] for eviction in decided["evictions"])


def group(name: str, priority: str) -> dict[str, Any]:
    return {
        "namespace": "ns",
        "name": name,
        "queue": "q",
        "minMember": 1,
        "phase": "Inqueue" if name == "claim" else "Running",
        "priorityClassName": priority,
    }


def pod(name: str, requests: dict[str, str]) -> dict[str, Any]:
    runs = name != "claim"
    return {
        "namespace": "ns",
        "name": name,
        "group": name,
        "phase": "Running" if runs else "Pending",
        "node": "n1" if runs else "",
        "requests": requests,
    }


@pytest.mark.parametrize(
    ("claim", "cpu", "victims"),
    [
        pytest.param(WITH_GPU, "8", ["ns/dear"], id="a GPU"),
        pytest.param(WITHOUT, "2", ["ns/cheap"], id="a processor"),
        pytest.param({"cpu": "2", GPU: "1"}, "2", ["ns/cheap", "ns/dear"], id="both"),
    ],
)
def test_victims_hold_what_is_lacking(claim: dict[str, str], cpu: str, victims: list[str]) -> None:
    """The least important are evicted first, but none without effect."""
    assert evicted(claim, cpu) == victims
