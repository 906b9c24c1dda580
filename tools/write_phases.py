"""Writes docs/reference/phases.md from the tables the operator itself goes by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase
from swell.operator.aitrainingjob.phases import (
    PHASE_TEXT,
    REASON_TEXT,
    RESTART_REASONS,
    TRANSITIONS,
)

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "phases.md"


def page() -> str:
    return "\n".join([*_intro(), *_phases(), *_diagram(), *_reasons(), ""])


def _intro() -> Iterator[str]:
    yield "# Phases and reasons of an AITrainingJob"
    yield ""
    yield "Written by `tools/write_phases.py` from the operator's own tables; do not edit."
    yield ""


def _phases() -> Iterator[str]:
    yield "## Phases"
    yield ""
    yield "`status.phase`; the first that holds, in the order final, Terminating, Restarting,"
    yield "Running, Creating, Pending. Each phase that was entered has a condition of its name."
    yield ""
    yield "| phase | when | may be followed by |"
    yield "| --- | --- | --- |"
    for phase in AITrainingJobPhase:
        after = ", ".join(
            _name(p) for p in AITrainingJobPhase if p in TRANSITIONS[phase] and p is not phase
        )
        yield f"| {_name(phase)} | {PHASE_TEXT[phase]} | {after or 'nothing'} |"
    yield ""


def _diagram() -> Iterator[str]:
    """Final phases are drawn as one: they differ in nothing but their name."""
    yield "## Diagram"
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    final = " | ".join(phase.value for phase in AITrainingJobPhase if phase in FINAL_PHASES)
    yield f'    state "{final}" as Final'
    for phase in AITrainingJobPhase:
        if phase in FINAL_PHASES:
            continue
        for after in AITrainingJobPhase:
            if after in TRANSITIONS[phase] - FINAL_PHASES and after is not phase:
                yield f"    {phase.value or '[*]'} --> {after.value}"
        if TRANSITIONS[phase] & FINAL_PHASES:
            yield f"    {phase.value or '[*]'} --> Final"
    yield "    Final --> [*]"
    yield "```"
    yield ""


def _reasons() -> Iterator[str]:
    yield "## Reasons"
    yield ""
    yield "`status.reason`, the reason of events, and the label `cause` of"
    yield "`swell_job_restarts_total`. Entering a phase is told as `TrainingJob<Phase>`."
    yield ""
    yield "| reason | meaning | starts a restart |"
    yield "| --- | --- | --- |"
    for reason, text in REASON_TEXT.items():
        yield f"| {reason.value} | {text} | {'yes' if reason in RESTART_REASONS else ''} |"


def _name(phase: AITrainingJobPhase) -> str:
    return phase.value or "(none)"


if __name__ == "__main__":
    PAGE.write_text(page())
