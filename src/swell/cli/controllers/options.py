"""Groups of options that controller programs share: API server, lease, endpoints and logs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from swell.cli.options import ClusterOptions, option
from swell.runtime.leader import LeaseTimes

_TIMES = LeaseTimes()


class LogFormat(StrEnum):
    """Formats of log lines."""

    TEXT = "text"
    JSON = "json"


class MetricsAuth(StrEnum):
    """Whose requests for metrics are answered."""

    AUTO = "auto"
    KUBERNETES = "kubernetes"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """The API server that a controller connects to. Unlike commands, it reads variables, too."""

    kubeconfig: Annotated[str, option("--kubeconfig", "Kubeconfig file.")] = ""
    master: Annotated[
        str, option("--master", "Address of the API server, instead of the file's.")
    ] = ""
    context: Annotated[str, option("--context", "Kubeconfig context.")] = ""

    @property
    def cluster(self) -> ClusterOptions:
        return ClusterOptions(self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """Leader election. The name of the lease is the program's own."""

    leader_elect: Annotated[
        bool, option("--leader-elect/--no-leader-elect", "Work only while holding the lease.")
    ] = True
    lease_name: Annotated[str, option("--lease-name", "Name of that lease.")]
    lease_duration: Annotated[
        float, option("--lease-duration", "Others take over after this.", is_duration=True)
    ] = _TIMES.duration_s
    renew_deadline: Annotated[
        float, option("--renew-deadline", "Nothing is written after this.", is_duration=True)
    ] = _TIMES.renew_deadline_s
    retry_period: Annotated[
        float, option("--retry-period", "The lease is renewed this often.", is_duration=True)
    ] = _TIMES.retry_s


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """The ways to observe a controller: metrics, health and log lines."""

    metrics_addr: Annotated[str, option("--metrics-addr", "host:port for metrics and health.")] = ""
    metrics_auth: Annotated[
        MetricsAuth,
        option(
            "--metrics-auth",
            "kubernetes: HTTPS, and a token with the right to get /metrics; none: plain HTTP for "
            "everybody; auto: none on loopback, kubernetes elsewhere.",
        ),
    ] = MetricsAuth.AUTO
    metrics_cert_dir: Annotated[
        str,
        option(
            "--metrics-cert-dir",
            "Folder with tls.crt and tls.key for that HTTPS; without one, a certificate is made "
            "at every start.",
        ),
    ] = ""
    health_addr: Annotated[str, option("--health-addr", "host:port for health alone.")] = ""
    traces_endpoint: Annotated[
        str,
        option("--traces-endpoint", "http(s):// address of a collector of OpenTelemetry (OTLP)."),
    ] = ""
    log_level: Annotated[
        str, option("--log-level,--v", "debug, info, warning, error; or a number.")
    ] = "info"
    log_format: Annotated[LogFormat, option("--log-format", "How log lines are written.")] = (
        LogFormat.TEXT
    )


@dataclass(frozen=True, slots=True)
class ControllerProcess:
    """How the process of a controller runs, as opposed to what the controller does."""

    name: str
    server: ApiServerOptions
    lease: LeaseOptions
    endpoints: EndpointOptions
