"""What happens to nodes and to Swell itself while jobs run. One upset at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swell.api.core import Node
from swell.api.kinds import NODES
from swell.api.meta import Body, Key, Uid
from tests.e2e.kubernetes.containers import pods
from tests.e2e.kubernetes.happenings import ends, is_running
from tests.e2e.kubernetes.installed import DEPLOYMENTS, NAMESPACE, OVERLAY, wait_for
from tests.e2e.kubernetes.leaders import leaders_are_killed
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.kubernetes.stage import play
from tests.e2e.operator.checks import becomes, is_reported, pods_are, restarts, runs, stays
from tests.e2e.operator.jobs import job
from tests.e2e.operator.scenario import Scenario, Step, Trial, scenario
from tests.testbed.cluster import NODES as NODE_NAMES

ON_NODE: Body = {"restartPolicy": "OnNodeFail", "restartScope": "Pod"}
N_PODS = 4
NAMES = tuple(f"a-{index}" for index in range(N_PODS))
N_JOBS = 4
POLL_S = 0.5


@pytest.fixture(autouse=True)
def _sound(machine: RealMachine) -> Iterator[None]:
    """Every test finds and leaves both nodes ready, and Swell complete."""
    yield
    machine.kubectl.ok("uncordon", *NODE_NAMES)
    machine.kubectl.ok("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s")
    for name in DEPLOYMENTS:
        wait_for(machine, name)


def tell(machine: RealMachine, *stories: Scenario) -> None:
    for failure in play(machine, stories).values():
        raise failure


@dataclass
class Left:
    """A node that pods have to leave, and the pods that ran there."""

    node: str = ""
    uids: dict[str, Uid] = field(default_factory=dict)

    def note(self, play: Trial) -> None:
        """The node of the first pod is the one."""
        found = play.pods()
        self.node = found[NAMES[0]].spec.node_name
        here = {name: pod for name, pod in found.items() if pod.spec.node_name == self.node}
        self.uids = {name: pod.metadata.uid for name, pod in here.items()}


def moves_from(left: Left) -> Step:
    """The pods of the node start again on the other; pods that were there stay as they are."""

    async def act(play: Trial) -> None:
        kept = {name: uid for name, uid in play.uids.items() if name not in left.uids}

        def moved() -> bool:
            found = play.pods()
            return all(is_running(play, name) for name in NAMES) and all(
                pod.spec.node_name != left.node
                and pod.metadata.uid == kept.get(name, pod.metadata.uid)
                for name, pod in found.items()
            )

        await play.until(moved, f"all run elsewhere than on {left.node}")
        await play.observer.until_phase(play.name, "Running")

    return Step("the pods of the node run on the other", act)


def node_is_killed(machine: RealMachine, left: Left) -> Step:
    """Kubelet and containerd of the first pod's node are gone; its containers run on."""

    async def act(play: Trial) -> None:
        left.note(play)
        await asyncio.to_thread(machine.cluster.kill_node, left.node)

    return Step("the node is killed", act)


def node_returns(machine: RealMachine, left: Left) -> Step:
    """The node comes back, and ends what ran on there of pods that are no more."""

    async def act(play: Trial) -> None:
        uids = left.uids.values()
        assert all(processes_of(machine, uid) for uid in uids), "containers outlive their kubelet"
        await asyncio.to_thread(machine.cluster.start_node, left.node)
        async with asyncio.timeout(60):
            while any(processes_of(machine, uid) for uid in uids):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        await until_ready(play, left.node)

    return Step("the node returns", act)


async def until_ready(play: Trial, name: str) -> None:
    def is_ready(node: Node) -> bool:
        return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)

    async with asyncio.timeout(60):
        while not is_ready(await play.cluster.get(NODES, Key("", name))):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


def processes_of(machine: RealMachine, uid: Uid) -> list[str]:
    """What runs of a pod, whoever still knows of it."""
    site = machine.cluster.site
    found: list[str] = []
    for group in Path("/sys/fs/cgroup/pids", site.cgroup).rglob(f"pod{uid}/**/cgroup.procs"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just gone
            found += group.read_text(encoding="ascii").split()
    return found


def test_lost_node(machine: RealMachine) -> None:
    """Pods of a lost node start again on the other; when it returns, it ends the old ones."""
    left = Left()
    tell(
        machine,
        scenario(
            "lost-node",
            job({"a": pods(N_PODS, **ON_NODE)}),
            runs(),
            node_is_killed(machine, left),
            moves_from(left),
            is_reported("NodeLost"),
            node_returns(machine, left),
            runs(),
            stays("Running"),
            ends(*NAMES),
            becomes("Succeed"),
            pods_are(),
        ),
    )


def test_drained_node(machine: RealMachine) -> None:
    """`kubectl drain` moves a job to the other node, and Swell stays available meanwhile."""
    left = Left()

    async def drain(play: Trial) -> None:
        left.note(play)
        await machine.ok("drain", left.node, "--ignore-daemonsets", "--timeout=90s")

    tell(
        machine,
        scenario(
            "drained-node",
            job({"a": pods(N_PODS, **ON_NODE)}),
            runs(),
            Step("the node is drained", drain),
            moves_from(left),
            ends(*NAMES),
            becomes("Succeed"),
        ),
    )


def test_killed_leaders(machine: RealMachine) -> None:
    """Leaders of operator and scheduler are killed mid-work; the others complete every job."""

    killed = leaders_are_killed(machine)
    stories = [
        scenario(
            f"led-{number}",
            job({"a": pods(2, restartPolicy="OnFailure"), "b": pods(1)}),
            *([killed] if number == 0 else []),
            runs(),
            ends("b-0", code=1) if number == 1 else ends("b-0"),
            *([becomes("Failed")] if number == 1 else [ends("a-0", "a-1"), becomes("Succeed")]),
        )
        for number in range(N_JOBS)
    ]
    tell(machine, *stories)


def test_restarted_api_server(machine: RealMachine) -> None:
    """While the API server is away nothing happens to a job; what failed meanwhile is seen."""

    async def restart(_: Trial) -> None:
        await asyncio.to_thread(machine.cluster.restart_api_server)

    tell(
        machine,
        scenario(
            "api-server-restarts",
            job({"a": pods(2, restartPolicy="OnFailure", restartScope="Pod")}),
            runs(),
            Step("the API server restarts", restart),
            stays("Running"),
            ends("a-0", code=1),
            restarts("a-0"),
            ends("a-0", "a-1"),
            becomes("Succeed"),
        ),
    )


def test_api_server_restarts_during_installation(machine: RealMachine) -> None:
    """Swell's pods that start while nobody answers get ready by themselves, and jobs run."""
    names = [f"deployment/{name}" for name in DEPLOYMENTS]
    machine.kubectl.ok("delete", "-n", NAMESPACE, *names, "--cascade=foreground")
    machine.kubectl.ok("apply", "--server-side", "-k", str(OVERLAY))
    machine.cluster.restart_api_server()
    for name in DEPLOYMENTS:
        wait_for(machine, name)

    tell(
        machine,
        scenario(
            "installed-late", job({"a": pods(2)}), runs(), ends("a-0", "a-1"), becomes("Succeed")
        ),
    )
