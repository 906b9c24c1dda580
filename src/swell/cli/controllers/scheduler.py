"""The command `swell scheduler`: gang scheduling on any cluster, until it is stopped."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.command_line import USAGE, CommandError
from swell.cli.controllers.gpu_options import fault_conditions, fault_taints
from swell.cli.controllers.options import (
    ApiServerOptions,
    ControllerProcess,
    EndpointOptions,
    LeaseOptions,
)
from swell.cli.options import names_in, option, option_groups
from swell.scheduler.live.settings import SchedulerSettings

if TYPE_CHECKING:
    from swell.cli.controllers.process import ProgramDependencies
    from swell.runtime.manager import Manager

_DEFAULTS = SchedulerSettings()
_LEASE = LeaseOptions(lease_name="swell-scheduler")
# Calls that binding pods leaves to everything else: status patches, events, the lease.
_CALLS_BESIDE_BINDING = 8


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Options of the scheduler alone."""

    scheduler_conf: Annotated[
        Path | None,
        option("--scheduler-conf,--config", "Actions and plugins, as in volcano-scheduler.conf."),
    ] = None
    scheduler_name: Annotated[
        list[str],
        typer.Option("--scheduler-name", help="Pods of this name are served; may be repeated."),
    ] = field(default_factory=lambda: list(_DEFAULTS.scheduler_names))
    schedule_period: Annotated[
        float,
        option("--schedule-period", "Decide at most this often; 0: at once.", is_duration=True),
    ] = _DEFAULTS.schedule_period_s
    bind_workers: Annotated[int, option("--bind-workers", "Bindings sent at the same time.")] = (
        _DEFAULTS.bind_workers
    )
    inqueue_timeout: Annotated[
        float,
        option(
            "--inqueue-timeout", "A group may be admitted unplaced this long.", is_duration=True
        ),
    ] = _DEFAULTS.inqueue_timeout_s
    default_queue: Annotated[str, option("--default-queue", "For groups that name none.")] = (
        _DEFAULTS.default_queue
    )

    save_seconds_max: Annotated[
        float,
        option("--save-seconds-max", "Wait no longer for pods that save.", is_duration=True),
    ] = _DEFAULTS.save_seconds_max

    gpu_fault_conditions: Annotated[
        str,
        option(
            "--gpu-fault-conditions",
            "Node conditions of a broken GPU, by commas: Type[=Status][:Reason|...][!Reason|...].",
        ),
    ] = ",".join(_DEFAULTS.gpu_fault_conditions)
    gpu_fault_taints: Annotated[
        str, option("--gpu-fault-taints", "Node taints of a broken GPU: key[=value][:effect],...")
    ] = ",".join(_DEFAULTS.gpu_fault_taints)
    gpu_resources: Annotated[
        str, option("--gpu-resources", "Resources that are GPUs, by commas.")
    ] = ",".join(_DEFAULTS.gpu_resources)
    gpu_drivers: Annotated[
        str, option("--gpu-drivers", "DRA drivers whose devices are GPUs, by commas.")
    ] = ",".join(_DEFAULTS.gpu_drivers)

    def settings(self) -> SchedulerSettings:
        """Return the scheduler's settings; CommandError when a flag makes no sense."""
        if self.bind_workers < 1:
            raise CommandError("--bind-workers must be at least 1", exit_code=USAGE)
        return SchedulerSettings(
            scheduler_names=tuple(self.scheduler_name),
            schedule_period_s=self.schedule_period,
            bind_workers=self.bind_workers,
            inqueue_timeout_s=self.inqueue_timeout,
            default_queue=self.default_queue,
            config_path=self.scheduler_conf,
            save_seconds_max=self.save_seconds_max,
            gpu_resources=names_in(self.gpu_resources),
            gpu_drivers=names_in(self.gpu_drivers),
            gpu_fault_conditions=fault_conditions(self.gpu_fault_conditions),
            gpu_fault_taints=fault_taints(self.gpu_fault_taints),
        )


@option_groups
def scheduler(
    *,
    server: ApiServerOptions,
    options: SchedulerOptions,
    lease: LeaseOptions = _LEASE,
    endpoints: EndpointOptions,
) -> None:
    """Give pods nodes, gang by gang, until told to stop."""
    settings = options.settings()
    _run(ControllerProcess("scheduler", server, lease, endpoints), settings)


def _run(process: ControllerProcess, settings: SchedulerSettings) -> None:
    from swell.cli.controllers.process import candidacy, run_controller
    from swell.cluster.kube.policy import LIMITS
    from swell.scheduler.live.controller import schedule

    async def add_services(manager: Manager, dependencies: ProgramDependencies) -> None:
        work = partial(
            schedule,
            dependencies.cluster,
            clock=dependencies.clock,
            random=dependencies.random,
            settings=settings,
            election=candidacy(process.lease, dependencies.access),
            metrics=dependencies.metrics,
            health=dependencies.health,
        )
        manager.add("scheduler", work)

    n_calls = max(LIMITS.n_calls, settings.bind_workers + _CALLS_BESIDE_BINDING)
    run_controller(process, add_services, replace(LIMITS, n_calls=n_calls))
