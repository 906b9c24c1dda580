"""Pods that come while the volumes of their gang are being made: none is bound before the gang."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.cluster.embedded.controllers.volumes import PROVISIONER
from swell.runtime.cluster import Deletion
from swell.scheduler.live.controller import Scheduler
from tests.storage_objects import a_claim, a_class, mounts
from tests.unit.scheduler.live.stage import NAMESPACE, Stage
from tests.unit.scheduler.live.test_preparer import (
    FOLDERS,
    bound,
    folders,
    gang,
    have,
    have_nodes,
    played,
    until,
    with_timeout,
)


def preparing(scheduler: Scheduler) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return scheduler.preparer.n_batches == 1

    return holds


def test_pod_that_comes_later_waits_for_the_gang() -> None:
    """It needs no volume, and the gang has its minimum only with pods whose volumes are not made.

    Those are released, and placed anew with it.
    """

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        await have(stage, folders(hangOn="a"), *(a_claim(f"data-{i}", FOLDERS) for i in range(2)))
        scheduler = stage.start()
        await gang(stage, 2)
        await until(stage, preparing(scheduler))
        await stage.pod("gang-late", "gang")
        await stage.sleep(15)
        assert not await stage.where()
        await until(stage, bound(stage, 3))

        where = await stage.where()
        assert where["gang-0"] == where["gang-1"] == "b"
        assert not scheduler.preparer.n_batches

    played(play, with_timeout(20))


def test_pod_that_comes_again_waits_for_the_gang() -> None:
    """Its volume is there already; the others' are not, and the decision on them is void."""

    async def play(stage: Stage) -> None:
        await have_nodes(stage, "a", "b")
        made = {**a_class("quick"), "provisioner": PROVISIONER}
        claims = (a_claim("data-0", FOLDERS), a_claim("data-1", "quick"))
        await have(stage, folders(hangOn="a"), made, *claims)
        scheduler = stage.start()
        await gang(stage, 2)
        await until(stage, preparing(scheduler))
        await stage.sleep(2)
        await stage.user.delete(PODS, Key(NAMESPACE, "gang-1"), Deletion(grace_s=0))
        await stage.pod("gang-1", "gang", volumes=mounts("data-1"))
        await stage.sleep(5)
        assert not await stage.where()
        await until(stage, bound(stage, 2), 200)

        assert not scheduler.preparer.n_batches

    played(play, with_timeout(20))
