"""Gangs with a network topology, against plain rules that try every domain of a small tree.

`python -m tests.property.test_topology 5000` checks as many clusters as given.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest

from swell.scheduler.config import DEFAULT
from swell.scheduler.plan import plan_schedule
from tests.property.topology_reference import Row, fits, held_pods, is_allowed, random_case
from tests.scheduler_cases import objects_of

ALLOCATE = replace(DEFAULT, actions=("allocate",))
N_IN_MAKE_TEST = 400
BATCH = 100


def wrong_in(case: Row) -> str:
    """Returns how the decision breaks the rules; empty if it does not."""
    plan = plan_schedule(objects_of(case), ALLOCATE)
    bound = {task.pod.metadata.name: node for task, node in plan.binds.items()}
    group = next(g for g in case["podGroups"] if g["name"] == "g")
    mine = [pod for pod in case["pods"] if pod["group"] == "g"]
    n_running = len(held_pods(mine))
    if bound and not is_allowed(case, group, bound):
        return f"forbidden: {bound}"
    can_start = fits(case)
    if group["minMember"] > n_running and can_start != bool(bound):
        refusal = plan.groups["ns/g"].refusal
        return f"fits: {can_start}, bound: {bound}, {refusal}"
    if bound and len(bound) + n_running < group["minMember"]:
        return f"torn: {bound}"
    return ""


def failing(seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        wrong = wrong_in(random_case(Random(seed)))
        if wrong:
            found.append(f"seed {seed}: {wrong}")
    return found


@pytest.mark.parametrize("start", range(0, N_IN_MAKE_TEST, BATCH))
def test_domains_are_kept_and_found(start: int) -> None:
    """No placement is forbidden, and none is missed that trying every domain finds."""
    assert failing(range(start, start + BATCH)) == []


if __name__ == "__main__":
    wrong = failing(range(int(sys.argv[1])))
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} wrong\n"]))
