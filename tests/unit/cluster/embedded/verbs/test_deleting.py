"""Delete: preconditions, finalizers, grace periods, propagation, namespaces, collections."""

from __future__ import annotations

import asyncio

import pytest

from swell.cluster.embedded.verbs.requests import DeleteOptions, ListOptions
from swell.runtime.errors import InvalidError, NotFoundError
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world, causes, names, refusal


def is_gone(world: World, plural: str, name: str) -> bool:
    try:
        world.get(plural, name)
    except NotFoundError:
        return True
    return False


def test_delete_removes_at_once_without_reason_to_wait() -> None:
    """No finalizer, no grace: the object is gone with the answer."""
    world = a_world()
    world.create("configmaps", "a")

    assert world.delete("configmaps", "a").gone
    assert is_gone(world, "configmaps", "a")
    assert refusal(lambda: world.delete("configmaps", "a")) == (404, "NotFound", "configmaps", "a")


def test_delete_with_a_failed_precondition_is_a_conflict() -> None:
    """Another UID or version than the current one deletes nothing."""
    world = a_world()
    uid = world.create("configmaps", "a").uid
    stale = str(world.get("configmaps", "a").version)
    world.patch("configmaps", "a", {"data": {"k": "2"}})

    for options in (DeleteOptions(uid="another"), DeleteOptions(resource_version=stale)):
        found = refusal(lambda options=options: world.delete("configmaps", "a", options))  # type: ignore[misc]

        assert found == (409, "Conflict", "ConfigMap", "a")
    assert world.delete("configmaps", "a", DeleteOptions(uid=uid)).gone


def test_finalizer_keeps_a_deleted_object_until_it_is_removed() -> None:
    """The object is marked, a second delete changes nothing, and the last finalizer lets it go."""
    world = a_world()
    world.create("replicasets", metadata={"name": "a", "finalizers": ["x.example/one"]})

    first = world.delete("replicasets", "a")
    second = world.delete("replicasets", "a")

    assert not first.gone
    assert first.stored.metadata["deletionGracePeriodSeconds"] == 0
    assert first.stored.metadata["generation"] == 2
    assert second.version == first.version
    world.patch("replicasets", "a", {"metadata": {"finalizers": None}})
    assert is_gone(world, "replicasets", "a")


def test_finalizer_removed_before_deletion_keeps_the_object() -> None:
    """Finalizers alone delete nothing."""
    world = a_world()
    world.create("configmaps", metadata={"name": "a", "finalizers": ["x.example/one"]})

    world.patch("configmaps", "a", {"metadata": {"finalizers": []}})

    assert not is_gone(world, "configmaps", "a")


def test_finalizer_cannot_be_added_to_a_deleted_object() -> None:
    """What ends cannot be held by newcomers."""
    world = a_world()
    world.create("configmaps", metadata={"name": "a", "finalizers": ["x.example/one"]})
    world.delete("configmaps", "a")
    more = {"metadata": {"finalizers": ["x.example/one", "x.example/two"]}}

    assert causes(lambda: world.patch("configmaps", "a", more)) == [
        ("metadata.finalizers", "FieldValueForbidden")
    ]


def test_deletion_cannot_be_taken_back() -> None:
    """An update without the deletion mark keeps the mark."""
    world = a_world()
    world.create("configmaps", metadata={"name": "a", "finalizers": ["x.example/one"]})
    body = world.delete("configmaps", "a").stored.copy()
    stamp = body["metadata"].pop("deletionTimestamp")
    del body["metadata"]["deletionGracePeriodSeconds"]

    assert world.update("configmaps", body).stored.metadata["deletionTimestamp"] == stamp


def test_bound_pod_waits_for_its_grace_period() -> None:
    """A bound pod is marked with its own period, 30 s by default, or the one asked for."""
    world = a_world()
    world.pod("a", node="n", phase="Running")
    world.pod("b", node="n")

    default = world.delete("pods", "a").stored.metadata
    asked = world.delete("pods", "b", DeleteOptions(grace_s=12)).stored.metadata

    assert default["deletionGracePeriodSeconds"] == 30
    assert default["deletionTimestamp"] == "2025-06-15T15:07:10Z"
    assert asked["deletionGracePeriodSeconds"] == 12


@pytest.mark.parametrize(
    "pod", [{}, {"node": "n", "phase": "Succeeded"}, {"node": "n", "phase": "Failed"}]
)
def test_pod_without_processes_goes_at_once(pod: dict[str, str]) -> None:
    """A pod that was never placed, or has ended, goes at once."""
    world = a_world()
    world.pod("a", **pod)

    assert world.delete("pods", "a").gone


def test_grace_period_is_only_ever_shortened() -> None:
    """A repeated delete changes nothing unless it asks for less time; zero ends it."""
    world = a_world()
    world.pod("a", node="n", phase="Running")
    first = world.delete("pods", "a")

    longer = world.delete("pods", "a", DeleteOptions(grace_s=60))
    shorter = world.delete("pods", "a", DeleteOptions(grace_s=5))

    assert longer.version == first.version
    assert shorter.stored.metadata["deletionGracePeriodSeconds"] == 5
    assert shorter.stored.metadata["deletionTimestamp"] == "2025-06-15T15:06:45Z"
    assert world.delete("pods", "a", DeleteOptions(grace_s=0)).gone


def test_shortened_period_that_is_over_leaves_one_second() -> None:
    """Only a delete with zero is immediate: the node still has to see the end coming."""
    world = a_world()
    world.pod("a", node="n", phase="Running")
    world.delete("pods", "a")
    world.clock.time += 20

    left = world.delete("pods", "a", DeleteOptions(grace_s=5))

    assert not left.gone
    assert left.stored.metadata["deletionGracePeriodSeconds"] == 1
    assert left.stored.metadata["deletionTimestamp"] == "2025-06-15T15:07:00Z"


def test_terminating_pod_is_not_removed_by_other_updates() -> None:
    """A grace period that runs keeps the pod, whatever else is written to it."""
    world = a_world()
    world.pod("a", node="n", phase="Running")
    world.delete("pods", "a")

    world.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}})

    assert not is_gone(world, "pods", "a")


@pytest.mark.parametrize(
    ("plural", "options", "finalizers"),
    [
        ("configmaps", DeleteOptions(propagation="Foreground"), ["foregroundDeletion"]),
        ("configmaps", DeleteOptions(propagation="Orphan"), ["orphan"]),
        ("configmaps", DeleteOptions(orphan_dependents=True), ["orphan"]),
        ("jobs", DeleteOptions(), ["orphan"]),
    ],
)
def test_propagation_leaves_a_finalizer_for_the_collector(
    plural: str, options: DeleteOptions, finalizers: list[str]
) -> None:
    """Foreground and orphaning deletes wait; a Job orphans unless another policy is given."""
    world = a_world()
    world.create(plural, "a")

    deleted = world.delete(plural, "a", options)

    assert not deleted.gone
    assert deleted.stored.metadata["finalizers"] == finalizers


def test_job_deleted_without_policy_warns() -> None:
    """A delete that orphans by default gives a warning; one with an explicit policy does not."""
    world = a_world()
    world.create("jobs", "a")
    call = world.call()

    world.api.delete(world.kind("jobs"), world.key("jobs", "a"), DeleteOptions(), call)

    assert call.warnings


@pytest.mark.parametrize(
    "options",
    [
        DeleteOptions(propagation="Sideways"),
        DeleteOptions(propagation="Background", orphan_dependents=True),
    ],
)
def test_contradictory_options_are_invalid(options: DeleteOptions) -> None:
    """Unknown or double policies delete nothing."""
    world = a_world()
    world.create("configmaps", "a")

    assert refusal(lambda: world.delete("configmaps", "a", options))[:3] == (
        422,
        "Invalid",
        "DeleteOptions",
    )


def test_namespace_waits_for_its_own_finalizer() -> None:
    """A deleted namespace is Terminating until its content is gone and it is finalized."""
    world = a_world()
    world.create("namespaces", "x", spec={"finalizers": ["kubernetes"]})

    deleted = world.delete("namespaces", "x")

    assert deleted.stored.body["status"]["phase"] == "Terminating"
    assert not world.delete("namespaces", "x").gone
    body = world.get("namespaces", "x").copy()
    body["spec"]["finalizers"] = []
    world.update("namespaces", body, subresource="finalize")
    assert is_gone(world, "namespaces", "x")


def test_default_namespace_cannot_be_deleted() -> None:
    """What everything relies on stays."""
    world = a_world()

    assert refusal(lambda: world.delete("namespaces", "default")) == (
        403,
        "Forbidden",
        "namespaces",
        "default",
    )


def test_delete_collection_takes_what_is_selected() -> None:
    """Everything that matches, by the rules of a single delete."""
    world = a_world()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        world.create("configmaps", metadata={"name": name, "labels": {"app": app}})
    selection = ListOptions(NAMESPACE, labels="app=x")

    deleted = asyncio.run(
        world.api.delete_collection(
            world.kind("configmaps"), selection, DeleteOptions(), world.call()
        )
    )

    assert names(deleted) == ["a", "b"]
    assert names(world.list("configmaps")) == ["c"]


def test_delete_collection_deletes_one_page_with_a_limit() -> None:
    """A limit deletes that many and tells how to go on; bad options delete nothing."""
    world = a_world()
    for name in "abc":
        world.create("configmaps", name)
    kind, bad = world.kind("configmaps"), DeleteOptions(propagation="Sideways")
    some = ListOptions(NAMESPACE, limit=2)

    with pytest.raises(InvalidError):
        asyncio.run(world.api.delete_collection(kind, some, bad, world.call()))
    deleted = asyncio.run(world.api.delete_collection(kind, some, DeleteOptions(), world.call()))

    assert (names(deleted), deleted.remaining) == (["a", "b"], 1)
    assert names(world.list("configmaps")) == ["c"]


def test_dry_run_delete_leaves_everything() -> None:
    """The answer is that of a delete; the object stays, unmarked."""
    world = a_world()
    world.create("configmaps", "a")
    world.pod("p", node="n", phase="Running")

    assert world.delete("configmaps", "a", dry_run=True).gone
    marked = world.delete("pods", "p", dry_run=True).stored

    assert marked.metadata["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" not in world.get("pods", "p").metadata
    assert not is_gone(world, "configmaps", "a")
