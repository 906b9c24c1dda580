"""Which pods of a job ran where, from when to when, and what they held. Pure.

A pod holds its resources from its start on a node until its containers have ended; one that
vanishes has held them until it was found missing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from swell.api.pod import Pod, PodPhase, StateTerminated
from swell.history.life import PODS_MAX, JobLife, PodRun
from swell.history.observing import seconds

_GIB = 1 << 30
_HOUR_S = 3600.0
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class JobCost(msgspec.Struct, frozen=True, gc=False):
    """The resources that the pods of a job have held, by time."""

    cpu_hours: float = 0.0
    memory_gib_hours: float = 0.0
    gpu_hours: float = 0.0
    pod_hours: float = 0.0


def run_of(pod: Pod, role: str, index: int) -> PodRun | None:
    """Returns the run of a pod; None for one that has not started on a node."""
    status, node = pod.status, pod.spec.node_name
    started = seconds(status.start_time)
    if started is None or not node:
        return None
    if status.phase not in _ENDED:
        return PodRun(role, index, node, started)
    ended, failed = started, None
    for container in status.container_statuses:
        end = container.state.terminated
        if end is not None:
            ended = max(ended, seconds(end.finished_at) or started)
            failed = failed or (end if end.exit_code else None)
    outcome = _failure(failed) if failed is not None else status.reason or status.phase.value
    return PodRun(role, index, node, started, ended, outcome)


def _failure(end: StateTerminated) -> str:
    return f"exit {end.exit_code}" + (f" {end.reason}" if end.reason else "")


RunKey = tuple[str, int, float]


def key_of(run: PodRun) -> RunKey:
    """Returns the identity of a run: an index of a role has one pod at a time."""
    return run.role, run.index, run.started


def is_folded(life: JobLife, run: PodRun) -> bool:
    """Whether a run that is not in the record has been summed up in it already."""
    return run.ended is not None and run.ended <= life.folded_until


def with_pods(life: JobLife, runs: Iterable[PodRun]) -> JobLife:
    """Returns the record with these runs in place of its own.

    Of more than it may hold, those that ended first are summed up. A run that goes on is summed up
    with the end of the job alone: until then it is found again after a crash.
    """
    by_end = sorted(
        runs, key=lambda run: (run.ended is None, run.ended or run.started, run.role, run.index)
    )
    n_over = max(0, len(by_end) - PODS_MAX)
    folded, until = dict(life.folded_s), life.folded_until
    n_folded = life.n_folded
    rest = []
    for run in by_end[:n_over]:
        ended = life.ended if run.ended is None else run.ended
        if ended is None:
            rest.append(run)
            continue
        folded[run.role] = folded.get(run.role, 0.0) + max(0.0, ended - run.started)
        until, n_folded = max(until, ended), n_folded + 1
    kept = [*rest, *by_end[n_over:]]
    return replace(
        life,
        pods=tuple(sorted(kept, key=lambda run: (run.started, run.role, run.index))),
        folded_s=folded,
        folded_until=until,
        n_folded=n_folded,
    )


def cost_of(life: JobLife, now: float) -> JobCost:
    """Returns what the pods of a job have held, up to its end or to now."""
    held_s = dict(life.folded_s)
    end = now if life.ended is None else life.ended
    for run in life.pods:
        length_s = (end if run.ended is None else run.ended) - run.started
        if length_s > 0:
            held_s[run.role] = held_s.get(run.role, 0.0) + length_s
    cpu = memory = gpus = pods = 0.0
    for role, length_s in held_s.items():
        shape, hours = life.roles.get(role), length_s / _HOUR_S
        pods += hours
        if shape is not None:
            cpu += hours * shape.cpu_milli / 1000
            memory += hours * shape.memory_bytes / _GIB
            gpus += hours * shape.gpus
    return JobCost(cpu, memory, gpus, pods)
