"""One cycle: a session over a snapshot, the configured actions in order, and the plan they make.

The one entry for the live scheduler, `swell plan schedule` and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from swell.scheduler.actions import ACTIONS
from swell.scheduler.config import Config, Known
from swell.scheduler.hooks import Plugin
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.reasons import Refusal
from swell.scheduler.model.snapshot import Snapshot
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.plugins import ARGUMENTS, PLUGINS
from swell.scheduler.session import Eviction, Session
from swell.scheduler.status import GroupStatus, pod_refusals, statuses

KNOWN: Final = Known(actions=tuple(ACTIONS), plugins=ARGUMENTS)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one cycle decided. Bound and evicted tasks are so already in the snapshot."""

    binds: dict[Task, str]
    evictions: tuple[Eviction, ...]
    shrinks: dict[str, dict[str, int]]  # training job → role → new target
    shrunk_for: dict[tuple[str, str], str]
    pipelined: dict[Task, str]
    groups: dict[str, GroupStatus]
    # Why the pods of a job have no node, worked out when asked and before the snapshot changes.
    pod_refusals: Callable[[Job], dict[Task, Refusal]]


def run_session(
    snapshot: Snapshot,
    config: Config,
    now: float | None = None,
    plugins: Mapping[str, Plugin] = PLUGINS,
) -> Session:
    """The session of a cycle, closed, for whoever wants to ask it more."""
    session = Session(snapshot, config, plugins, now)
    for action in config.actions:
        ACTIONS[action](session)
    session.close()
    return session


def run_cycle(
    snapshot: Snapshot,
    config: Config,
    now: float | None = None,
    plugins: Mapping[str, Plugin] = PLUGINS,
    report_on: Iterable[Job] | None = None,
) -> Plan:
    """Decides; `report_on` limits whose status is worked out to jobs that may have changed."""
    session = run_session(snapshot, config, now, plugins)
    names = snapshot.nodes.names
    jobs = snapshot.jobs.values() if report_on is None else report_on
    return Plan(
        binds={task: names[task.node] for task in session.binds},
        evictions=tuple(session.evictions),
        shrinks=session.shrinks,
        shrunk_for=session.shrunk_for,
        pipelined={
            task: names[task.node]
            for job in session.jobs
            if job.counts.waiting
            for task in job.in_status(TaskStatus.PIPELINED)
        },
        groups=dict(statuses(session, jobs)),
        pod_refusals=lambda job: dict(pod_refusals(session, job)),
    )
