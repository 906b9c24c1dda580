"""Behaviours recorded from kube-apiserver v1.36.3, replayed against the embedded server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.figures import Figure

RUNNER = Path(__file__).parent / "recorded" / "run.py"
TIMEOUT_S = 300.0
# What controllers stand on: no difference at all.
WHOLE = frozenset(
    {
        "binding",
        "cel",
        "controllers",
        "create",
        "crd",
        "crschema",
        "crstatus",
        "delete",
        "deletecollection",
        "dryrun",
        "edges",
        "errors",
        "eviction",
        "fieldselector",
        "finalizers",
        "gc",
        "generation",
        "get",
        "jsonpatch",
        "labelselector",
        "mergepatch",
        "namespace",
        "paging",
        "quirks",
        "resourceversion",
        "states",
        "status",
        "update",
        "watch",
    }
)
OTHERS_TOGETHER = 0.9
OTHERS_EACH = 0.6


class Parity(NamedTuple):
    agree: int
    of: int

    @property
    def share(self) -> float:
        return self.agree / self.of

    def __str__(self) -> str:
        return f"{self.agree} of {self.of} ({100 * self.share:.1f} %)"


@pytest.fixture(scope="module")
def report(embedded_kubeconfig: Path) -> dict[str, Parity]:
    """Parity by subject; the differences are printed."""
    command = [sys.executable, str(RUNNER), "--kubeconfig", str(embedded_kubeconfig), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    for row in found["behaviours"]:
        if not row["agrees"]:
            print(f"{row['subject']}/{row['name']}: {row['differences'][0]}")  # noqa: T201
    return {name: Parity(one["agree"], one["of"]) for name, one in found["subjects"].items()}


def test_recorded_subjects_that_controllers_stand_on(
    report: dict[str, Parity], figure: Figure
) -> None:
    """In these subjects the embedded server behaves as the real one, without exception."""
    for subject, parity in report.items():
        figure(f"{subject}: {parity}")

    assert report.keys() >= WHOLE
    assert {subject: str(report[subject]) for subject in WHOLE if report[subject].share < 1} == {}


def test_recorded_other_subjects(report: dict[str, Parity]) -> None:
    """Of the others at most one in ten differs, and no subject is neglected."""
    others = {subject: parity for subject, parity in report.items() if subject not in WHOLE}
    together = Parity(sum(p.agree for p in others.values()), sum(p.of for p in others.values()))

    assert together.share >= OTHERS_TOGETHER, str(together)
    assert {s: str(p) for s, p in others.items() if p.share < OTHERS_EACH} == {}
