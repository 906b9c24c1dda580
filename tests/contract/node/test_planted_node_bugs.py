"""The contract notices what it is for: a runtime with a planted bug fails a behaviour."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.contract.node.behaviours  # registers them
from tests.contract.node import bench
from tests.contract.node.bench import BEHAVIOURS
from tests.contract.node.grounds import play, processes
from tests.contract.node.planted import BUGS, Bug

assert tests.contract.node.behaviours
pytestmark = pytest.mark.long
# Long enough for any of the behaviours that are played here, had it not been for the bug.
PATIENCE_S = 8.0


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_planted_bug_is_caught(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The behaviour named with the bug fails."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    home.mkdir()
    shared.mkdir()
    chosen = [one for one in BEHAVIOURS if str(one) == bug.behaviour]
    monkeypatch.setattr(bench, "WITHIN_S", PATIENCE_S)
    bug.plant(monkeypatch)
    reported = play(processes(home), chosen, shared)

    assert [one for one in reported.values() if one]
