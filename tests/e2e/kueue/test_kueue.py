"""A Kueue as it is released, on a real control plane: whether our jobs keep to its contract."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from swell.api.meta import Body
from tests.e2e.kueue.world import (
    FLAVOR_LABEL,
    QUOTA_CPUS,
    KueueWorld,
    a_role,
    condition_of,
    kueue_world,
    phase_of,
)
from tests.testbed.control_plane import running_control_plane
from tests.testbed.kueue import WORKLOADS

pytestmark = pytest.mark.long
ELASTIC: Body = {"edlPolicy": "Auto", "minReplicas": 1, "maxReplicas": 6}


def test_kueue_admits_stops_and_counts_jobs(testbed_binaries: None, tmp_path: Path) -> None:
    """With an integration of our kind: by `suspend`, templates, conditions and counts alone."""

    async def play() -> None:
        with running_control_plane() as plane:
            async with kueue_world(plane, tmp_path / "kueue", knows_our_kind=True) as world:
                await _waits_for_quota(world)
                await _gives_way(world)
                await _begins_with_less(world)
                await _needs_less(world)

    asyncio.run(play())


def test_kueue_admits_the_pods_of_jobs_it_does_not_know(
    testbed_binaries: None, tmp_path: Path
) -> None:
    """Without one: as groups of plain pods, which it holds back by gates until all may start."""

    async def play() -> None:
        with running_control_plane() as plane:
            async with kueue_world(plane, tmp_path / "kueue", knows_our_kind=False) as world:
                await _gates_pods(world)
                await _comes_again(world)

    asyncio.run(play())


async def _waits_for_quota(world: KueueWorld) -> None:
    """The first job gets the quota and the flavor's node, the second waits until it has ended."""
    await world.submit("first", {"a": a_role(2, 2)})
    await world.until_phase("first", "Running")
    first, (one, two) = await world.job("first"), await world.pods("first")
    assert first["spec"]["suspend"] is False
    assert {pod["spec"]["nodeName"] for pod in (one, two)} == {"reserved-0"}
    assert one["spec"]["nodeSelector"] == {FLAVOR_LABEL: "reserved"}
    assert one["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "a"

    await world.submit("second", {"a": a_role(1)})
    await world.until_job("second", lambda body: condition_of(body, "Suspended") == "True", "waits")
    assert phase_of(await world.job("second")) == "Pending"
    assert await world.pods("second") == []

    for pod in (one, two):
        await world.end(pod["metadata"]["name"])
    await world.until_phase("first", "Succeed")
    await world.until_phase("second", "Running")
    workload = await world.only(WORKLOADS, "first")
    assert condition_of(workload, "Finished") == "True"
    await world.delete("second")
    await world.delete("first")


async def _gives_way(world: KueueWorld) -> None:
    """A more important job takes the quota: the other rests as it was written, and comes back."""
    await world.submit("low", {"a": a_role(2, 2, restartPolicy="Always")}, priority="low")
    low = await world.until_phase("low", "Running")
    started = low["status"]["startTime"]
    await world.submit("high", {"a": a_role(1, 2)}, priority="high")
    await world.until_phase("high", "Running")

    low = await world.job("low")
    assert low["spec"]["suspend"] is True
    assert "nodeSelector" not in low["spec"]["replicaSpecs"]["a"]["template"]["spec"]
    assert await world.pods("low") == []
    workload = await world.only(WORKLOADS, "low")
    assert condition_of(workload, "QuotaReserved") == "False"

    await world.end("high-a-0")
    await world.until_phase("high", "Succeed")
    low = await world.until_phase("low", "Running")
    assert low["status"].get("restarts", 0) == 0
    assert low["status"]["startTime"] == started
    for name in ("low", "high"):
        await world.delete(name)


async def _begins_with_less(world: KueueWorld) -> None:
    """An elastic job that asks for more than there is gets what there is."""
    await world.submit("elastic", {"a": a_role(QUOTA_CPUS + 2, **ELASTIC)})
    await world.until_phase("elastic", "Running")
    body, own = await world.job("elastic"), await world.pods("elastic")
    assert body["spec"]["replicaSpecs"]["a"]["replicas"] == len(own) == QUOTA_CPUS
    await world.delete("elastic")


async def _needs_less(world: KueueWorld) -> None:
    """A pod that has succeeded gives its quota to the next job, while the others run on."""
    await world.submit("done-in-part", {"a": a_role(2, 2)})
    await world.until_phase("done-in-part", "Running")
    await world.submit("next", {"a": a_role(1, 2)})
    await world.end("done-in-part-a-1")
    await world.until_phase("next", "Running")
    assert phase_of(await world.job("done-in-part")) == "Running"
    for name in ("next", "done-in-part"):
        await world.delete(name)


async def _gates_pods(world: KueueWorld) -> None:
    """Two jobs of which only one fits into the quota: one after the other, each as a whole."""
    await world.submit("first", {"a": a_role(2, 2)}, suspend=False)
    await world.until_phase("first", "Running")
    await world.submit("second", {"a": a_role(2, 2)}, suspend=False)
    await world.until_job("second", lambda body: bool(body.get("status")), "is seen")
    await asyncio.sleep(3)  # time for a scheduler that would not mind the gates
    gated = [pod["spec"].get("schedulingGates", []) for pod in await world.pods("second")]
    assert [{"name": "kueue.x-k8s.io/admission"} in gates for gates in gated] == [True, True]

    for index in range(2):
        await world.end(f"first-a-{index}")
    await world.until_phase("first", "Succeed")
    await world.until_phase("second", "Running")
    for pod in await world.pods("second"):
        assert pod["spec"]["nodeName"] == "reserved-0"
    for name in ("first", "second"):
        await world.delete(name)
        await world.until_gone(name)


async def _comes_again(world: KueueWorld) -> None:
    """A pod restarts, and a job pauses, though Kueue keeps pods that have ended."""
    role = a_role(2, 2, restartPolicy="Always", restartScope="Pod")
    await world.submit("again", {"a": role}, suspend=False)
    await world.until_phase("again", "Running")
    await world.end("again-a-1", code=1)
    await world.until_job("again", lambda body: body["status"].get("restarts") == 1, "restarts")
    await world.until_phase("again", "Running")

    await world.edit("again", suspend=True)
    await world.until_gone("again")
    await world.edit("again", suspend=False)
    await world.until_phase("again", "Running")
    await world.delete("again")
