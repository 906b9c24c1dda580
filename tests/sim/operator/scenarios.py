"""What users of the operator do. Each scenario is one area of its behaviour."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.api.meta import Body
from swell.sim.scenario import Scenario
from swell.sim.world import SimulatedWorld
from tests.sim.operator.arriving import arrive, in_phase, sized
from tests.sim.operator.disturbances import RATES_MAX
from tests.sim.operator.features import drawn, fields, hang, held, preempted, shunned, suspend
from tests.sim.operator.fleets import fleet_of
from tests.sim.operator.jobs import Pods, a_role


async def finish(world: SimulatedWorld) -> None:
    """Jobs of several sizes and clean-up policies run to their end."""
    user = await arrive(world)
    for name, policy in (("ant", "All"), ("bee", "None"), ("cat", "Running")):
        size = world.chance.integer(1, 4, "size", name)
        await user.submit(name, {"trainer": a_role(replicas=size)}, cleanPodPolicy=policy)
        await user.wait(name)


async def restart(world: SimulatedWorld) -> None:
    """Pods fail in each scope; one job has more failures than it may have."""
    user = await arrive(world)
    often = {"restartPolicy": "OnFailure"}
    await user.submit(
        "ant", {"trainer": a_role(Pods(fails=2), replicas=3, restartScope="All", **often)}
    )
    roles = {
        "ps": a_role(replicas=1),
        "worker": a_role(Pods(fails=1), replicas=2, restartScope="Pod", **often),
    }
    await user.submit("bee", roles)
    await user.wait("bee")
    limited = a_role(Pods(fails=9), replicas=2, restartScope="Replica", restartLimit=2, **often)
    await user.submit("cat", {"trainer": limited})
    coded = a_role(Pods(fails=1, exit_code=137), restartPolicy="ExitCode", restartScope="Pod")
    await user.submit("dog", {"trainer": coded}, restartingExitCode="137,128")


async def delete(world: SimulatedWorld) -> None:
    """Jobs are deleted as they start, as they run, as they restart, and after they have ended."""
    user = await arrive(world)
    for name, size in (("ant", 2), ("bee", 3), ("cat", 1)):
        await user.submit(name, {"trainer": a_role(replicas=size)}, cleanPodPolicy="None")
    failing = a_role(Pods(fails=5, runs_s=5), replicas=2, restartPolicy="Always")
    await user.submit("dog", {"trainer": failing})
    await user.wait("ant", up_to_s=2)
    await user.delete("ant")
    await user.until_running("bee", 3)
    await user.delete("bee")
    await user.until("dog", in_phase(AITrainingJobPhase.TERMINATING, AITrainingJobPhase.RESTARTING))
    await user.delete("dog")
    await user.wait("cat", up_to_s=60)
    await user.delete("cat")


async def recreate(world: SimulatedWorld) -> None:
    """A job is replaced by another one of the same name: first patiently, then by force."""
    user = await arrive(world)
    again = {"restartPolicy": "OnFailure", "restartScope": "Pod"}
    await user.submit("ant", {"trainer": a_role(Pods(fails=1), replicas=3, **again)})
    await user.until_running("ant", 2)
    await user.delete("ant")
    await user.until_gone("ant")
    await user.submit("ant", {"trainer": a_role(replicas=2)}, cleanPodPolicy="None")
    await user.until_ended("ant")
    await user.force_delete("ant")
    await user.submit("ant", {"trainer": a_role(Pods(fails=1), replicas=2, **again)})


async def resize(world: SimulatedWorld) -> None:
    """Users change their mind about the size; the nemesis resizes what is Auto."""
    user = await arrive(world)
    manual = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 5}
    await user.submit("ant", {"trainer": a_role(Pods(runs_s=120), replicas=2, **manual)})
    auto = {"edlPolicy": "Auto", "minReplicas": 1, "maxReplicas": 5}
    again = {"restartPolicy": "Always", "restartScope": "Pod"}
    await user.submit(
        "bee", {"trainer": a_role(Pods(fails=1, runs_s=90), replicas=3, **auto, **again)}
    )
    await user.until_running("ant", 2)
    await user.edit("ant", sized(5))
    await user.wait("larger")
    await user.edit("ant", sized(1))
    await user.wait("smaller", up_to_s=4)
    await user.edit("ant", sized(3))


async def nodes(world: SimulatedWorld) -> None:
    """Nodes fall silent and die under jobs that survive it, and under one that does not.

    The second is silent until its pods count as ended, and then comes back with one that runs on.
    """
    user = await arrive(world)
    survives = {"restartPolicy": "OnNodeFailWithExitCode", "restartLimit": 6}
    await user.submit("ant", {"trainer": a_role(Pods(runs_s=400), replicas=3, **survives)})
    await user.submit("bee", {"trainer": a_role(Pods(runs_s=100), replicas=2)})
    gpu = a_role(
        Pods(gpu=True, runs_s=100), replicas=2, restartScope="Pod", restartPolicy="OnNodeFail"
    )
    await user.submit("cat", {"trainer": gpu})
    await user.until_running("ant", 3)
    fleet = fleet_of(world)
    fleet.lose("node-a", 45, dies=False)
    await user.wait("first", up_to_s=20)
    fleet.lose("node-b", 100, dies=False)
    # Sooner the third makes it a mass failure, later nodes break one after the other.
    await user.wait("second", up_to_s=70)
    fleet.lose("node-c", 30, dies=True)


async def suspects(world: SimulatedWorld) -> None:
    """Nodes fall silent under several jobs, one after the other, and are blamed for it."""
    user = await arrive(world)
    again = {"restartPolicy": "Always", "restartScope": "Pod"}
    for name in ("ant", "bee", "cat", "dog"):
        await user.submit(name, {"trainer": a_role(Pods(runs_s=500), replicas=4, **again)})
    await user.until_running("dog", 4)
    for name in ("node-a", "node-b", "node-c"):
        fleet_of(world).lose(name, 60, dies=False)
        await user.wait(name, up_to_s=20)
        await user.until_running("ant", 4)


async def end(world: SimulatedWorld) -> None:
    """Jobs are ended from outside: by annotations, and by their time limit."""
    user = await arrive(world)
    endless = a_role(Pods(runs_s=4000), replicas=2)
    for name in ("ant", "bee", "cat"):
        await user.submit(name, {"trainer": endless}, cleanPodPolicy="None")
    await user.submit("dog", {"trainer": endless}, timeLimit=30)
    await user.submit("emu", {"trainer": a_role(replicas=1)})
    await user.wait("ant")
    await user.annotate("ant", "Preempted", "somebody else needs the room")
    await user.until_running("bee", 2)
    await user.annotate("bee", "nodefailed", "the rack is on fire")
    await user.wait("cat")
    await user.annotate("cat", "FAILED", "no use")


async def hostile(world: SimulatedWorld) -> None:
    """Jobs that cannot work stand beside jobs that can."""
    user = await arrive(world)
    doubtful: Body = a_role(replicas=2)
    doubtful["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "nowhere", "mountPath": "relative"}
    ]
    doubtful["template"]["spec"]["containers"][0]["ports"] *= 2
    await user.submit("ant", {"trainer": doubtful}, timeLimit=1, frameworkType="pytorch")
    await user.submit("bee", {"trainer": a_role(replicas=2)}, priority="no-such-class")
    strange: Body = a_role(Pods(runs_s=10), replicas=2)
    strange["template"]["metadata"]["labels"] = {"TrainingJobName": "bee", "PodRole": "boss"}
    await user.submit("cat", {"Trainer": strange, "x-y": a_role()}, frameworkType="tensorflow")
    await user.wait("ant", up_to_s=20)
    await user.delete("ant")


async def roles(world: SimulatedWorld) -> None:
    """Several roles with policies of their own decide together how a job ends."""
    user = await arrive(world)
    await user.submit(
        "ant",
        {
            "master": a_role(completePolicy="Rank0"),
            "ps": a_role(Pods(runs_s=4000), replicas=2, completePolicy="None", failPolicy="None"),
            "worker": a_role(
                Pods(fails=1), replicas=2, restartPolicy="OnFailure", restartScope="Pod"
            ),
        },
        frameworkType="tensorflow",
    )
    await user.submit(
        "bee",
        {
            "chief": a_role(completePolicy="Any", restartPolicy="Always"),
            "worker": a_role(Pods(runs_s=400), replicas=3, completePolicy="None", failPolicy="All"),
        },
        completePolicy="Any",
        failPolicy="All",
        cleanPodPolicy="Running",
    )
    await user.submit(
        "cat",
        {
            "a": a_role(Pods(fails=1), replicas=1, failPolicy="Rank0"),
            "b": a_role(Pods(runs_s=400)),
        },
        failPolicy="Any",
        cleanPodPolicy="Running",
    )


async def creation(world: SimulatedWorld) -> None:
    """Images cannot be pulled for a while; stuck pods are replaced."""
    user = await arrive(world)
    fleet_of(world).images_broken_until_s = world.clock.monotonic() + 70
    await user.submit("ant", {"trainer": a_role(replicas=2)})
    await user.wait("bee")
    await user.submit("bee", {"trainer": a_role(replicas=1, restartPolicy="Always")})


async def train(world: SimulatedWorld) -> None:
    """Programs that train together are resized, restarted, ended and begun again by name."""
    user = await arrive(world)
    sizes = {"minReplicas": 1, "maxReplicas": 5}
    again = {"restartPolicy": "Always", "restartScope": "Pod"}
    manual = a_role(Pods(fails=2, runs_s=120), replicas=3, edlPolicy="Manual", **sizes, **again)
    await user.submit("ant", {"trainer": manual}, reporting=True)
    auto = a_role(Pods(fails=1, runs_s=90), replicas=2, edlPolicy="Auto", **sizes, **again)
    await user.submit("bee", {"ps": a_role(replicas=1), "worker": auto}, reporting=True)
    rigid = a_role(Pods(fails=1), replicas=2, restartPolicy="OnFailure")
    await user.submit("cat", {"trainer": rigid}, reporting=world.chance.integer(0, 1, "cat") > 0)
    steady = a_role(Pods(runs_s=900), replicas=4, edlPolicy="Manual", **sizes, **again)
    await user.submit("dog", {"trainer": steady}, reporting=True, stragglerPolicy="Replace")
    await user.until_running("ant", 3)
    await user.edit("ant", sized(1))
    await user.wait("smaller", up_to_s=10)
    await user.edit("ant", sized(4))
    await user.wait("cat", up_to_s=30)
    await user.delete("cat")
    await user.until_gone("cat")
    await user.submit("cat", {"trainer": rigid}, reporting=True)
    for size in (1, 4, 2, 5, 1):
        await user.wait("reports", up_to_s=60)
        await user.edit("dog", sized(size))


async def outage(world: SimulatedWorld) -> None:
    """Most nodes fall silent together, for less and for more than restarts are held back."""
    user = await arrive(world)
    again = {"restartPolicy": "Always", "restartScope": "Pod"}
    for name in ("ant", "bee"):
        await user.submit(name, {"trainer": a_role(Pods(runs_s=600), replicas=5, **again)})
    never = a_role(Pods(runs_s=300), replicas=4, restartPolicy="OnFailure")
    await user.submit("cat", {"trainer": never})
    await user.until_running("cat", 4)
    for silent_s in (45, 120):
        for name in ("node-a", "node-b", "node-c"):
            fleet_of(world).lose(name, silent_s, dies=False)
            await user.wait(name, silent_s, up_to_s=3)
        await user.wait("mended", silent_s, up_to_s=200)


SCENARIOS = tuple(
    Scenario(play.__name__, play, disturbances=RATES_MAX, settle_s=8000)
    for play in (
        finish,
        restart,
        delete,
        recreate,
        resize,
        nodes,
        end,
        hostile,
        roles,
        creation,
        train,
        suspend,
        fields,
        suspects,
        outage,
        preempted,
        hang,
        shunned,
        drawn,
        held,
    )
)
