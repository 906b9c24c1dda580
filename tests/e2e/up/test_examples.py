"""The examples, as people run them. Those of real frameworks have tests of their own."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.up.machine import Machine, until

EXAMPLES = Path(__file__).parents[3] / "examples"
# What a run of each prints, among other things.
PRINTED = {
    "plain-python": ["[trainer-0] part 0 of 3: 3.615084", "[trainer-2] part 2 of 3: 0.573700"],
    "paddle-mnist": ["[trainer-0] pass 19: 10 of 10 digits"],
    "two-roles": ["[trainer-0] y = 2.00 x + 1.00", "[trainer-1] y = 2.00 x + 1.00"],
    "shell": ["[counter-0] odd: 500 of 1000 words", "[counter-1] even: 500 of 1000 words"],
    "ring": ["[node-0] the ring adds up to 6"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_example_runs(running: Machine, name: str) -> None:
    """It is valid, succeeds, and prints what it is for."""
    file = str(EXAMPLES / f"{name}.yaml")
    running.swell("validate", file)
    lines = running.swell("run", file).stdout.splitlines()

    assert set(PRINTED[name]) <= set(lines)


def test_elastic_example_follows_its_members(running: Machine) -> None:
    """The processes themselves learn of every change, without being started again."""
    running.swell("run", "--detach", str(EXAMPLES / "elastic.yaml"))
    for size in (2, 4, 1):
        running.swell("scale", "elastic", f"trainer={size}")
        until(lambda size=size: f"with {size} trainers" in seen_by_first(running))  # type: ignore[misc]
    lines = seen_by_first(running).splitlines()
    steps = [int(line.split()[1]) for line in lines]

    assert steps == list(range(1, len(lines) + 1))
    assert not running.job("elastic")["status"].get("restarts")
    running.swell("delete", "elastic")


def test_launched_example_is_started_again(running: Machine) -> None:
    """The script learns its size from variables alone, and goes on from its checkpoint."""
    running.swell("run", "--detach", str(EXAMPLES / "launch.yaml"))
    for size in (2, 3, 1):
        running.swell("scale", "launch", f"trainer={size}")
        until(lambda size=size: f" of {size}\n" in seen_by_first(running, "launch"))  # type: ignore[misc]
    lines = [line for line in seen_by_first(running, "launch").splitlines() if "step" in line]
    steps = [int(line.split()[1].rstrip(":")) for line in lines]

    assert all(after - before in {0, 1} for before, after in pairwise(steps))
    running.swell("delete", "launch")


def seen_by_first(machine: Machine, job: str = "elastic") -> str:
    return machine.swell("logs", job, "--role", "trainer", "--index", "0").stdout


def test_every_example_is_in_the_table() -> None:
    """Nothing lies about unexplained."""
    table = (EXAMPLES / "README.md").read_text()

    assert [file.name for file in sorted(EXAMPLES.glob("*.yaml")) if file.name not in table] == []
