"""What users of the scheduler do: gangs of bare pods, and training jobs by way of the operator."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.devices import ResourceClaim
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    DEVICE_CLASSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from swell.api.kinds import NODES as NODE_KIND
from swell.api.meta import Body, Key
from swell.api.storage import PersistentVolumeClaim
from swell.cluster.embedded.controllers.volumes import PROVISIONER
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError
from swell.scheduler.model.volumes.claims import selected_node
from swell.sim.actors.fleet import Fleet
from swell.sim.observation import NAMESPACE
from swell.sim.scenario import USER, Scenario
from swell.sim.world import SimulatedWorld
from tests.device_actor import ClaimActor
from tests.resource_objects import a_device_class, a_resource_claim, a_slice, a_template
from tests.sim.operator.arriving import in_phase, sized
from tests.sim.operator.fleets import NODES
from tests.sim.operator.jobs import Pods, a_job, a_role, behavior_of
from tests.sim.operator.observation import is_over
from tests.sim.scheduler.disturbances import RATES_MAX
from tests.sim.scheduler.gangs import (
    CARD,
    Gang,
    Keeper,
    have_classes,
    have_hyper_node,
    have_queue,
    set_queue_state,
)
from tests.sim.user import SimulatedUser
from tests.storage_objects import a_class, a_volume
from tests.volume_actor import VolumeActor

N_CPUS = 4


def a_trainer(replicas: int, runs_s: float = 40.0, cpu: int = 1, **elastic: object) -> Body:
    role = a_role(Pods(runs_s=runs_s), replicas=replicas, restartPolicy="Always", **elastic)
    container = role["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": str(cpu), "memory": "1Gi"}}
    return role


def _manifest(name: str, role: Body, **spec: object) -> Body:
    return a_job(name, {"replicaSpecs": {"trainer": role}, **spec})


async def arrive(
    world: SimulatedWorld, n_cpus: int = N_CPUS
) -> tuple[SimulatedUser[AITrainingJob], Keeper]:
    """A user with jobs, one with gangs of bare pods, and four nodes."""
    world.fleet = Fleet(world, behavior_of, NODES, n_cpus=n_cpus, binds=False)
    await world.fleet.start()
    return SimulatedUser(world, AI_TRAINING_JOBS, _manifest, is_over), Keeper(world)


async def set_cordon(world: SimulatedWorld, name: str, *, is_on: bool) -> None:
    with suppress(NotFoundError):  # a node that died comes back without
        patch = merge_patch({"spec": {"unschedulable": is_on or None}})
        await world.connect(USER).patch(NODE_KIND, Key("", name), patch)


async def crowd(world: SimulatedWorld) -> None:
    """More gangs than there is room for, of several sizes, and pods without any."""
    user, keeper = await arrive(world)
    for at, name in enumerate(("ant", "bee", "cat")):
        size = world.chance.integer(3, 8, "size", name)
        await user.submit(name, a_trainer(size, runs_s=30))
        await keeper.submit(Gang(f"herd-{at}", size=5, minimum=4, cpu=1 + at % 2))
        await user.wait(name, up_to_s=6)
    await keeper.submit(Gang("solo", size=3, minimum=0))
    # Not for want of room: that would be admitted and sent back for ever.
    await keeper.submit(Gang("hopeless", size=2, minimum=2, queue="nowhere"))


async def grow(world: SimulatedWorld) -> None:
    """Gangs get larger, and their minimum with them: before, while and after they are bound."""
    user, keeper = await arrive(world)
    filler = Gang("filler", size=3, minimum=3, cpu=4, runs_s=60)
    await keeper.submit(filler)
    for name in ("herd-a", "herd-b"):
        small = Gang(name, size=2, minimum=2, runs_s=80)
        await keeper.submit(small)
        await user.wait(name, up_to_s=4)
        await keeper.grow(replace(small, size=6, minimum=6))
    manual: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 6}
    await user.submit("ant", a_trainer(2, runs_s=80, **manual))
    await user.wait("ant")
    await user.edit("ant", sized(6))
    await user.wait("again", up_to_s=20)
    await user.edit("ant", sized(1))


async def recreate(world: SimulatedWorld) -> None:
    """Gangs are deleted and come again under the same names, at any moment."""
    user, keeper = await arrive(world)
    await user.submit("ant", a_trainer(4))
    gang = Gang("herd", size=5, minimum=5, runs_s=40)
    await keeper.submit(gang)
    await user.wait("drop", up_to_s=3)
    await keeper.drop("herd")
    await user.delete("ant")
    await keeper.until_gone("herd", 5)
    await keeper.submit(replace(gang, size=3, minimum=3, cpu=3))
    await user.until_gone("ant")
    await user.submit("ant", a_trainer(3, cpu=2))
    await user.wait("replace", up_to_s=5)
    await keeper.replace(replace(gang, size=4, minimum=4, cpu=2))


async def preempt(world: SimulatedWorld) -> None:
    """Important gangs arrive on a full cluster; one job there can be shrunk."""
    user, keeper = await arrive(world)
    await have_classes(world)
    auto: Body = {"edlPolicy": "Auto", "minReplicas": 2, "maxReplicas": 8}
    elastic = a_trainer(6, runs_s=150, **auto)
    await user.submit("elastic", elastic, priority="low")
    await keeper.submit(Gang("low", size=5, minimum=4, runs_s=120, priority="low"))
    await keeper.submit(Gang("middle", size=4, minimum=4, runs_s=60, priority="middle"))
    await user.until("elastic", in_phase(AITrainingJobPhase.RUNNING), within_s=60)
    await user.wait("high")
    await keeper.submit(Gang("high", size=6, minimum=6, runs_s=40, priority="high"))
    await user.wait("urgent", up_to_s=20)
    await user.submit("urgent", a_trainer(3, runs_s=20, cpu=2), priority="high")


async def queues(world: SimulatedWorld) -> None:
    """Queues share the cluster by weight, one within its limit; another is closed for a while."""
    user, keeper = await arrive(world)
    await have_queue(world, "red", weight=3, capability={"cpu": "8"})
    await have_queue(world, "blue", weight=1)
    await have_queue(world, "shut")
    for at in range(3):
        await keeper.submit(Gang(f"red-{at}", size=4, minimum=4, queue="red"))
        await keeper.submit(Gang(f"blue-{at}", size=5, minimum=5, queue="blue", runs_s=90))
    await set_queue_state(world, "shut", "Closed")
    await user.submit("ant", a_trainer(3), queue="shut")
    await user.submit("bee", a_trainer(4, runs_s=20), queue="red")
    await user.wait("open", up_to_s=60)
    await set_queue_state(world, "shut", "Open")


async def nodes(world: SimulatedWorld) -> None:
    """Nodes fall silent, die, shrink and are cordoned while gangs are bound and run on them."""
    user, keeper = await arrive(world)
    assert world.fleet is not None
    await user.submit("ant", a_trainer(6, runs_s=90, restartLimit=9))
    await keeper.submit(Gang("herd-a", size=5, minimum=5, runs_s=60))
    await user.wait("first", up_to_s=5)
    world.fleet.lose("node-a", 40, dies=False)
    await keeper.submit(Gang("herd-b", size=4, minimum=4, cpu=2, runs_s=30))
    await set_cordon(world, "node-d", is_on=True)
    await user.wait("second", up_to_s=20)
    world.fleet.lose("node-b", 30, dies=True)
    await world.fleet.set_allocatable("node-c", 1)
    await user.wait("third", up_to_s=40)
    await world.fleet.set_allocatable("node-c", N_CPUS)
    await set_cordon(world, "node-d", is_on=False)


async def bind(world: SimulatedWorld) -> None:
    """Two gangs that fit together, and one that has to wait for them."""
    _, keeper = await arrive(world, n_cpus=2)
    await keeper.submit(Gang("ant", size=4, minimum=4, runs_s=12))
    await keeper.submit(Gang("bee", size=2, minimum=2, cpu=2, runs_s=12))
    await keeper.submit(Gang("cat", size=3, minimum=3, runs_s=5))


async def part(world: SimulatedWorld) -> None:
    """A gang loses a pod while it is being bound, for longer than it may be bound in part."""
    _, keeper = await arrive(world, n_cpus=2)
    keeper.break_when_bound("ant", away_s=100)
    await keeper.submit(Gang("ant", size=4, minimum=4, cpu=2, runs_s=200))
    await keeper.submit(Gang("bee", size=2, minimum=2, runs_s=5))
    await keeper.until_done("ant")


async def oust(world: SimulatedWorld) -> None:
    """A gang has to leave as a whole for one that is more important, and comes again."""
    user, keeper = await arrive(world, n_cpus=2)
    await have_classes(world)
    await keeper.submit(Gang("low", size=3, minimum=3, cpu=2, runs_s=60, priority="low"))
    await user.wait("high", up_to_s=8)
    await keeper.submit(Gang("high", size=2, minimum=2, cpu=2, runs_s=6, priority="high"))


async def again(world: SimulatedWorld) -> None:
    """A gang that was complete has to leave, comes again, and then loses a pod half-way."""
    user, keeper = await arrive(world, n_cpus=2)
    await have_classes(world)
    await keeper.submit(Gang("low", size=3, minimum=3, cpu=2, runs_s=300, priority="low"))
    await user.wait("high", up_to_s=8)
    await keeper.submit(Gang("high", size=2, minimum=2, cpu=2, runs_s=6, priority="high"))
    await world.clock.sleep(1)
    keeper.break_when_bound("low", away_s=150)
    await keeper.until_done("low")


async def shrink(world: SimulatedWorld) -> None:
    """An elastic job gives up what it does not need to one that is more important."""
    user, keeper = await arrive(world, n_cpus=2)
    await have_classes(world)
    auto: Body = {"edlPolicy": "Auto", "minReplicas": 2, "maxReplicas": 8}
    await user.submit("ant", a_trainer(7, runs_s=60, **auto), priority="low")
    await user.until("ant", in_phase(AITrainingJobPhase.RUNNING), within_s=40)
    await keeper.submit(Gang("high", size=4, minimum=4, runs_s=6, priority="high"))


async def siblings(world: SimulatedWorld) -> None:
    """Queues below full parents: one takes back from its sibling, one can take from no queue."""
    user, keeper = await arrive(world, n_cpus=5)
    for parent, limit in (("open", "8"), ("fixed", "4")):
        await have_queue(world, parent, capability={"cpu": limit}, deserved={"cpu": limit})
    await have_queue(world, "lender", parent="open", deserved={"cpu": "4"})
    await have_queue(world, "taker", parent="open", deserved={"cpu": "4"})
    await have_queue(world, "keeps", parent="fixed", deserved={"cpu": "2"}, reclaimable=False)
    await have_queue(world, "waits", parent="fixed", deserved={"cpu": "2"})
    await have_queue(world, "foreign", deserved={"cpu": "2"})
    for at in range(2):
        await keeper.submit(Gang(f"lent-{at}", size=4, minimum=4, queue="lender", runs_s=240))
        await keeper.submit(Gang(f"foreign-{at}", size=4, minimum=4, queue="foreign", runs_s=160))
    await keeper.submit(Gang("kept", size=4, minimum=4, queue="keeps", runs_s=160))
    await user.wait("full", up_to_s=15)
    await keeper.submit(Gang("wait", size=2, minimum=2, queue="waits", runs_s=10))
    await keeper.submit(Gang("take", size=4, minimum=4, queue="taker", runs_s=20))


async def domains(world: SimulatedWorld) -> None:
    """Gangs that must stay in one rack or block, drawn at random, lose nodes, pods and room."""
    user, keeper = await arrive(world)
    assert world.fleet is not None
    await have_classes(world)
    drawn = sorted(NODES, key=lambda name: world.chance.uniform("rack of", name))
    # Racks of two nodes, or of three and one; the second may stand below the block, too.
    cut = world.chance.integer(2, 3, "rack size")
    racks = {"rack-a": drawn[:cut], "rack-b": drawn[cut:]}
    for name, members in racks.items():
        await have_hyper_node(world, name, 1, **{n.replace("-", "_"): "Node" for n in members})
    below = ["rack_a", "rack_b"][: world.chance.integer(1, 2, "block size")]
    await have_hyper_node(world, "block", 2, **dict.fromkeys(below, "HyperNode"))
    near = Gang("near", size=3, minimum=3, tier=1, runs_s=90, priority="low")
    await keeper.submit(near)
    await keeper.submit(Gang("free", size=4, minimum=2, runs_s=60, priority="low"))
    await keeper.submit(Gang("block", size=4, minimum=3, tier=2, runs_s=60, priority="middle"))
    await user.wait("loss", up_to_s=20)
    lost = drawn[world.chance.integer(0, len(drawn) - 1, "lost node")]
    world.fleet.lose(lost, 30, dies=world.chance.uniform("dies") < 0.5)
    # Pods are lost that were to be bound just when others of their gang have to leave.
    keeper.break_when_bound("near", away_s=20)
    high = Gang("high", size=6, minimum=6, tier=1, runs_s=30, priority="high")
    world.spawn(keeper.grow(replace(near, size=6)))
    await keeper.submit(high)
    await user.wait("second", up_to_s=40)
    keeper.break_when_bound("near", away_s=5)
    await keeper.submit(Gang("last", size=6, minimum=6, tier=1, runs_s=20))


async def save(world: SimulatedWorld) -> None:
    """Important gangs arrive on a cluster full of pods that save before they leave."""
    user, keeper = await arrive(world)
    await have_classes(world)
    role = a_trainer(4, runs_s=150, restartLimit=9)
    await user.submit("trainer", role, priority="low", saveSeconds=15)
    # The trainer alone does not make room enough.
    await keeper.submit(Gang("low", size=10, minimum=9, runs_s=120, priority="low", save_s=15))
    await user.until("trainer", in_phase(AITrainingJobPhase.RUNNING), within_s=60)
    await user.wait("high", up_to_s=20)
    await keeper.submit(Gang("high", size=8, minimum=8, runs_s=30, priority="high"))


async def have_storage(world: SimulatedWorld, **parameters: str) -> None:
    """Classes of volumes, two volumes made by hand on each of two nodes, and their controller."""
    actor = VolumeActor(
        world.connect("volumes"),
        world.clock,
        lambda n: 0.05 + 2.0 * world.chance.uniform("volumes", n) ** 2,
    )
    world.spawn(actor.run())
    user = world.connect(USER)
    made = {**a_class("folders", parameters=parameters), "provisioner": PROVISIONER}
    for body in (a_class(), made):
        await user.create(STORAGE_CLASSES.untyped(), body)
    for node in ("node-a", "node-b"):
        for at in range(2):
            volume = a_volume(f"{node}-{at}", node, hostPath={"path": "/x"})
            del volume["status"]
            await user.create(PERSISTENT_VOLUMES.untyped(), volume)


async def volumes(world: SimulatedWorld) -> None:
    """Gangs whose pods have claims: of volumes made by hand, and of such that are provisioned."""
    _, keeper = await arrive(world, n_cpus=2)
    await have_storage(world)
    await keeper.submit(Gang("ant", size=3, minimum=3, runs_s=12, storage="folders"))
    await keeper.submit(Gang("bee", size=4, minimum=4, runs_s=8, storage="local"))
    await keeper.submit(Gang("cat", size=3, minimum=2, runs_s=5))


async def failing_volumes(world: SimulatedWorld) -> None:
    """Provisioning fails on one node and hangs on another; a third node is lost meanwhile."""
    # A volume that was made stays where it is, so each node has room for all of them.
    user, keeper = await arrive(world, n_cpus=5)
    assert world.fleet is not None
    await have_storage(world, failOn="node-a", hangOn="node-b")
    await keeper.submit(Gang("ant", size=3, minimum=3, runs_s=20, storage="folders"))
    await user.wait("loss", up_to_s=10)
    world.fleet.lose("node-c", 30, dies=world.chance.uniform("dies") < 0.5)
    await keeper.submit(Gang("bee", size=2, minimum=2, runs_s=8, storage="folders"))
    keeper.break_when_bound("ant", away_s=20)


async def stranded_volumes(world: SimulatedWorld) -> None:
    """Provisioning hangs on a node that is cordoned for good as soon as a claim is sent there."""
    _, keeper = await arrive(world, n_cpus=2)
    await have_storage(world, hangOn="node-a")
    cordon_when_selected(world, "node-a")
    await keeper.submit(Gang("ant", size=5, minimum=5, runs_s=10, storage="folders"))


async def late_pods(world: SimulatedWorld) -> None:
    """A pod without a claim joins a gang whose volumes are still being made, or hang."""
    _, keeper = await arrive(world, n_cpus=2)
    await have_storage(world, hangOn="node-a")
    await keeper.submit(Gang("ant", size=3, minimum=3, runs_s=10, storage="folders"))
    await world.clock.sleep(world.chance.between(0, 3, "late"))
    await keeper.grow(Gang("ant", size=4, minimum=3, runs_s=10))


async def have_devices(
    world: SimulatedWorld, n_devices: int, nodes: tuple[str, ...] = ("node-a", "node-b")
) -> None:
    """So many devices on each of some nodes, templates, a claim, and the controller of claims."""
    actor = ClaimActor(
        world.connect("claims"),
        world.clock,
        lambda n: 0.05 + 2.0 * world.chance.uniform("claims", n) ** 2,
    )
    world.spawn(actor.run())
    user = world.connect(USER)
    await user.create(DEVICE_CLASSES.untyped(), a_device_class())
    for node in nodes:
        await user.create(RESOURCE_SLICES.untyped(), a_slice(node, n_devices))
    for name, count in (("one", 1), ("two", 2)):
        await user.create(RESOURCE_CLAIM_TEMPLATES.untyped(), a_template(name, count, NAMESPACE))
    await user.create(RESOURCE_CLAIMS.untyped(), a_resource_claim("common", 1, NAMESPACE))


async def devices(world: SimulatedWorld) -> None:
    """Gangs with claims on devices: of their own, a shared one, and on devices and volumes."""
    user, keeper = await arrive(world)
    await have_devices(world, 4)
    await have_storage(world)
    await keeper.submit(Gang("ant", size=4, minimum=4, runs_s=12, devices="one"))
    await keeper.submit(Gang("bee", size=3, minimum=3, runs_s=8, devices="two"))
    await keeper.submit(Gang("dog", size=2, minimum=2, runs_s=5, devices="one", storage="folders"))
    await user.wait("shared", up_to_s=10)
    await keeper.submit(Gang("cat", size=3, minimum=2, runs_s=8, shared_claim="common"))
    keeper.break_when_bound("bee", away_s=5)


async def lost_devices(world: SimulatedWorld) -> None:
    """A node is cordoned for good when its devices are given away, and another one is lost."""
    user, keeper = await arrive(world)
    assert world.fleet is not None
    await have_devices(world, 4, ("node-a", "node-b", "node-c"))
    cordon_when_allocated(world, "node-a")
    await keeper.submit(Gang("ant", size=3, minimum=3, runs_s=20, devices="two"))
    await user.wait("loss", up_to_s=8)
    world.fleet.lose("node-b", 30, dies=world.chance.uniform("dies") < 0.5)
    await keeper.submit(Gang("bee", size=2, minimum=2, runs_s=8, devices="one"))
    keeper.break_when_bound("ant", away_s=10)


async def cards(world: SimulatedWorld) -> None:
    """Gangs request a resource. At some moment devices begin to stand for it; a node is lost."""
    user, keeper = await arrive(world)
    assert world.fleet is not None
    await have_devices(world, 4, ("node-a", "node-b", "node-c"))
    await keeper.submit(Gang("ant", size=4, minimum=4, runs_s=12, cards=1))
    await keeper.submit(Gang("dog", size=2, minimum=2, runs_s=8, devices="one", cards=1))
    await user.wait("class", up_to_s=10)
    stands: Body = {"spec": {"extendedResourceName": CARD}}
    of_class = Key("", a_device_class()["metadata"]["name"])
    await world.connect(USER).patch(DEVICE_CLASSES, of_class, merge_patch(stands))
    await keeper.submit(Gang("bee", size=3, minimum=3, runs_s=8, cards=2))
    keeper.break_when_bound("bee", away_s=5)
    await user.wait("loss", up_to_s=8)
    world.fleet.lose("node-b", 30, dies=world.chance.uniform("dies") < 0.5)


def cordon_when_selected(world: SimulatedWorld, node: str) -> None:
    """Cordons a node for good as soon as a volume is to be made there."""
    seen: list[str] = []

    def on_commit(commit: Commit) -> None:
        if seen or commit.after is None or commit.collection != str(PERSISTENT_VOLUME_CLAIMS):
            return
        if selected_node(commit.after.typed(PersistentVolumeClaim)) == node:
            seen.append(node)
            world.spawn(set_cordon(world, node, is_on=True))

    world.storage.on_commit.append(on_commit)


def cordon_when_allocated(world: SimulatedWorld, node: str) -> None:
    """Cordons a node for good as soon as a claim has got devices of it."""
    seen: list[str] = []

    def on_commit(commit: Commit) -> None:
        if seen or commit.after is None or commit.collection != str(RESOURCE_CLAIMS):
            return
        allocation = commit.after.typed(ResourceClaim).status.allocation
        if allocation is not None and allocation.devices.results[0].pool == node:
            seen.append(node)
            world.spawn(set_cordon(world, node, is_on=True))

    world.storage.on_commit.append(on_commit)


async def native(world: SimulatedWorld) -> None:
    """Jobs in groups of Kubernetes: more than there is room for, elastic ones, and a change."""
    user, _ = await arrive(world)
    auto: Body = {"edlPolicy": "Manual", "minReplicas": 2, "maxReplicas": 6}
    await user.submit("elastic", a_trainer(5, runs_s=80, restartLimit=9, **auto))
    for name in ("ant", "bee", "cat"):
        size = world.chance.integer(3, 8, "size", name)
        await user.submit(name, a_trainer(size, runs_s=40, restartLimit=9))
        await user.wait(name, up_to_s=10)
    await user.edit("elastic", sized(3))
    await user.wait("change", up_to_s=30)
    await user.edit("elastic", sized(6))
    await user.delete("bee")
    await user.until_gone("bee")
    await user.submit("bee", a_trainer(4, cpu=2, restartLimit=9))


SCENARIOS = tuple(
    # Groups that were admitted in vain wait for up to ten minutes, and then once more.
    Scenario(play.__name__, play, disturbances=RATES_MAX, settle_s=3000, rest_s=60)
    for play in (bind, crowd, part, oust, again, grow, shrink, recreate, preempt, queues, nodes)
)
# Those for a scheduler that is configured for a tree of queues.
IN_A_TREE = (Scenario("siblings", siblings, disturbances=RATES_MAX, settle_s=3000, rest_s=60),)
# Those with a network whose domains are drawn at random.
IN_DOMAINS = (Scenario("domains", domains, disturbances=RATES_MAX, settle_s=3000, rest_s=60),)
# That with pods that save before they leave.
WITH_SAVERS = (Scenario("save", save, disturbances=RATES_MAX, settle_s=3000, rest_s=60),)
# Those with volumes.
IN_STORAGE = tuple(
    Scenario(play.__name__, play, disturbances=RATES_MAX, settle_s=1500, rest_s=60)
    for play in (volumes, failing_volumes, stranded_volumes, late_pods)
)
# Those with devices.
WITH_DEVICES = tuple(
    Scenario(play.__name__, play, disturbances=RATES_MAX, settle_s=1500, rest_s=60)
    for play in (devices, lost_devices, cards)
)
# Those with groups of Kubernetes itself.
WITH_NATIVE_GROUPS = (Scenario("native", native, disturbances=RATES_MAX, settle_s=3000, rest_s=60),)
# Small ones, in which something goes wrong at every single write.
CORE = frozenset({"bind", "oust", "shrink"})
