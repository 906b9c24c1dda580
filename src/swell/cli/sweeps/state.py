"""How far a sweep is: its jobs by row, counted by phase; as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob
from swell.cli.output import aligned
from swell.cli.sweeps.row_jobs import SWEEP_LABEL, index_of, parallel_of, row_of
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection

SUCCEEDED = AITrainingJobPhase.SUCCEED.value
# A job that the operator has not seen yet has no phase.
ACCEPTED = "Accepted"
# The order in which phases are counted: from the beginning of a job's life to its end.
_ORDER = (ACCEPTED, *(phase.value for phase in AITrainingJobPhase if phase.value))
_MESSAGE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class SweepState:
    """The jobs of a sweep that are there, in the order of their rows."""

    namespace: str
    name: str
    jobs: tuple[FoundJob, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of jobs in each phase that one is in."""
        found = Counter(phase_of(job) for job in self.jobs)
        return {phase: found[phase] for phase in _ORDER if found[phase]}

    @property
    def has_ended(self) -> bool:
        return all(job.has_ended for job in self.jobs)

    @property
    def has_succeeded(self) -> bool:
        return all(job.phase == SUCCEEDED for job in self.jobs)

    @property
    def next_jobs(self) -> list[FoundJob]:
        """The suspended jobs that may begin now, the first ones first."""
        living = [job for job in self.jobs if not job.has_ended]
        held = [job for job in living if job.body["spec"].get("suspend")]
        limits = [limit for job in self.jobs if (limit := parallel_of(job.body)) is not None]
        if not limits:
            return []
        return held[: max(0, min(limits) - (len(living) - len(held)))]

    @property
    def summary(self) -> str:
        """The counts in one line."""
        n_jobs = len(self.jobs)
        counted = ", ".join(f"{number} {phase}" for phase, number in self.counts.items())
        return f"{n_jobs} {'job' if n_jobs == 1 else 'jobs'}: {counted}"


def sweep_selection(namespace: str, sweep: str = "") -> Selection:
    """Return the selection of a sweep's jobs; without a name, of the jobs of all sweeps."""
    return Selection(namespace, labels=f"{SWEEP_LABEL}={sweep}" if sweep else SWEEP_LABEL)


def read_sweep(connection: ClusterConnection, namespace: str, sweep: str) -> SweepState:
    """Return the state of a sweep; CommandError if no job belongs to one of that name."""
    jobs = AI_TRAINING_JOBS.untyped()
    page = connection.client.send(calls.list_page(jobs, sweep_selection(namespace, sweep)))
    if not page.items:
        hint = "see: swell get sweeps"
        raise CommandError(f"no sweep {sweep} in namespace {namespace}", hint)
    return sweep_state(namespace, sweep, page.items)


def read_sweeps(connection: ClusterConnection, namespace: str) -> list[SweepState]:
    """Return the states of all sweeps of a namespace; of all namespaces if it is empty."""
    jobs = AI_TRAINING_JOBS.untyped()
    by_key: dict[tuple[str, str], list[Body]] = {}
    for body in connection.client.send(calls.list_page(jobs, sweep_selection(namespace))).items:
        meta = body["metadata"]
        by_key.setdefault((meta["namespace"], meta["labels"][SWEEP_LABEL]), []).append(body)
    return [sweep_state(*key, bodies) for key, bodies in sorted(by_key.items())]


def sweep_state(namespace: str, sweep: str, bodies: Iterable[Body]) -> SweepState:
    ordered = sorted(bodies, key=lambda body: (index_of(body), body["metadata"]["name"]))
    jobs = tuple(FoundJob(AI_TRAINING_JOBS.untyped(), body) for body in ordered)
    return SweepState(namespace, sweep, jobs)


def phase_of(job: FoundJob) -> str:
    return job.phase or ACCEPTED


def table_of(state: SweepState, *, wide: bool = False) -> str:
    """Return the counts, and a table with a line for each row; `wide` has whole messages."""
    rows = {job.key.name: row_of(job.body) for job in state.jobs}
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    heading = ["JOB", *names, "STATE", "READY", "MESSAGE"]
    lines = [
        [
            job.key.name,
            *(rows[job.key.name].get(name, "-") for name in names),
            phase_of(job),
            job.ready or "-",
            _message(job, None if wide else _MESSAGE_LENGTH),
        ]
        for job in state.jobs
    ]
    return f"sweep/{state.name}: {state.summary}\n\n{aligned([heading, *lines])}\n"


def listed(states: Sequence[SweepState], *, has_namespaces: bool) -> str:
    """Return a table of sweeps, with a column for each phase that one of their jobs is in."""
    phases = [one for one in _ORDER if any(one in state.counts for state in states)]
    lead = ["NAMESPACE"] if has_namespaces else []
    rows = [[*lead, "NAME", "JOBS", *(phase.upper() for phase in phases)]]
    for state in states:
        lead = [state.namespace] if has_namespaces else []
        counted = (str(state.counts.get(phase, 0)) for phase in phases)
        rows.append([*lead, state.name, str(len(state.jobs)), *counted])
    return aligned(rows) + "\n"


def body_of(state: SweepState) -> Body:
    """Return a sweep as an object for `-o json`; no server stores one."""
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "Sweep",
        "metadata": {"name": state.name, "namespace": state.namespace},
        "status": {"jobs": len(state.jobs), "counts": state.counts, "ended": state.has_ended},
        "rows": [_row_body(job) for job in state.jobs],
    }


def _row_body(job: FoundJob) -> Mapping[str, object]:
    return {
        "index": index_of(job.body),
        "job": job.key.name,
        "parameters": row_of(job.body),
        "phase": job.phase,
        "message": job.message,
    }


def _message(job: FoundJob, length_max: int | None) -> str:
    """Return why a job waits or went wrong, in one line of this length at most.

    A failure is told at its end: before it stand the pod, its node and its container.
    """
    if job.phase == SUCCEEDED:
        return ""
    text = " ".join(job.message.split())
    if length_max is None or len(text) <= length_max:
        return text
    if job.has_ended:
        return f"...{text[3 - length_max :]}"
    return f"{text[: length_max - 3]}..."
