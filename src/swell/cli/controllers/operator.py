"""The command `swell operator`: the job controllers, on any cluster, until told to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from swell.cli.command_line import USAGE, CommandError
from swell.cli.controllers.autoscaler_options import AutoscalerOptions
from swell.cli.controllers.component_config import read_config
from swell.cli.controllers.feature_gates import FLAG, gated, gates, states
from swell.cli.controllers.gpu_options import (
    allocatable_drop,
    fault_conditions,
    fault_device_taints,
    fault_taints,
    share_in,
)
from swell.cli.controllers.options import (
    ApiServerOptions,
    ControllerProcess,
    EndpointOptions,
    LeaseOptions,
)
from swell.cli.options import names_in, option, option_groups
from swell.history.settings import HistorySettings
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.settings import GANG_APIS, OperatorSettings
from swell.operator.trainingjob.settings import TrainingJobSettings

if TYPE_CHECKING:
    from swell.autoscaler.settings import AutoscalerSettings
    from swell.cli.controllers.process import ProgramDependencies
    from swell.operator.framework.kind import AnyJobKind
    from swell.operator.framework.report_inbox import ReportInbox
    from swell.runtime.manager import Manager

S = TypeVar("S", bound=OperatorSettings)
_JOBS = AITrainingJobSettings()
_TRAINING_JOBS = TrainingJobSettings()
_HISTORY = HistorySettings()
_LEASE = LeaseOptions(lease_name="swell-operator")


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="YAML file: an OperatorConfiguration, or a plain map of flags and values.",
        envvar="SWELL_CONFIG",
        callback=read_config,
        is_eager=True,
    ),
]
FeatureGates = Annotated[
    str,
    option(FLAG, "Features to switch on or off, by commas: Name=true,Other=false."),
]
InstallCrds = Annotated[
    bool | None,
    option(
        "--install-crds",
        "Create or update our CRDs first. Without the flag: with --master yes, otherwise no.",
    ),
]
# Accepted for the sake of existing command lines; it does nothing.
ToStderr = Annotated[
    bool, typer.Option("--logtostderr", hidden=True, help="Nothing: logs go there anyway.")
]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of the job controllers; the first ones count for both kinds of job."""

    namespace: Annotated[str, option("--namespace", "The one to work in; without it, all.")] = ""
    cluster_objects: Annotated[
        bool,
        option(
            "--cluster-objects/--no-cluster-objects",
            "Read nodes and priority classes, which takes rights in the whole cluster.",
        ),
    ] = _JOBS.sees_cluster
    workers: Annotated[
        int, option("--workers,--thread-num", "Jobs looked at at the same time.")
    ] = _JOBS.workers
    resync_period: Annotated[
        float, option("--resync-period", "List anew this often.", is_duration=True)
    ] = _JOBS.resync_period_s
    gc_period: Annotated[float, option("--gc-period", "Sweep up this often.", is_duration=True)] = (
        _JOBS.gc_period_s
    )
    creating_restart_period: Annotated[
        float,
        option("--creating-restart-period", "Replace stuck pods for this long.", is_duration=True),
    ] = _JOBS.creating_restart_period_s
    creating_duration_period: Annotated[
        float, option("--creating-duration-period", "A pod is stuck after this.", is_duration=True)
    ] = _JOBS.creating_duration_period_s
    creating_restart_limit: Annotated[
        int | None,
        option(
            "--creating-restart-limit",
            "Replace stuck pods of a role this often; without it, any number.",
        ),
    ] = _JOBS.creating_restart_limit
    enable_creating_failed: Annotated[
        bool, option("--enable-creating-failed", "Fail jobs whose containers cannot be created.")
    ] = _JOBS.enable_creating_failed
    node_lost_after: Annotated[
        float, option("--node-lost-after", "A silent node is lost after this.", is_duration=True)
    ] = _JOBS.node_lost_after_s
    node_fence_after: Annotated[
        float,
        option("--node-fence-after", "Its pods are dropped this much later.", is_duration=True),
    ] = _JOBS.node_fence_after_s
    save_seconds_max: Annotated[
        float,
        option("--save-seconds-max", "Wait no longer for pods that save.", is_duration=True),
    ] = _JOBS.save_seconds_max
    node_avoid_period: Annotated[
        float,
        option("--node-avoid-period", "Avoid nodes with broken GPUs this long.", is_duration=True),
    ] = _JOBS.node_avoid_s
    straggler_ratio: Annotated[
        float,
        option("--straggler-ratio", "Name members whose steps take more than so many medians."),
    ] = _JOBS.straggler_ratio
    straggler_steps: Annotated[
        int, option("--straggler-steps", "Name them when that has lasted for so many steps.")
    ] = _JOBS.straggler_steps
    fault_half_life: Annotated[
        float,
        option(
            "--fault-half-life",
            "In this time a failure that is blamed on a node loses half of its weight.",
            is_duration=True,
        ),
    ] = _JOBS.fault_half_life_s
    cordon_suspects: Annotated[
        bool,
        option("--cordon-suspects", "Taint nodes on which three jobs failed, up to 20 % of all."),
    ] = _JOBS.cordon_suspects
    gpu_fault_conditions: Annotated[
        str,
        option(
            "--gpu-fault-conditions",
            "Node conditions of a broken GPU, by commas: Type[=Status][:Reason|...][!Reason|...].",
        ),
    ] = ",".join(_JOBS.gpu_fault_conditions)
    gpu_fault_taints: Annotated[
        str, option("--gpu-fault-taints", "Node taints of a broken GPU: key[=value][:effect],...")
    ] = ",".join(_JOBS.gpu_fault_taints)
    gpu_fault_device_taints: Annotated[
        str,
        option(
            "--gpu-fault-device-taints",
            "Taints of broken DRA devices: key[=value][:effect],... Effect None never counts.",
        ),
    ] = ",".join(_JOBS.gpu_fault_device_taints)
    gpu_allocatable_drop: Annotated[
        str,
        option(
            "--gpu-allocatable-drop",
            "What a node that can allocate fewer GPUs than its pods have is: report or fault.",
        ),
    ] = _JOBS.gpu_allocatable_drop
    gpu_drivers: Annotated[
        str, option("--gpu-drivers", "DRA drivers whose devices are GPUs, by commas.")
    ] = ",".join(_JOBS.gpu_drivers)
    gpu_fault_after: Annotated[
        float,
        option("--gpu-fault-after", "A GPU is broken when reported so long.", is_duration=True),
    ] = _JOBS.gpu_fault_after_s
    gpu_fault_max_nodes: Annotated[
        str,
        option(
            "--gpu-fault-max-nodes",
            "Restart nothing when more GPU nodes turn faulty within 5 min; two always may.",
        ),
    ] = f"{_JOBS.gpu_fault_max_share:.0%}"
    default_scheduler: Annotated[str, option("--default-scheduler", "For jobs that name none.")] = (
        _JOBS.default_scheduler
    )
    gang: Annotated[bool, option("--gang/--no-gang", "Create PodGroups.")] = _JOBS.gang
    gang_api: Annotated[
        str,
        option(
            "--gang-api",
            "PodGroups of volcano, or native ones of Kubernetes itself where it serves them.",
        ),
    ] = _JOBS.gang_api
    autoclean: Annotated[
        bool, option("--autoclean", "Give back the pods of ended TrainingJobs.")
    ] = _TRAINING_JOBS.autoclean
    restartlimit: Annotated[
        int,
        option(
            "--restartlimit",
            "TrainingJobs: replacements of a trainer; restarts of a pserver that fail the job.",
        ),
    ] = _TRAINING_JOBS.restart_limit
    etcd_image: Annotated[
        str, option("--etcd-image", "What runs beside a TrainingJob's master.")
    ] = _TRAINING_JOBS.etcd_image
    adopt_original: Annotated[
        bool,
        option(
            "--adopt-original",
            "Delete what the original controller left of TrainingJobs that are gone.",
        ),
    ] = _TRAINING_JOBS.adopt_original

    history: Annotated[
        bool,
        option("--history/--no-history", "Keep records of jobs in ConfigMaps of their namespaces."),
    ] = True
    history_days: Annotated[
        int, option("--history-days", "Drop records of jobs that ended this many days ago.")
    ] = int(_HISTORY.days)
    history_jobs: Annotated[
        int, option("--history-jobs", "Keep records of at most so many jobs of a kind.")
    ] = _HISTORY.jobs_max

    def ai_training_job_settings(self, gpu_resources: tuple[str, ...]) -> AITrainingJobSettings:
        """Return the settings of AITrainingJobs; CommandError when a flag makes no sense."""
        if self.gang_api not in GANG_APIS:
            known = ", ".join(GANG_APIS)
            raise CommandError(
                f"--gang-api is {self.gang_api!r}", f"must be one of: {known}", USAGE
            )
        limit = self.creating_restart_limit
        if limit is not None and limit < 0:
            problem = f"--creating-restart-limit is {limit}, and must not be negative"
            raise CommandError(problem, "leave it out for any number", USAGE)
        if not self.straggler_ratio > 1 or self.straggler_steps < 1:
            problem = f"--straggler-ratio is {self.straggler_ratio:g}, and must be more than 1"
            if self.straggler_steps < 1:
                problem = f"--straggler-steps is {self.straggler_steps}, and must be positive"
            raise CommandError(problem, exit_code=USAGE)
        settings = AITrainingJobSettings(
            creating_restart_period_s=self.creating_restart_period,
            creating_duration_period_s=self.creating_duration_period,
            creating_restart_limit=self.creating_restart_limit,
            enable_creating_failed=self.enable_creating_failed,
            node_lost_after_s=self.node_lost_after,
            node_avoid_s=self.node_avoid_period,
            save_seconds_max=self.save_seconds_max,
            straggler_ratio=self.straggler_ratio,
            straggler_steps=self.straggler_steps,
            gpu_fault_conditions=fault_conditions(self.gpu_fault_conditions),
            gpu_fault_taints=fault_taints(self.gpu_fault_taints),
            gpu_fault_device_taints=fault_device_taints(self.gpu_fault_device_taints),
            gpu_allocatable_drop=allocatable_drop(self.gpu_allocatable_drop),
            gpu_drivers=names_in(self.gpu_drivers),
            gpu_fault_after_s=self.gpu_fault_after,
            gpu_fault_max_share=share_in(self.gpu_fault_max_nodes),
        )
        return self._with_shared(settings, gpu_resources)

    def training_job_settings(self, gpu_resources: tuple[str, ...]) -> TrainingJobSettings:
        settings = TrainingJobSettings(
            autoclean=self.autoclean,
            restart_limit=self.restartlimit,
            etcd_image=self.etcd_image,
            adopt_original=self.adopt_original,
            save_seconds_max=self.save_seconds_max,
        )
        return self._with_shared(settings, gpu_resources)

    def _with_shared(self, settings: S, gpu_resources: tuple[str, ...]) -> S:
        """Return the settings of a kind with the choices that all kinds share."""
        return replace(
            settings,
            namespace=self.namespace,
            sees_cluster=self.cluster_objects,
            workers=self.workers,
            resync_period_s=self.resync_period,
            gc_period_s=self.gc_period,
            node_fence_after_s=self.node_fence_after,
            default_scheduler=self.default_scheduler,
            gang=self.gang,
            gang_api=self.gang_api,
            gpu_resources=gpu_resources,
            fault_half_life_s=self._half_life_s(),
            cordon_suspects=self.cordon_suspects,
            history=self._history(),
        )

    def _half_life_s(self) -> float:
        if self.fault_half_life < 1:
            problem = f"--fault-half-life is {self.fault_half_life:g} s, and must be 1 s or more"
            raise CommandError(problem, "write a time such as 1h", USAGE)
        return self.fault_half_life

    def _history(self) -> HistorySettings | None:
        for name, n_kept in (("days", self.history_days), ("jobs", self.history_jobs)):
            if n_kept < 1:
                problem = f"--history-{name} is {n_kept}, and must be positive"
                raise CommandError(problem, "keep nothing: --no-history", USAGE)
        if not self.history:
            return None
        return HistorySettings(days=self.history_days, jobs_max=self.history_jobs)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The ways of reports where the operator cannot ask training programs at their own addresses.

    With an endpoint, each pod gets a token of the audience `swell`, which is bound to it.
    """

    reports_addr: Annotated[
        str, option("--reports-addr", "host:port to which training programs send reports.")
    ] = ""
    reports_url: Annotated[
        str, option("--reports-url", "The http(s):// address of that port, as pods reach it.")
    ] = ""
    reports_cert_dir: Annotated[
        str,
        option(
            "--reports-cert-dir",
            "Folder with tls.crt and tls.key for HTTPS, which pods can verify; without one, HTTP.",
        ),
    ] = ""
    reports_proxy: Annotated[
        bool,
        option(
            "--reports-proxy",
            "Ask training programs through the API server, by the right to pods/proxy.",
        ),
    ] = False

    def check(self) -> None:
        """Raise CommandError for flags that make no sense together."""
        if bool(self.reports_addr) != bool(self.reports_url):
            problem = "--reports-addr and --reports-url are given together, or neither"
            raise CommandError(problem, "the first is listened at, the second told to pods", USAGE)
        scheme = "https" if self.reports_cert_dir else "http"
        if self.reports_url and not self.reports_url.startswith(f"{scheme}://"):
            problem = f"--reports-url is {self.reports_url!r}, and must begin with {scheme}://"
            raise CommandError(problem, "HTTPS needs --reports-cert-dir", USAGE)


@dataclass(frozen=True, slots=True)
class OperatorServices:
    """Settings of the services that the operator's process runs; no `sizes`, no autoscaler."""

    jobs: AITrainingJobSettings
    training_jobs: TrainingJobSettings
    sizes: AutoscalerSettings | None
    install_crds: bool
    reports: ReportOptions = ReportOptions()


@option_groups
def operator(
    *,
    config: Config = None,
    feature_gates: FeatureGates = "",
    server: ApiServerOptions,
    jobs: JobOptions,
    reports: ReportOptions,
    autoscaler: AutoscalerOptions,
    install_crds: InstallCrds = None,
    lease: LeaseOptions = _LEASE,
    endpoints: EndpointOptions,
    logtostderr: ToStderr = False,
) -> None:
    """Run the job controllers until told to stop."""
    del config, logtostderr  # the first was read already; logs go to stderr anyway
    sizes = autoscaler.settings()
    reports.check()
    url, given = reports.reports_url, gates(feature_gates)
    ai_training_jobs = gated(jobs.ai_training_job_settings(sizes.gpu_resources), given)
    training_jobs = gated(jobs.training_job_settings(sizes.gpu_resources), given)
    services = OperatorServices(
        replace(ai_training_jobs, report_url=url),
        replace(training_jobs, report_url=url),
        sizes if autoscaler.autoscale else None,
        # An operator that is pointed at a server by hand has nobody to install them before it.
        bool(server.master) if install_crds is None else install_crds,
        reports,
    )
    _run(ControllerProcess("operator", server, lease, endpoints), services)


def _run(process: ControllerProcess, services: OperatorServices) -> None:
    from swell.cli.controllers.process import run_controller

    async def add_services(manager: Manager, dependencies: ProgramDependencies) -> None:
        from swell.operator.framework.program import install_crds

        if services.install_crds:
            await install_crds(dependencies.cluster, dependencies.clock)
        _add_services(manager, dependencies, process.lease, services)

    run_controller(process, add_services)


def _add_services(
    manager: Manager,
    dependencies: ProgramDependencies,
    lease: LeaseOptions,
    services: OperatorServices,
) -> None:
    """Add a service for the autoscaler and for each job kind, each with a lease of its own."""
    from swell.autoscaler.controller import autoscale
    from swell.cli.controllers.process import candidacy
    from swell.operator.aitrainingjob.kind import ai_training_job_kind
    from swell.operator.framework.program import operate
    from swell.operator.framework.report_client import ask_directly, ask_through
    from swell.operator.trainingjob.kind import training_job_kind

    cluster, clock, rng = dependencies.cluster, dependencies.clock, dependencies.random
    access, metrics, health = dependencies.access, dependencies.metrics, dependencies.health
    metrics.set_features(states(services.jobs))
    if services.sizes is not None:
        choose_sizes = partial(
            autoscale,
            cluster,
            clock=clock,
            random=rng,
            settings=services.sizes,
            namespace=services.jobs.namespace,
            election=candidacy(lease, access, "-autoscaler"),
            metrics=metrics,
        )
        manager.add("autoscaler", choose_sizes)
    inbox = _report_inbox(manager, dependencies, services.reports)
    passes_on = services.reports.reports_proxy
    fetch_report = ask_through(cluster.ask_pod) if passes_on else ask_directly
    kinds: list[AnyJobKind] = [
        training_job_kind(services.training_jobs),
        ai_training_job_kind(services.jobs),
    ]
    for kind in kinds:
        work = partial(
            operate,
            kind,
            cluster,
            clock=clock,
            random=rng,
            election=candidacy(lease, access, kind.names.lease_suffix),
            metrics=metrics,
            health=health,
            inbox=inbox,
            fetch_report=fetch_report,
        )
        manager.add(kind.names.service, work)


def _report_inbox(
    manager: Manager, dependencies: ProgramDependencies, reports: ReportOptions
) -> ReportInbox | None:
    """Serve the endpoint for reports, if there is one. It answers while an operator leads."""
    if not reports.reports_addr:
        return None
    from swell.cli.controllers.process import host_port, server_tls
    from swell.operator.framework.report_inbox import ReportInbox

    host, port = host_port(reports.reports_addr)
    folder = reports.reports_cert_dir
    tls = server_tls(folder, "--reports-cert-dir") if folder else None
    inbox = ReportInbox(dependencies.cluster, dependencies.clock, host, port, tls)
    manager.add(f"reports {reports.reports_addr}", inbox.run)
    return inbox
