"""One scheduling cycle, the file to read first: snapshot in, plan out.

The live scheduler (`live`), `swell plan schedule` (`plan`), `swell explain` (`explain`) and tests
all enter here. A cycle is synchronous: no clock, no chance, no I/O, and no `await` inside. It works
on the snapshot in place and undoes what it only tried (ADR 12), so one cycle runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from swell.scheduler import actions, plugins
from swell.scheduler.actions import ACTIONS
from swell.scheduler.config import Config
from swell.scheduler.config_file import KnownNames
from swell.scheduler.domains import ChosenDomain, domains_of, not_applied
from swell.scheduler.hooks import Plugin
from swell.scheduler.model.devices.choices import DeviceChoice
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo, QueueShare
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.model.volumes.preparation import lost_pins, waiting_pins
from swell.scheduler.model.volumes.reservations import VolumeChoice
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.plugins.predicates import binds_devices, binds_volumes
from swell.scheduler.session import Eviction, Session
from swell.scheduler.status import GroupStatus, pod_refusals, statuses

KNOWN: Final = KnownNames(
    actions=actions.ARGUMENTS,
    plugins=plugins.KNOWN,
    instead={**actions.INSTEAD, **plugins.INSTEAD},
    aliases=actions.ALIASES,
)


# Called after each step of a cycle with its kind and name, so that the caller can take the time:
# ("plugin", name) after each that is opened, ("session", "open"), ("action", name).
OnStep = Callable[[str, str], None]


def _ignore(kind: str, name: str) -> None:
    del kind, name


@dataclass(frozen=True, slots=True)
class SchedulingPlan:
    """The decisions of one cycle. The snapshot holds them already, as assumed.

    `pod_refusals` reads the snapshot when it is called, so it must be called before the snapshot
    changes again. Most jobs are never asked about, and the answer costs a look at all nodes.
    """

    binds: dict[Task, str]  # task -> node
    evictions: tuple[Eviction, ...]
    shrinks: dict[str, dict[str, int]]  # training job -> role -> new target
    shrunk_for: dict[tuple[str, str], str]  # (training job, role) -> preemptor
    pipelined: dict[Task, str]  # task -> node that is still being freed
    groups: dict[str, GroupStatus]
    # Group, or group and sub-group, with a network topology -> the domain that has its pods.
    domains: dict[str, ChosenDomain]
    # Group -> why its network topology has no effect.
    not_applied: dict[str, str]
    # The volumes of the tasks that are to be bound.
    volumes: dict[Task, VolumeChoice]
    # Claims that are to be provisioned on a node that is gone.
    lost_pins: dict[str, str]
    # Those that are to be provisioned on a node where no pod of theirs is placed now.
    waiting_pins: dict[str, str]
    # The devices of the tasks that are to be bound.
    devices: dict[Task, DeviceChoice]
    # Claims whose devices are in the way of the waiting pods that alone may use them.
    deallocations: tuple[str, ...]
    pod_refusals: Callable[[JobInfo], dict[Task, Refusal]]
    # What the plugin in charge of quotas says of a queue, also after the cycle.
    queue_share: Callable[[QueueInfo], QueueShare | None]


def run_cycle(
    snapshot: SchedulerSnapshot,
    config: Config,
    now: float | None = None,
    plugins: Mapping[str, Plugin] = PLUGINS,
    *,
    report_on: Iterable[JobInfo] | None = None,
    on_step: OnStep = _ignore,
) -> SchedulingPlan:
    """Runs one cycle and returns its plan.

    `report_on` limits the group statuses to jobs that may have changed. With `now` None, rules
    that depend on time are off.
    """
    # 1.-3. Open the session, run the actions, close it.
    session = run_session(snapshot, config, now, plugins, on_step=on_step)
    # 4. Compute each group's phase and why it waits: `status`.
    jobs = snapshot.jobs.values() if report_on is None else report_on
    groups = dict(statuses(session, jobs))
    # 5. Return the decisions. `live` carries them out: binds, evictions, shrinks, statuses.
    names = snapshot.nodes.names
    return SchedulingPlan(
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
        groups=groups,
        domains=dict(domains_of(session)),
        not_applied=dict(not_applied(session, session.jobs)),
        volumes=_volumes(session) if binds_volumes(config) else {},
        lost_pins=lost_pins(snapshot) if binds_volumes(config) else {},
        waiting_pins=waiting_pins(snapshot) if binds_volumes(config) else {},
        devices=_devices(session) if binds_devices(config) else {},
        deallocations=_deallocations(session) if binds_devices(config) else (),
        pod_refusals=lambda job: dict(pod_refusals(session, job)),
        queue_share=session.votes.queue_share,
    )


def _volumes(session: Session) -> dict[Task, VolumeChoice]:
    """Returns the volumes of the tasks that are to be bound and have claims."""
    choices = session.snapshot.volumes.reservations.choices
    return {
        task: choice
        for task in session.binds
        if task.shape.claims_volumes and (choice := choices.get(task.key)) is not None
    }


def _devices(session: Session) -> dict[Task, DeviceChoice]:
    """Returns the devices of the tasks that are to be bound and have resource claims."""
    choices = session.snapshot.devices.choices.by_task
    if not choices:
        return {}  # the usual case, in which no look at every pod is needed
    return {
        task: choice
        for task in session.binds
        if task.shape.claims_devices and (choice := choices.get(task.key)) is not None
    }


def _deallocations(session: Session) -> tuple[str, ...]:
    """Returns the claims to be freed of jobs that nodes refuse because devices are elsewhere."""
    found: dict[str, None] = {}
    for key, task in session.stuck.items():
        if not task.shape.claims_devices or task.status is not TaskStatus.PENDING:
            continue
        job = session.snapshot.jobs.get(key)
        waiting = [] if job is None else list(job.in_status(TaskStatus.PENDING))
        claims = session.snapshot.devices.stuck_claims(waiting)
        if claims and session.placer.is_refused_for(task, WaitReason.DEVICE_ELSEWHERE):
            found.update(dict.fromkeys(claims))
    return tuple(found)


def run_session(
    snapshot: SchedulerSnapshot,
    config: Config,
    now: float | None = None,
    plugins: Mapping[str, Plugin] = PLUGINS,
    *,
    on_step: OnStep = _ignore,
) -> Session:
    """Runs steps 1 to 3 of a cycle and returns the closed session, which can be asked for more."""
    # 1. Open the session: bring the sums of the snapshot (`model.snapshot`) up to date, collect the
    #    jobs with pending work, and open the configured plugins (`plugins`). Their answers are
    #    combined by `hooks.Votes`; their filters and scores go to `placement.Placer`.
    session = Session(
        snapshot, config, plugins, now, on_opened=lambda plugin: on_step("plugin", plugin)
    )
    on_step("session", "open")
    # 2. Run the actions in the configured order (`actions`). `job_order` gives the turns,
    #    `gang_fit` and `placement` find nodes, `victims` makes room by eviction. Each action works
    #    in statements, which are committed, held or discarded as a whole (`session.Statement`).
    for action in config.actions:
        ACTIONS[action](session)
        on_step("action", action)
    # 3. Close the session: nodes held for gangs that wait for room stay reserved as pipelined.
    session.close()
    return session
