"""Writes docs/reference/scheduling-reasons.md from the scheduler's own enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swell.scheduler.model.reasons import NODES, WAITING, WaitReason

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scheduling-reasons.md"


def page() -> str:
    return "\n".join([*_waiting(), *_nodes(), ""])


def _waiting() -> Iterator[str]:
    yield "# Why a group waits: the reasons"
    yield ""
    yield "Written by `tools/write_reasons.py` from the scheduler's own enumeration; do not edit."
    yield "A reason stands in the group's condition `Unschedulable`, at the head of the message of"
    yield "the pods' condition `PodScheduled`, and in `swell explain`."
    yield ""
    yield "| reason | meaning | what helps |"
    yield "| --- | --- | --- |"
    for reason in WaitReason:
        if reason in WAITING:
            meaning, help_ = WAITING[reason]
            yield f"| {reason.value} | {meaning} | {help_} |"
    yield ""


def _nodes() -> Iterator[str]:
    yield "## Why a node refuses a pod"
    yield ""
    yield "| reason | meaning |"
    yield "| --- | --- |"
    for reason in WaitReason:
        if reason in NODES:
            yield f"| {reason.value} | {NODES[reason]} |"


if __name__ == "__main__":
    PAGE.write_text(page())
