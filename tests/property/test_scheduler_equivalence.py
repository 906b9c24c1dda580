"""The vectorised allocate decides exactly as the plain reference does.

`make test` checks some hundred random clusters; `python -m
tests.property.test_scheduler_equivalence 2000` checks as many as given.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest

from swell.scheduler.config import DEFAULT
from swell.scheduler.plan import plan_schedule
from tests.property.allocate_reference import Reference
from tests.property.scheduler_clusters import Traits, random_cluster

ALLOCATE = replace(DEFAULT, actions=("allocate",))
N_IN_MAKE_TEST = 300
BATCH = 50


def differing(seeds: range) -> list[str]:
    """Returns the seeds whose clusters are placed differently, with both answers."""
    found = []
    for seed in seeds:
        chance = Random(seed)
        traits = Traits(pod_affinity=False, ports=seed % 3 == 0, best_effort=seed % 2 == 0)
        cluster = random_cluster(chance, traits)
        expected = Reference(cluster).run()
        got = {task.key: node for task, node in plan_schedule(cluster, ALLOCATE).binds.items()}
        if got != expected:
            found.append(f"seed {seed}: want {expected}, got {got}")
    return found


@pytest.mark.parametrize("start", range(0, N_IN_MAKE_TEST, BATCH))
def test_equivalence_with_plain_reference(start: int) -> None:
    """Same clusters, same bindings."""
    assert differing(range(start, start + BATCH)) == []


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    wrong = differing(range(n))
    sys.stdout.write("\n".join([*wrong, f"{n - len(wrong)} of {n} random clusters placed alike\n"]))
    sys.exit(bool(wrong))
