"""`swell scheduler`: gang scheduling with queues, on any cluster, until told to stop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.choice import Flags
from swell.cli.controllers.flags import (
    Context,
    Elect,
    HealthAddress,
    Kubeconfig,
    Lease,
    LeaseDuration,
    LeaseName,
    LogFormat,
    LogFormatOption,
    LogLevel,
    Master,
    MetricsAddress,
    Process,
    RenewDeadline,
    RetryPeriod,
    Shown,
    Where,
    candidacy,
    option,
)
from swell.cli.failure import CommandError

if TYPE_CHECKING:
    from swell.cli.controllers.process import Ground
    from swell.runtime.manager import Manager
    from swell.scheduler.live.settings import SchedulerSettings

SchedulerConf = Annotated[
    Path | None,
    option("--scheduler-conf,--config", "Actions and plugins, as in volcano-scheduler.conf."),
]
SchedulerNames = Annotated[
    list[str],
    typer.Option("--scheduler-name", help="Pods of this name are served; may be repeated."),
]
SchedulePeriod = Annotated[
    float,
    option("--schedule-period", "Decide at most this often; 0: at once.", is_duration=True),
]
BindWorkers = Annotated[int, option("--bind-workers", "Bindings sent at the same time.")]
InqueueTimeout = Annotated[
    float,
    option("--inqueue-timeout", "A group may be admitted unplaced this long.", is_duration=True),
]
DefaultQueue = Annotated[str, option("--default-queue", "For groups that name none.")]


def scheduler(
    *,
    kubeconfig: Kubeconfig = "",
    master: Master = "",
    context: Context = "",
    scheduler_conf: SchedulerConf = None,
    scheduler_name: SchedulerNames = ["swell"],  # noqa: B006
    schedule_period: SchedulePeriod = 0.1,
    bind_workers: BindWorkers = 32,
    inqueue_timeout: InqueueTimeout = 600.0,
    default_queue: DefaultQueue = "default",
    leader_elect: Elect = True,
    lease_name: LeaseName = "swell-scheduler",
    lease_duration: LeaseDuration = 15.0,
    renew_deadline: RenewDeadline = 10.0,
    retry_period: RetryPeriod = 2.0,
    metrics_addr: MetricsAddress = "",
    health_addr: HealthAddress = "",
    log_level: LogLevel = "info",
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Give pods nodes, gang by gang, until told to stop."""
    from swell.scheduler.live.settings import SchedulerSettings

    if bind_workers < 1:
        raise CommandError("--bind-workers must be at least 1", exit_code=2)
    options = SchedulerSettings(
        scheduler_names=tuple(scheduler_name),
        schedule_period_s=schedule_period,
        bind_workers=bind_workers,
        inqueue_timeout_s=inqueue_timeout,
        default_queue=default_queue,
        config_path=scheduler_conf,
    )
    lease = Lease(lease_name, lease_duration, renew_deadline, retry_period)
    where = Where(Flags(kubeconfig, context), master)
    shown = Shown(metrics_addr, health_addr, log_level, log_format)
    process = Process("scheduler", where, shown, lease if leader_elect else None)
    _run(process, options)


def _run(process: Process, options: SchedulerSettings) -> None:
    from swell.cli.controllers.process import run_controller
    from swell.cluster.kube.transport import LIMITS
    from swell.scheduler.live.controller import schedule

    async def start(manager: Manager, ground: Ground) -> None:
        work = partial(
            schedule,
            ground.cluster,
            clock=ground.clock,
            random=ground.random,
            options=options,
            election=candidacy(process.lease, ground.access),
            metrics=ground.metrics,
            health=ground.health,
        )
        manager.add("scheduler", work)

    # Bindings leave some calls to everything else.
    limits = replace(LIMITS, n_calls=max(LIMITS.n_calls, options.bind_workers + 8))
    run_controller(process, start, limits)
