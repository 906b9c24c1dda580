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
    """No behaviour differs that is not known to, and every known one still does."""
    cases = load()
    known = json.loads(KNOWN.read_text(encoding="utf-8"))

    found = compare(control_plane.kubeconfig, embedded_kubeconfig, cases)
    figure(f"generated behaviours: {len(cases) - len(found)} of {len(cases)} agree")

    assert {name: lines for name, lines in found.items() if name not in known} == {}
    assert sorted(known.keys() - found.keys()) == []
    assert all(reason.strip() for reason in known.values())


def test_mutations_leave_edited_objects_alone() -> None:
    """No behaviour is drawn whose later steps edit an object, which may not come to be."""
    drawn = mutated(load(), 200, seed=3)

    assert not [case["name"] for case in drawn if any("edit" in step for step in case["steps"])]


def test_mutations_are_reproducible() -> None:
    """One seed gives the same behaviours again, another seed others."""
    cases = load()

    assert mutated(cases, 50, seed=1) == mutated(cases, 50, seed=1)
    assert mutated(cases, 50, seed=1) != mutated(cases, 50, seed=2)
