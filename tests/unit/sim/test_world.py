"""What a run notices beside the rules of its subject: hot loops, restlessness, unfinished work."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError
from swell.sim.campaign.trial import TrialResult, try_faults
from swell.sim.invariants import LivenessCheck
from swell.sim.process import Main, Ports
from swell.sim.scenario import USER, Scenario, SimulationSubject
from swell.sim.world import SimulatedWorld

KEY = Key("default", "a")
BODY: Body = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
}


async def create(world: SimulatedWorld) -> None:
    await world.connect(USER).create(CONFIG_MAPS, BODY)


async def wait_for_ever(_: SimulatedWorld) -> None:
    await asyncio.sleep(1e9)


class Marked:
    """The object carries a mark."""

    name = "marked"

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world

    def missing(self) -> list[str]:
        stored = self._world.storage.get("configmaps", KEY)
        return [] if stored and "data" in stored.body else ["a has no mark"]


def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    return [Marked(world)]


def result_of(main: Main, script: Any = create) -> TrialResult:
    scenario = Scenario("s", script, faulty_s=20, settle_s=100, quiet_s=60)
    subject = SimulationSubject(
        name="subject",
        components={"c": main},
        scenarios=(scenario,),
        safety=lambda _: [],
        liveness=liveness,
        end_state=lambda _: None,
    )
    return try_faults(subject, scenario, 0)


def rules(result: TrialResult) -> list[str]:
    return [violation.invariant for violation in result.violations]


async def mark_once(ports: Ports) -> None:
    await mark(ports, "1")
    await asyncio.sleep(1e9)


async def mark(ports: Ports, value: str) -> None:
    while True:
        await ports.clock.sleep(1)
        try:
            await ports.cluster.patch(CONFIG_MAPS, KEY, merge_patch({"data": {"mark": value}}))
        except NotFoundError:
            continue
        return


def test_world_that_becomes_right_and_quiet_passes() -> None:
    """Nothing to report, and the run is counted."""
    result = result_of(mark_once)

    assert rules(result) == []
    assert result.n_submitted == 1
    assert result.effects == {}
    assert [write.site for write in result.write_sites] == ["c-0 patch configmaps default/a"]


def test_world_that_never_becomes_right_is_reported() -> None:
    """Liveness has a deadline."""

    def idle(_: Ports) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(1e9)

    result = result_of(idle)

    assert rules(result) == ["marked"]
    assert result.virtual_s >= 120


def test_writes_without_need_are_reported() -> None:
    """When all checks hold, no process writes."""

    async def restless(ports: Ports) -> None:
        for count in range(10**6):
            await mark(ports, str(count))
            await ports.clock.sleep(10)

    assert rules(result_of(restless)) == ["quiet"]


def test_hot_loop_is_reported() -> None:
    """Calls without pause are wrong even when each of them is right."""

    async def hot(ports: Ports) -> None:
        while True:
            await ports.cluster.list(CONFIG_MAPS)

    assert set(rules(result_of(hot))) == {"hot loop"}


def test_failing_component_is_reported() -> None:
    """A component that dies by itself fails the run."""

    async def fails(_: Ports) -> None:
        await asyncio.sleep(1)
        raise LookupError("bug")

    result = result_of(fails)

    assert rules(result) == ["alive"]
    assert "LookupError: bug" in result.violations[0].message


def test_script_that_does_not_end_is_reported() -> None:
    """What users were to do has to have been done."""
    assert rules(result_of(mark_once, wait_for_ever)) == ["script"]
