"""Waits grow, stay below their cap, and differ by the randomness that they are given."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from random import Random

from swell.api.backoff import Backoff


def test_backoff_doubles_up_to_its_cap() -> None:
    """Each failure doubles the wait until the cap, however many there are."""
    backoff = Backoff(base_s=1, cap_s=10)

    assert [backoff.full_s(n) for n in (0, 1, 2, 3, 4, 5, 10_000)] == [0, 1, 2, 4, 8, 10, 10]


def test_backoff_jitter_stays_between_half_and_full() -> None:
    """Chance shortens a wait, by half at most, and never lengthens it."""
    backoff = Backoff(base_s=1, cap_s=10)
    random = Random(1)
    drawn = [backoff.jittered_s(3, random.random()) for _ in range(200)]

    assert 2 <= min(drawn) < 2.2
    assert 3.8 < max(drawn) <= 4


def test_every_wait_that_grows_uses_the_one_formula() -> None:
    """No other module raises a number to a power that is not written out, or doubles a wait."""
    found = []
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    for path, text in texts.items():
        # Most files need no closer look.
        for node in ast.walk(ast.parse(text)) if POWER.search(text) else ():
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Pow | ast.LShift):
                continue
            if not isinstance(node.right, ast.Constant):
                found.append(f"{path.relative_to(SOURCE)}: {ast.unparse(node)}")

    assert [line for line in found if line.split(":")[0] not in NO_WAITS] == []


SOURCE = Path(__file__).parents[3] / "src" / "swell"
# The formula itself, quantities, whose syntax bounds their exponents, roundings, the bits of
# numbers in protobuf, and the model of step times.
NO_WAITS = frozenset(
    {
        "api/backoff.py",
        "api/quantity.py",
        "autoscaler/goodput/batches.py",
        "autoscaler/goodput/sizing.py",
        "autoscaler/goodput/stepmodel.py",
        "autoscaler/policies/room.py",
        "cluster/embedded/http/protobuf.py",
        "scheduler/plugins/domain_packing.py",
        "scheduler/plugins/network_topology.py",
    }
)
POWER = re.compile(r"[\w)\]] ?\*\* ?|<<")
