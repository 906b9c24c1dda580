"""Faults of GPUs count when they last, and not when too many nodes report one at once."""

from __future__ import annotations

from msgspec.structs import replace

from swell.api import codec
from swell.api.core import Node
from swell.api.gpu_faults import GpuFaultRules, rules_of
from swell.operator.framework.fault_guard import FaultGuard
from swell.operator.framework.gpuwatch import GpuFaultLimits, GpuFaultWatch
from swell.sim.loop import VirtualClock, run

GPUS = ("nvidia.com/gpu",)


def node(name: str, *, is_faulty: bool) -> Node:
    status = "True" if is_faulty else "False"
    return codec.convert(
        {
            "metadata": {"name": name},
            "status": {
                "capacity": {GPUS[0]: "8"},
                "conditions": [{"type": "GPUUnhealthy", "status": status}],
            },
        },
        Node,
    )


class Watched:
    """A watch over ten nodes with GPUs, and what it has said."""

    def __init__(self, rules: GpuFaultRules | None = None) -> None:
        self.clock = VirtualClock()
        self.said: list[str] = []
        self.watch = GpuFaultWatch(
            rules or rules_of(),
            GpuFaultLimits(),
            GPUS,
            self.clock,
            FaultGuard(0.2, 2, lambda _, why: self.said.append(why)),
        )
        for at in range(10):
            self.watch.note(f"n{at}", node(f"n{at}", is_faulty=False))

    def turn(self, *names: str, is_faulty: bool = True) -> None:
        for name in names:
            self.watch.note(name, node(name, is_faulty=is_faulty))

    def counts(self, name: str) -> bool:
        at = self.watch.counts_at(name)
        return at is not None and at <= self.clock.monotonic()


def test_fault_counts_after_fifteen_seconds() -> None:
    async def play() -> None:
        seen = Watched()
        seen.turn("n0")
        await seen.clock.sleep(14)
        assert not seen.counts("n0")
        await seen.clock.sleep(2)
        assert seen.counts("n0")
        seen.turn("n0", is_faulty=False)
        assert seen.watch.counts_at("n0") is None

    run(play())


def test_monitor_that_does_not_know_has_a_minute() -> None:
    """Unknown counts later than a fault; a fault that follows counts from the first report on."""

    async def play() -> None:
        seen = Watched(rules_of(("GPUUnhealthy", "GPUUnhealthy=Unknown")))
        away = node("n0", is_faulty=True)
        unknown = replace(away.status.conditions[0], status="Unknown")
        away = replace(away, status=replace(away.status, conditions=(unknown,)))
        seen.watch.note("n0", away)
        await seen.clock.sleep(50)
        assert not seen.counts("n0")
        await seen.clock.sleep(11)
        assert seen.counts("n0")
        seen.turn("n0")
        assert seen.counts("n0")

    run(play())


def test_fault_that_comes_and_goes_never_counts() -> None:
    async def play() -> None:
        seen = Watched()
        for at in range(20):
            seen.turn("n0", is_faulty=at % 2 == 0)
            await seen.clock.sleep(5)
            assert not seen.counts("n0")

    run(play())


def test_many_nodes_at_once_look_like_a_broken_detector() -> None:
    """Six of ten turn faulty: nothing counts for ten minutes, and it is said why."""

    async def play() -> None:
        seen = Watched()
        seen.turn(*(f"n{at}" for at in range(6)))
        await seen.clock.sleep(60)
        assert not any(seen.counts(f"n{at}") for at in range(6))
        assert "6 of 10 nodes with GPUs turned faulty within 5 min, more than 2" in seen.said[-1]
        await seen.clock.sleep(560)
        assert all(seen.counts(f"n{at}") for at in range(6))

    run(play())


def test_few_nodes_count_each() -> None:
    async def play() -> None:
        seen = Watched()
        seen.turn("n0", "n1")
        await seen.clock.sleep(20)
        assert seen.counts("n0")
        assert seen.counts("n1")
        await seen.clock.sleep(300)
        seen.turn("n2")  # the others are no longer of the same time
        await seen.clock.sleep(20)
        assert seen.counts("n2")
        assert seen.said == []

    run(play())


def test_nodes_that_follow_a_broken_detector_are_held_with_the_others() -> None:
    """Also when the first of them have been mended meanwhile."""

    async def play() -> None:
        seen = Watched()
        seen.turn("n0", "n1", "n2")
        await seen.clock.sleep(400)
        seen.turn("n0", "n1", "n2", is_faulty=False)
        seen.turn("n3")
        await seen.clock.sleep(100)
        assert not seen.counts("n3")
        await seen.clock.sleep(101)
        assert seen.counts("n3")

    run(play())
