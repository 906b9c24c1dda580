"""Every behaviour on every cluster: a difference is a bug in ours."""

from __future__ import annotations

import pytest

import tests.contract.behaviours  # registers them
from tests.contract.targets import ContractTarget
from tests.contract.world import BEHAVIOURS, Behaviour

assert tests.contract.behaviours


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=str)
def test_behaviour(target: ContractTarget, behaviour: Behaviour) -> None:
    """The rule in the behaviour's own docstring holds."""
    target.play(behaviour)


def test_behaviours_are_many_and_distinct() -> None:
    """At least 150, each with a sentence and a name of its own."""
    names = [str(one) for one in BEHAVIOURS]

    assert len(names) >= 150
    assert len(set(names)) == len(names)
    assert all(one.act.__doc__ for one in BEHAVIOURS)
