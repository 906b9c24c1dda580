"""Eviction: a delete that asks the budget first."""

from __future__ import annotations

from swell.api.meta import Body
from swell.runtime.errors import NotFoundError, TooManyRequestsError
from tests.contract.world import BUDGET, POD, World, behaviour, causes, refused

EVICTION = POD.sub("eviction", dict)


async def evict(world: World, name: str, **more: object) -> Body:
    kind = {"apiVersion": "policy/v1", "kind": "Eviction"}
    return await world.cluster.create(EVICTION, world.body(POD, name, **more) | kind)


async def a_running_pod(world: World, name: str) -> None:
    await world.make_pod(name, node=world.ns, metadata={"labels": {"app": "x"}})
    ready = {"type": "Ready", "status": "True"}
    await world.merge(POD.status, name, {"status": {"phase": "Running", "conditions": [ready]}})


async def a_budget(world: World, allowed: int, **status: object) -> None:
    selector = {"matchLabels": {"app": "x"}}
    made = await world.make(BUDGET, "b", spec={"minAvailable": 1, "selector": selector})
    counted = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1}
    seen = {"observedGeneration": made["metadata"]["generation"], "expectedPods": 1}
    await world.merge(BUDGET.status, "b", {"status": {**counted, **seen, **status}})


@behaviour
async def without_a_budget_is_a_delete(world: World) -> None:
    """Where no budget applies an eviction is a delete with grace."""
    await a_running_pod(world, "a")
    answer = await evict(world, "a")

    assert answer["status"] == "Success"
    assert (await world.get(POD, "a"))["metadata"]["deletionGracePeriodSeconds"] == 30


@behaviour
async def says_why_the_pod_goes(world: World) -> None:
    """An evicted pod carries the condition DisruptionTarget."""
    await a_running_pod(world, "a")
    await evict(world, "a")
    conditions = (await world.get(POD, "a"))["status"]["conditions"]

    assert "EvictionByEvictionAPI" in [c.get("reason") for c in conditions]


@behaviour
async def budget_refuses(world: World) -> None:
    """A budget without room refuses, and says whose it is."""
    await a_running_pod(world, "a")
    await a_budget(world, 0)
    status = await refused(TooManyRequestsError, evict(world, "a"))

    assert [reason for _, reason in causes(status)] == ["DisruptionBudget"]
    assert "deletionTimestamp" not in (await world.get(POD, "a"))["metadata"]


@behaviour
async def budget_is_charged(world: World) -> None:
    """An eviction takes from the budget and is written down there."""
    await a_running_pod(world, "a")
    await a_budget(world, 1)
    await evict(world, "a")
    status = (await world.get(BUDGET, "b"))["status"]

    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]


@behaviour
async def lagging_budget_refuses(world: World) -> None:
    """A budget that its controller has not seen yet allows nothing."""
    await a_running_pod(world, "a")
    await a_budget(world, 5, observedGeneration=0)
    await refused(TooManyRequestsError, evict(world, "a"))


@behaviour
async def pending_pods_are_free(world: World) -> None:
    """A pod that does not run yet disturbs nobody."""
    await world.make_pod("a", node=world.ns, metadata={"labels": {"app": "x"}})
    await a_budget(world, 0)
    await evict(world, "a")

    assert (await world.get(POD, "a"))["metadata"]["deletionTimestamp"]


@behaviour
async def finished_pods_are_free(world: World) -> None:
    """Nor does a pod that has finished."""
    await a_running_pod(world, "a")
    await world.merge(POD.status, "a", {"status": {"phase": "Failed"}})
    await a_budget(world, 0)
    await evict(world, "a")

    await refused(NotFoundError, world.get(POD, "a"))


@behaviour
async def missing_pod(world: World) -> None:
    """There is nothing to evict."""
    await refused(NotFoundError, evict(world, "none"))


@behaviour
async def dry_run_evicts_nothing(world: World) -> None:
    """A tried eviction leaves the pod alone."""
    await a_running_pod(world, "a")
    await evict(world, "a", deleteOptions={"dryRun": ["All"]})

    assert "deletionTimestamp" not in (await world.get(POD, "a"))["metadata"]
