"""Generated behaviours on a real server and on ours: whole answers are compared."""

from __future__ import annotations

import json
from pathlib import Path

from tests.contract.generated.compare import KNOWN, compare, load
from tests.contract.generated.mutations import mutated
from tests.figures import Figure
from tests.testbed.control_plane import ControlPlane


def test_generated_behaviours_agree(
    embedded_kubeconfig: Path, control_plane: ControlPlane, figure: Figure
) -> None:
    """No behaviour differs that is not known to."""
    cases = load()
    known = set(json.loads(KNOWN.read_text(encoding="utf-8")))

    found = compare(control_plane.kubeconfig, embedded_kubeconfig, cases)
    figure(f"generated behaviours: {len(cases) - len(found)} of {len(cases)} agree")

    assert {name: lines for name, lines in found.items() if name not in known} == {}


def test_mutations_are_reproducible() -> None:
    """One seed gives the same behaviours again, another seed others."""
    cases = load()

    assert mutated(cases, 50, seed=1) == mutated(cases, 50, seed=1)
    assert mutated(cases, 50, seed=1) != mutated(cases, 50, seed=2)
