"""Small clusters with blocks and racks, as rows of recorded scheduler cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from swell.scheduler.config import DEFAULT, Arguments, Config
from swell.scheduler.cycle import SchedulingPlan, run_cycle
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.plan import SchedulerObjects
from tests.scheduler_cases import objects_of

Row = dict[str, Any]
ONE_NODE = {"cpu": "4", "memory": "8Gi"}  # what a pod asks for that takes a node alone
ALLOCATABLE = {**ONE_NODE, "pods": "110"}
HARD_1: Row = {"mode": "hard", "highestTier": 1}
HARD_2: Row = {"mode": "hard", "highestTier": 2}
SOFT: Row = {"mode": "soft"}


def with_labels(labels: str, **more: str) -> Config:
    """Returns the default configuration with a list of node labels, and further arguments."""
    arguments = Arguments({"topology.labels": labels, **more})
    tiers = tuple(
        tuple(
            replace(option, arguments=arguments)
            if option.name == "network-topology-aware"
            else option
            for option in tier
        )
        for tier in DEFAULT.tiers
    )
    return replace(DEFAULT, tiers=tiers)


def node(name: str, **more: Any) -> Row:
    return {"name": name, "allocatable": ALLOCATABLE, **more}


def racks(n_racks: int, n_nodes: int, *, per_block: int = 0) -> Row:
    """Returns racks r0, r1, … of nodes r0-n0, …; with blocks b0, … of so many racks above them.

    The names of nodes say their rack last, so that the order of names mixes the racks.
    """
    rows = [
        {"name": f"r{rack}", "tier": 1, "members": [at(rack, n) for n in range(n_nodes)]}
        for rack in range(n_racks)
    ]
    if per_block:
        rows += [
            {
                "name": f"b{block}",
                "tier": 2,
                "members": [f"r{block * per_block + n}" for n in range(per_block)],
            }
            for block in range(n_racks // per_block)
        ]
    return {
        "nodes": [node(at(rack, n)) for rack in range(n_racks) for n in range(n_nodes)],
        "hyperNodes": rows,
        "queues": [{"name": "q1", "weight": 1}],
    }


def at(rack: int, n: int) -> str:
    return f"n{n}-r{rack}"


def gang(name: str, least: int, topology: Row | None = None, **more: Any) -> Row:
    row = {
        "namespace": "ns", "name": name, "queue": "q1", "minMember": least, "phase": "Inqueue",
        **more,
    }  # fmt: skip
    return row if topology is None else {**row, "topology": topology}


def pods(job: str, n: int, *, first: int = 0, **more: Any) -> list[Row]:
    row = {"namespace": "ns", "group": job, "phase": "Pending", "requests": ONE_NODE, **more}
    return [{**row, "name": f"{job}-w-{first + k}"} for k in range(n)]


def running(job: str, nodes: Iterable[str], *, first: int = 0, **more: Any) -> list[Row]:
    return [
        row
        for k, name in enumerate(nodes)
        for row in pods(job, 1, first=first + k, phase="Running", node=name, **more)
    ]


def objects(base: Row, groups: list[Row], rows: list[Row], **more: Any) -> SchedulerObjects:
    return objects_of({**base, "podGroups": groups, "pods": rows, **more})


def decide(
    base: Row, groups: list[Row], rows: list[Row], config: Config = DEFAULT, **more: Any
) -> SchedulingPlan:
    return run_cycle(objects(base, groups, rows, **more).snapshot(), config)


def decide_on(snapshot: SchedulerSnapshot, config: Config = DEFAULT) -> SchedulingPlan:
    return run_cycle(snapshot, config)


def binds(plan: SchedulingPlan, job: str = "") -> dict[str, str]:
    return {
        task.key.removeprefix("ns/"): place
        for task, place in plan.binds.items()
        if not job or (task.job is not None and task.job.key == f"ns/{job}")
    }


def racks_of(plan: SchedulingPlan, job: str = "") -> dict[str, int]:
    """Returns how many pods of the job each rack got."""
    counts: dict[str, int] = {}
    for place in binds(plan, job).values():
        rack = place.rpartition("-")[2]
        counts[rack] = counts.get(rack, 0) + 1
    return dict(sorted(counts.items()))


def why(plan: SchedulingPlan, job: str) -> tuple[str, str]:
    refusal = plan.groups[f"ns/{job}"].refusal
    return ("", "") if refusal is None else (refusal.reason.value, refusal.message)
