"""What a running scheduler says that queues hold, whatever way their jobs have gone."""

from __future__ import annotations

import pytest

from swell.api.kinds import POD_GROUPS, QUEUES
from swell.api.meta import Key
from swell.runtime.cluster import merge_patch
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage


async def held(stage: Stage, name: str) -> str:
    queue = await stage.user.get(QUEUES, Key("", name))
    return str(queue.status.allocated.get("cpu", ""))


async def gang_at_work(stage: Stage) -> None:
    await stage.nodes(1)
    await stage.queue("team", parent="root")
    stage.start()
    await stage.sleep(2)
    await stage.gang("g", 2, queue="team")
    await stage.sleep(5)
    await stage.run_pods()
    await stage.sleep(5)


async def remove_gang(stage: Stage) -> None:
    await stage.user.delete(POD_GROUPS, Key(NAMESPACE, "g"))
    for name in ("g-0", "g-1"):
        await stage.remove(name)


@pytest.mark.parametrize("is_down", [False, True])
def test_queues_above_hold_nothing_of_a_gang_that_has_gone_at_once(is_down: bool) -> None:
    """Also of one that goes while no scheduler runs, if the next one knows its queues first."""

    async def play(stage: Stage) -> None:
        await gang_at_work(stage)
        before = [await held(stage, name) for name in ("team", "root")]
        if is_down:
            await stage.kill()
        await remove_gang(stage)
        if is_down:
            stage.start()
            stage.lines[-1].refuse = lambda verb, kind: (verb, kind) == ("list", "pods")
            await stage.sleep(5)
            stage.lines[-1].refuse = lambda *_: False
            await stage.sleep(60)
        await stage.sleep(5)

        assert before == ["2", "2"]
        assert [await held(stage, name) for name in ("team", "root")] == ["", ""]

    on_stage(play)


def test_old_parent_holds_nothing_of_a_queue_without_jobs_that_has_moved() -> None:
    """Its amounts are those of the queue below it."""

    async def play(stage: Stage) -> None:
        await stage.nodes(1)
        for name, parent in (("a", "root"), ("b", "root"), ("mid", "a"), ("leaf", "mid")):
            await stage.queue(name, parent=parent)
        stage.start()
        await stage.sleep(2)
        await stage.gang("g", 2, queue="leaf")
        await stage.sleep(5)
        before = [await held(stage, name) for name in ("a", "b")]
        change = {"spec": {"parent": "b"}}
        await stage.user.patch(QUEUES.untyped(), Key("", "mid"), merge_patch(change))
        await stage.sleep(5)

        assert before == ["2", ""]
        assert [await held(stage, name) for name in ("a", "b")] == ["", "2"]

    on_stage(play)
