"""The reference of phases is what the operator does."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.operator.aitrainingjob.phases import PHASE_TEXT
from tools.write_phases import PAGE, page


def test_reference_of_phases_is_current() -> None:
    """Run tools/write_phases.py after a change of phases or reasons."""
    assert PAGE.read_text() == page()


def test_every_phase_is_explained() -> None:
    """Nobody has to guess what a phase means."""
    assert set(PHASE_TEXT) == set(AITrainingJobPhase)
