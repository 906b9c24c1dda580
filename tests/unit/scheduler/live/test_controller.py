"""The whole scheduler on an API server, in virtual time."""

from __future__ import annotations

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.api.scheduling import PodGroupPhase
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage


def test_gang_is_bound_whole() -> None:
    """A gang that fits gets its nodes, its group runs, and the queues it needs are there."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2)
        await stage.gang("a", 4)
        stage.start()
        await stage.sleep(3)

        assert sorted(await stage.where()) == ["a-0", "a-1", "a-2", "a-3"]
        assert (await stage.read_group("a")).status.phase is PodGroupPhase.RUNNING

    on_stage(play)


def test_rights_of_the_release_before_are_enough_for_gangs() -> None:
    """Networks, volumes and devices count as not served; pods with claims wait and say why."""

    async def play(stage: Stage) -> None:
        later = ("hypernodes", "persistentvolume", "storageclasses", "csi", "volumeattachments",
                 "resourceslices", "deviceclasses", "resourceclaims")  # fmt: skip
        await stage.nodes(2)
        await stage.gang("a", 4)
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        await stage.pod("with-claim", volumes=[claim])
        stage.start()
        stage.lines[-1].refuse = lambda verb, kind: verb == "list" and kind.startswith(later)
        await stage.sleep(5)

        assert sorted(await stage.where()) == ["a-0", "a-1", "a-2", "a-3"]
        pod = await stage.user.get(PODS, Key(NAMESPACE, "with-claim"))
        (condition,) = [c for c in pod.status.conditions if c.type == "PodScheduled"]
        assert "the server shows no PersistentVolumeClaims" in condition.message

    on_stage(play)


def test_gang_that_does_not_fit_is_not_begun() -> None:
    """Not one pod is bound, and group and pods say why."""

    async def play(stage: Stage) -> None:
        await stage.nodes(2, cpu="5")
        await stage.gang("a", 3, cpu="3")
        stage.start()
        await stage.sleep(5)

        assert await stage.where() == {}
        group = await stage.read_group("a")
        assert group.status.phase is PodGroupPhase.INQUEUE
        reasons = {c.type: c.reason for c in group.status.conditions}
        assert reasons == {
            "Unschedulable": "NotEnoughResources",
            "CannotEverFit": "CannotEverFit",
        }
        never = next(c for c in group.status.conditions if c.type == "CannotEverFit")
        assert never.message == (
            "the gang starts with 3 pods, and the cluster has room for 2 of 3 cpu, 1Gi memory each"
        )
        assert await _said_of_pod(stage, "a-0") == f"CannotEverFit: {never.message}"

    on_stage(play)


def test_pods_of_a_gang_that_may_fit_later_say_why_not_now() -> None:
    """Also once they have said that they never fit: a node has come."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1, cpu="2")
        await stage.gang("b", 1, cpu="2")
        await stage.gang("a", 2, cpu="2")
        stage.start()
        await stage.sleep(5)
        assert (await _said_of_pod(stage, "a-0")).startswith("CannotEverFit: the gang starts with")
        await stage.node("more", "2")
        await stage.sleep(5)

        assert (await _said_of_pod(stage, "a-0")).startswith("GangShort: there is room for it")

    on_stage(play)


async def _said_of_pod(stage: Stage, name: str) -> str:
    pod = await stage.read_pod(name)
    assert pod is not None
    (said,) = [c for c in pod.status.conditions if c.type == "PodScheduled"]
    return said.message


def test_pod_without_a_group_is_served_alone() -> None:
    """No group is written for it, and it is not annotated."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        stage.start()
        await stage.sleep(2)
        await stage.pod("p")
        await stage.pod("other", schedulerName="else")
        await stage.sleep(1)

        assert await stage.where() == {"p": "node-0"}

    on_stage(play)
