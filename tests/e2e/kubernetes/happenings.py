"""What happens to jobs on real nodes, and what is seen of their containers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.api.pod import PodPhase
from swell.runtime.cluster import Patch, PatchKind
from tests.e2e.kubernetes.containers import TELL
from tests.e2e.operator.observation import NotSeenError
from tests.e2e.operator.scenario import Machine, Step, Trial

LOG_S_MAX = 90.0
POLL_S = 0.5
NOW = "2026-01-01T00:00:00Z"


def ends(*names: str, code: int = 0) -> Step:
    """Running containers end, with this exit code."""

    async def act(play: Trial) -> None:
        for name in names:
            await play.until(lambda name=name: is_running(play, name), f"{name} runs")  # type: ignore[misc]
        reported = (
            machine(play).tell(play.pod_key(name), TELL.format(code=code)) for name in names
        )
        await asyncio.gather(*reported)

    return Step(f"{', '.join(names)} ends with {code}", act)


def log_of(name: str, *texts: str) -> Step:
    """The log of a pod comes to hold all of this, in this order."""

    async def act(play: Trial) -> None:
        async def holds() -> bool:
            rest = await machine(play).log(play.pod_key(name))
            for text in texts:
                _, found, rest = rest.partition(text)
                if not found:
                    return False
            return True

        await _poll(holds, f"a log of {name} with {texts}")

    return Step(f"{name} says {texts}", act)


def whole_log_of(name: str, *texts: str) -> Step:
    """The log of a pod, until its container has ended, holds all of this in this order."""

    async def act(play: Trial) -> None:
        rest = whole = await machine(play).log(play.pod_key(name), is_followed=True)
        for text in texts:
            _, found, rest = rest.partition(text)
            assert found, f"{text!r} is not in its place:\n{whole[-4000:]}"

    return Step(f"{name} has said {texts} when it ends", act)


def runs_on_both_nodes(role: str) -> Step:
    """The pods of a role are not all on one node."""

    async def act(play: Trial) -> None:
        nodes = {pod.spec.node_name for name, pod in play.pods().items() if name.startswith(role)}

        assert len(nodes) == 2

    return Step(f"{role} runs on both nodes", act)


def accelerator_breaks(name: str, condition: str) -> Step:
    """The node of a pod reports a condition, and the whole job moves to the other node."""

    async def act(play: Trial) -> None:
        node = play.pod(name).spec.node_name
        await report(play, Key("", node), condition, "True")

        def moved() -> bool:
            pods = play.pods()
            return all(is_running(play, one) and pods[one].spec.node_name != node for one in pods)

        await play.until(moved, f"all run elsewhere than on {node}")

        assert [one.name for one in play.observer.status(play.name).avoid_nodes] == [node]

    return Step(f"the node of {name} reports {condition}, and is left", act)


async def report(play: Trial, node: Key, condition: str, status: str) -> None:
    said: Body = {
        "type": condition,
        "status": status,
        "lastTransitionTime": NOW,
        "lastHeartbeatTime": NOW,
        "reason": "Told",
    }
    patch = Patch(PatchKind.STRATEGIC, {"status": {"conditions": [said]}})
    await play.cluster.patch(NODES.status, node, patch)


def another(name: str, spec: Body) -> Step:
    """A second job of the same story is submitted; `of` says what comes of it."""

    async def act(play: Trial) -> None:
        own = f"{play.name}-{name}"
        other = Trial(own, play.cluster, play.observer, (), machine=play.machine)
        play.others[name] = other
        await other.submit(spec)

    return Step(f"somebody submits another job, {name}", act)


def of(name: str, *steps: Step) -> Step:
    """Steps of another job of the same story."""

    async def act(play: Trial) -> None:
        for step in steps:
            await step.act(play.others[name])

    return Step("; ".join(f"of {name}: {step.text}" for step in steps), act)


def waits_whole(reason: str) -> Step:
    """No pod of the job has a node, and the job says that it waits, and why."""

    async def act(play: Trial) -> None:
        def holds() -> bool:
            status = play.observer.status(play.name)
            return (status.phase.value, status.reason) == ("Pending", reason)

        await play.until(holds, f"the job waits: {reason}")
        await asyncio.sleep(QUIET_S)

        assert not [name for name, pod in play.pods().items() if pod.spec.node_name]

    return Step("the job waits, and no pod of it has a node", act)


def leaves_its_nodes() -> Step:
    """Every pod of the job makes room, and new ones wait for theirs."""

    async def act(play: Trial) -> None:
        def holds() -> bool:
            pods = play.pods()
            return len(pods) == len(play.uids) and not any(p.spec.node_name for p in pods.values())

        await play.until(holds, "every pod waits for a node")

    return Step("the job leaves its nodes", act)


QUIET_S = 2.0


def machine(play: Trial) -> Machine:
    """The machine, which every play on real nodes has."""
    assert play.machine is not None
    return play.machine


def is_running(play: Trial, name: str) -> bool:
    pod = play.pods().get(name)
    return (
        pod is not None
        and pod.status.phase is PodPhase.RUNNING
        and pod.metadata.deletion_timestamp is None
    )


async def _poll(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(LOG_S_MAX):
            while not await holds():  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise NotSeenError(f"not within {LOG_S_MAX:.0f} s: {what}") from error
