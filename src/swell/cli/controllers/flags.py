"""Flags that every controller program has, and what they come to: lease, addresses, logs."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from swell.cli.choice import Flags
from swell.cli.durations import seconds_of
from swell.cli.failure import CommandError

if TYPE_CHECKING:
    from swell.cluster.kube.access import Access
    from swell.runtime.leader import Election


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def option(flags: str, text: str, *, is_duration: bool = False) -> object:
    """A flag that is also an environment variable, SWELL_ and its first name."""
    names = flags.split(",")
    variable = "SWELL_" + names[0].split("/")[0].lstrip("-").replace("-", "_").upper()
    if is_duration:
        return typer.Option(
            *names, help=text, envvar=variable, parser=seconds_of, metavar="DURATION"
        )
    return typer.Option(*names, help=text, envvar=variable)


Kubeconfig = Annotated[str, option("--kubeconfig", "Kubeconfig file.")]
Context = Annotated[str, option("--context", "Kubeconfig context.")]
Master = Annotated[str, option("--master", "Address of the API server, instead of the file's.")]
Elect = Annotated[
    bool, option("--leader-elect/--no-leader-elect", "Work only while holding the lease.")
]
LeaseName = Annotated[str, option("--lease-name", "Name of that lease.")]
MetricsAddress = Annotated[str, option("--metrics-addr", "host:port for metrics and health.")]
HealthAddress = Annotated[str, option("--health-addr", "host:port for health alone.")]
LogLevel = Annotated[str, option("--log-level,--v", "debug, info, warning, error; or a number.")]
LogFormatOption = Annotated[LogFormat, option("--log-format", "How log lines are written.")]
LeaseDuration = Annotated[
    float, option("--lease-duration", "Others take over after this.", is_duration=True)
]
RenewDeadline = Annotated[
    float, option("--renew-deadline", "Nothing is written after this.", is_duration=True)
]
RetryPeriod = Annotated[
    float, option("--retry-period", "The lease is renewed this often.", is_duration=True)
]


@dataclass(frozen=True, slots=True)
class Lease:
    """Flags of the election."""

    name: str
    duration_s: float
    renew_deadline_s: float
    retry_s: float


class Where(NamedTuple):
    """Flags that say which cluster."""

    flags: Flags
    master: str


class Shown(NamedTuple):
    """Flags of what others see of a process."""

    metrics_addr: str
    health_addr: str
    log_level: str
    log_format: LogFormat


@dataclass(frozen=True, slots=True)
class Process:
    """How the process of a controller runs, beside what it does."""

    name: str
    where: Where
    shown: Shown
    lease: Lease | None  # without one it works at once


def candidacy(lease: Lease | None, access: Access, suffix: str = "") -> Election | None:
    """Which lease this life of this process tries to hold, as whom; None without a lease."""
    if lease is None:
        return None
    from swell.api.meta import Key
    from swell.runtime.leader import Election, LeaseTimes

    identity = f"{socket.gethostname()}_{secrets.token_hex(6)}"
    try:
        times = LeaseTimes(lease.duration_s, lease.renew_deadline_s, lease.retry_s)
    except ValueError as error:
        raise CommandError(str(error), exit_code=2) from error
    namespace = os.environ.get("POD_NAMESPACE") or access.namespace
    return Election(Key(namespace, f"{lease.name}{suffix}"), identity, times)


def host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise CommandError(f"not an address: {address!r}", "write it like 127.0.0.1:8080", 2)
    return host or "0.0.0.0", int(port)  # noqa: S104 - probes come from outside the pod


def level_of(text: str) -> str:
    """A level by name, or by the number that other operators count verbosity with."""
    if text.isdecimal():
        return "debug" if int(text) >= 4 else "info"
    if text not in {"debug", "info", "warning", "error"}:
        raise CommandError(f"no such log level: {text}", "debug, info, warning or error", 2)
    return text
