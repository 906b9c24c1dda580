"""Estimates of starts as people see them: in `explain`, `top` and `plan queue`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase, StartEstimate
from swell.api.codec import convert, decode, encode
from swell.api.meta import Key
from swell.api.times import format_time
from swell.api.trainingjob import TrainingJob
from swell.cli.explain.text import render
from swell.cli.main import run
from swell.cli.objects.top import start_rows
from swell.outlook.explaining import ExplainReport
from swell.outlook.starts import sentence
from swell.outlook.target import ExplainTarget
from swell.scheduler.explain.positions import QueuePosition
from tests.unit.cli.test_plan_job import JOB, NODES, OTHER, POD

NOW = 1_800_000_000.0


def estimate(
    p10: float | None, p50: float | None, p90: float | None, on: str = ""
) -> StartEstimate:
    p10_text, p50_text, p90_text = (
        None if one is None else format_time(NOW + one) for one in (p10, p50, p90)
    )
    return StartEstimate(p10=p10_text, p50=p50_text, p90=p90_text, depends_on=on)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (estimate(300, 600, 1200), "between 5m and 20m from now, half of such jobs within 10m"),
        (estimate(-5, 90, 7200), "between 0s and 2h from now, half of such jobs within 90s"),
        (
            estimate(None, None, None, "team/old"),
            "unknown: team/old runs, and when it ends is unknown",
        ),
        (estimate(60, None, None), "not before 60s from now; beyond that unknown"),
        (
            estimate(60, 120, None, "team/old"),
            "between 60s and a time that is unknown: team/old runs, and when it ends is unknown, "
            "half of such jobs within 2m",
        ),
        (StartEstimate(p10="soon"), "not before unknown from now; beyond that unknown"),
    ],
)
def test_estimate_is_never_one_number(given: StartEstimate, text: str) -> None:
    assert sentence(given, NOW) == text


def a_job(phase: AITrainingJobPhase) -> AITrainingJob:
    job = convert({"metadata": {"name": "fit", "namespace": "team"}}, AITrainingJob)
    status = structs.replace(job.status, phase=phase, start_estimate=estimate(300, 600, 1200))
    return structs.replace(job, status=status)


def test_top_shows_the_starts_of_jobs_that_wait() -> None:
    waiting, running = (a_job(AITrainingJobPhase.PENDING), a_job(AITrainingJobPhase.RUNNING))

    assert start_rows([running], {}, NOW) == []
    heading, row = start_rows([waiting, running], {}, NOW)
    assert dict(zip(heading, row, strict=True)) == {
        "JOB": "fit",
        "POSITION": "-",
        "STARTS AFTER": "5m",
        "HALF BY": "10m",
        "MOST BY": "20m",
        "DEPENDS ON": "-",
    }


def test_top_shows_positions_where_no_start_is_known() -> None:
    """Of both kinds of job; a position alone is worth a row."""
    old = convert({"metadata": {"name": "old", "namespace": "team", "uid": "u"}}, TrainingJob)

    _, row = start_rows([old], {"u": QueuePosition("q", 2, 3)}, NOW)

    assert row == ["TrainingJob/old", "2/3", "unknown", "unknown", "unknown", "-"]


def test_explain_shows_the_start() -> None:
    key = Key("team", "fit")
    report = ExplainReport(ExplainTarget("AITrainingJob", key, key, start=estimate(300, 600, 1200)))

    assert "Starts    between 5m and 20m from now" in render(report, NOW)
    assert report.body()["startEstimate"]["p50"] == format_time(NOW + 600)


def test_estimate_survives_in_an_object_and_is_optional() -> None:
    job = a_job(AITrainingJobPhase.PENDING)

    assert decode(encode(job), AITrainingJob) == job
    assert b"startEstimate" not in encode(AITrainingJob())


def dump(tmp_path: Path, training: str = "") -> list[str]:
    other = OTHER.replace("MIN", "5").replace("targetReplicas", f"{training}targetReplicas", 1)
    pods = "".join(
        POD.replace("INDEX", str(n)).replace("NODE", "n1" if n < 4 else "n2") for n in range(5)
    )
    waiting = (
        "\n---"
        + JOB.replace("SIZE", "2")
        + "status: {phase: Pending, targetReplicas: {trainer: 2}}\n"
    )
    path = tmp_path / "dump.yaml"
    path.write_text(NODES + other + pods + waiting)
    return ["plan", "queue", "-f", str(path)]


def test_plan_queue_says_when_and_what_it_hangs_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(dump(tmp_path)) == 0
    assert "team/old" in capsys.readouterr().out
    training = "training: {samples: 0, totalSamples: 6000, rates: {'5': '10'}}, "
    assert run([*dump(tmp_path, training), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["job"] == "team/fit"
    times = found["startEstimate"]
    assert times["p10"] < times["p50"] < times["p90"]
    assert run([*dump(tmp_path), "other"]) == 0
    assert capsys.readouterr().out == "no job waits\n"


def test_plan_job_says_when_a_job_that_waits_would_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = "training: {samples: 0, totalSamples: 6000, rates: {'5': '10'}}, "
    (*_, path) = dump(tmp_path, training)
    planned = tmp_path / "job.yaml"
    planned.write_text(JOB.replace("SIZE", "2").replace("fit", "next"))

    assert run(["plan", "job", str(planned), "-f", path, "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["starts"] == "waits"
    assert "half of such jobs within" in found["why"]
    assert found["startEstimate"]["p10"] < found["startEstimate"]["p90"]
