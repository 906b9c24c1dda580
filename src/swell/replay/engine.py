"""The policy-only replay: sizes are decided every round and applied at once. Deterministic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time

from swell.autoscaler.goodput.sizing import HORIZON_S
from swell.replay.amdahl import AmdahlProgram
from swell.replay.physics import JobRun, ResizeCost
from swell.replay.placing import Nodes, place
from swell.replay.profiles import TrainedProgram
from swell.replay.sizers import SIZERS, ReplayCluster
from swell.replay.throughputs import ThroughputTable
from swell.replay.traces import TraceError, TraceJob

# A replay that takes longer in virtual time has a job that never ends.
_VIRTUAL_S_MAX = 400 * 86400.0


Programs = Mapping[str, TrainedProgram | ThroughputTable]
Observer = Callable[[Sequence[JobRun], Sequence[JobRun], float], None]


@dataclass(slots=True)
class ReplayLog:
    """The course of a replay: the jobs, sizes over time, and the time that deciding took."""

    jobs: list[JobRun]
    capacity: int
    rounds: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    decision_s: list[float] = field(default_factory=list)


def new_runs(trace: Sequence[TraceJob], programs: Programs, cost: ResizeCost) -> list[JobRun]:
    """Returns the jobs of a trace, none of which has begun. Raises TraceError."""
    runs = []
    for job in trace:
        program = programs.get(job.program) if job.program else AmdahlProgram(job)
        if isinstance(program, ThroughputTable):
            program = program.program_of(job)
        if program is None:
            raise TraceError(f"there is no profile of {job.program}: give --profiles")
        run = JobRun(
            job.name,
            program,
            job.submitted_s,
            cost,
            requested=job.requested,
            minimum=job.minimum,
            deadline_s=job.deadline_s,
        )
        runs.append(run)
    return runs


def replay(
    runs: Sequence[JobRun],
    cluster: ReplayCluster,
    policy: str,
    period_s: float,
    observe: Observer | None = None,
) -> ReplayLog:
    """Runs all jobs to their ends, with sizes by a policy every period.

    `observe` is called after each round with all jobs, those that run or wait, and the time.
    """
    log = ReplayLog(list(runs), cluster.capacity)
    coming = list(runs)[::-1]
    active: list[JobRun] = []
    nodes: dict[str, Nodes] = {}
    now = 0.0
    while coming or active:
        if not active:
            # Whole rounds pass while there is nothing to do.
            now = max(now, coming[-1].submitted_s // period_s * period_s)
        for job in active:
            job.advance(period_s, now)
        now += period_s
        if now > _VIRTUAL_S_MAX:
            raise TraceError("a job does not end within 400 days")
        for job in active:
            if job.is_done:
                nodes.pop(job.name, None)
        active = [job for job in active if not job.is_done]
        while coming and coming[-1].submitted_s <= now:
            active.append(coming.pop())
        if active:
            started = process_time()
            sizes = SIZERS[policy](active, cluster, now)
            log.decision_s.append(process_time() - started)
            settled = frozenset(job.name for job in active if _is_settled(job))
            placed = place(nodes, sizes, cluster.n_nodes, cluster.per_node, settled)
            nodes = _apply(active, nodes, placed, now)
            log.rounds.append((now, {job.name: job.size for job in active}))
            if observe is not None:
                observe(runs, active, now)
    return log


def _is_settled(job: JobRun) -> bool:
    """Whether a move would not pay off any more, by what the job has reported, or not yet known."""
    left_s = job.left_s()
    return job.is_resizing or left_s is None or left_s <= HORIZON_S


def _apply(
    active: Sequence[JobRun], old: Mapping[str, Nodes], new: dict[str, Nodes], now: float
) -> dict[str, Nodes]:
    for job in active:
        before, after = old.get(job.name, ()), new[job.name]
        if sorted(before) != sorted(after):
            counts = tuple(after.count(node) for node in dict.fromkeys(after))
            job.place(counts, now, moved=True)
    return new
