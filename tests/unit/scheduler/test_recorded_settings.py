"""Settings of plugins and the placements that they change: recorded input, and both outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swell.cli.plan.input import read_objects
from swell.scheduler.config_file import parse
from swell.scheduler.cycle import KNOWN
from swell.scheduler.plan import plan_schedule
from tests.scheduler_cases import SETTINGS


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: path.stem)
def test_setting_changes_a_placement(path: Path, tmp_path: Path) -> None:
    """The same objects get one plan without the setting and another one with it."""
    case = json.loads(path.read_text(encoding="utf-8"))
    manifest = tmp_path / "objects.json"
    items = {"apiVersion": "v1", "kind": "List", "items": case["objects"]}
    manifest.write_text(json.dumps(items), encoding="utf-8")
    without, given = case["outcomes"]

    assert without["binds"] != given["binds"]
    for outcome in (without, given):
        parsed = parse(outcome["config"], KNOWN)
        plan = plan_schedule(read_objects([str(manifest)]), parsed.config)

        assert parsed.warnings == () or "hang on their nodes" in parsed.warnings[0]
        assert {task.key: node for task, node in plan.binds.items()} == outcome["binds"]


def test_every_name_is_one_of_a_plugin() -> None:
    """The settings that the cases are about exist."""
    names = {
        f"{plugin} {name}"
        for plugin, known in KNOWN.plugins.items()
        for name in (*known.arguments, *known.switches)
    }

    assert {name for path in SETTINGS for name in json.loads(path.read_text())["settings"]} <= names


def test_every_setting_of_volcano_that_counts_has_a_case() -> None:
    """What is accepted is not accepted for nothing.

    All but the time that volumes may take: it decides when a gang is released, not where it goes.
    """
    counting = {
        "nodegroup enableHierarchy",
        "nodegroup enablePreferredOrder",
        "nodegroup strict",
        "nodeorder imagelocality.weight",
        "nodeorder podtopologyspread.weight",
        "predicates predicate.DynamicResourceAllocationEnable",
        "predicates predicate.NodeVolumeLimitsEnable",
        "predicates predicate.ProportionalEnable",
        "predicates predicate.VolumeBindingEnable",
        "predicates predicate.VolumeZoneEnable",
        "predicates predicate.resources",
        "predicates predicate.resources.",
        "resource-strategy-fit proportional",
        "resource-strategy-fit resourceStrategyFitWeight",
        "resource-strategy-fit resources",
        "resource-strategy-fit sra",
    }

    assert counting <= {
        one for path in SETTINGS for one in json.loads(path.read_text())["settings"]
    }
