"""What the scheduler must do, played: gangs, queues, preemption, reclaim, loss and hand-over."""

from __future__ import annotations

import asyncio

from swell.api.aitrainingjob import ResizeAuthor
from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.node.nodes import SIMULATE_LOSS, UNREACHABLE
from swell.runtime.cluster import Patch, PatchKind, merge_patch
from tests.e2e.scheduler.objects import NAMESPACE
from tests.e2e.scheduler.story import SMALL, Play, stories

LONG_AGO = "2024-01-01T00:00:00Z"
N_GANGS, GANG = 20, 8


async def gangs(play: Play) -> None:
    """Many gangs start whole; one that fits nowhere does not start, and says why."""
    too_large = await play.gang("large", 5)
    names = [await play.gang(f"g{n}", GANG, amounts=SMALL) for n in range(N_GANGS)]
    for name in names:
        await play.until_runs(name, GANG)

    assert play.observation.n_bound(too_large) == 0
    await play.observation.until(
        lambda: "Unschedulable" in play.observation.reported(too_large), "a reason"
    )


async def waiting(play: Play) -> None:
    """A gang that fits in part takes nothing, and all it needs once there is room."""
    first = await play.gang("first", 3)
    await play.until_runs(first, 3)
    second = await play.gang("second", 3)
    await play.stays(lambda: play.observation.n_bound(second) == 0, "the second waits whole")
    await play.remove(first)
    await play.until_runs(second, 3)


async def weights(play: Play) -> None:
    """Queues that want all of it share it by their weights."""
    await play.cordon(True)
    light, heavy = await play.queue("light", weight=1), await play.queue("heavy", weight=3)
    pods = {
        queue: [await play.gang(f"{queue}-{n}", 1, queue=queue) for n in range(8)]
        for queue in (light, heavy)
    }
    await play.cordon(False)

    def running(queue: str) -> int:
        return sum(play.observation.n_running(group) for group in pods[queue])

    await play.observation.until(lambda: (running(light), running(heavy)) == (2, 6), "2 and 6 run")
    await play.stays(lambda: (running(light), running(heavy)) == (2, 6), "and stay")


async def preemption(play: Play) -> None:
    """A more important gang takes the room of a less important one, which leaves whole."""
    low = await play.gang("low", 4, priority="low")
    await play.until_runs(low, 4)
    equal = await play.gang("equal", 4, priority="low")
    await play.stays(lambda: play.observation.n_running(low) == 4, "equals leave each other alone")
    high = await play.gang("high", 4, priority="high")
    await play.until_runs(high, 4)

    assert play.observation.n_bound(low) == play.observation.n_bound(equal) == 0


async def reclaim(play: Play) -> None:
    """A queue below its share gets it back from another: a whole rigid gang, and no more."""
    rich, poor = await play.queue("rich"), await play.queue("poor")
    held = [await play.gang(f"rich{n}", 4, queue=rich) for n in range(2)]
    for group in held:
        await play.until_runs(group, 4)
    preemptor = await play.gang("poor", 4, queue=poor)
    await play.until_runs(preemptor, 4)

    assert sorted(play.observation.n_bound(group) for group in held) == [0, 4]


async def shrinking(play: Play) -> None:
    """An elastic job gives up what it has above its minimum, and loses nothing else."""
    elastic = {"edlPolicy": "Auto", "minReplicas": 2, "maxReplicas": 4}
    job = await play.job("job", 4, "low", **elastic)
    await play.until_runs(job, 4)
    uids = _uids(play, job)
    high = await play.gang("high", 2, priority="high")
    await play.until_runs(high, 2)
    await play.until_runs(job, 2)
    found = play.observation.job(job)

    assert found is not None
    status = found.status
    assert status.target_replicas == {"worker": 2}
    last = status.scale_records[-1]
    assert (last.by, last.for_) == (ResizeAuthor.SCHEDULER, f"{NAMESPACE}/{high}")
    assert not any(status.restart_counts.values())
    assert all(uids[name] == uid for name, uid in _uids(play, job).items())


async def node_loss(play: Play) -> None:
    """A gang that loses a node in the middle is whole again on the others, before a newcomer."""
    job = await play.job("job", 4, restartPolicy="OnNodeFail", restartScope="Pod", restartLimit=3)
    await play.until_runs(job, 4)
    rival = await play.gang("rival", 4)
    lost = play.observation.pods_of(job)[0].spec.node_name
    await _lose(play, lost)
    await play.observation.until(lambda: _survives(play, job, lost), "four run on the other nodes")

    assert play.observation.n_bound(rival) == 0


async def killed(play: Play) -> None:
    """A leader killed in the middle of its binds leaves gangs that its successor completes."""
    names = [f"g{n}" for n in range(2 * N_GANGS)]

    async def submit() -> None:
        for name in names:
            await play.gang(name, GANG, amounts=SMALL)

    async def kill() -> None:
        groups = play.groups
        await play.observation.until(
            lambda: sum(map(play.observation.n_bound, groups)) > GANG, "binds have begun"
        )
        await play.schedulers.kill_leader()

    await asyncio.gather(submit(), kill())
    for group in play.groups:
        await play.until_runs(group, GANG)


async def hand_over(play: Play) -> None:
    """A leader that is asked to go is followed by the other, which goes on where it was."""
    before = await play.schedulers.leader()
    first = await play.gang("first", 2)
    await play.until_runs(first, 2)
    await play.schedulers.stop_leader()
    second = await play.gang("second", 2)
    await play.until_runs(second, 2)

    assert await play.schedulers.leader() != before
    assert play.observation.n_running(first) == 2


async def hierarchy(play: Play) -> None:
    """Queues below one borrow as far as that one may, and give back what others deserve."""
    own = play.resource
    north = await play.queue("north", capability={own: "6"}, deserved={own: "4"})
    south = await play.queue("south", deserved={own: "4"})
    team_n = await play.queue("n", parent=north, deserved={own: "4"})
    team_s = await play.queue("s", parent=south, deserved={own: "4"})
    held = [await play.gang(f"n{n}", 1, queue=team_n) for n in range(7)]

    def running() -> int:
        return sum(play.observation.n_running(group) for group in held)

    await play.observation.until(lambda: running() == 6, "six of the north, two of them borrowed")
    await play.stays(lambda: running() == 6, "no more than the north may have")
    preemptor = await play.gang("s", 4, queue=team_s)
    await play.until_runs(preemptor, 4)
    await play.observation.until(lambda: running() == 4, "four of the north are left")


# With nodes of their own, and how much of their own resource each of those has.
USUAL = stories(
    [
        (gangs, 1, 4),
        (waiting, 2, 2),
        (weights, 4, 2),
        (preemption, 2, 2),
        (reclaim, 4, 2),
        (shrinking, 2, 2),
        (node_loss, 3, 2),
    ]
)
# Each has the schedulers to itself, one after the other.
UPSETTING = stories([(killed, 0, 0), (hand_over, 1, 4)])
# With the capacity plugin.
CAPACITY = stories([(hierarchy, 4, 2)])
EVERY = (*USUAL, *UPSETTING, *CAPACITY)


def _uids(play: Play, group: str) -> dict[str, str]:
    return {pod.metadata.name: pod.metadata.uid for pod in play.observation.pods_of(group)}


def _survives(play: Play, group: str, lost: str) -> bool:
    places = [pod.spec.node_name for pod in _wanted(play, group)]
    return play.observation.n_running(group) == 4 and lost not in places


def _wanted(play: Play, group: str) -> list[Pod]:
    return [
        pod for pod in play.observation.pods_of(group) if pod.metadata.deletion_timestamp is None
    ]


async def _lose(play: Play, node: str) -> None:
    """A node falls silent, what a node lifecycle controller does follows, and it is taken out."""
    key = Key("", node)
    dead = {"metadata": {"annotations": {SIMULATE_LOSS: "true"}}}
    await play.cluster.patch(NODES, key, merge_patch(dead))
    silent: Body = {
        "type": "Ready",
        "status": "Unknown",
        "lastTransitionTime": LONG_AGO,
        "reason": "NodeStatusUnknown",
    }
    patch = Patch(PatchKind.STRATEGIC, {"status": {"conditions": [silent]}})
    await play.cluster.patch(NODES.status, key, patch)
    taint = {"key": UNREACHABLE, "effect": "NoSchedule"}
    patch = Patch(PatchKind.STRATEGIC, {"spec": {"taints": [taint]}})
    await play.cluster.patch(NODES, key, patch)
