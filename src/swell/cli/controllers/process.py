"""The process of a controller: its log, its endpoints, its connection, its end by signal.

Any controller runs in it: the services are added by a function that the command hands in.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import random
import secrets
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from swell.api.meta import Key
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import access_if_any, chosen_access
from swell.cli.controllers.options import (
    ApiServerOptions,
    ControllerProcess,
    EndpointOptions,
    LeaseOptions,
    LogFormat,
    MetricsAuth,
)
from swell.cluster.embedded.http.credentials import self_signed
from swell.cluster.kube.access import Access, KubeUser
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import is_address
from swell.cluster.kube.policy import LIMITS, ClientLimits
from swell.runtime import logs
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.health import METRICS_PATH, Endpoints, HealthChecks
from swell.runtime.leader import Election, LeaseTimes
from swell.runtime.manager import Manager, ServiceFailedError
from swell.runtime.metrics import Metrics
from swell.runtime.reviews import PathAccess
from swell.runtime.watchdog import watch_loop


@dataclass(frozen=True, slots=True)
class ProgramDependencies:
    """The parts of the process that its services use."""

    access: Access
    cluster: KubeCluster
    clock: Clock
    random: random.Random
    metrics: Metrics
    health: HealthChecks


# By then the first lists are read and the first pods bound, where nothing is slow. No probe of a
# kubelet comes earlier.
_ENDPOINTS_AFTER_S = 0.3

# Adds the services of a controller to the manager of its process.
AddServices = Callable[[Manager, ProgramDependencies], Awaitable[None]]


def run_controller(
    process: ControllerProcess, add_services: AddServices, limits: ClientLimits = LIMITS
) -> None:
    """Run until SIGTERM or SIGINT; CommandError if a service ends before that."""
    access = _access(process.server)
    shown = process.endpoints
    as_json = shown.log_format is LogFormat.JSON
    logs.configure(level=level_of(shown.log_level), json=as_json, clock=SystemClock())
    gc.freeze()  # modules and classes stay for good: no collection need look at them
    try:
        asyncio.run(_serve(process, access, add_services, limits))
    except ServiceFailedError as error:
        why = f"the {process.name} ended: {error.name}"
        raise CommandError(why, "the log says why") from error


def _access(server: ApiServerOptions) -> Access:
    """Return the chosen access; with `--master` at that address, and without a file anonymous.

    An address without a scheme is https if anything is known for TLS or to log in with, else http,
    as Kubernetes' own clients take it.
    """
    if not server.master:
        return chosen_access(server.cluster)
    access = access_if_any(server.cluster) or Access(server="", user=KubeUser())
    has_secrets = bool(access.ca_pem or access.insecure or access.user != KubeUser())
    scheme = "" if "://" in server.master else "https://" if has_secrets else "http://"
    address = f"{scheme}{server.master}".rstrip("/")
    if not is_address(address):
        raise CommandError(
            f"--master: not an address: {server.master!r}", "write it like 10.0.0.1:6443", USAGE
        )
    return replace(access, server=address)


def candidacy(lease: LeaseOptions, access: Access, suffix: str = "") -> Election | None:
    """Return the lease to compete for; None when the process works without one.

    The identity is new in every process: a restarted program waits for the lease of its former
    life, as any other would. The lease is in the pod's own namespace where there is one.
    """
    if not lease.leader_elect:
        return None
    identity = f"{socket.gethostname()}_{secrets.token_hex(6)}"
    try:
        times = LeaseTimes(lease.lease_duration, lease.renew_deadline, lease.retry_period)
    except ValueError as error:
        raise CommandError(str(error), exit_code=USAGE) from error
    namespace = os.environ.get("POD_NAMESPACE") or access.namespace
    return Election(Key(namespace, f"{lease.lease_name}{suffix}"), identity, times)


def host_port(address: str) -> tuple[str, int]:
    """Return host and port of an address; without a host, all interfaces."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise CommandError(f"not an address: {address!r}", "write it like 127.0.0.1:8080", USAGE)
    return host or "0.0.0.0", int(port)  # noqa: S104 - probes come from outside the pod


def level_of(text: str) -> str:
    """Return a log level from its name, or from a verbosity as klog counts it: 4 is debug."""
    if text.isdecimal():
        return "debug" if int(text) >= 4 else "info"
    if text not in {"debug", "info", "warning", "error"}:
        raise CommandError(f"no such log level: {text}", "debug, info, warning or error", USAGE)
    return text


async def _serve(
    process: ControllerProcess, access: Access, add_services: AddServices, limits: ClientLimits
) -> None:
    clock, rng = SystemClock(), random.Random()  # noqa: S311
    metrics, health = Metrics(), HealthChecks()
    manager = Manager(clock=clock)
    async with connect(access, clock, rng, limits) as cluster:
        parts = ProgramDependencies(access, cluster, clock, rng, metrics, health)
        _add_endpoints(manager, process.endpoints, parts)
        _add_traces(manager, process, parts)
        await add_services(manager, parts)
        with watch_loop(metrics):
            await manager.run(handle_signals=True)


def _add_endpoints(manager: Manager, shown: EndpointOptions, parts: ProgramDependencies) -> None:
    """Serve metrics and health at the chosen addresses; health is on both, for any probe."""
    if shown.metrics_addr:
        host, port = host_port(shown.metrics_addr)
        guard, tls = None, None
        if asks_for_token(shown.metrics_auth, host):
            guard = PathAccess(parts.cluster, parts.clock, METRICS_PATH)
            tls = server_tls(shown.metrics_cert_dir)
        endpoints = Endpoints(
            parts.health,
            parts.metrics,
            host=host,
            port=port,
            access=guard,
            tls=tls,
            begins_after_s=_ENDPOINTS_AFTER_S,
        )
        manager.add(f"http {shown.metrics_addr}", endpoints.run)
    if shown.health_addr:
        host, port = host_port(shown.health_addr)
        plain = Endpoints(parts.health, host=host, port=port, begins_after_s=_ENDPOINTS_AFTER_S)
        manager.add(f"http {shown.health_addr}", plain.run)


def _add_traces(manager: Manager, process: ControllerProcess, parts: ProgramDependencies) -> None:
    """Send spans to a collector where one is named."""
    endpoint = process.endpoints.traces_endpoint
    if not endpoint:
        return
    if not endpoint.startswith(("http://", "https://")):
        problem = f"--traces-endpoint: not an address: {endpoint!r}"
        raise CommandError(problem, "write it like http://collector:4318", USAGE)
    from swell.runtime.traces import HttpSpanSender, Tracer

    sender = HttpSpanSender(endpoint)
    tracer = Tracer(f"swell-{process.name}", sender, parts.clock, parts.random)
    parts.metrics.tracer = tracer
    manager.add("traces", tracer.run)


def asks_for_token(auth: MetricsAuth, host: str) -> bool:
    """Whether a client has to show a token: by choice, or because it may come from elsewhere."""
    if auth is not MetricsAuth.AUTO:
        return auth is MetricsAuth.KUBERNETES
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def server_tls(folder: str, flag: str = "--metrics-cert-dir") -> ssl.SSLContext:
    """Return the TLS context of an endpoint; a folder without a usable pair is a CommandError."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if folder:
        try:
            tls.load_cert_chain(Path(folder, "tls.crt"), Path(folder, "tls.key"))
        except OSError as error:  # a pair that does not match is an SSLError, which is one, too
            why = f"{flag} {folder}: no usable tls.crt and tls.key: {error}"
            raise CommandError(why, exit_code=USAGE) from error
        return tls
    certificate, key = self_signed()
    # TLS reads files only, and the root of a container is read-only: Linux has files in memory.
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("tls"), "w") as file:
            file.write(certificate + key)
            file.flush()
            tls.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return tls
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(certificate + key)
        file.flush()
        tls.load_cert_chain(file.name)
    return tls
