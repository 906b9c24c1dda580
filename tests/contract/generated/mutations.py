"""Draws new behaviours from given ones: one value of one request's body is changed.

The same seed gives the same behaviours, so that a difference can be found again by its name.
"""

from __future__ import annotations

import copy
import random
from typing import Any

# Values that are wrong nearly everywhere, each in its own way.
ODD: tuple[Any, ...] = (None, "", "x", "A b!", 0, -1, 1.5, True, [], {}, ["x"], {"x": "y"}, [None])
Case = dict[str, Any]
Place = tuple[Any, Any]


def mutated(cases: list[Case], n: int, seed: int) -> list[Case]:
    """Returns n behaviours, each one of the given ones with a single value changed."""
    rng = random.Random(seed)
    with_body = [case for case in cases if _is_open(case["steps"])]
    return [_mutate(rng.choice(with_body), rng, number) for number in range(n)]


def _mutate(case: Case, rng: random.Random, number: int) -> Case:
    steps = copy.deepcopy(case["steps"])
    step = rng.choice([step for step in steps if _has_body(step)])
    holder, key = rng.choice(_places(step["body"]))
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(ODD)
    return {"family": case["family"], "name": f"{case['name']} #{number}", "steps": steps}


def _is_open(steps: list[dict[str, Any]]) -> bool:
    """Whether a body can change: no later step may edit the object that came of it."""
    return any(map(_has_body, steps)) and not any("edit" in step for step in steps)


def _has_body(step: dict[str, Any]) -> bool:
    return bool(step.get("body")) and isinstance(step["body"], dict | list)


def _places(value: Any) -> list[Place]:
    """Every place in a value, as the map or list that holds it and the key or index there."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found: list[Place] = []
    for key in keys:
        found.append((value, key))
        if value[key] and isinstance(value[key], dict | list):
            found += _places(value[key])
    return found
