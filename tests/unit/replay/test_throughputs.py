"""Traces of jobs with deadlines, whose programs are tables of speeds by size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swell.cli.main import run
from swell.replay.engine import new_runs, replay
from swell.replay.figures import figures_of
from swell.replay.physics import JobRun, restarts
from swell.replay.profiles import ProfileError
from swell.replay.sizers import SIZERS, ReplayCluster
from swell.replay.throughputs import read_throughputs
from swell.replay.traces import TraceError, TraceJob, read_trace

ELASTIC_FLOW = Path(__file__).parents[2] / "data" / "elastic" / "elasticflow"
SPEEDS = ELASTIC_FLOW / "throughputs_A100"


def a_job(**fields: object) -> JobRun:
    given = {"program": "vgg16", "batch": 256, "steps": 1313.656050830868, **fields}
    trace = [TraceJob("job", 0.0, **given)]  # type: ignore[arg-type]
    return new_runs(trace, read_throughputs(SPEEDS), restarts(0.0))[0]


@pytest.mark.parametrize(("size", "seconds"), [(1, 1000.0), (2, 520.7), (3, 366.7), (4, 283.0)])
def test_job_takes_its_steps_at_the_speed_of_its_size(size: int, seconds: float) -> None:
    """Between two measured sizes the speed is linear."""
    job = a_job()
    job.place((size,), 0.0)
    job.advance(2000.0, 0.0)

    assert job.ended_s == pytest.approx(seconds, rel=0.01)


def test_largest_size_is_the_fastest_one() -> None:
    assert a_job().size_max == 64
    assert a_job(program="gpt2", batch=256).size_max == 32
    assert a_job(program="resnet50_cifar10", batch=64).size_max == 4


def test_trace_begins_with_its_first_job() -> None:
    jobs = read_trace(ELASTIC_FLOW / "195job.csv")

    assert len(jobs) == 195
    assert jobs[0].submitted_s == 0.0
    assert all(job.deadline_s is not None and job.deadline_s > job.submitted_s for job in jobs)
    assert {job.program for job in jobs} <= set(read_throughputs(SPEEDS))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"batch": 7}, "no speeds at a batch of 7"), ({"program": "none"}, "no profile of none")],
)
def test_jobs_without_speeds_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        a_job(**fields)


@pytest.mark.parametrize("text", ["", "global_batch_size,1,x\n1,2,3\n", "global_batch_size,4,2\n"])
def test_malformed_tables_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(text)

    with pytest.raises(ProfileError, match="holds no speeds"):
        read_throughputs(tmp_path)
    with pytest.raises(ProfileError, match="neither"):
        read_throughputs(tmp_path / "nowhere")


def test_more_deadlines_are_kept_than_by_other_policies() -> None:
    """On the first jobs of a public trace, with a quarter of the devices of its cluster."""
    trace = read_trace(ELASTIC_FLOW / "195job.csv")[:24]
    kept = {}
    for policy in SIZERS:
        runs = new_runs(trace, read_throughputs(SPEEDS), restarts(30.0))
        log = replay(runs, ReplayCluster(4, 8, "shared"), policy, 300.0)
        kept[policy] = figures_of(log, policy).deadlines_kept or 0.0

    assert max(kept, key=lambda name: kept[name]) == "goodput"
    assert kept["goodput"] > 0.5


def test_command_tells_the_share_of_deadlines_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.csv"
    lines = (ELASTIC_FLOW / "cluster10.csv").read_text().splitlines()[:6]
    path.write_text("\n".join(lines))
    given = [str(path), "--profiles", str(SPEEDS), "--nodes", "4x8", "--policy-only"]

    assert run(["replay", *given, "--tier", "shared", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert 0 <= found["deadlines_kept"] <= 1
