"""`swell scheduler`: gang scheduling with queues, on any cluster, until told to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.choice import Flags
from swell.cli.connection import chosen_access
from swell.cli.controllerflags import (
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
    RenewDeadline,
    RetryPeriod,
    candidacy,
    host_port,
    level_of,
    option,
)
from swell.cli.failure import CommandError

if TYPE_CHECKING:
    from swell.cluster.kube.access import Access
    from swell.scheduler.live.options import SchedulerOptions

_GC_THRESHOLDS = (50_000, 50, 1000)

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
    from swell.scheduler.live.options import SchedulerOptions

    if bind_workers < 1:
        raise CommandError("--bind-workers must be at least 1", exit_code=2)
    options = SchedulerOptions(
        scheduler_names=tuple(scheduler_name),
        schedule_period_s=schedule_period,
        bind_workers=bind_workers,
        inqueue_timeout_s=inqueue_timeout,
        default_queue=default_queue,
        config_path=scheduler_conf,
    )
    lease = Lease(lease_name, lease_duration, renew_deadline, retry_period)
    process = _Process((metrics_addr, health_addr), lease if leader_elect else None)
    access = chosen_access(Flags(kubeconfig, context))
    if master:
        access = replace(access, server=master)
    _run(access, options, process, (log_level, log_format))


@dataclass(frozen=True, slots=True)
class _Process:
    addresses: tuple[str, str]  # for metrics, for health
    lease: Lease | None


def _run(
    access: Access, options: SchedulerOptions, process: _Process, log: tuple[str, LogFormat]
) -> None:
    import asyncio
    import gc

    from swell.runtime import logs
    from swell.runtime.clock import SystemClock
    from swell.runtime.manager import ServiceFailedError

    level, form = log
    logs.configure(level=level_of(level), json=form is LogFormat.JSON, clock=SystemClock())
    # What is held of a large cluster is looked through at every collection: make them rare.
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        asyncio.run(_serve(access, options, process))
    except ServiceFailedError as error:
        raise CommandError(f"the scheduler ended: {error.name}", "the log says why") from error


async def _serve(access: Access, options: SchedulerOptions, process: _Process) -> None:
    import random

    from swell.cluster.kube.client import connect
    from swell.cluster.kube.transport import LIMITS
    from swell.runtime.clock import SystemClock
    from swell.runtime.health import Endpoints, Health
    from swell.runtime.manager import Manager
    from swell.runtime.metrics import Metrics
    from swell.scheduler.live.running import schedule

    clock, rng = SystemClock(), random.Random()  # noqa: S311
    metrics, health = Metrics(), Health()
    election = None if process.lease is None else candidacy(process.lease, access)
    manager = Manager(clock=clock)
    for address, shown in zip(process.addresses, (metrics, None), strict=True):
        if address:
            host, port = host_port(address)
            endpoints = Endpoints(health, shown, host=host, port=port)
            manager.add(f"http {address}", endpoints.run)
    # Bindings leave some calls to everything else.
    limits = replace(LIMITS, n_calls=max(LIMITS.n_calls, options.bind_workers + 8))
    async with connect(access, clock, rng, limits) as cluster:

        async def work() -> None:
            await schedule(
                cluster,
                clock=clock,
                random=rng,
                options=options,
                election=election,
                metrics=metrics,
                health=health,
            )

        manager.add("scheduler", work)
        await manager.run(handle_signals=True)
