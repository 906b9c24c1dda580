"""Plays the same jobs under each plan, all at once, on one control plane with hollow nodes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from swell.api.kinds import NAMESPACES
from swell.api.meta import Body
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import HOLLOW_CAPACITY, add_hollow_agent, node_names
from swell.node.nodes import NodeShape
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.manager import Manager
from swell.scheduler.live.controller import Scheduler
from tests.e2e.faults.plans import STORIES, Plan
from tests.e2e.faults.proxy import Asked, Fault, Rule, Spoiler, Write, proxied
from tests.e2e.faults.recorder import Happening, recording
from tests.e2e.faults.rules import end_state, violations
from tests.e2e.operator.observation import NamespaceObserver
from tests.testbed.control_plane import ControlPlane

CLOSE_S = 0.25
WITHIN_S = 240.0  # all plans are played at once, and some begin a process again and again
LEASE_FLAGS = ("--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s")
LEASE = Asked("PUT", "leases", "swell-operator")
PAUSE_S, AFTER_S = 8.0, 2.0
N_NODES = 4
OK = 200


@dataclass
class Result:
    """How a plan went. `failures` are of stories, by name."""

    struck: list[str] = field(default_factory=list)
    failures: dict[str, BaseException] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    end_state: Body = field(default_factory=dict)
    record: list[Happening] = field(default_factory=list)
    n_writes: int = 0


@dataclass(frozen=True)
class Environment:
    """The real cluster, as its administrator has it."""

    plane: ControlPlane
    folder: Path
    admin: Cluster
    trust: ssl.SSLContext

    async def observation(self, stack: AsyncExitStack, namespace: str) -> NamespaceObserver:
        observation = NamespaceObserver(
            self.admin, namespace, SystemClock(), Random(3), within_s=WITHIN_S
        )
        manager = Manager(clock=SystemClock())
        observation.add_to(manager)
        await stack.enter_async_context(_running(manager))
        await observation.wait_synced()
        return observation

    def kubeconfig(self, name: str, address: str) -> Path:
        """The administrator's, by way of a proxy."""
        config = json.loads(self.plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": address}
        file = self.folder / f"{name}.kubeconfig"
        file.write_text(json.dumps(config))
        return file


def play_plans(plane: ControlPlane, folder: Path, plans: Sequence[Plan]) -> dict[str, Result]:
    """Every plan in a namespace of its own."""

    async def main() -> dict[str, Result]:
        async with _environment(plane, folder) as environment:
            played = await asyncio.gather(*(_play(environment, plan) for plan in plans))
        await asyncio.sleep(CLOSE_S)
        return {plan.name: result for plan, result in zip(plans, played, strict=True)}

    return asyncio.run(main())


def play_pause(plane: ControlPlane, folder: Path) -> tuple[Result, list[Write]]:
    """Two replicas. The leader is stopped in the middle of a write, for longer than its lease.

    Also returns what it wrote after it went on and before it had the lease again, if it ever had.
    """

    async def main() -> tuple[Result, list[Write]]:
        async with _environment(plane, folder) as environment:
            played = await _play_pause(environment)
        await asyncio.sleep(CLOSE_S)
        return played

    return asyncio.run(main())


@asynccontextmanager
async def _environment(plane: ControlPlane, folder: Path) -> AsyncIterator[Environment]:
    clock = SystemClock()
    async with connect(read_kubeconfig([plane.kubeconfig]), clock, Random(1)) as admin:
        await install_crds(admin, clock)
        manager = Manager(clock=clock)
        shape = NodeShape({**HOLLOW_CAPACITY, "cpu": "500"}, boot_id="faults")
        names = node_names("faults", N_NODES)
        add_hollow_agent(manager, admin, names, shape, clock=clock, random=Random(5))
        manager.add("scheduler", Scheduler(admin, clock=clock, random=Random(4)).run)
        async with _running(manager):
            yield Environment(plane, folder, admin, trusted(plane))


def trusted(plane: ControlPlane) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(plane.ca_file))


async def _play(environment: Environment, plan: Plan) -> Result:
    async with AsyncExitStack() as stack:
        spoiler = Spoiler(plan.rules)
        address = await stack.enter_async_context(
            proxied(environment.plane.server_url, environment.trust, spoiler)
        )
        kubeconfig = environment.kubeconfig(plan.name, address)
        operator = _killed(kubeconfig, plan, spoiler) if plan.kills else _inside(kubeconfig, plan)
        result = await _judged(environment, plan.namespace, operator)
    result.struck = spoiler.struck
    result.violations += violations(result.record, spoiler.writes)
    result.n_writes = len(spoiler.writes)
    return result


async def _judged(
    environment: Environment, namespace: str, operator: AbstractAsyncContextManager[None]
) -> Result:
    """Play the stories in a new namespace."""
    body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await environment.admin.create(NAMESPACES.untyped(), body)
    async with AsyncExitStack() as stack:
        record = await stack.enter_async_context(recording(environment.admin, namespace))
        observation = await environment.observation(stack, namespace)
        await stack.enter_async_context(operator)
        played = (one.run(environment.admin, observation) for one in STORIES)
        results = await asyncio.gather(*played, return_exceptions=True)
    failures = {
        one.name: result
        for one, result in zip(STORIES, results, strict=True)
        if isinstance(result, BaseException)
    }
    happenings = record.happenings
    return Result(failures=failures, end_state=end_state(happenings), record=happenings)


@asynccontextmanager
async def _inside(kubeconfig: Path, plan: Plan) -> AsyncIterator[None]:
    """The operator in this process."""
    clock = SystemClock()
    async with connect(read_kubeconfig([kubeconfig]), clock, Random(7)) as cluster:
        settings = AITrainingJobSettings(namespace=plan.namespace, workers=8, gc_period_s=3.0)
        work = operate(ai_training_job_kind(settings), cluster, clock=clock, random=Random(6))
        task = asyncio.create_task(work)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _killed(kubeconfig: Path, plan: Plan, spoiler: Spoiler) -> AsyncIterator[None]:
    """The operator as a process, killed whenever a reply is held, and begun anew."""
    held = asyncio.Event()
    spoiler.on_held = lambda _: held.set()

    async def live_on() -> None:
        while True:
            held.clear()
            async with _process(kubeconfig, plan.namespace, "--no-leader-elect") as process:
                await held.wait()
                process.kill()

    task = asyncio.create_task(live_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _process(kubeconfig: Path, namespace: str, *flags: str) -> AsyncIterator[Process]:
    command = (sys.executable, "-m", "swell.cli.main", "operator", "--no-autoscale")
    own = (f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", "--log-level=error")
    env = {**os.environ, "POD_NAMESPACE": namespace}
    process = await asyncio.create_subprocess_exec(*command, *own, *flags, env=env)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


PAUSED = Plan("paused", (Rule("DELETE", "pods", 1, Fault.HELD, "restarts"),))


async def _play_pause(environment: Environment) -> tuple[Result, list[Write]]:
    late: list[Write] = []
    spoilers = [Spoiler(PAUSED.rules), Spoiler(PAUSED.rules)]

    @asynccontextmanager
    async def pair() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            tasks: list[asyncio.Task[None]] = []
            for number, spoiler in enumerate(spoilers):
                address = await stack.enter_async_context(
                    proxied(environment.plane.server_url, environment.trust, spoiler)
                )
                kubeconfig = environment.kubeconfig(f"pair-{number}", address)
                tasks.append(asyncio.create_task(_replica(kubeconfig, spoiler, spoilers, late)))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    result = await _judged(environment, PAUSED.namespace, pair())
    writes = [write for one in spoilers for write in one.writes]
    result.struck = [text for one in spoilers for text in one.struck]
    result.violations += violations(result.record, writes)
    result.n_writes = len(writes)
    return result, late


async def _replica(
    kubeconfig: Path, spoiler: Spoiler, all_of_them: list[Spoiler], late: list[Write]
) -> None:
    """A replica, begun anew whenever it ends, as a Deployment does. One is paused, once."""
    held = asyncio.Event()

    def hold(_: Asked) -> None:
        for one in all_of_them:
            one.rules = ()
        held.set()

    spoiler.on_held = hold
    while True:
        async with _process(kubeconfig, PAUSED.namespace, *LEASE_FLAGS) as process:
            ended = asyncio.create_task(process.wait())
            pausing = asyncio.create_task(held.wait())
            await asyncio.wait((ended, pausing), return_when=asyncio.FIRST_COMPLETED)
            pausing.cancel()
            if held.is_set():
                held.clear()
                await _pause(process, spoiler, late)
            await ended


async def _pause(process: Process, spoiler: Spoiler, late: list[Write]) -> None:
    """Stop a process for longer than its lease lasts, let it go on, and see what it does.

    It may lead again if nobody else does: what counts is that it asks before it writes.
    """
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(PAUSE_S)
    n_before = len(spoiler.writes)  # with what was under way when it stopped
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
    await asyncio.sleep(AFTER_S)
    for write in spoiler.writes[n_before:]:
        if write.asked == LEASE and write.code == OK:
            return
        if write.asked.what != LEASE.what:
            late.append(write)


@asynccontextmanager
async def _running(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.stop()
        await task
