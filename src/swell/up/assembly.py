"""The command `swell up` as a program: an embedded cluster with all its parts, in one process.

The parts communicate by API objects only, as they do on a cluster; only this file knows that they
share a process. It decides in which order they start and stop.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from swell.autoscaler.controller import run_autoscaler
from swell.autoscaler.settings import EMBEDDED as AUTOSCALING
from swell.cluster import home as homes
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import add_services, new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.controllers.assembly import (
    BuiltinControllerSettings as ControllerSettings,
)
from swell.cluster.embedded.durable import DurableStorage, ExpectedStore, expected_store
from swell.cluster.embedded.http.connections import raise_descriptor_limit
from swell.cluster.embedded.http.serving import listening
from swell.history.settings import HistorySettings
from swell.node.assembly import (
    HOLLOW_PREFIX,
    NodeAgent,
    add_hollow_agent,
    add_leaving,
    add_process_agent,
    new_boot_id,
    node_names,
)
from swell.node.machine import HostMachine
from swell.node.process.folders import Folders
from swell.node.process.logserver import ContainerLogs
from swell.node.process.runtime import ProcessRuntime
from swell.node.program import (
    LEAVE_S,
    AgentOptions,
    hollow_shape,
    process_settings,
    process_shape,
)
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.controller import ACTOR
from swell.operator.framework.program import operate
from swell.operator.trainingjob.kind import training_job_kind
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.clock import Clock, SystemClock
from swell.runtime.garbage import paced_collections
from swell.runtime.health import HealthChecks
from swell.runtime.manager import Manager
from swell.runtime.watchdog import watch_loop
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import EMBEDDED as SCHEDULING
from swell.up.page import PagePlace, serve_page, take_place

WHAT = "swell up"
CLAIM_FOLDERS = "claims"  # in the state folder: the volumes of claims
POLL_S = 0.02
# Pods have LEAVE_S to end; the parts that serve them get a little more.
DRAIN_S = LEAVE_S + 10.0
OK = 200


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `swell up`: node agent, port and built-in controllers."""

    agent: AgentOptions
    port: int | None = None
    controllers: ControllerSettings = field(default_factory=ControllerSettings)
    new: bool = False  # begin anew in a folder whose store is missing or empty


def run_up(machine: HostMachine, options: UpOptions, on_ready: Callable[[Path], None]) -> None:
    """Run everything until SIGTERM or SIGINT. `on_ready` is given the kubeconfig.

    AlreadyRunningError when another process serves the state folder or runs nodes for it,
    StoreMissingError when the folder has been used and its store is gone.
    """
    home = options.agent.home
    raise_descriptor_limit()
    with homes.hold_lock(home, what=WHAT), homes.hold_lock(home, homes.NODE_LOCK, WHAT):
        expected = expected_store(home, new=options.new)
        asyncio.run(_run(machine, options, on_ready, expected=expected))


async def _run(
    machine: HostMachine,
    options: UpOptions,
    on_ready: Callable[[Path], None],
    *,
    expected: ExpectedStore,
) -> None:
    clock, rng = SystemClock(), random.SystemRandom()
    home = options.agent.home
    durable = await DurableStorage.open(home / homes.DATABASE, clock.now, expected)
    try:
        api = new_api_server(durable.storage, clock, rng, options.controllers.gates)
        parts = _Parts(api, clock, rng)
        # Held from readiness to the end: `swell up --detach` and `run` wait for this lock.
        with ExitStack() as ready:

            def announce() -> None:
                ready.enter_context(homes.hold_lock(home, homes.READY_LOCK, WHAT))
                on_ready(home / homes.KUBECONFIG)

            parts.add(machine, options, announce)
            listener, place = take_place(home)
            ready.enter_context(listener)
            parts.add_page(home, listener, place)
            async with listening(
                api,
                home,
                clock=clock,
                rng=rng,
                port=options.port,
                logs=parts.logs,
                commands=parts.runtime,
            ) as served:
                with watch_loop(served.metrics), paced_collections():
                    await parts.run()
    finally:
        await durable.close()


class _Parts:
    """The parts under one manager.

    They stop in the reverse order of starting: first the controllers that would create pods
    again, then the node agent with its pods, last the services that pods need to end.
    """

    def __init__(self, api: ApiServer, clock: Clock, rng: random.Random) -> None:
        self._api, self._clock, self._rng = api, clock, rng
        self._manager = Manager(clock=clock, drain_s=DRAIN_S)
        self._health = HealthChecks()
        self.runtime: ProcessRuntime | None = None
        self._ready = asyncio.Event()
        self.logs: ContainerLogs | None = None  # of the processes, if there are any

    def add(self, machine: HostMachine, options: UpOptions, announce: Callable[[], None]) -> None:
        controllers = replace(
            options.controllers, volume_folders=options.agent.home / CLAIM_FOLDERS
        )
        add_services(self._manager, self._api, self._rng, controllers)
        agent = self._add_nodes(machine, options.agent)
        scheduler = Scheduler(
            self._as("swell-scheduler"), SCHEDULING, clock=self._clock, random=self._rng
        )
        self._manager.add("scheduler", scheduler.run)
        self._manager.add("autoscaler", self._autoscale)
        self._manager.add("TrainingJob operator", self._operate_training_jobs)
        self._manager.add("operator", self._operate_jobs)

        async def announce_when_ready() -> None:
            while not (agent.is_ready and scheduler.is_synced and self._is_operating):
                await self._clock.sleep(POLL_S)
            announce()
            self._ready.set()
            # A service that returns counts as failed: wait to be cancelled.
            await asyncio.get_running_loop().create_future()

        self._manager.add("announcement", announce_when_ready)

    def add_page(self, home: Path, listener: socket.socket, place: PagePlace) -> None:
        async def serve() -> None:
            await serve_page(
                home, listener, place, self._ready, clock=self._clock, random=self._rng
            )

        self._manager.add("page", serve)

    async def run(self) -> None:
        try:
            await self._manager.run(handle_signals=True)
        finally:
            if self.runtime is not None:
                await self.runtime.close()

    def _as(self, actor: str) -> InProcessCluster:
        return InProcessCluster(self._api, actor)

    def _add_nodes(self, machine: HostMachine, options: AgentOptions) -> NodeAgent:
        cluster, boot_id = self._as("swell-node"), new_boot_id(self._rng)
        if options.hollow:
            names = node_names(options.prefix or HOLLOW_PREFIX, options.n_nodes)
            shape = hollow_shape(machine, options, boot_id)
            return add_hollow_agent(
                self._manager, cluster, names, shape, clock=self._clock, random=self._rng
            )
        names = node_names(options.prefix or machine.name, options.n_nodes)
        shape = process_shape(machine, options, boot_id)
        settings = process_settings(options, str(options.home), shape)
        agent, self.runtime = add_process_agent(
            self._manager, cluster, names, shape, settings, clock=self._clock, random=self._rng
        )
        add_leaving(self._manager, agent, LEAVE_S)
        self.logs = ContainerLogs(Folders(options.home).logs, self.runtime.is_live, self._clock)
        return agent

    async def _autoscale(self) -> None:
        await run_autoscaler(
            self._as("swell-autoscaler"), settings=AUTOSCALING, clock=self._clock, random=self._rng
        )

    async def _operate_training_jobs(self) -> None:
        await operate(
            training_job_kind(TrainingJobSettings(history=HistorySettings())),
            self._as("swell-trainingjob-operator"),
            clock=self._clock,
            random=self._rng,
        )

    async def _operate_jobs(self) -> None:
        await operate(
            ai_training_job_kind(
                AITrainingJobSettings(touched_pods_max=0, history=HistorySettings())
            ),
            self._as(ACTOR),
            clock=self._clock,
            random=self._rng,
            health=self._health,
        )

    @property
    def _is_operating(self) -> bool:
        """Whether the operator works. It adds its checks once it knows what the cluster serves."""
        return bool(self._health.ready) and self._health.readyz().status == OK
