"""Recorded cases about single functions: shares, phases, scores, budgets, orders."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api import codec
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.config import Arguments
from swell.scheduler.eviction_units import single_task_units
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import Dimensions
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import TaskStatus
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.plugins.binpack import weights_of
from swell.scheduler.plugins.capacity import entitlements, share_of
from swell.scheduler.plugins.gang import is_filled_by_leaving
from swell.scheduler.plugins.pdb import within_budgets
from swell.scheduler.plugins.sla import due_time
from swell.scheduler.session import Session
from swell.scheduler.status import phase_of
from tests.scheduler_cases import Case, budget_of, config_of, load, pod_of, snapshot_of

CASES = list(load(units=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_unit(case: Case) -> None:
    """A function returns what the case records."""
    answers = {
        "queueShare": queue_share,
        "podGroupPhase": pod_group_phase,
        "gangUnschedulableSuppressed": suppressed,
        "victimFilter": victims,
        "jobOrder": left_first,
        "pluginArgs": plugin_arguments,
    }

    expected = next(iter(case["expect"].values()))

    if case["unit"] == "nodeScores":
        assert node_scores(case) == {pod: pytest.approx(row) for pod, row in expected.items()}
    else:
        assert answers[case["unit"]](case) == expected


def queue_share(case: Case) -> float:
    dimensions = Dimensions()
    row = case["input"]
    queue = codec.convert({"metadata": {"name": "q"}, "spec": {"deserved": row["deserved"]}}, Queue)
    held = dimensions.vector(row["allocated"])
    entry = QueueInfo(queue, dimensions)
    plenty = dimensions.zero() + 1e18
    return share_of(held, entitlements({"q": entry}, plenty, is_tree=False)["q"])


def node_scores(case: Case) -> dict[str, dict[str, float]]:
    snapshot = snapshot_of(case)
    config = config_of(case)
    session = Session(snapshot, config, PLUGINS)
    option = config.tiers[0][0]
    hooks: Hooks = PLUGINS[option.name](session, option)
    assert hooks.load_score is not None
    nodes = snapshot.nodes
    found: dict[str, dict[str, float]] = {}
    for key in case["expect"]["scores"]:
        task = snapshot.task(key)
        assert task is not None
        used = nodes.allocatable - nodes.idle
        fill = (used + task.request[:, None]) / nodes.divisor
        scores = hooks.load_score(task.shape, fill)
        found[key] = dict(zip(nodes.names, scores.tolist(), strict=True))
    return found


def _job_with(row: Case) -> JobInfo:
    snapshot = SchedulerSnapshot()
    body = {
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"minMember": row["minMember"]},
        "status": {"phase": row["phase"]},
    }
    snapshot.put_group(codec.convert(body, PodGroup))
    for at, expected in enumerate(row["tasks"]):
        pod = pod_of({"namespace": "ns", "name": f"p{at}", "group": "g"})
        task = snapshot.put_pod(pod)
        node = snapshot.nodes.place("n") if expected["hasNode"] else -1
        snapshot.move(task, TaskStatus[expected["status"].upper()], node)
    return snapshot.jobs["ns/g"]


def pod_group_phase(case: Case) -> str:
    row = case["input"]
    return phase_of(_job_with(row), is_unschedulable=row["unschedulable"]).value


def suppressed(case: Case) -> bool:
    return is_filled_by_leaving(_job_with(case["input"]))


def victims(case: Case) -> list[str]:
    row = case["input"]
    job = _job_with({"minMember": 0, "phase": "Running", "tasks": []})
    snapshot = SchedulerSnapshot()
    tasks = [snapshot.put_pod(pod_of(candidate)) for candidate in row["candidates"]]
    for task in tasks:
        task.job = job
    granted = within_budgets(
        [budget_of(b) for b in row.get("budgets", ())], single_task_units(tasks)
    )
    return [task.pod.metadata.name for unit in granted for task in unit.tasks]


def left_first(case: Case) -> bool:
    row = case["input"]
    due = due_time(row["args"].get("sla-waiting-time", ""))

    def job(side: Case) -> JobInfo:
        notes = {"volcano.sh/sla-waiting-time": side["waitingTime"]} if side["waitingTime"] else {}
        meta = {
            "name": "g",
            "annotations": notes,
            "creationTimestamp": side.get("created", "2026-01-01T00:00:00Z"),
        }
        return JobInfo(codec.convert({"metadata": meta}, PodGroup), 0, Dimensions())

    return due(job(row["left"])) < due(job(row["right"]))


def plugin_arguments(case: Case) -> Any:
    own, names = weights_of(Arguments(case["input"].get("args", {})))
    return {"weight": own, **names}
