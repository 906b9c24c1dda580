"""Binding and eviction: what is refused, what is written, and the arithmetic of budgets."""

from __future__ import annotations

import pytest

from swell.api.meta import Body, Key
from swell.runtime.errors import ConflictError, NotFoundError, ServerError, TooManyRequestsError
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world, refusal

APP = {"app": "x"}


def a_running_pod(world: World, name: str = "a", *, ready: bool = True) -> None:
    world.pod(name, node="n", labels=APP)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "conditions": conditions}
    world.patch("pods", name, {"status": status}, subresource="status")


def a_budget(
    world: World, allowed: int, name: str = "b", *, status: Body | None = None, policy: str = ""
) -> None:
    spec: Body = {"minAvailable": 1, "selector": {"matchLabels": APP}}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    world.create("poddisruptionbudgets", name, spec=spec)
    seen = {"currentHealthy": 1, "desiredHealthy": 1, "observedGeneration": 1, **(status or {})}
    seen["disruptionsAllowed"] = allowed
    world.patch("poddisruptionbudgets", name, {"status": seen}, subresource="status")


def evict(world: World, name: str = "a", **fields: object) -> None:
    body: Body = {"metadata": {"name": name}, **fields}
    world.api.evict(world.kind("pods"), Key(NAMESPACE, name), body, world.call())


def is_going(world: World, name: str = "a") -> bool:
    try:
        return "deletionTimestamp" in world.get("pods", name).metadata
    except NotFoundError:
        return True


def test_binding_sets_node_and_condition() -> None:
    """A bound pod has its node, and says since when."""
    world = a_world()
    world.pod("a", labels={"old": "1"})

    world.bind("a", "n1", labels={"new": "2"})
    pod = world.get("pods", "a").body

    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["labels"] == {"old": "1", "new": "2"}
    assert pod["metadata"]["generation"] == 1
    assert pod["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2025-06-15T15:06:40Z",
        }
    ]


def test_second_binding_is_a_conflict_of_the_binding() -> None:
    """A pod is bound once, also to the same node."""
    world = a_world()
    world.pod("a", node="n1")

    assert refusal(lambda: world.bind("a", "n1")) == (409, "Conflict", "pods/binding", "a")


@pytest.mark.parametrize("stale", [{"uid": "another"}, {"resourceVersion": "1"}])
def test_binding_with_a_failed_precondition_is_a_conflict_of_the_pod(stale: Body) -> None:
    """A scheduler that decided on another pod, or another state of it, does not bind."""
    world = a_world()
    world.pod("a")

    assert refusal(lambda: world.bind("a", "n1", **stale)) == (409, "Conflict", "pods", "a")
    assert "nodeName" not in world.get("pods", "a").body["spec"]


def test_binding_refuses_pods_that_cannot_start() -> None:
    """Gated and terminating pods are not bound."""
    world = a_world()
    world.create("pods", "gated", spec={"schedulingGates": [{"name": "wait"}]})
    world.pod("ending", finalizers=["x.example/f"])
    world.delete("pods", "ending")

    for name in ("gated", "ending"):
        with pytest.raises(ConflictError):
            world.bind(name, "n1")


def test_binding_needs_a_target_and_the_right_name() -> None:
    """What names no node, or another pod, is refused."""
    world = a_world()
    world.pod("a")

    assert refusal(lambda: world.bind("a", ""))[0] == 422
    binding: Body = {"metadata": {"name": "b"}, "target": {"name": "n"}}
    key = Key(NAMESPACE, "a")
    assert refusal(lambda: world.api.bind(world.kind("pods"), key, binding, world.call()))[0] == 400


def test_eviction_sets_its_condition_and_deletes() -> None:
    """Without a budget an eviction is a delete with a reason on the pod."""
    world = a_world()
    a_running_pod(world)

    evict(world)
    pod = world.get("pods", "a").body

    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


def test_eviction_uses_the_budget_up() -> None:
    """One disruption allowed means one eviction; the second is refused with 429."""
    world = a_world()
    for name in ("a", "c"):
        a_running_pod(world, name)
    a_budget(world, 1)

    evict(world, "a")

    assert world.get("poddisruptionbudgets", "b").body["status"]["disruptionsAllowed"] == 0
    with pytest.raises(TooManyRequestsError):
        evict(world, "c")
    assert not is_going(world, "c")


def test_eviction_waits_for_a_budget_that_lags() -> None:
    """A budget whose controller has not seen its latest spec allows nothing yet."""
    world = a_world()
    a_running_pod(world)
    a_budget(world, 5, status={"observedGeneration": 0})

    with pytest.raises(TooManyRequestsError) as refused:
        evict(world)
    assert refused.value.retry_after_s == 10


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_eviction_ignores_the_budget_for_pods_that_do_not_run(phase: str) -> None:
    """Pods not running yet, or finished, disrupt nothing."""
    world = a_world()
    world.pod("a", node="n", phase=phase, labels=APP)
    a_budget(world, 0)

    evict(world)

    assert is_going(world)


@pytest.mark.parametrize(
    ("healthy", "policy", "allowed"), [(1, "", True), (0, "", False), (0, "AlwaysAllow", True)]
)
def test_eviction_of_an_unready_pod(healthy: int, policy: str, allowed: bool) -> None:
    """An unready pod may go when the application is healthy without it, or the policy says so."""
    world = a_world()
    a_running_pod(world, ready=False)
    a_budget(world, 0, status={"currentHealthy": healthy}, policy=policy)

    if not allowed:
        with pytest.raises(TooManyRequestsError):
            evict(world)
        return
    evict(world)
    assert world.get("poddisruptionbudgets", "b").body["status"]["disruptionsAllowed"] == 0
    assert is_going(world)


def test_eviction_with_two_budgets_is_an_error() -> None:
    """A pod with two budgets cannot be evicted."""
    world = a_world()
    a_running_pod(world)
    a_budget(world, 1, "b")
    a_budget(world, 1, "c")

    with pytest.raises(ServerError):
        evict(world)


def test_eviction_dry_run_changes_neither_pod_nor_budget() -> None:
    """Asked in the eviction's own options too."""
    world = a_world()
    a_running_pod(world)
    a_budget(world, 1)
    before = world.storage.version

    evict(world, deleteOptions={"dryRun": ["All"]})

    assert world.storage.version == before


def test_eviction_with_another_uid_is_a_conflict() -> None:
    """The pod meant is the one evicted, or none."""
    world = a_world()
    a_running_pod(world)
    wrong = {"preconditions": {"uid": "another"}}

    assert refusal(lambda: evict(world, deleteOptions=wrong)) == (409, "Conflict", "Pod", "a")
    assert not is_going(world)
