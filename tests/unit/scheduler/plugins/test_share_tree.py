"""Hierarchical dominant resource fairness, by what queues get of one node."""

from __future__ import annotations

from typing import Any

import pytest

from swell.scheduler.cycle import run_session
from swell.scheduler.plugins import PLUGINS
from tests.scheduler_cases import Case, config_of, run, snapshot_of

ORDER = ["Hierarchy", "JobOrder", "QueueOrder"]
RECLAIM = [*ORDER, "Reclaimable"]
Row = tuple[str, str, str]


def _case(node: dict[str, str], queues: list[Row], enable: list[str] = ORDER) -> Case:
    """Returns one node, and queues given by name, path and weights."""
    return {
        "actions": ["allocate"],
        "tiers": [[{"name": "drf", "enable": enable}]],
        "nodes": [{"name": "n", "allocatable": {"memory": "100G", **node, "pods": "200"}}],
        "queues": [
            {"name": name, "weight": 1, "annotations": _annotations(path, weights)}
            for name, path, weights in queues
        ],
        "podGroups": [],
        "pods": [],
    }


def _annotations(path: str, weights: str) -> dict[str, str]:
    given = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return {name: text for name, text in given.items() if text}


def _add(
    case: Case, name: str, queue: str, n: int, cpu: str = "1", memory: str = "0", **more: Any
) -> None:
    running = more.pop("running", False)
    row = {"namespace": "ns", "name": name, "queue": queue, "minMember": more.pop("minimum", 0)}
    case["podGroups"].append({**row, "phase": "Running" if running else "Inqueue"})
    state = {"phase": "Running", "node": "n"} if running else {"phase": "Pending"}
    for at in range(n):
        pod = {"namespace": "ns", "name": f"{name}-p-{at}", "group": name, **state}
        case["pods"].append({**pod, "requests": {"cpu": cpu, "memory": memory}})


def _cpus(case: Case) -> dict[str, int]:
    jobs = run(case).snapshot.jobs
    return {key.removeprefix("ns/"): round(job.allocated[0] / 1000) for key, job in jobs.items()}


DEPARTMENTS = [("sci", "root/sci", "1/1"), ("dev", "root/eng/dev", "1/1/1")]
PROD = ("prod", "root/eng/prod", "1/1/1")


@pytest.mark.parametrize("enable", [ORDER, ["JobOrder", "QueueOrder"]])
def test_departments_share_before_their_teams(enable: list[str]) -> None:
    """Two departments get a half each, however many teams they have. Flat, the first gets all."""
    case = _case({"cpu": "12"}, [*DEPARTMENTS, PROD], enable)
    for name in ("sci", "dev", "prod"):
        _add(case, name, name, 12)

    is_flat = "Hierarchy" not in enable

    assert (_cpus(case) == {"sci": 6, "dev": 3, "prod": 3}) is not is_flat


@pytest.mark.parametrize(
    ("sci", "eng", "expected"),
    [
        ("1/3", "1/1/1", {"sci": 9, "dev": 3}),
        ("1/1", "1/3/1", {"sci": 3, "dev": 9}),
        ("1/1", "3/1/1", {"sci": 6, "dev": 6}),  # the root's own weight compares nothing
        ("1/1", "1/1/3", {"sci": 6, "dev": 6}),  # that of an only child neither
    ],
)
def test_weights_count_at_their_level(sci: str, eng: str, expected: dict[str, int]) -> None:
    """A weight is for the tree node at the same place of the path."""
    queues = [("sci", "root/sci", sci), ("dev", "root/eng/dev", eng)]
    case = _case({"cpu": "12"}, queues)
    for name in ("sci", "dev"):
        _add(case, name, name, 12)

    assert _cpus(case) == expected


def test_weights_of_teams_divide_their_department() -> None:
    """Inside a department its teams share what it has, by their weights."""
    queues = [
        ("sci", "root/sci", "1/1"),
        ("dev", "root/eng/dev", "1/1/2"),
        ("prod", "root/eng/prod", "1/1/1"),
    ]
    case = _case({"cpu": "12"}, queues)
    for name in ("sci", "dev", "prod"):
        _add(case, name, name, 12)

    # Teams in the ratio of two to one, and both scaled to the smaller: the department counts as
    # twice that, so the other one gets what the smaller team has, twice.
    held = _cpus(case)

    assert (held["sci"], held["dev"] + held["prod"]) == (5, 7)
    assert held["dev"] == pytest.approx(2 * held["prod"], abs=1)


@pytest.mark.parametrize("weights", ["", "1", "1/", "1/none", "1/0", "1/-4", "1/0.2"])
def test_weights_that_say_nothing_count_as_one(weights: str) -> None:
    """A missing, malformed or too small weight is 1."""
    queues = [("sci", "root/sci", weights), ("dev", "root/dev", "1/1")]
    case = _case({"cpu": "12"}, queues)
    for name in ("sci", "dev"):
        _add(case, name, name, 12)

    assert _cpus(case) == {"sci": 6, "dev": 6}


def test_queue_without_a_path_is_a_child_of_the_root() -> None:
    """It competes with departments, not with their teams."""
    case = _case({"cpu": "12"}, [("plain", "", ""), DEPARTMENTS[1], PROD])
    for name in ("plain", "dev", "prod"):
        _add(case, name, name, 12)

    assert _cpus(case) == {"plain": 6, "dev": 3, "prod": 3}


def test_teams_of_different_resources_are_scaled_to_the_smaller() -> None:
    """A department of a cpu team and a memory team competes with a half of each, not with both."""
    case = _case({"cpu": "10", "memory": "10G"}, [*DEPARTMENTS, PROD])
    _add(case, "sci", "sci", 10, memory="1G")
    _add(case, "dev", "dev", 10)
    _add(case, "prod", "prod", 10, cpu="0", memory="1G")
    jobs = run(case).snapshot.jobs

    held = {name: jobs[f"ns/{name}"].allocated[:2].tolist() for name in ("sci", "dev", "prod")}

    assert held == {"sci": [5000, 5e9], "dev": [5000, 0], "prod": [0, 5e9]}


def test_node_whose_resource_is_gone_holds_no_one_back() -> None:
    """When the cpus are gone, memory goes on to be shared by those that want it."""
    queues = [
        ("a", "root/a", "1/1"),
        ("b", "root/b", "1/1"),
        ("c-cpu", "root/c/cpu", "1/1/1"),
        ("c-memory", "root/c/memory", "1/1/1"),
        ("d", "root/d", "1/1"),
    ]
    case = _case({"cpu": "30", "memory": "30G"}, queues)
    for name in ("a", "b", "c-cpu"):
        _add(case, name, name, 30)
    for name in ("c-memory", "d"):
        _add(case, name, name, 30, cpu="0", memory="1G")
    jobs = run(case).snapshot.jobs

    held = {key.removeprefix("ns/"): job.allocated[:2].tolist() for key, job in jobs.items()}

    assert held == {
        "a": [10_000, 0],
        "b": [10_000, 0],
        "c-cpu": [10_000, 0],
        "c-memory": [0, 15e9],
        "d": [0, 15e9],
    }


def test_saturated_team_is_not_scaled_and_sets_no_scale() -> None:
    """A team that has all it wants counts in full, and does not make its department look small."""
    case = _case({"cpu": "12"}, [*DEPARTMENTS, PROD])
    _add(case, "sci", "sci", 12)
    _add(case, "dev", "dev", 1)
    _add(case, "prod", "prod", 12)

    assert _cpus(case) == {"sci": 6, "dev": 1, "prod": 5}


def test_complete_job_does_not_saturate_its_queue() -> None:
    """A queue can grow while any job of it can, whatever another one has got."""
    case = _case({"cpu": "4", "memory": "12G"}, [("sci", "root/sci", ""), ("dev", "root/dev", "")])
    _add(case, "done", "dev", 1, cpu="1", running=True)
    _add(case, "more", "dev", 12, cpu="0", memory="1G")
    _add(case, "sci", "sci", 12, cpu="0", memory="1G")
    jobs = run(case).snapshot.jobs

    held = {name: jobs[f"ns/{name}"].allocated[1] / 1e9 for name in ("more", "sci")}

    assert held == {"more": 6, "sci": 6}


def _reclaiming(own_cpu: str, n: int, n_victims: int = 8) -> list[str]:
    case = _case({"cpu": "8"}, [("sci", "root/sci", "1/1"), ("dev", "root/dev", "1/1")], RECLAIM)
    case["actions"] = ["reclaim"]
    case["tiers"].append([{"name": "gang", "enable": ["JobStarving", "JobPipelined"]}])
    _add(case, "held", "dev", n_victims, running=True)
    _add(case, "wanted", "sci", n, cpu=own_cpu, minimum=n)
    return sorted(eviction.task.key for eviction in run(case).plan.evictions)


def test_department_takes_back_until_it_would_come_last() -> None:
    """Three of eight go to one that has none; four would leave the victim with no more than it."""
    assert len(_reclaiming("1", 3)) == 3
    assert len(_reclaiming("3", 1)) == 3
    assert _reclaiming("1", 5) == []


def test_large_pod_takes_no_more_than_all_victims_together_allow() -> None:
    """Each victim alone would leave the other department ahead, all of them together would not."""
    assert _reclaiming("6", 1) == []


def test_trials_leave_no_trace() -> None:
    """What reclaim only tried is undone: sums of queues are those of their jobs."""
    case = _case({"cpu": "8"}, [("sci", "root/sci", "1/1"), ("dev", "root/dev", "1/1")], RECLAIM)
    case["actions"] = ["reclaim"]
    case["tiers"].append([{"name": "gang", "enable": ["JobStarving", "JobPipelined"]}])
    _add(case, "held", "dev", 8, running=True)
    _add(case, "wanted", "sci", 1, cpu="6", minimum=1)
    session = run_session(snapshot_of(case), config_of(case), plugins=PLUGINS)

    for queue in session.snapshot.queues.values():
        held = sum(job.allocated for job in queue.jobs.values())
        asked = sum(job.pending for job in queue.jobs.values())
        assert queue.allocated.tolist() == held.tolist()  # type: ignore[union-attr]
        assert queue.pending.tolist() == asked.tolist()  # type: ignore[union-attr]


def test_jobs_of_a_queue_are_scaled_like_teams() -> None:
    """A queue counts as if each job had as little as the smallest one that can still grow."""
    queues = [("sci", "root/sci", "1/1"), ("eng", "root/eng", "1/1")]
    case = _case({"cpu": "12"}, queues)
    for name, queue, n in (("old", "eng", 6), ("new", "eng", 1), ("sci", "sci", 3)):
        _add(case, name, queue, n, running=True)
        case["pods"] += [
            {"namespace": "ns", "name": f"{name}-q-{at}", "group": name, "requests": {"cpu": "1"}}
            for at in range(12)
        ]

    # Of the two that are left the queue gets one, as if it had two of twelve and not seven.
    assert _cpus(case) == {"old": 6, "new": 2, "sci": 4}


def test_saturated_queue_is_served_last() -> None:
    """A job that has all it asked for of one resource waits for those that lack every one."""
    case = _case({"cpu": "4", "memory": "12G"}, [("a", "root/a", "1/1"), ("b", "root/b", "1/1")])
    _add(case, "half", "a", 1, cpu="1m", running=True)
    for at in range(12):
        row = {"namespace": "ns", "name": f"half-m-{at}", "group": "half", "phase": "Pending"}
        case["pods"].append({**row, "requests": {"memory": "1G"}})
    _add(case, "fresh", "b", 12, cpu="0", memory="1G")
    jobs = run(case).snapshot.jobs

    assert jobs["ns/fresh"].allocated[1] == 12e9
