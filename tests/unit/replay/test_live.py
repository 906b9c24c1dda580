"""Replays with the real operator, scheduler and autoscaler, in virtual time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from swell.cli.main import run
from swell.replay.engine import ReplayLog, new_runs
from swell.replay.figures import figures_of
from swell.replay.histories import read_jobs, serial_share, trace_jobs
from swell.replay.live.engine import LiveRules, replay_live
from swell.replay.physics import ELASTIC, restarts
from swell.replay.sizers import ReplayCluster
from swell.replay.traces import TraceJob

TRACE = [
    TraceJob("long", 0.0, work_s=1800.0, maximum=8, requested=4, serial=0.02),
    TraceJob("short", 200.0, work_s=200.0, maximum=4, requested=2, serial=0.1),
    TraceJob("pair", 400.0, work_s=300.0, minimum=2, maximum=4, requested=2, serial=0.05),
]


def replayed(policy: str = "goodput") -> ReplayLog:
    runs = new_runs(TRACE, {}, ELASTIC)
    return replay_live(runs, ReplayCluster(2, 4), LiveRules(policy, 30.0, 30.0))


@cache
def by_goodput() -> ReplayLog:
    return replayed()


def test_jobs_grow_and_end_within_capacity() -> None:
    log = by_goodput()

    assert all(job.is_done for job in log.jobs)
    assert max(sum(sizes.values()) for _, sizes in log.rounds) <= log.capacity
    # Alone on one device the first job would take half an hour.
    assert (log.jobs[0].ended_s or 0) < 900
    assert all(job.n_resizes for job in log.jobs[:1])


def test_same_replay_twice_is_the_same() -> None:
    first, second = by_goodput(), replayed()

    assert first.rounds == second.rounds
    assert [job.ended_s for job in first.jobs] == [job.ended_s for job in second.jobs]


def test_minimum_is_never_undercut_and_starts_at_once() -> None:
    log = by_goodput()

    sizes = [held["pair"] for _, held in log.rounds if held.get("pair")]
    assert sizes
    assert min(sizes) >= 2
    assert all((job.started_s or 0) - job.submitted_s < 10 for job in log.jobs)


def test_rigid_jobs_keep_the_requested_size() -> None:
    log = replayed("first-come")

    assert {held["long"] for _, held in log.rounds if held.get("long")} == {4}
    assert all(job.n_resizes == 0 for job in log.jobs)


def test_restart_costs_are_paid_by_the_physics() -> None:
    """A rigid job that is alone takes a restart and its work by its speed, and nothing else."""
    trace = [TraceJob("alone", 60.0, work_s=400.0, maximum=4, requested=4, serial=0.0)]
    log = replay_live(
        new_runs(trace, {}, restarts(30.0)), ReplayCluster(1, 4), LiveRules("first-come")
    )

    assert figures_of(log, "first-come").mean_s == pytest.approx(130.0, abs=3.0)


def test_remainders_below_the_resolution_of_a_clock_are_passed() -> None:
    """A pause that is over but for a rounding error is not waited for again and again."""
    run_ = new_runs([TraceJob("a", 0.0, work_s=60.0)], {}, restarts(30.0))[0]
    run_.place((1,), 0.0)
    run_.advance(30.0 - 1e-12, 0.0)

    assert (run_.next_change_s() or 0.0) >= 1e-7


def test_history_of_a_replay_is_a_trace_of_the_same_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a replay writes as a history can be replayed, and has the same jobs and work."""
    path, again = tmp_path / "trace.csv", tmp_path / "history.jsonl"
    lines = [
        f"{j.name},{j.submitted_s},{j.work_s},{j.minimum},{j.maximum},{j.serial}" for j in TRACE
    ]
    path.write_text("\n".join(["name,time,work_s,min,max,serial", *lines]))

    pace = ["--period", "30", "--cooldown", "30"]
    assert run(["replay", str(path), "--nodes", "2x4", *pace, "-o", "history"]) == 0
    again.write_text(capsys.readouterr().out)
    jobs, n_left_out = read_jobs(again)

    assert n_left_out == 0
    assert [job.name for job in jobs] == [job.name for job in TRACE]
    assert [job.maximum for job in jobs] == [8, 4, 4]
    for found, given in zip(jobs, TRACE, strict=True):
        assert found.serial == pytest.approx(given.serial, abs=1e-6)
        # What was started and not trained (loading, a pause) counts as work, and rounds of notes.
        assert found.work_s == pytest.approx(given.work_s, rel=0.5)
    assert run(["replay", str(again), "--nodes", "2x4", "--policy-only", "-o", "json"]) == 0


def test_serial_share_is_fitted_to_rates() -> None:
    assert serial_share({"1": 10.0, "4": 40 / 1.3, "8": 80 / 1.7}) == pytest.approx(0.1)
    assert serial_share({"4": 5.0}) == 0.05
    assert serial_share({"1": 10.0, "8": 10.0}) == 1.0


def test_jobs_without_end_are_left_out_of_a_history() -> None:
    assert trace_jobs([]) == ([], 0)
