"""A controller hears of its owners from the first one on."""

from __future__ import annotations

import random

from swell.api.kinds import PODS
from swell.api.meta import Key, ObjectMeta
from swell.api.pod import Pod
from swell.runtime.controller import Controller, Reconciler
from swell.runtime.executor import Executor
from swell.runtime.informer import Informer
from swell.runtime.plan import NOTHING
from swell.runtime.queue import WorkQueue
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer


def test_controller_listens_to_an_informer_that_is_still_empty() -> None:
    """An empty informer is an informer: its first object wakes the controller."""

    async def main() -> list[Key]:
        clock = VirtualClock()
        cluster = SimulatedServer(clock, Chance(0), ()).connect("test")
        queue: WorkQueue[Key] = WorkQueue(clock=clock, random=random.Random(0))
        pods = Informer(cluster, PODS, clock=clock, random=random.Random(0))
        Controller(
            "test",
            Reconciler(pods.get, lambda _pod, _now: NOTHING),
            owners=pods,
            executor=Executor(cluster),
            queue=queue,
            clock=clock,
        )
        pods.observe(Pod(metadata=ObjectMeta(name="a", namespace="b", resource_version="7")))
        return [await queue.get()]

    assert run(main()) == [Key("b", "a")]
