"""The page and the picture of elastic training's figures are those of the kept events."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import training_at_once
from bench.training_at_once import Found, Running, merged
from bench.training_figures import UNNAMED, Events, rows, table
from tools.write_training_figures import PAGE, PICTURE, RESULT, page, picture, taken_over

EVENT = {"load": 3.0, "rejoin_pause_s": 0.1, "full_s": 5.0, "join_s": 0.2, "n_redone": 0}
FOUND: Events = {
    "library DDP": {
        "kill one": [{**EVENT, "pause_s": pause, "n_crashed": 0} for pause in (0.1, 0.7, 0.2)],
        "4 to 2": [{**EVENT, "pause_s": 0.4, "load": 11.0, "n_crashed": 0}],
    },
    "torchrun": {"kill one": [{**EVENT, "pause_s": 12.0, "n_crashed": 3, "machine": "here"}]},
}


def test_page_and_picture_are_up_to_date() -> None:
    found = json.loads(RESULT.read_text())

    assert PAGE.read_text() == page(found)
    assert PICTURE.read_text() == picture(found)
    assert (PAGE.parent / "pictures" / Path(PICTURE).name).exists()


def test_rows_are_judged_by_their_bounds() -> None:
    """Medians for most rows; the worst for rows about single events, under a moderate load."""
    found = {row.label: row for row in rows(FOUND)}

    assert found["library DDP, kill one: pause, s"].measured == 0.2
    assert found["library DDP, kill one: pause, s"].is_met
    assert found["library DDP, 4 to 2: pause, s"].is_met is False
    [worst] = [row for label, row in found.items() if "DDP, worst" in label]
    assert worst.measured == 0.7
    assert found["torchrun: events in which all other agents crashed"].is_met is False
    assert found["launcher warm, kill one: pause, s"].is_met is None


def test_steps_that_were_skipped_are_lost_like_those_done_again() -> None:
    def lost(n_redone: int) -> float | None:
        events = [{**EVENT, "pause_s": 0.0, "n_redone": n_redone, "n_crashed": 0}]
        found = rows({"library DDP": {"preempted whole": events}})
        return next(row.measured for row in found if "steps lost" in row.label)

    assert (lost(0), lost(3), lost(-3)) == (0.0, 3.0, 3.0)


def test_table_tells_what_is_missing_and_what_is_missed() -> None:
    lines = table(FOUND).splitlines()

    assert any("launcher JAX, 4 to 2" in line and "not measured" in line for line in lines)
    assert any("library DDP, 4 to 2" in line and line.endswith("MISSED") for line in lines)


def test_page_tells_machines_apart() -> None:
    lines = page(FOUND).splitlines()

    assert {f"- **A**: {UNNAMED}", "- **B**: here"} <= set(lines)
    [ddp] = [line for line in lines if line.startswith("| library DDP, kill one: pause")]
    [torchrun] = [line for line in lines if line.startswith("| torchrun, kill one")]
    assert ddp.endswith("| A | met |")
    assert torchrun.endswith("| B | met |")


def test_a_run_leaves_the_events_that_it_has_not_caused() -> None:
    """It replaces those of its own, or adds to them; a run that was broken off loses nothing."""
    before = {"kill one": [{"n": 1}], "4 to 2": [{"n": 2}]}
    measured = {"kill one": [{"n": 3}], "4 to 2": [], "2 to 4": []}

    replaced = merged(before, measured, adds=False)
    added = merged(before, measured, adds=True)

    assert replaced == {"kill one": [{"n": 3}], "4 to 2": [{"n": 2}]}
    assert added == {"kill one": [{"n": 1}, {"n": 3}], "4 to 2": [{"n": 2}]}


def test_results_of_other_machines_are_taken_over() -> None:
    """Those of several runs together; ways and events that they do not have stay."""
    kept: Found = {"a": {"kill one": [{"n": 0}], "4 to 2": [{"n": 1}]}, "b": {"kill one": []}}
    others: list[Found] = [{"a": {"kill one": [{"n": 2}]}}, {"a": {"kill one": [{"n": 3}]}}]

    replaced = taken_over(kept, others, adds=False)
    added = taken_over(kept, others, adds=True)

    assert replaced["a"] == {"kill one": [{"n": 2}, {"n": 3}], "4 to 2": [{"n": 1}]}
    assert added["a"]["kill one"] == [{"n": 0}, {"n": 2}, {"n": 3}]
    assert replaced["b"] == kept["b"]


def test_a_way_that_is_named_twice_is_measured_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of both runs keeps its events in a file of its own; all of them count.

    They are kept before all ways have ended, and so outlive a run that is killed.
    """
    kept: list[Found] = []
    done = tmp_path / "done"

    def start(name: str, result: Path, processors: tuple[int, ...]) -> Running:
        result.write_text(json.dumps({name: {"kill one": [{"n": result.stem}]}}))
        # The last one ends only when the others have been kept.
        program = (
            ["true"] if name == "a" else ["sh", "-c", f"until [ -e {done} ]; do sleep 0.02; done"]
        )
        return Running(name, subprocess.Popen(program), result, processors)

    def keep(found: Found) -> None:
        kept.append(found)
        done.touch()

    monkeypatch.setattr(training_at_once, "_start", start)
    monkeypatch.setattr(training_at_once, "LOOK_S", 0.01)
    monkeypatch.delenv("MORE", raising=False)
    before = {"a": {"kill one": [{"n": "old"}]}}
    found = training_at_once.measure_at_once(["a", "a", "b"], before, keep)

    assert sorted(one["n"] for one in found["a"]["kill one"]) == ["0", "1"]
    assert found["b"] == {"kill one": [{"n": "2"}]}
    assert kept[-1] == found


def test_picture_shows_every_event() -> None:
    drawn = ET.fromstring(picture(FOUND))
    name = "{http://www.w3.org/2000/svg}"

    assert len(list(drawn.iter(f"{name}circle"))) == 5
    assert {"kill one", "torchrun"} <= {text.text for text in drawn.iter(f"{name}text")}
