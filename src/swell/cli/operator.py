"""`swell operator`: the job controllers, on any cluster, until told to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.autoscaler.policies.interface import MAX_LOAD
from swell.autoscaler.settings import Settings as AutoscalerSettings
from swell.cli.autoscalerflags import (
    Autoscale,
    GpuResources,
    MaxLoad,
    PolicyName,
    ScaleCooldown,
    ScalePeriod,
    names_in,
    settings_of,
)
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
from swell.operator.settings import Settings
from swell.operator.trainingjob.settings import Settings as TrainingJobSettings

if TYPE_CHECKING:
    from swell.cluster.kube.access import Access
    from swell.runtime.election import Election

_DEFAULTS = Settings()
_CONDITIONS = ",".join(_DEFAULTS.gpu_fault_conditions)
_TAINTS = ",".join(_DEFAULTS.gpu_fault_taints)
_TRAINING_JOBS = TrainingJobSettings()
_SIZES = AutoscalerSettings()
_GPUS = ",".join(_SIZES.gpu_resources)


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Values for flags that neither the command line nor the environment gives."""
    if path is None:
        return None
    import yaml

    try:
        found = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise CommandError(f"cannot read {path}: {error}", exit_code=2) from error
    if not isinstance(found, dict):
        raise CommandError(f"{path} is not a map of flags to values", exit_code=2)
    known = {parameter.name for parameter in context.command.params}
    values = {str(name).lstrip("-").replace("-", "_"): value for name, value in found.items()}
    unknown = sorted(name for name in values if name not in known)
    if unknown:
        raise CommandError(f"{path}: no such flags: {', '.join(unknown)}", exit_code=2)
    context.default_map = {**(context.default_map or {}), **values}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="YAML file of flags and values.",
        envvar="SWELL_CONFIG",
        callback=_read_config,
        is_eager=True,
    ),
]
Namespace = Annotated[str, option("--namespace", "The one to work in; without it, all.")]
ClusterObjects = Annotated[
    bool,
    option(
        "--cluster-objects/--no-cluster-objects",
        "Read nodes and priority classes, which takes rights in the whole cluster.",
    ),
]
Workers = Annotated[int, option("--workers,--thread-num", "Jobs looked at at the same time.")]
Scheduler = Annotated[str, option("--default-scheduler", "For jobs that name none.")]
GpuConditions = Annotated[
    str, option("--gpu-fault-conditions", "Node conditions that mean a broken GPU, by commas.")
]
GpuTaints = Annotated[
    str, option("--gpu-fault-taints", "Node taints that mean a broken GPU, by commas.")
]
Gang = Annotated[bool, option("--gang/--no-gang", "Create PodGroups.")]
InstallCrds = Annotated[bool, option("--install-crds", "Create or update our CRDs first.")]
CreatingFailed = Annotated[
    bool, option("--enable-creating-failed", "Fail jobs whose containers cannot be created.")
]
Autoclean = Annotated[bool, option("--autoclean", "Give back the pods of ended TrainingJobs.")]
RestartLimit = Annotated[
    int,
    option(
        "--restartlimit",
        "TrainingJobs: replacements of a trainer; restarts of a pserver that fail the job.",
    ),
]
EtcdImage = Annotated[str, option("--etcd-image", "What runs beside a TrainingJob's master.")]
ToStderr = Annotated[bool, typer.Option("--logtostderr", hidden=True)]
Resync = Annotated[float, option("--resync-period", "List anew this often.", is_duration=True)]
GcPeriod = Annotated[float, option("--gc-period", "Sweep up this often.", is_duration=True)]
CreatingRestart = Annotated[
    float,
    option("--creating-restart-period", "Replace stuck pods for this long.", is_duration=True),
]
CreatingDuration = Annotated[
    float,
    option("--creating-duration-period", "A pod is stuck after this.", is_duration=True),
]
LostAfter = Annotated[
    float, option("--node-lost-after", "A silent node is lost after this.", is_duration=True)
]
FenceAfter = Annotated[
    float,
    option("--node-fence-after", "Its pods are dropped this much later.", is_duration=True),
]


def operator(
    *,
    config: Config = None,
    kubeconfig: Kubeconfig = "",
    master: Master = "",
    context: Context = "",
    namespace: Namespace = "",
    cluster_objects: ClusterObjects = True,
    workers: Workers = _DEFAULTS.workers,
    resync_period: Resync = _DEFAULTS.resync_period_s,
    gc_period: GcPeriod = _DEFAULTS.gc_period_s,
    creating_restart_period: CreatingRestart = _DEFAULTS.creating_restart_period_s,
    creating_duration_period: CreatingDuration = _DEFAULTS.creating_duration_period_s,
    enable_creating_failed: CreatingFailed = False,
    node_lost_after: LostAfter = _DEFAULTS.node_lost_after_s,
    node_fence_after: FenceAfter = _DEFAULTS.node_fence_after_s,
    gpu_fault_conditions: GpuConditions = _CONDITIONS,
    gpu_fault_taints: GpuTaints = _TAINTS,
    default_scheduler: Scheduler = _DEFAULTS.default_scheduler,
    gang: Gang = True,
    autoclean: Autoclean = False,
    restartlimit: RestartLimit = _TRAINING_JOBS.restart_limit,
    etcd_image: EtcdImage = _TRAINING_JOBS.etcd_image,
    autoscale: Autoscale = True,
    scale_period: ScalePeriod = _SIZES.scale_period_s,
    scale_cooldown: ScaleCooldown = _SIZES.scale_cooldown_s,
    policy: PolicyName = _SIZES.policy,
    max_load_desired: MaxLoad = MAX_LOAD,
    gpu_resources: GpuResources = _GPUS,
    install_crds: InstallCrds = False,
    leader_elect: Elect = True,
    lease_name: LeaseName = "swell-operator",
    lease_duration: LeaseDuration = 15.0,
    renew_deadline: RenewDeadline = 10.0,
    retry_period: RetryPeriod = 2.0,
    metrics_addr: MetricsAddress = "",
    health_addr: HealthAddress = "",
    log_level: LogLevel = "info",
    log_format: LogFormatOption = LogFormat.TEXT,
    logtostderr: ToStderr = False,
) -> None:
    """Run the job controllers until told to stop."""
    del config, logtostderr  # the first was read already; logs go to stderr anyway
    settings = Settings(
        namespace=namespace,
        sees_cluster=cluster_objects,
        workers=workers,
        resync_period_s=resync_period,
        gc_period_s=gc_period,
        creating_restart_period_s=creating_restart_period,
        creating_duration_period_s=creating_duration_period,
        enable_creating_failed=enable_creating_failed,
        node_lost_after_s=node_lost_after,
        node_fence_after_s=node_fence_after,
        gpu_fault_conditions=names_in(gpu_fault_conditions),
        gpu_fault_taints=names_in(gpu_fault_taints),
        default_scheduler=default_scheduler,
        gang=gang,
        gpu_resources=names_in(gpu_resources),
    )
    sizes = settings_of(scale_period, scale_cooldown, policy, max_load_desired, gpu_resources)
    lease = Lease(lease_name, lease_duration, renew_deadline, retry_period)
    training_jobs = _of_training_jobs(settings, autoclean, restartlimit, etcd_image)
    process = _Process(master, install_crds, (metrics_addr, health_addr), log_level, log_format)
    kept = lease if leader_elect else None
    options = _Options(training_jobs, sizes if autoscale else None, process, kept)
    _run(Flags(kubeconfig, context), settings, options)


@dataclass(frozen=True, slots=True)
class _Process:
    """How the process runs, beside what it does."""

    master: str
    install_crds: bool
    addresses: tuple[str, str]  # for metrics, for health
    log_level: str
    log_format: LogFormat


@dataclass(frozen=True, slots=True)
class _Options:
    """What is done beside AITrainingJobs, and how."""

    training_jobs: TrainingJobSettings
    sizes: AutoscalerSettings | None
    process: _Process
    lease: Lease | None = None


def _run(flags: Flags, settings: Settings, options: _Options) -> None:
    import asyncio

    from swell.runtime import logs
    from swell.runtime.clock import SystemClock
    from swell.runtime.manager import ServiceFailedError

    access = chosen_access(flags)
    if options.process.master:
        access = replace(access, server=options.process.master)
    clock = SystemClock()
    as_json = options.process.log_format is LogFormat.JSON
    logs.configure(level=level_of(options.process.log_level), json=as_json, clock=clock)
    try:
        asyncio.run(_serve(access, settings, options))
    except ServiceFailedError as error:
        raise CommandError(f"the operator ended: {error.name}", "the log says why") from error


async def _serve(access: Access, settings: Settings, options: _Options) -> None:
    import random

    from swell.autoscaler.running import autoscale
    from swell.cluster.kube.client import connect
    from swell.operator.crds import install_crds
    from swell.operator.running import operate
    from swell.operator.trainingjob.running import operate as operate_training_jobs
    from swell.runtime.clock import SystemClock
    from swell.runtime.health import Endpoints, Health
    from swell.runtime.manager import Manager
    from swell.runtime.metrics import Metrics

    clock, rng = SystemClock(), random.Random()  # noqa: S311
    metrics, health = Metrics(), Health()
    manager = Manager(clock=clock)
    for address, shown in zip(options.process.addresses, (metrics, None), strict=True):
        if address:
            host, port = host_port(address)
            endpoints = Endpoints(health, shown, host=host, port=port)
            manager.add(f"http {address}", endpoints.run)
    async with connect(access, clock, rng) as cluster:
        if options.process.install_crds:
            await install_crds(cluster, clock)

        async def work() -> None:
            await operate(
                lambda _: cluster,
                clock=clock,
                random=rng,
                settings=settings,
                election=_election(options.lease, access),
                metrics=metrics,
                health=health,
            )

        async def work_on_training_jobs() -> None:
            await operate_training_jobs(
                cluster,
                clock=clock,
                random=rng,
                settings=options.training_jobs,
                election=_election(options.lease, access, suffix="-trainingjob"),
                metrics=metrics,
                health=health,
            )

        async def choose_sizes(sizes: AutoscalerSettings) -> None:
            await autoscale(
                cluster,
                clock=clock,
                random=rng,
                settings=sizes,
                namespace=settings.namespace,
                election=_election(options.lease, access, suffix="-autoscaler"),
                metrics=metrics,
            )

        if options.sizes is not None:
            manager.add("autoscaler", partial(choose_sizes, options.sizes))
        manager.add("TrainingJob operator", work_on_training_jobs)
        manager.add("operator", work)
        await manager.run(handle_signals=True)


def _of_training_jobs(
    settings: Settings, autoclean: bool, restart_limit: int, etcd_image: str
) -> TrainingJobSettings:
    """What both kinds of job have in common is said once."""
    return TrainingJobSettings(
        namespace=settings.namespace,
        sees_cluster=settings.sees_cluster,
        workers=settings.workers,
        resync_period_s=settings.resync_period_s,
        gc_period_s=settings.gc_period_s,
        node_fence_after_s=settings.node_fence_after_s,
        default_scheduler=settings.default_scheduler,
        gang=settings.gang,
        autoclean=autoclean,
        restart_limit=restart_limit,
        etcd_image=etcd_image,
        gpu_resources=settings.gpu_resources,
    )


def _election(lease: Lease | None, access: Access, suffix: str = "") -> Election | None:
    return None if lease is None else candidacy(lease, access, suffix)
