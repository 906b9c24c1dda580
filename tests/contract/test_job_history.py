"""`swell history` on the embedded server and on a real one: what shards say."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import yaml

from swell.cli.sweeps.row_jobs import SWEEP_LABEL
from swell.history.life import JobLife, PhaseChange, RoleShape
from swell.history.shards import HISTORY_LABEL, ShelfIndex, ShelfName, writes_for
from swell.replay.traces import read_trace
from tests.contract.swell_command import Swell

DAY_S = 86400.0


def a_life(swell: Swell, name: str, ended_ago_s: float, **labels: str) -> JobLife:
    ended = float(int(time.time() - ended_ago_s))
    return JobLife(
        uid=f"uid-{name}",
        kind="AITrainingJob",
        namespace=swell.namespace,
        name=name,
        created=ended - 100,
        ended=ended,
        phase="Succeed",
        reason="RolesCompleted",
        labels=labels,
        roles={"trainer": RoleShape(1, 2, 2, 1000, 1 << 30, 1)},
        phases=(
            PhaseChange(ended - 100, "Pending"),
            PhaseChange(ended - 90, "Running"),
            PhaseChange(ended - 40, "Restarting", "NodeLost", "node n1 is gone"),
            PhaseChange(ended - 20, "Running"),
        ),
    )


def keep(swell: Swell, *lives: JobLife) -> None:
    """Write records as an operator does, by hand."""
    for write in writes_for(ShelfIndex(), lives):
        shard = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "swell-history-test-00000",
                "labels": {HISTORY_LABEL: ShelfName.ENDED.value},
            },
            "binaryData": write.texts,
        }
        assert swell.apply(yaml.safe_dump(shard)).code == 0


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_history_is_shown_filtered_and_exported(swell: Swell, tmp_path: Path) -> None:
    """The last end first; by age, by labels, by name; as a table, JSON, and a trace."""
    keep(
        swell,
        a_life(swell, "old", 9 * DAY_S, team="a"),
        a_life(swell, "new", 60, team="b"),
    )

    assert names(swell.here("history").out) == ["new", "old"]
    assert names(swell.here("history", "--since", "7d").out) == ["new"]
    assert names(swell.here("history", "-l", "team in (a)").out) == ["old"]
    assert [one["name"] for one in json.loads(swell.here("history", "-o", "json").out)] == [
        "new",
        "old",
    ]
    single = json.loads(swell.here("history", "new", "-o", "json").out)[0]
    assert single["ledger"]["node"] == 20
    assert sum(single["ledger"].values()) == single["wallSeconds"] == 100
    assert "node n1 is gone" in swell.here("history", "new").out
    exported = swell.here("history", "-o", "csv").out
    assert [row["job"] for row in csv.DictReader(io.StringIO(exported))] == ["old", "new"]
    path = tmp_path / "history.csv"
    path.write_text(exported)
    assert [job.maximum for job in read_trace(path)] == [2, 2]
    # Nine days with every controller would take a minute.
    replayed = swell("replay", str(path), "--nodes", "2x2", "--policy-only", "-o", "json")
    assert replayed.code == 0, replayed.err


def test_a_report_is_written_for_a_job_and_for_all(swell: Swell, tmp_path: Path) -> None:
    """As a page to stdout or to a file, and as JSON with the same numbers."""
    keep(swell, a_life(swell, "one", 60), a_life(swell, "two", 50))
    page = tmp_path / "report.html"

    assert swell.here("report", "one", "--file", str(page)).code == 0
    assert "node n1 is gone" in page.read_text()
    assert "two" not in page.read_text()
    every = swell.here("report", "--all").out
    assert every.startswith("<!doctype html>")
    assert "2 jobs" in every
    found = json.loads(swell.here("report", "one", "-o", "json").out)[0]
    assert sum(one["seconds"] for one in found["timeline"]) == found["wallSeconds"] == 100
    assert swell.here("report").code == 2
    assert swell.here("report", "one", "--all").code == 2
    assert swell.here("report", "nobody").code == 1


def test_living_jobs_are_in_the_history_as_of_now(swell: Swell) -> None:
    """From their own objects: no record is needed for that."""
    job = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "alive"},
        "spec": {
            "replicaSpecs": {
                "trainer": {
                    "replicas": 2,
                    "template": {
                        "spec": {"containers": [{"name": "aitj-trainer", "image": "local"}]}
                    },
                }
            }
        },
    }
    assert swell.apply(yaml.safe_dump(job)).code == 0
    found = json.loads(swell.here("history", "-o", "json").out)[0]

    assert (found["name"], found["ended"]) == ("alive", None)
    assert found["wallSeconds"] == sum(found["ledger"].values())


def test_mistakes_are_said_in_a_sentence(swell: Swell) -> None:
    """An unknown job, a bad selector, a bad duration; and nothing is no error."""
    assert swell.here("history").code == 0
    unknown = swell.here("history", "nobody")
    assert (unknown.code, "no record of a job 'nobody'" in unknown.err) == (1, True)
    assert swell.here("history", "-l", "a in (").code == 2
    assert swell.here("history", "--since", "soon").code == 2


def test_history_of_a_sweep_is_that_of_its_jobs(swell: Swell) -> None:
    keep(
        swell,
        a_life(swell, "s-0", 30, **{SWEEP_LABEL: "s"}),
        a_life(swell, "s-1", 60, **{SWEEP_LABEL: "s", "team": "a"}),
        a_life(swell, "other", 60),
    )

    assert names(swell.here("history", "sweep/s").out) == ["s-0", "s-1"]
    assert names(swell.here("history", "sweep/s", "-l", "team=a").out) == ["s-1"]
    report = json.loads(swell.here("report", "sweep/s", "-o", "json").out)
    assert [one["name"] for one in report] == ["s-0", "s-1"]
