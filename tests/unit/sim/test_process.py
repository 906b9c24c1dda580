"""Simulated processes: crashes take everything, pauses go unnoticed, failures do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body
from swell.sim.chance import Chance
from swell.sim.faults.network import SimulatedNetwork
from swell.sim.faults.plan import Fault, FaultInjector, FaultKind, PlannedFaults
from swell.sim.loop import VirtualClock, run
from swell.sim.process import Main, Ports, ProcessExitError, ProcessFailedError, SimulatedProcess
from swell.sim.server import SimulatedServer

CRASH = Fault("anywhere", 1, FaultKind.KILLED)
LOOP = Fault("anywhere", 1, FaultKind.CRASH_LOOP)


def config_map(name: str) -> Body:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def with_process(
    main: Main, script: Callable[[SimulatedProcess, SimulatedServer], Awaitable[None]]
) -> None:
    async def play() -> None:
        clock, chance = VirtualClock(), Chance(0)
        server = SimulatedServer(clock, chance, ())
        network = SimulatedNetwork(FaultInjector(PlannedFaults()), chance, clock, server)
        process = SimulatedProcess("p", main, server.connect, network, chance)
        running = asyncio.create_task(process.run())
        try:
            await asyncio.sleep(1)
            await script(process, server)
            assert not running.done() or running.result() is None
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(play())


def test_crash_loses_memory_and_starts_again() -> None:
    """Every life has a name of its own and begins from nothing."""
    lives: list[str] = []

    async def main(ports: Ports) -> None:
        lives.append(ports.name)
        await asyncio.sleep(1e6)

    async def script(process: SimulatedProcess, _: SimulatedServer) -> None:
        process.crash(CRASH)
        await asyncio.sleep(20)
        process.crash(CRASH)
        await asyncio.sleep(20)

        assert lives == ["p#1", "p#2", "p#3"]
        assert process.crashes == 2

    with_process(main, script)


def test_dead_process_writes_nothing() -> None:
    """Clean-up code runs when tasks are cancelled, but a crashed process reaches no server."""

    async def main(ports: Ports) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await ports.cluster.create(CONFIG_MAPS, config_map("last-words"))

    async def script(process: SimulatedProcess, server: SimulatedServer) -> None:
        process.crash(CRASH)
        await asyncio.sleep(20)

        assert server.storage.count("configmaps") == 0

    with_process(main, script)


def test_crash_loop_dies_again_soon() -> None:
    """The lives after such a crash are short, then one lasts."""
    starts: list[str] = []

    async def main(ports: Ports) -> None:
        starts.append(ports.name)
        await asyncio.sleep(1e6)

    async def script(process: SimulatedProcess, _: SimulatedServer) -> None:
        process.crash(LOOP)
        await asyncio.sleep(100)

        assert len(starts) == 5
        assert process.crashes == 4

    with_process(main, script)


def test_paused_process_stands_still_and_goes_on() -> None:
    """Time passes for others; the process finds its timers expired when it goes on."""
    ticks: list[float] = []

    async def main(ports: Ports) -> None:
        while True:
            await ports.clock.sleep(2)
            ticks.append(ports.clock.monotonic())

    async def script(process: SimulatedProcess, _: SimulatedServer) -> None:
        process.pause(10)
        await asyncio.sleep(13.5)

        assert ticks == [11, 13]

    with_process(main, script)


def test_process_that_fails_is_reported() -> None:
    """A component must neither return nor raise by itself."""

    async def returns(_: Ports) -> None:
        return

    async def raises(_: Ports) -> None:
        raise LookupError("bug")

    async def script(_: SimulatedProcess, __: SimulatedServer) -> None:
        pass

    with pytest.raises(ProcessFailedError):
        with_process(returns, script)
    with pytest.raises(LookupError):
        with_process(raises, script)


def test_process_may_exit_on_purpose() -> None:
    """Who gives up in order to be started again is started again."""
    lives: list[str] = []

    async def main(ports: Ports) -> None:
        lives.append(ports.name)
        await ports.clock.sleep(5)
        raise ProcessExitError

    async def script(process: SimulatedProcess, _: SimulatedServer) -> None:
        await asyncio.sleep(11)

        assert len(lives) == 3
        assert process.crashes == 0

    with_process(main, script)
