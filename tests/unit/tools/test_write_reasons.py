"""The reference of reasons is what the scheduler says."""

from __future__ import annotations

from swell.scheduler.model.reasons import NODES, WAITING, WaitReason
from tools.write_reasons import PAGE, page


def test_reference_of_reasons_is_current() -> None:
    """Run tools/write_reasons.py after a change of reasons."""
    assert PAGE.read_text() == page()


def test_every_reason_is_explained_once() -> None:
    """It is either a group's or a node's."""
    assert not WAITING.keys() & NODES.keys()
    assert WAITING.keys() | NODES.keys() == set(WaitReason)
