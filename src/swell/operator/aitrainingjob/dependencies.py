"""Jobs that must have succeeded before this one begins (`spec.after`). Pure.

Each is recorded in the status as it is seen: waiting, how it ended, or gone. So a job that
succeeded and was deleted since has succeeded, and one that was never there is told from one that is
gone. Once this job has started they do not matter any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobStatus
from swell.api.aitrainingjob import AITrainingJobPhase as Phase

# States of a dependency beside the final phases.
WAITING, GONE = "Waiting", "Gone"


def with_dependencies(
    status: AITrainingJobStatus, after: Iterable[str], phases: Mapping[str, Phase]
) -> AITrainingJobStatus:
    """The status with the state of each dependency; `phases` has those that exist."""
    held = status.dependencies
    known: dict[str, str] = {}
    for name in after:
        phase = phases.get(name)
        if phase is not None:
            known[name] = phase.value if phase in FINAL_PHASES else WAITING
        elif name in held:
            known[name] = held[name] if held[name] == Phase.SUCCEED.value else GONE
    return replace(status, dependencies=known)


def failed(status: AITrainingJobStatus) -> str:
    """The dependencies that did not succeed, with how they ended; empty when there is none."""
    bad = {name: s for name, s in status.dependencies.items() if s not in _GOOD}
    return ", ".join(f"{name} is {state}" for name, state in bad.items())


_GOOD = frozenset({WAITING, Phase.SUCCEED.value})


def awaited(status: AITrainingJobStatus, after: Iterable[str]) -> str:
    """The jobs that this one waits for; empty when all have succeeded."""
    waiting = [name for name in after if status.dependencies.get(name) != Phase.SUCCEED.value]
    absent = [name for name in waiting if name not in status.dependencies]
    text = f"waits for {', '.join(waiting)}" if waiting else ""
    return f"{text}; there is no {', '.join(absent)} yet" if absent else text
