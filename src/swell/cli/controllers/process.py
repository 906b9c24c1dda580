"""The process of a controller: its log, its endpoints, its connection, its end by signal.

What the controller does is not known here.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from swell.cli.connection import chosen_access
from swell.cli.controllers.flags import LogFormat, Process, host_port, level_of
from swell.cli.failure import CommandError
from swell.cluster.kube.access import Access
from swell.cluster.kube.client import connect
from swell.cluster.kube.transport import LIMITS, ClientLimits
from swell.runtime import logs
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.health import Endpoints, HealthChecks
from swell.runtime.manager import Manager, ServiceFailedError
from swell.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Ground:
    """What a controller stands on."""

    access: Access
    cluster: Cluster
    clock: Clock
    random: random.Random
    metrics: Metrics
    health: HealthChecks


# Adds the services of a controller to the manager of its process.
Start = Callable[[Manager, Ground], Awaitable[None]]


def collect_seldom() -> None:
    """What is held of a large cluster is looked through at every collection: make them rare."""
    gc.set_threshold(50_000, 50, 1000)


def run_controller(process: Process, start: Start, limits: ClientLimits = LIMITS) -> None:
    """Run until told to stop; CommandError if a part ends before that."""
    where, shown = process.where, process.shown
    access = chosen_access(where.flags)
    if where.master:
        access = replace(access, server=where.master)
    as_json = shown.log_format is LogFormat.JSON
    logs.configure(level=level_of(shown.log_level), json=as_json, clock=SystemClock())
    collect_seldom()
    try:
        asyncio.run(_serve(process, access, start, limits))
    except ServiceFailedError as error:
        why = f"the {process.name} ended: {error.name}"
        raise CommandError(why, "the log says why") from error


async def _serve(process: Process, access: Access, start: Start, limits: ClientLimits) -> None:
    clock, rng = SystemClock(), random.Random()  # noqa: S311
    metrics, health = Metrics(), HealthChecks()
    manager = Manager(clock=clock)
    shown = process.shown
    for address, told in ((shown.metrics_addr, metrics), (shown.health_addr, None)):
        if address:
            host, port = host_port(address)
            endpoints = Endpoints(health, told, host=host, port=port)
            manager.add(f"http {address}", endpoints.run)
    async with connect(access, clock, rng, limits) as cluster:
        await start(manager, Ground(access, cluster, clock, rng, metrics, health))
        await manager.run(handle_signals=True)
