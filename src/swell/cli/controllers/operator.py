"""`swell operator`: the job controllers, on any cluster, until told to stop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.autoscaler.policies.interface import MAX_LOAD
from swell.autoscaler.settings import AutoscalerSettings
from swell.cli.choice import Flags
from swell.cli.controllers.autoscaler_flags import (
    Autoscale,
    GpuResources,
    MaxLoad,
    PolicyName,
    ScaleCooldown,
    ScalePeriod,
    names_in,
    settings_of,
)
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
from swell.operator.aitrainingjob.settings import Settings
from swell.operator.trainingjob.settings import Settings as TrainingJobSettings

if TYPE_CHECKING:
    from swell.cli.controllers.process import Ground
    from swell.runtime.manager import Manager

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
    options = _Options(training_jobs, sizes if autoscale else None, install_crds)
    where = Where(Flags(kubeconfig, context), master)
    shown = Shown(metrics_addr, health_addr, log_level, log_format)
    process = Process("operator", where, shown, lease if leader_elect else None)
    _run(process, settings, options)


@dataclass(frozen=True, slots=True)
class _Options:
    """What is done beside AITrainingJobs, and how."""

    training_jobs: TrainingJobSettings
    sizes: AutoscalerSettings | None
    install_crds: bool


def _run(process: Process, settings: Settings, options: _Options) -> None:
    from swell.cli.controllers.process import run_controller

    async def start(manager: Manager, ground: Ground) -> None:
        from swell.operator.framework.crds import install_crds

        if options.install_crds:
            await install_crds(ground.cluster, ground.clock)
        _add_services(manager, ground, process.lease, settings, options)

    run_controller(process, start)


def _add_services(
    manager: Manager, ground: Ground, lease: Lease | None, settings: Settings, options: _Options
) -> None:
    from swell.autoscaler.controller import autoscale
    from swell.operator.aitrainingjob.running import operate
    from swell.operator.trainingjob.running import operate as operate_training_jobs

    cluster, clock, rng = ground.cluster, ground.clock, ground.random
    if options.sizes is not None:
        choose_sizes = partial(
            autoscale,
            cluster,
            clock=clock,
            random=rng,
            settings=options.sizes,
            namespace=settings.namespace,
            election=candidacy(lease, ground.access, "-autoscaler"),
            metrics=ground.metrics,
        )
        manager.add("autoscaler", choose_sizes)
    work_on_training_jobs = partial(
        operate_training_jobs,
        cluster,
        clock=clock,
        random=rng,
        settings=options.training_jobs,
        election=candidacy(lease, ground.access, "-trainingjob"),
        metrics=ground.metrics,
        health=ground.health,
    )
    manager.add("TrainingJob operator", work_on_training_jobs)
    work = partial(
        operate,
        lambda _: cluster,
        clock=clock,
        random=rng,
        settings=settings,
        election=candidacy(lease, ground.access),
        metrics=ground.metrics,
        health=ground.health,
    )
    manager.add("operator", work)


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
