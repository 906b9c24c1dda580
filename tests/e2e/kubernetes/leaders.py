"""Whoever of Swell's pods works, and the end of it."""

from __future__ import annotations

from tests.e2e.kubernetes.installed import DEPLOYMENTS, NAMESPACE
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.operator.scenario import Step, Trial


def leaders_are_killed(machine: RealMachine) -> Step:
    """The pods that hold the leases go at once, in the middle of their work."""

    async def act(play: Trial) -> None:
        await play.until(lambda: bool(play.pods()), "work has begun")
        leaders = [await _leader(machine, lease) for lease in DEPLOYMENTS]
        force = ("--grace-period=0", "--force", "--wait=false")
        await machine.ok("delete", "pod", "-n", NAMESPACE, *leaders, *force)

    return Step("the leaders are killed", act)


async def _leader(machine: RealMachine, lease: str) -> str:
    """The pod that holds a lease."""
    holder = "jsonpath={.spec.holderIdentity}"
    identity = await machine.ok("get", "lease", "-n", NAMESPACE, lease, "-o", holder)
    names = (await machine.ok("get", "pods", "-n", NAMESPACE, "-o", "name")).split()
    pods = [name.removeprefix("pod/") for name in names]
    return next(name for name in pods if name in identity)
