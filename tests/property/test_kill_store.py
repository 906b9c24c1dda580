"""A few kills in every test run; `python -m tests.property.kill_store` does fifty."""

from __future__ import annotations

from pathlib import Path

from tests.property.kill_store import kill_repeatedly


def test_acknowledged_writes_survive_being_killed(tmp_path: Path) -> None:
    """After SIGKILL at any moment nothing acknowledged is lost, and nothing is half there."""
    findings = kill_repeatedly(tmp_path / "store.db", times=5, seed=7)

    assert findings.acknowledged > 0
    assert findings.lost == []
    assert findings.half_applied == []
