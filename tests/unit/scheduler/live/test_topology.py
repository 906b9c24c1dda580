"""HyperNodes on a running scheduler: statuses, events, and gangs that follow changes."""

from __future__ import annotations

from swell.api.kinds import HYPER_NODES
from swell.api.meta import Key
from swell.runtime.cluster import Deletion
from tests.unit.scheduler.live.stage import Stage, on_stage

HARD_1 = {"mode": "hard", "highestTierAllowed": 1}


def exact(name: str, kind: str = "Node") -> dict[str, object]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def labelled(**labels: str) -> dict[str, object]:
    return {"type": "Node", "selector": {"labelMatch": {"matchLabels": labels}}}


async def validity(stage: Stage, name: str) -> tuple[str, str, int]:
    status = (await stage.read_hyper_node(name)).status
    (condition,) = [c for c in status.conditions if c.type == "Valid"]
    return condition.status, condition.reason, status.node_count


async def racks(stage: Stage) -> None:
    await stage.nodes(4)
    await stage.hyper_node("rack-a", 1, exact("node-0"), exact("node-2"))
    await stage.hyper_node("rack-b", 1, exact("node-1"), exact("node-3"))


def test_gang_takes_one_rack_and_the_group_says_which() -> None:
    async def play(stage: Stage) -> None:
        await racks(stage)
        stage.start()
        await stage.gang("a", 2, cpu="4", networkTopology=HARD_1)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(8)

        assert await stage.where() == {"a-0": "node-0", "a-1": "node-2"}
        notes = (await stage.read_group("a")).metadata.annotations
        assert notes["volcano.sh/job-allocated-hypernode"] == "rack-a"
        assert await validity(stage, "rack-a") == ("True", "InTree", 2)

    on_stage(play)


def test_lost_pod_comes_back_to_its_rack_after_a_restart_of_the_scheduler() -> None:
    """The annotation is false by then, and nobody reads it."""

    async def play(stage: Stage) -> None:
        await racks(stage)
        stage.start()
        await stage.gang("a", 2, cpu="3", networkTopology=HARD_1)
        await stage.sleep(3)
        await stage.run_pods()
        await stage.sleep(3)
        await stage.kill()
        await stage.remove("a-1")
        await stage.pod("filler", cpu="3", nodeName="node-2")
        await stage.pod("a-1", "a", cpu="3")
        stage.start()
        await stage.sleep(5)
        assert "a-1" not in await stage.where()
        condition = next(
            c for c in (await stage.read_group("a")).status.conditions if c.type == "Unschedulable"
        )
        assert condition.reason == "TopologyHeld"
        await stage.remove("filler")
        await stage.sleep(5)

        assert (await stage.where())["a-1"] == "node-2"

    on_stage(play)


def test_gang_waits_while_hyper_nodes_may_not_be_read() -> None:
    """Nobody knows then whether there are any; one that only prefers a rack is placed."""

    async def play(stage: Stage) -> None:
        await stage.nodes(4)
        stage.start()
        line = stage.lines[-1]
        line.refuse = lambda verb, what: verb == "list" and what == str(HYPER_NODES)
        await stage.gang("a", 2, cpu="3", networkTopology=HARD_1)
        await stage.gang("b", 2, cpu="3", networkTopology={"mode": "soft"})
        await stage.sleep(5)
        assert set(await stage.where()) == {"b-0", "b-1"}
        condition = next(
            c for c in (await stage.read_group("a")).status.conditions if c.type == "Unschedulable"
        )
        assert condition.reason == "TopologyNotReadable"
        line.refuse = lambda *_: False
        await stage.sleep(600)

        assert set(await stage.where()) == {"a-0", "a-1", "b-0", "b-1"}  # there is none

    on_stage(play)


def test_second_claim_to_a_child_breaks_only_the_younger() -> None:
    """Removing the claim heals it, without a restart."""

    async def play(stage: Stage) -> None:
        await racks(stage)
        await stage.hyper_node("block-a", 2, exact("rack-a", "HyperNode"))
        stage.start()
        await stage.sleep(2)
        await stage.hyper_node("block-b", 2, *(exact(f"rack-{x}", "HyperNode") for x in "ba"))
        await stage.gang("a", 2, cpu="4", networkTopology=HARD_1)
        await stage.gang("b", 3, cpu="1", networkTopology={"mode": "hard", "highestTierAllowed": 2})
        await stage.sleep(5)

        assert await validity(stage, "block-b") == ("False", "SecondParent", 4)
        assert await validity(stage, "block-a") == ("True", "InTree", 2)
        assert len(await stage.where()) == 5
        events = [text for name, reason, text in await stage.events() if name == "block-b"]
        assert any("its member rack-a belongs to block-a already" in text for text in events)

        await stage.user.delete(HYPER_NODES, Key("", "block-a"), Deletion())
        await stage.sleep(5)
        assert await validity(stage, "block-b") == ("True", "InTree", 4)

    on_stage(play)


def test_domain_follows_the_labels_of_nodes() -> None:
    """A node gets, changes and loses the label; the next cycle knows."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        await stage.hyper_node("rack-a", 1, labelled(rack="a"))
        stage.start()
        await stage.label_node("node-0", rack="a")
        await stage.gang("a", 2, cpu="4", networkTopology=HARD_1)
        await stage.sleep(5)
        assert await stage.where() == {}
        assert await validity(stage, "rack-a") == ("True", "InTree", 1)
        await stage.label_node("node-1", rack="b")
        await stage.sleep(2)
        assert await stage.where() == {}
        await stage.label_node("node-1", rack="a")
        await stage.sleep(2)
        assert len(await stage.where()) == 2
        await stage.label_node("node-1", rack=None)
        await stage.sleep(3)
        assert await validity(stage, "rack-a") == ("True", "InTree", 1)

    on_stage(play)


def test_constraint_without_effect_is_warned_of_once() -> None:
    async def play(stage: Stage) -> None:
        await racks(stage)
        stage.start()
        unknown = {"mode": "hard", "highestTierName": "no-such"}
        await stage.gang("a", 4, cpu="4", networkTopology=unknown)
        await stage.sleep(30)

        assert len(await stage.where()) == 4
        said = [text for _, reason, text in await stage.events() if reason == "TopologyNotApplied"]
        assert said == [
            "its network topology has no effect: no HyperNode has the tier name 'no-such'"
        ]

    on_stage(play)


def test_scheduler_without_rights_on_hyper_nodes_keeps_racks_once_it_has_them() -> None:
    """It has the rights of the release before: who need not be close does not wait for them."""

    async def play(stage: Stage) -> None:
        await racks(stage)
        scheduler = stage.start()
        (line,) = stage.lines
        line.refuse = lambda _, about: "hypernodes" in about
        await stage.gang("a", 2, cpu="1")
        await stage.gang("b", 2, cpu="1", networkTopology=HARD_1)
        await stage.sleep(30)
        assert set(await stage.where()) == {"a-0", "a-1"}
        assert not scheduler.informers.hyper_nodes.is_served

        line.refuse = lambda _, about: False
        await stage.sleep(30)
        found = await stage.where()
        assert {found["b-0"], found["b-1"]} in ({"node-0", "node-2"}, {"node-1", "node-3"})

    on_stage(play)


def test_scheduler_that_may_not_write_on_hyper_nodes_keeps_gangs_in_racks() -> None:
    async def play(stage: Stage) -> None:
        await racks(stage)
        stage.start()
        (line,) = stage.lines
        line.refuse = lambda verb, about: verb == "patch" and about.startswith("rack")
        await stage.gang("a", 2, cpu="4", networkTopology=HARD_1)
        await stage.sleep(600)

        assert await stage.where() == {"a-0": "node-0", "a-1": "node-2"}
        tries = [call for call in line.writes() if "hypernodes" in call]
        assert 2 < len(tries) < 80
        assert not (await stage.read_hyper_node("rack-a")).status.conditions

    on_stage(play)
