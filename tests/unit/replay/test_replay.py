"""Replays: the physics of programs, traces, and rounds of policies in virtual time."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from swell.cli.main import run
from swell.replay.engine import ReplayLog, new_runs, replay
from swell.replay.figures import figures_of
from swell.replay.interpolation import Mesh
from swell.replay.physics import ELASTIC, JobRun, ResizeCost, restarts
from swell.replay.placing import place
from swell.replay.profiles import TrainedProgram, normal, read_profiles
from swell.replay.sizers import SIZERS, ReplayCluster
from swell.replay.traces import TraceError, TraceJob, read_trace

POLLUX = Path(__file__).parents[2] / "data" / "elastic" / "pollux"
PLAIN = "name,time,work_s,min,max,serial\na,0,600,1,8,0.02\nb,30,300,1,4,0.5\nc,70,2400,1,16,0.01\n"


@cache
def programs() -> dict[str, TrainedProgram]:
    return read_profiles(POLLUX)


def alone(program: str, placement: tuple[int, ...], cost: ResizeCost) -> JobRun:
    """A job that has the same replicas from its first moment to its end."""
    job = JobRun("job", programs()[program], 0.0, cost)
    job.place(placement, 0.0)
    now = 0.0
    while not job.is_done:
        job.advance(600.0, now)
        now += 600.0
    return job


@pytest.mark.parametrize(
    ("program", "placement"),
    [("ncf", (1,)), ("cifar10", (1,)), ("cifar10", (4,)), ("yolov3", (1,)), ("yolov3", (4,))],
)
def test_undisturbed_job_takes_its_ideal_time(program: str, placement: tuple[int, ...]) -> None:
    """Alone and without restarts a program takes what the profiles say, within four percent: it
    chooses its batch by its own model of itself, and only between epochs."""
    job = alone(program, placement, restarts(0.0))
    ideal = programs()[program].ideal_s[sum(placement)]

    assert job.ended_s == pytest.approx(ideal, rel=0.04)
    assert job.progress == programs()[program].total_progress


def test_batch_is_chosen_anew_within_an_epoch() -> None:
    """A job with epochs of two hours does not keep its first batch for so long."""
    job = JobRun("job", programs()["bert"], 0.0, restarts(0.0))
    job.place((4,), 0.0)
    job.advance(90.0, 0.0)

    assert job.epoch == 0
    assert len({sample.batch for sample in job.samples.values()}) > 1
    assert job.next_change_s() == pytest.approx(30.0, abs=30.0)


def test_restart_holds_devices_and_makes_no_progress() -> None:
    quick, slow = (alone("ncf", (1,), restarts(seconds)) for seconds in (0.0, 30.0))

    assert (slow.ended_s or 0) - (quick.ended_s or 0) == pytest.approx(30.0)
    assert slow.gpu_s - quick.gpu_s == pytest.approx(30.0)


def test_survivors_train_while_newcomers_load() -> None:
    """With Swell's own library a resize costs half a second, and the start ten."""
    still, grown = (JobRun("job", programs()["cifar10"], 0.0, ELASTIC) for _ in range(2))
    for job in (still, grown):
        job.place((2,), 0.0)
        job.advance(100.0, 0.0)
    before = grown.progress
    grown.place((4,), 100.0)
    grown.advance(10.0, 100.0)
    still.advance(10.0, 100.0)

    assert grown.progress == pytest.approx(still.progress, rel=0.02)
    grown.advance(0.5, 110.0)
    assert grown.progress - before == pytest.approx(still.progress - before, rel=0.1)
    grown.advance(20.0, 110.5)
    still.advance(20.5, 110.0)
    assert grown.progress > still.progress


def test_placements_are_looked_up_by_smallest_rotation() -> None:
    assert normal((4, 0, 1, 2)) == (1, 2, 4)
    assert programs()["bert"].step_times((3, 1), 8) == programs()["bert"].step_times((1, 3), 8)


def test_times_between_measured_shapes_are_linear() -> None:
    points = {
        (n, k, b): (float(n + 2 * k + 3 * b), float(k))
        for n, k in ((1, 1), (1, 4), (4, 4), (4, 16))
        for b in (1, 3)
    }
    mesh = Mesh(points)

    assert mesh.at(4, 16, 3) == (45.0, 16.0)
    assert mesh.at(2, 4, 2) == pytest.approx((16.0, 4.0))
    assert mesh.at(3, 8, 1.5) == pytest.approx((23.5, 8.0))
    assert mesh.at(9, 99, 1) == (39.0, 16.0)


def test_traces_of_both_formats_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(PLAIN)
    jobs = read_trace(path)
    others = read_trace(POLLUX / "workloads" / "load-0.5" / "workload-1.csv")

    assert [(job.name, job.maximum, job.serial) for job in jobs] == [
        ("a", 8, 0.02),
        ("b", 4, 0.5),
        ("c", 16, 0.01),
    ]
    assert len(others) == 80
    assert {job.program for job in others} <= set(programs())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no known format"),
        ("name,time,work_s\n", "no jobs"),
        ("name,time,work_s\na,now,5\n", "line 2"),
        ("name,time,work_s\na,nan,5\n", "out of bounds"),
        ("name,time,work_s,min,max\na,1,5,4,2\n", "out of bounds"),
        ("name,time,work_s\na,1,5\na,2,5\n", "two jobs of the name a"),
        ("name,time\n\x00", "no known format"),
    ],
)
def test_malformed_trace_is_refused_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)

    with pytest.raises(TraceError, match=problem):
        read_trace(path)


def replayed(jobs: list[TraceJob], policy: str, n_nodes: int = 2) -> ReplayLog:
    return replay(new_runs(jobs, {}, restarts(30.0)), ReplayCluster(n_nodes, 4), policy, 60.0)


def a_mixed_trace(n_jobs: int = 18) -> list[TraceJob]:
    """Short and long jobs that scale well or badly."""
    return [
        TraceJob(
            f"job-{n:02}",
            120.0 * n,
            work_s=(300.0, 900.0, 6000.0)[n % 3],
            maximum=16,
            requested=4,
            serial=(0.01, 0.2)[n % 2],
        )
        for n in range(n_jobs)
    ]


@pytest.mark.parametrize("policy", SIZERS)
def test_replay_ends_all_jobs_within_capacity_twice_the_same(policy: str) -> None:
    first, second = (replayed(a_mixed_trace(), policy) for _ in range(2))

    assert all(job.is_done for job in first.jobs)
    assert max(sum(sizes.values()) for _, sizes in first.rounds) <= first.capacity
    assert first.rounds == second.rounds
    assert [job.ended_s for job in first.jobs] == [job.ended_s for job in second.jobs]


def test_goodput_finishes_a_mixed_trace_sooner() -> None:
    """It beats even shares, and fixed sizes in the order of coming, in mean completion time."""
    names = ("goodput", "fulfillment", "first-come")
    mean = {name: figures_of(replayed(a_mixed_trace(), name, 4), name).mean_s for name in names}

    assert mean["goodput"] == min(mean.values())


def test_places_keep_jobs_that_keep_their_size() -> None:
    held = {"a": (0, 0), "b": (1,)}
    found = place(held, {"a": 2, "b": 1, "c": 4, "d": 10}, 3, 4)

    assert found["a"] == (0, 0)
    assert found["b"] == (1,)
    assert sorted(set(found["c"])) == [2]
    assert found["d"] == ()
    used = np.bincount([node for nodes in found.values() for node in nodes], minlength=3)
    assert used.max() <= 4


@pytest.mark.parametrize("output", ["table", "json", "html", "svg"])
def test_command_shows_policies_side_by_side(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(PLAIN)
    policies = ["--policy-only", "--policy", "goodput", "--policy", "fulfillment"]

    assert run(["replay", str(path), "--nodes", "2x4", *policies, "-o", output]) == 0
    text = capsys.readouterr().out
    if output == "json":
        assert [one["policy"] for one in json.loads(text)] == ["goodput", "fulfillment"]
    else:
        assert "goodput" in text
    if output in {"html", "svg"}:
        assert "<svg" in text
        assert text.count("<polygon") >= 3


def test_command_replays_a_workload_with_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first jobs of a public workload, with restarts, with what is known of all programs."""
    whole = (POLLUX / "workloads" / "load-0.5" / "workload-1.csv").read_text().splitlines()
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([whole[0], *(line for line in whole if ",ncf," in line)][:6]))
    given = [
        "--policy-only",
        "--first-size",
        "1",
        "--profiles",
        str(POLLUX),
        "--tier",
        "shared",
        "--restart",
        "30",
        "--period",
        "30",
    ]

    assert run(["replay", str(path), *given, "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["n_jobs"] == 5
    assert 75.9 <= found["mean_s"] <= 110  # at most a round, a restart, and 46 s


def test_picture_of_the_page_is_what_the_command_draws(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = POLLUX.parents[3]
    trace = str(root / "examples" / "mixed-trace.csv")

    assert run(["replay", trace, "--policy-only", "--nodes", "4x4", "-o", "svg"]) == 0
    assert capsys.readouterr().out == (root / "docs" / "pictures" / "replay.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nodes", "4"], "is not like 16x4"),
        (["--policy", "luck"], "there is no policy"),
        (["--restart", "soon"], "neither seconds nor elastic"),
        (["--policy", "shortest-first"], "no live program has the policy"),
        (["--first-size", "2"], "for --policy-only alone"),
        (["--profiles", "/nowhere"], "/nowhere"),
    ],
)
def test_command_refuses_what_makes_no_sense(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(PLAIN)

    assert run(["replay", str(path), *arguments]) != 0
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("policy", ["goodput", "fulfillment"])
def test_a_resize_is_finished_before_the_next(policy: str) -> None:
    """Where a restart takes longer than a round, the job is left alone meanwhile."""
    jobs = [TraceJob(f"job-{n}", 60.0 * n, work_s=3000.0, maximum=8) for n in range(6)]
    runs = new_runs(jobs, {}, restarts(200.0))
    log = replay(runs, ReplayCluster(2, 4), policy, 60.0)

    for job in jobs:
        sizes = [held[job.name] for _, held in log.rounds if held.get(job.name)]
        changes = [at for at in range(1, len(sizes)) if sizes[at] != sizes[at - 1]]
        assert all(later - earlier >= 4 for earlier, later in pairwise(changes))
    assert all(job.is_done for job in runs)


def test_jobs_that_are_about_to_end_do_not_move_for_others() -> None:
    """A large job gets a whole node where they may move, and what is left where they may not."""
    held = {"a": (0,), "b": (1,)}
    wanted = {"a": 1, "b": 1, "large": 4}

    moved = place(held, wanted, 2, 4)
    assert (moved["a"], moved["large"]) == ((1,), (0,) * 4)
    kept = place(held, wanted, 2, 4, frozenset({"a", "b"}))
    assert (kept["a"], kept["b"]) == ((0,), (1,))
    assert sorted(kept["large"]) == [0, 0, 0, 1]
