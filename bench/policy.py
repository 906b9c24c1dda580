"""The goodput policy on public traces, beside what its peers have published; and its own cost.

`LOADS=1.0,1.5 WORKLOADS=8 python -m bench policy` has the first workloads of some loads. Replays
are policy-only: sizes are applied at once. `restart 30 s` is the physics of the published figures;
`elastic` is what a resize costs with Swell's own library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from bench.autoscaler import cluster
from swell.autoscaler.goodput.sizing import SizingProblem, choose_sizes
from swell.autoscaler.plan import inquiry_resource
from swell.autoscaler.policies.goodput import goodput
from swell.autoscaler.policies.interface import Parameters
from swell.replay.engine import new_runs, replay
from swell.replay.figures import ReplayFigures, figures_of
from swell.replay.physics import ELASTIC, restarts
from swell.replay.profiles import read_profiles
from swell.replay.sizers import ReplayCluster
from swell.replay.traces import read_trace

DATA = Path(__file__).parents[1] / "tests" / "data" / "elastic" / "pollux"
N_NODES, PER_NODE, PERIOD_S = 16, 4, 60.0
# The name of a line, what is known of jobs, and whether a resize costs what it costs Swell.
KINDS = (
    ("goodput, blind, restart 30 s", "blind", False),
    ("goodput, measured, restart 30 s", "measured", False),
    ("goodput, shared, restart 30 s", "shared", False),
    ("goodput, measured, elastic", "measured", True),
    ("goodput, shared, elastic", "shared", True),
)


def one_replay(load: str, tier: str, is_elastic: bool, workload: int) -> ReplayFigures:
    """Returns the figures of one workload."""
    trace = read_trace(DATA / "workloads" / f"load-{load}" / f"workload-{workload}.csv")
    runs = new_runs(trace, read_profiles(DATA), ELASTIC if is_elastic else restarts(30.0))
    # The peers' rule is that a job begins with one GPU; Swell has none.
    first = 0 if is_elastic else 1
    log = replay(runs, ReplayCluster(N_NODES, PER_NODE, tier, first), "goodput", PERIOD_S)
    return figures_of(log, "goodput")


def traces(loads: Sequence[str], n_workloads: int) -> dict[str, object]:
    """Returns mean completion and the worst fairness over all workloads of each load."""
    published = json.loads((DATA / "published-means.json").read_text())
    figures: dict[str, object] = {
        f"load {load}: {name}, published, s": means[load]
        for load in loads
        for name, means in sorted(published.items())
    }
    with ProcessPoolExecutor(max_workers=int(os.environ.get("BENCH_WORKERS", "2"))) as workers:
        for load in loads:
            for name, tier, is_elastic in KINDS:
                tried = partial(one_replay, load, tier, is_elastic)
                found = list(workers.map(tried, range(1, n_workloads + 1)))
                mean = float(np.mean([one.mean_s for one in found]))
                figures[f"load {load}: {name}, s"] = round(mean, 1)
                worst = max(one.fairness_worst for one in found)
                figures[f"load {load}: {name}, worst fairness"] = round(worst, 2)
    return figures


def decision_s(n_jobs: int, n_devices: int, n_rounds: int = 5) -> float:
    """Returns the median CPU time of one choice of sizes, without reading reports."""
    chance = np.random.default_rng(1)
    column = np.array([1, 2, 4, *range(8, 65, 4)], np.int64)
    serial = chance.uniform(0.01, 0.3, (n_jobs, 1))
    sizes = np.tile(column, (n_jobs, 1))
    problem = SizingProblem(
        sizes=sizes,
        speed=sizes / (1 + serial * (sizes - 1)),
        units=np.ones(n_jobs, np.int64),
        current=chance.choice(column[:3], n_jobs),
        least=np.ones(n_jobs, np.int64),
        left_s=chance.lognormal(7, 2, n_jobs),
        ends=np.ones(n_jobs, bool),
        cost_s=np.full(n_jobs, 30.0),
        budget=n_devices,
    )
    times = []
    for _ in range(n_rounds):
        started = process_time()
        choose_sizes(problem)
        times.append(process_time() - started)
    return float(np.median(times))


def decisions() -> dict[str, object]:
    """Returns the CPU time of one choice of sizes, by jobs and devices."""
    return {
        f"choice of {n_jobs} sizes of {n_devices} devices, ms": round(
            1e3 * decision_s(n_jobs, n_devices), 2
        )
        for n_jobs, n_devices in (
            (30, 64),
            (60, 64),
            (2500, 10_000),
            (5000, 20_000),
            (10_000, 40_000),
        )
    }


def whole_decision_s(n_roles: int, n_nodes: int) -> float:
    """Returns the CPU time of a whole decision of the policy, places and queues included."""
    snapshot = inquiry_resource(cluster(n_roles, n_nodes))
    times = []
    # The first decision fills caches of speed tables, which all later ones have.
    for _ in range(4):
        started = process_time()
        goodput(snapshot.jobs, snapshot.cluster, Parameters(now=1.8e9))
        times.append(process_time() - started)
    return float(np.median(times[1:]))


def run() -> dict[str, object]:
    """Returns all figures; LOADS and WORKLOADS in the environment say of how much."""
    loads = os.environ.get("LOADS", "0.5,1.0,1.5,2.0").split(",")
    whole: dict[str, object] = {
        f"decision on {n:,} jobs, {n // 2:,} nodes, s": round(whole_decision_s(n, n // 2), 3)
        for n in (2500, 5000, 10_000)
    }
    return {**decisions(), **whole, **traces(loads, int(os.environ.get("WORKLOADS", "8")))}
