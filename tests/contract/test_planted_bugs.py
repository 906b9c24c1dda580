"""The suite is worth something only if it notices: every planted bug is caught by its subject."""

from __future__ import annotations

import pytest

import tests.contract.behaviours
from swell.runtime.errors import ClusterError
from tests.contract import world
from tests.contract.planted import BUGS, Bug
from tests.contract.targets import ContractTarget, in_process
from tests.contract.world import BEHAVIOURS, Behaviour

assert tests.contract.behaviours
IMPATIENT_S = 1.0  # a broken server may never do what is waited for


def first_failure(target: ContractTarget, subject: str) -> str | None:
    """The first behaviour of a subject that does not hold."""
    chosen = (one for one in BEHAVIOURS if one.subject == subject)
    return next((str(one) for one in chosen if not holds(target, one)), None)


def holds(target: ContractTarget, behaviour: Behaviour) -> bool:
    try:
        target.play(behaviour)
    except (AssertionError, ClusterError, KeyError, TimeoutError):
        return False
    return True


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bug at least one behaviour of its subject fails."""
    monkeypatch.setattr(world, "EVENTUALLY_S", IMPATIENT_S)
    bug.plant(monkeypatch)
    target = ContractTarget(in_process())
    try:
        found = first_failure(target, bug.subject)
    finally:
        target.close()

    assert found, f"nobody noticed {bug}"


def test_without_a_bug_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the bug that is caught, not our impatience."""
    monkeypatch.setattr(world, "EVENTUALLY_S", IMPATIENT_S)
    target = ContractTarget(in_process())
    try:
        found = {s: first_failure(target, s) for s in sorted({bug.subject for bug in BUGS})}
    finally:
        target.close()

    assert not any(found.values()), found


def test_planted_bugs_are_enough() -> None:
    """At least fifteen different ones."""
    assert len({bug.name for bug in BUGS}) >= 15
