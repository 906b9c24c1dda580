"""Scenarios about when jobs begin, pause, save, expire and move, and one that draws all of it."""

from __future__ import annotations

from contextlib import suppress

from swell.api.aitrainingjob import QUEUE_LABEL
from swell.api.injection import HANG_EXIT_CODE
from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.operator.aitrainingjob import labels
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError
from swell.sim.actors.fleet import GPU_CONDITION
from swell.sim.chance import Chance
from swell.sim.observation import pods_in
from swell.sim.world import SimulatedWorld
from tests.sim.operator.arriving import arrive
from tests.sim.operator.disturbances import preempt
from tests.sim.operator.fleets import NODES, fleet_of
from tests.sim.operator.jobs import Pods, a_role

NAMES = ("ant", "bee", "cat", "dog", "emu")


async def suspend(world: SimulatedWorld) -> None:
    """Users suspend jobs and change their mind: before, while and after pods go."""
    user = await arrive(world)
    again = {"restartPolicy": "OnFailure", "restartLimit": 2}
    await user.submit("ant", {"trainer": a_role(Pods(fails=1, runs_s=90), replicas=3, **again)})
    await user.submit("bee", {"trainer": a_role(replicas=2)}, suspend=True)
    limited = a_role(Pods(runs_s=400), replicas=2)
    await user.submit("cat", {"trainer": limited}, timeLimit=200)
    auto = {"edlPolicy": "Auto", "minReplicas": 1, "maxReplicas": 4}
    elastic = a_role(Pods(runs_s=200), replicas=2, restartPolicy="Always", **auto)
    await user.submit("dog", {"trainer": elastic}, reporting=world.chance.integer(0, 1, "dog") > 0)
    saving = a_role(Pods(fails=1, runs_s=150), replicas=3, **again)
    await user.submit("fox", {"trainer": saving}, saveSeconds=world.chance.integer(0, 30, "fox"))
    await user.submit("emu", {"trainer": a_role(Pods(runs_s=900), replicas=2)})
    await user.wait("ant")
    await user.edit("ant", {"suspend": True})
    await user.until_running("emu", 2)
    await user.edit("emu", {"suspend": True})
    await user.wait("ant", up_to_s=8)
    await user.edit("ant", {"suspend": False})
    await user.wait("bee", up_to_s=30)
    await user.edit("bee", {"suspend": False})
    await user.until_running("dog", 1)
    for turn in range(3):
        for name in ("dog", "fox"):
            await user.edit(name, {"suspend": True})
            await user.wait(f"{name} {turn}", up_to_s=12)
            await user.edit(name, {"suspend": False})
    await user.edit("cat", {"suspend": True})
    await user.wait("cat", up_to_s=60)
    if world.chance.integer(0, 1, "cat ends") > 0:
        await user.annotate("cat", "Preempted", "somebody else needs the room")
    await user.edit("cat", {"suspend": False})


async def fields(world: SimulatedWorld) -> None:
    """Jobs that expire, come after others, have deadlines, or belong to another manager."""
    user = await arrive(world)
    role = a_role(replicas=2)
    after = {"after": ["ant", "bee"]}
    await user.submit("cat", {"trainer": role}, **after)
    ttl = world.chance.integer(0, 40, "ttl")
    await user.submit("ant", {"trainer": role}, ttlSecondsAfterFinished=ttl)
    await user.submit("bee", {"trainer": role}, deadline="2026-01-01T00:00:20Z")
    await user.submit("dog", {"trainer": role}, managedBy="example.com/other")
    failing = a_role(Pods(fails=1), replicas=2)
    await user.submit("eel", {"trainer": failing}, ttlSecondsAfterFinished=0)
    await user.submit("fox", {"trainer": role}, after=["eel"])
    await user.submit("gnu", {"trainer": role}, after=["eel"], afterPolicy="Wait")
    await user.wait("gnu", up_to_s=60)
    await user.annotate("gnu", "Preempted", "waited long enough")
    await user.edit("dog", {"suspend": True})


async def preempted(world: SimulatedWorld) -> None:
    """Rigid jobs that end at the first preemption, the second or never; and one that is scaled."""
    user = await arrive(world)
    again = {"restartPolicy": "Always"}
    long = a_role(Pods(runs_s=400), replicas=3, **again)
    saves = world.chance.integer(0, 20, "ant")
    await user.submit("ant", {"trainer": long}, requeuePolicy="End", saveSeconds=saves)
    await user.submit("bee", {"trainer": long}, maxRetriesOnPreemption=1, saveSeconds=10)
    longer = a_role(Pods(runs_s=700), replicas=2, restartScope="Pod", **again)
    await user.submit("dog", {"trainer": longer}, saveSeconds=world.chance.integer(0, 30, "dog"))
    sizes = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 6}
    scaled = a_role(Pods(runs_s=500), replicas=2, restartScope="Pod", **sizes, **again)
    await user.submit("cat", {"trainer": scaled}, scale={"replicas": 2})
    for turn in range(5):
        await user.wait("turn", turn, up_to_s=30)
        await user.edit("cat", {"scale": {"replicas": world.chance.integer(1, 6, "size", turn)}})
        for name in ("ant", "bee"):
            await preempt(world, name, within_s=15)
    for _ in range(3):
        await user.until_running("dog", 2)
        await preempt(world, "dog", within_s=6, n_pods=2)


async def hang(world: SimulatedWorld) -> None:
    """Programs that hang, in jobs that ask for the rule and in others, and some that only fail."""
    user = await arrive(world)
    hangs = Pods(fails=1, exit_code=HANG_EXIT_CODE)
    by_code = {"restartPolicy": "ExitCode", "restartScope": "Pod"}
    await user.submit("ant", {"trainer": a_role(hangs, replicas=3, hangSeconds=5, **by_code)})
    always = a_role(hangs, replicas=2, hangSeconds=5, restartPolicy="OnFailure")
    await user.submit("bee", {"trainer": always, "ps": a_role(replicas=1)})
    await user.submit("cat", {"trainer": a_role(hangs, replicas=2, **by_code)})
    never = a_role(hangs, replicas=1, hangSeconds=5, restartPolicy="OnNodeFail")
    await user.submit("dog", {"trainer": never})
    fails = a_role(Pods(fails=1, exit_code=3), replicas=1, hangSeconds=5, **by_code)
    await user.submit("emu", {"trainer": fails}, restartingExitCode="137")


async def shunned(world: SimulatedWorld) -> None:
    """The accelerators of all nodes break, one after the other, until a job avoids every node."""
    user = await arrive(world)
    role = a_role(Pods(gpu=True, runs_s=900), restartPolicy="OnNodeFail", restartScope="Pod")
    for name in ("ant", "bee"):
        await user.submit(name, {"trainer": role})
    for turn in range(len(NODES) + 1):
        await user.until_running("ant", 1)
        node = next((p.spec.node_name for p in pods_in(world) if p.metadata.name[:3] == "ant"), "")
        fleet = fleet_of(world)
        if node and fleet.machines[node].is_up:
            await fleet.set_condition(node, GPU_CONDITION, True)
            await user.wait(node, turn, up_to_s=10)
            if fleet.machines[node].is_up:
                await fleet.set_condition(node, GPU_CONDITION, False)


async def held(world: SimulatedWorld) -> None:
    """Kueue admits pods as groups, and keeps what has ended; jobs restart, pause, fail and go."""
    user = await arrive(world)
    again = {"restartPolicy": "Always", "restartScope": "Pod"}
    failing = a_role(Pods(fails=1, runs_s=60), replicas=3, **again)
    for name, role in (("ant", failing), ("bee", a_role(Pods(runs_s=300), replicas=2))):
        await user.submit(name, {"trainer": role}, suspend=True)
        await user.patch(name, {"metadata": {"labels": {QUEUE_LABEL: "queue"}}})
        await user.edit(name, {"suspend": False})

    async def admit(until_s: float) -> None:
        while world.clock.monotonic() < until_s:
            for pod in pods_in(world):
                meta = pod.metadata
                if labels.KUEUE_GROUP in meta.labels and not meta.deletion_timestamp:
                    hold = {"metadata": {"finalizers": [labels.KUEUE_FINALIZER], "uid": meta.uid}}
                    with suppress(ClusterError):
                        await user.cluster.patch(PODS, meta.key, merge_patch(hold))
            await world.clock.sleep(1)

    for turn in range(3):
        await admit(world.clock.monotonic() + world.chance.between(5, 40, "admit", turn))
        await user.edit("ant", {"suspend": turn == 0})
        if turn == 1:
            await user.delete("bee")


async def drawn(world: SimulatedWorld) -> None:
    """Jobs with features drawn at random, whose users change their mind as often."""
    user, chance = await arrive(world), world.chance
    for n, name in enumerate(NAMES):
        life = _any_life(chance, name, NAMES[:n])
        await user.submit(name, {"trainer": _any_role(chance, name)}, **life)
        await user.wait(name, up_to_s=15)
    for turn in range(8):
        await user.wait("turn", turn, up_to_s=25)
        await user.edit(chance.pick(NAMES, "who", turn), _any_change(chance, turn))
    for name in NAMES:
        await user.edit(name, {"suspend": False})
    await user.wait("end", up_to_s=60)
    for name in NAMES:
        # One that comes after a job which has been deleted meanwhile would wait for ever.
        if (job := user.job(name)) is not None and job.spec.after:
            await user.annotate(name, "Preempted", "waited long enough")


def _any_role(chance: Chance, name: str) -> Body:
    def draw(*options: object) -> object:
        return chance.pick(options, name, *options)

    code = draw(1, 137, HANG_EXIT_CODE)
    pods = Pods(
        fails=chance.integer(0, 2, name, "fails"),
        exit_code=code if isinstance(code, int) else 1,
        runs_s=chance.between(10, 300, name, "runs"),
    )
    fields: Body = {
        "minReplicas": 1,
        "replicas": chance.integer(1, 3, name, "size"),
        "maxReplicas": 4,
        "edlPolicy": draw("Manual", "Auto", "Never"),
        "restartPolicy": draw("Never", "Always", "OnFailure", "ExitCode", "OnNodeFail"),
        "restartScope": draw("Pod", "Replica", "All"),
        "restartLimit": draw(None, 1, 5),
        "hangSeconds": draw(None, 10),
    }
    return a_role(pods, **{key: value for key, value in fields.items() if value is not None})


def _any_life(chance: Chance, name: str, before: tuple[str, ...]) -> Body:
    def draw(what: str, *options: object) -> object:
        return chance.pick((None, *options), name, what)

    spec: Body = {
        "suspend": draw("suspend", True, False),
        "ttlSecondsAfterFinished": draw("ttl", 0, 20, 90),
        "saveSeconds": draw("save", 0, 5, 40),
        "deadline": draw("deadline", "2026-01-01T00:00:30Z", "2026-01-01T00:10:00Z"),
        "after": [chance.pick(before, name, "before")] if before and draw("after", True) else None,
        "requeuePolicy": draw("requeue", "End"),
        "maxRetriesOnPreemption": draw("retries", 0, 2),
        "stragglerPolicy": draw("straggler", "Replace"),
        "reporting": draw("reporting", True),
        "timeLimit": draw("limit", 100, 400),
        "managedBy": "example.com/other" if draw("manager", 1, 2, 3) == 1 else None,
        "restartingExitCode": "137",
    }
    return {key: value for key, value in spec.items() if value is not None}


def _any_change(chance: Chance, turn: int) -> Body:
    """What a user changes; the server refuses what does not go with the rest."""
    changes: tuple[Body, ...] = (
        {"suspend": True},
        {"suspend": False},
        {"saveSeconds": chance.integer(0, 30, turn, "save")},
        {"ttlSecondsAfterFinished": chance.integer(0, 60, turn, "ttl")},
        {"scale": {"role": "trainer", "replicas": chance.integer(1, 4, turn, "scale")}},
        {"replicaSpecs": {"trainer": {"replicas": chance.integer(1, 4, turn, "size")}}},
        {"deadline": "2026-01-01T00:05:00Z"},
    )
    return chance.pick(changes, "change", turn)
