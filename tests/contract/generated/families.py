"""All generated behaviours, and the ground that they stand on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.contract.generated import customs, objects, patches, reading, workloads
from tests.contract.generated.steps import Case

_RECORDED = Path(__file__).resolve().parent.parent / "recorded" / "cases"


def _setup(*subjects: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for subject in subjects:
        found += json.loads((_RECORDED / f"{subject}.json").read_text(encoding="utf-8"))["setup"]
    return found


SETUP = _setup("crschema", "cel")


def all_cases(rng: random.Random) -> list[Case]:
    return [
        *patches.all_cases(),
        *objects.all_cases(),
        *reading.all_cases(),
        *workloads.all_cases(),
        *customs.all_cases(),
    ]
