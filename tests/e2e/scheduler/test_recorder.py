"""The recorder itself: it must see what it is there for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from swell.api.kinds import NAMESPACES, NODES, POD_GROUPS, PODS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.manager import Manager
from swell.sim.loop import VirtualClock, run
from tests.e2e.scheduler import objects
from tests.e2e.scheduler.objects import NAMESPACE
from tests.e2e.scheduler.observation import Observation
from tests.e2e.scheduler.recorder import Recorder

WINDOW_S = 30.0
Act = Callable[[InProcessCluster], Awaitable[None]]


async def _bind(cluster: InProcessCluster, index: int) -> None:
    body: Body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"g-{index}", "namespace": NAMESPACE},
        "target": {"kind": "Node", "name": "n"},
    }
    await cluster.create(PODS.sub("binding", dict), body)


async def whole(cluster: InProcessCluster) -> None:
    await _bind(cluster, 0)
    await asyncio.sleep(WINDOW_S / 2)
    await _bind(cluster, 1)


async def halves(cluster: InProcessCluster) -> None:
    await _bind(cluster, 0)


async def late(cluster: InProcessCluster) -> None:
    await _bind(cluster, 0)
    await asyncio.sleep(WINDOW_S + 1)
    await _bind(cluster, 1)


async def too_many(cluster: InProcessCluster) -> None:
    for index in range(3):
        await _bind(cluster, index)


@pytest.mark.parametrize(
    ("act", "fault"),
    [(whole, ""), (halves, "by halves"), (late, "by halves"), (too_many, "was given")],
)
def test_recorder_tells_what_must_not_be(act: Act, fault: str) -> None:
    """Halves are a fault when their time is over, and so is more than a node has."""
    faults = run(_recorded(act))

    assert len(faults) == bool(fault)
    assert all(fault in reported for reported in faults)


async def _recorded(act: Act) -> list[str]:
    clock = VirtualClock()
    cluster = InProcessCluster(new_api_server(Storage(clock.now), clock, Random(1)), "user")
    for kind, body in _world():
        await cluster.create(kind, body)
    observation = Observation(cluster, clock, Random(2))
    recorder = Recorder(
        observation.pods, observation.groups, observation.nodes, clock=clock, bind_window_s=WINDOW_S
    )
    manager = Manager(clock=clock)
    observation.add_to(manager)
    running = asyncio.create_task(manager.run())
    await observation.wait_synced()
    await act(cluster)
    await asyncio.sleep(WINDOW_S + 1)
    recorder.close()
    manager.stop()
    await running
    return recorder.faults


def _world() -> list[tuple[Resource[Body], Body]]:
    """A gang of two with one pod to spare, and a node for two."""
    amounts = {"cpu": "1"}
    room = {"cpu": "2", "memory": "1Gi", "pods": "10"}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": room}}
    return [
        (NAMESPACES.untyped(), {"metadata": {"name": NAMESPACE}}),
        (NODES.untyped(), node),
        (POD_GROUPS.untyped(), objects.group("g", 2, "default", "", amounts)),
        *((PODS.untyped(), objects.pod(f"g-{n}", "g", amounts)) for n in range(3)),
    ]
