"""Every behaviour on our process runtime and on a real kubelet: what differs is a bug in ours."""

from __future__ import annotations

import pytest

import tests.contract.node.behaviours  # registers them
from tests.contract.node.bench import BEHAVIOURS, Behaviour

assert tests.contract.node.behaviours
pytestmark = pytest.mark.long


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=str)
def test_behaviour(reported: dict[Behaviour, str], behaviour: Behaviour) -> None:
    """The rule in the behaviour's own docstring holds."""
    if reported[behaviour]:
        pytest.fail(reported[behaviour], pytrace=False)


def test_behaviours_are_many_and_distinct() -> None:
    """At least 60, each with a sentence and a name of its own."""
    names = [str(one) for one in BEHAVIOURS]

    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert all(one.act.__doc__ for one in BEHAVIOURS)
