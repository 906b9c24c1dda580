"""Policies for replays without a cluster: from the state of all jobs to their sizes. Pure.

`goodput` is the live policy's own arithmetic; the others are there to be compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from swell.autoscaler.goodput.sharing import SharedProfiles
from swell.autoscaler.goodput.sizing import SizingProblem, candidate_sizes, choose_sizes
from swell.autoscaler.goodput.tables import SpeedTable, size_limit, speed_table
from swell.autoscaler.goodput.turns import TURN_S, TurnRequest, minimums
from swell.replay.physics import JobRun

# As `Parameters.starve_after_s`: a job that has waited for so long goes before all others.
STARVE_AFTER_S = 1800.0


@dataclass(frozen=True, slots=True)
class ReplayCluster:
    """Equal nodes with as many devices each, and what is known of the jobs.

    `tier` is `measured`, `shared` (measurements of one program count for all its jobs), or
    `blind` (no program tells how much work it has). A job that has not reported yet is sized by the
    prior, as the live policy does, with at most `first_size` replicas where that is not 0.
    """

    n_nodes: int
    per_node: int
    tier: str = "measured"
    first_size: int = 0
    horizon_s: float = 300.0
    profiles: SharedProfiles = field(default_factory=SharedProfiles)

    @property
    def capacity(self) -> int:
        return self.n_nodes * self.per_node


Sizer = Callable[[Sequence[JobRun], ReplayCluster, float], Mapping[str, int]]


def goodput(jobs: Sequence[JobRun], cluster: ReplayCluster, now: float) -> dict[str, int]:
    """Returns the sizes that finish jobs soonest; minimums first, in the order of coming.

    As with the live policy a job may be stopped for others once it has told what is left of it.
    """
    if cluster.tier == "shared":
        for job in jobs:
            if job.samples:
                cluster.profiles.of(job.program.name).learn(job.shape())
    ordered = sorted(jobs, key=lambda job: _order(job, now))
    every = [_row(job, cluster, now) for job in ordered]
    requests = [_request(job, table, now) for job, (_, table) in zip(ordered, every, strict=True)]
    least = minimums(requests, cluster.capacity)
    takes_turns = any(one.may_stop or one.is_stopped for one in requests)
    chosen_rows = [at for at, one in enumerate(requests) if takes_turns or least[at] or one.runs]
    served, rows = [ordered[at] for at in chosen_rows], [every[at] for at in chosen_rows]
    if not served:
        return dict.fromkeys((job.name for job in jobs), 0)
    width = max(len(sizes) for sizes, _ in rows)
    sizes = np.zeros((len(rows), width), np.int64)
    speed = np.zeros((len(rows), width))
    for at, (own, table) in enumerate(rows):
        sizes[at, : len(own)] = own
        speed[at, : len(own)] = table.speed
    found = choose_sizes(
        SizingProblem(
            sizes=sizes,
            speed=speed,
            units=np.ones(len(rows), np.int64),
            current=np.array([job.size for job in served], np.int64),
            least=np.array([least[at] for at in chosen_rows], np.int64),
            left_s=np.array([table.left_s for _, table in rows]),
            ends=np.array([table.is_known for _, table in rows]),
            cost_s=np.array([table.cost_s for _, table in rows]),
            due_s=np.array([_due_s(job, now) for job in served]),
            budget=cluster.capacity,
            horizon_s=cluster.horizon_s,
        )
    )
    chosen = {job.name: int(size) for job, size in zip(served, found.sizes, strict=True)}
    return {job.name: chosen.get(job.name, 0) for job in jobs}


def _order(job: JobRun, now: float) -> tuple[int, float, str]:
    rank = 0 if job.size else 1 if _is_starving(job, now) else 2
    return rank, job.submitted_s, job.name


def _is_starving(job: JobRun, now: float) -> bool:
    return not job.size and now - job.turn_s > STARVE_AFTER_S


def _request(job: JobRun, table: SpeedTable, now: float) -> TurnRequest:
    is_movable = not job.is_resizing and now - job.turn_s >= TURN_S
    return TurnRequest(
        least=job.kept,
        runs=job.size > 0,
        may_stop=job.size > 0 and is_movable and table.is_known,
        is_stopped=not job.size and job.started_s is not None,
        is_starving=_is_starving(job, now),
    )


def _due_s(job: JobRun, now: float) -> float:
    return math.inf if job.deadline_s is None else job.deadline_s - now


def _served(jobs: Sequence[JobRun], cluster: ReplayCluster) -> list[JobRun]:
    """Returns the jobs whose minimums fit: those that hold something first, then the oldest."""
    left, found = cluster.capacity, []
    for job in sorted(jobs, key=lambda job: (job.size == 0, job.submitted_s, job.name)):
        if job.kept <= left:
            found.append(job)
            left -= job.kept
    return found


def _row(job: JobRun, cluster: ReplayCluster, now: float) -> tuple[tuple[int, ...], SpeedTable]:
    evidence = job.evidence(tells_total=cluster.tier != "blind")
    most = min(job.size_max, cluster.capacity)
    if cluster.tier == "shared":
        evidence = cluster.profiles.of(job.program.name).evidence(evidence, job.shape())
    if evidence is None and cluster.first_size:
        most = max(min(most, cluster.first_size), job.minimum)
    per_node = cluster.per_node
    top = max(size_limit(evidence, most), job.minimum)
    if job.is_resizing:
        sizes: tuple[int, ...] = (job.size,)
    else:
        sizes = candidate_sizes(job.minimum, top, per_node, job.size, cluster.capacity)
    return sizes, speed_table(evidence, sizes, per_node, (now - job.submitted_s) * job.size)


def even(jobs: Sequence[JobRun], cluster: ReplayCluster, now: float) -> dict[str, int]:
    """Returns even shares, as the fulfillment policy has for jobs of equal bounds."""
    del now
    growing = _served(jobs, cluster)
    sizes = dict.fromkeys((job.name for job in jobs), 0)
    sizes.update({job.name: job.kept for job in growing})
    left = cluster.capacity - sum(sizes.values())
    while growing and left:
        growing = [
            job for job in growing if sizes[job.name] < job.size_max and not job.is_resizing
        ][:left]
        for job in growing:
            sizes[job.name] += 1
        left -= len(growing)
    return sizes


def first_come(jobs: Sequence[JobRun], cluster: ReplayCluster, now: float) -> dict[str, int]:
    """Returns the requested sizes, for as many jobs as fit, in the order of coming."""
    del now
    return _rigid(sorted(jobs, key=lambda job: (job.submitted_s, job.name)), cluster)


def shortest_first(jobs: Sequence[JobRun], cluster: ReplayCluster, now: float) -> dict[str, int]:
    """Returns the requested sizes, for as many jobs as fit, those with the least left first."""
    del now
    left = {job.name: 1 - job.progress / job.program.total_progress for job in jobs}
    return _rigid(sorted(jobs, key=lambda job: (left[job.name] * job.ideal_s(), job.name)), cluster)


def _rigid(jobs: Sequence[JobRun], cluster: ReplayCluster) -> dict[str, int]:
    left = cluster.capacity
    sizes = {}
    # A job that runs is not stopped for others; the sort is stable.
    for job in sorted(jobs, key=lambda job: not job.size):
        size = min(job.requested, cluster.capacity)
        sizes[job.name] = size if size <= left else 0
        left -= sizes[job.name]
    return sizes


SIZERS: Mapping[str, Sizer] = {
    "goodput": goodput,
    "fulfillment": even,
    "first-come": first_come,
    "shortest-first": shortest_first,
}
