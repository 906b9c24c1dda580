"""The plugin gang-packing: a gang lies on as few nodes as it can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swell.scheduler.plugins.gang_packing import packing
from tests.scheduler_cases import run

GPU = "nvidia.com/gpu"


def placed(free: dict[str, int], size: int, held: tuple[str, ...] = ()) -> list[str]:
    """The nodes of a gang's new pods, where nodes of four devices have some left."""

    def pod(name: str, group: str, node: str = "") -> dict[str, Any]:
        row: dict[str, Any] = {"namespace": "ns", "name": name, "group": group}
        row["requests"] = {GPU: "1"}
        return row | ({"phase": "Running", "node": node} if node else {"phase": "Pending"})

    others = [
        pod(f"{node}-{at}", "others", node)
        for node, left in free.items()
        for at in range(4 - left - held.count(node))
    ]
    case = {
        "actions": ["allocate"],
        "tiers": [
            [
                {"name": "gang-packing", "enable": ["NodeOrder"]},
                {"name": "predicates", "enable": ["Predicate"]},
            ]
        ],
        "nodes": [
            {"name": node, "allocatable": {GPU: "4", "cpu": "99", "memory": "99Gi", "pods": "99"}}
            for node in free
        ],
        "queues": [{"name": "q", "weight": 1}],
        "podGroups": [
            {"namespace": "ns", "name": name, "queue": "q", "minMember": 1, "phase": "Running"}
            for name in ("others", "gang")
        ],
        "pods": [
            *others,
            *(pod(f"old-{at}", "gang", node) for at, node in enumerate(held)),
            *(pod(f"new-{at}", "gang") for at in range(size)),
        ],
    }
    return sorted(run(case).plan.binds.values())


@pytest.mark.parametrize(
    ("free", "size", "held", "expected"),
    [
        # The tightest node that takes all of them; a fuller one would take a part only.
        ({"a": 1, "b": 4, "c": 3}, 2, (), ["c", "c"]),
        ({"a": 1, "b": 4, "c": 3}, 1, (), ["a"]),
        # Where none takes all, the emptiest first, and then the tightest for what is left.
        ({"a": 1, "b": 4, "c": 3, "d": 2}, 6, (), ["b", "b", "b", "b", "d", "d"]),
        # Beside its own, however much room there is elsewhere.
        ({"a": 4, "b": 2}, 2, ("b",), ["b", "b"]),
    ],
)
def test_gang_lies_on_few_nodes(
    free: dict[str, int], size: int, held: tuple[str, ...], expected: list[str]
) -> None:
    assert placed(free, size, held) == expected


def test_score_is_best_where_the_gang_just_fits() -> None:
    scores = packing(np.array([0.0, 1.0, 2.0, 3.0, 8.0]), 2)

    assert int(scores.argmax()) == 2
    assert scores[3] > scores[4] > scores[1] > scores[0]
