"""ReplicaSets and deleted namespaces behave the same on the embedded cluster and on a real one."""

from __future__ import annotations

from swell.api.kinds import NAMESPACES, PODS, REPLICA_SETS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from tests.contract.controller_world import (
    Opened,
    World,
    condition_of,
    has,
    is_active,
    play,
)

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", dict)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", dict,
    namespaced=False,
)  # fmt: skip
THINGS = Resource("contract.example", "v1", "Thing", "things", dict)
HELD = {"finalizers": ["contract.example/held"]}


# -- ReplicaSets -----------------------------------------------------------------------------------


def test_replica_set_makes_its_pods(opened: Opened) -> None:
    """Pods come from the template, controlled by the set and named after it."""

    async def scenario(world: World) -> None:
        owner = await world.replica_set("a", 3)
        pods = await world.until_pods(3)

        for pod in pods:
            metadata = pod["metadata"]
            (reference,) = metadata["ownerReferences"]
            assert reference["uid"] == owner["metadata"]["uid"]
            assert reference["controller"] is reference["blockOwnerDeletion"] is True
            assert metadata["generateName"] == "a-"
            assert metadata["name"].startswith("a-")
            assert len(metadata["name"]) == len("a-") + 5
            assert metadata["labels"] == {"app": "a"}

    play(opened, scenario)


def test_replica_set_status_counts_what_is_there(opened: Opened) -> None:
    """The status has the pods counted, and no zero but those that are always shown."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 2)
        status = await world.until_status(REPLICA_SETS, "a", lambda s: s.get("replicas") == 2)

        assert status == {
            "replicas": 2,
            "fullyLabeledReplicas": 2,
            "observedGeneration": 1,
            "terminatingReplicas": 0,
        }

    play(opened, scenario)


def test_replica_set_of_none_is_observed(opened: Opened) -> None:
    """A set of no pods still reports its observed generation."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 0)
        status = await world.until_status(
            REPLICA_SETS, "a", lambda s: s.get("observedGeneration") == 1
        )

        assert status["replicas"] == 0
        assert await world.pods() == []

    play(opened, scenario)


def test_replica_set_replaces_a_deleted_pod(opened: Opened) -> None:
    """A pod that goes is made again under another name."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 2)
        first = (await world.until_pods(2))[0]["metadata"]["name"]
        await world.delete(PODS, first)
        await world.until_gone(PODS, first)
        names = [pod["metadata"]["name"] for pod in await world.until_pods(2)]

        assert first not in names

    play(opened, scenario)


def test_replica_set_replaces_a_failed_pod(opened: Opened) -> None:
    """A finished pod counts no longer, and stays for people to look at."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 1)
        (pod,) = await world.until_pods(1)
        await world.fail(pod)
        await world.until_pods(1)
        status = await world.until_status(REPLICA_SETS, "a", lambda s: s.get("replicas") == 1)

        assert "readyReplicas" not in status
        assert len(await world.pods()) == 2

    play(opened, scenario)


def test_replica_set_grows_and_shrinks(opened: Opened) -> None:
    """The number of pods follows the spec, and the status its generation."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 1)
        await world.until_pods(1)
        await world.change(REPLICA_SETS, "a", {"spec": {"replicas": 4}})
        await world.until_pods(4)
        await world.change(REPLICA_SETS, "a", {"spec": {"replicas": 2}})
        await world.until_pods(2)
        status = await world.until_status(REPLICA_SETS, "a", lambda s: s["replicas"] == 2)

        assert status["observedGeneration"] == 3

    play(opened, scenario)


def test_replica_set_gives_up_unscheduled_pods_first(opened: Opened) -> None:
    """A pod that has a node is worth more than one that has none."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 3)
        pods = await world.until_pods(3)
        await world.bind(pods[1], "node-1")
        await world.change(REPLICA_SETS, "a", {"spec": {"replicas": 1}})
        (kept,) = await world.until_pods(1)

        assert kept["metadata"]["name"] == pods[1]["metadata"]["name"]

    play(opened, scenario)


def test_replica_set_gives_up_pods_that_are_not_ready_first(opened: Opened) -> None:
    """Among scheduled and running pods, the one that is ready stays."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 3)
        pods = await world.until_pods(3)
        for pod in pods:
            await world.bind(pod, "node-1")
            await world.report(pod, {"phase": "Running"})
        await world.make_ready(pods[2])
        await world.until_status(REPLICA_SETS, "a", lambda s: s.get("readyReplicas") == 1)
        await world.change(REPLICA_SETS, "a", {"spec": {"replicas": 1}})
        (kept,) = await world.until_pods(1)

        assert kept["metadata"]["name"] == pods[2]["metadata"]["name"]

    play(opened, scenario)


def test_replica_set_gives_up_cheap_pods_first(opened: Opened) -> None:
    """The deletion cost decides between pods that are otherwise alike."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 3)
        pods = await world.until_pods(3)
        name = pods[1]["metadata"]["name"]
        cost = {"controller.kubernetes.io/pod-deletion-cost": "100"}
        await world.change(PODS, name, {"metadata": {"annotations": cost}})
        await world.stays(lambda: world.get(PODS, name), for_s=1)
        await world.change(REPLICA_SETS, "a", {"spec": {"replicas": 1}})
        (kept,) = await world.until_pods(1)

        assert kept["metadata"]["name"] == name

    play(opened, scenario)


def test_replica_set_adopts_a_matching_pod(opened: Opened) -> None:
    """A pod without a controller that the selector matches is adopted."""

    async def scenario(world: World) -> None:
        await world.pod("lone", labels={"app": "a"})
        owner = await world.replica_set("a", 2)
        await world.until_pods(2)
        adopted = await world.until(
            lambda: world.get(PODS, "lone"), lambda pod: pod["metadata"].get("ownerReferences")
        )

        assert adopted["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "a",
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]

    play(opened, scenario)


def test_replica_set_adopts_what_comes_later_and_gives_one_up(opened: Opened) -> None:
    """A matching pod made beside a full set is one too many."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 1)
        await world.until_pods(1)
        await world.until_status(REPLICA_SETS, "a", lambda s: s.get("replicas") == 1)
        await world.pod("lone", labels={"app": "a"})
        await world.until_pods(1)
        (pod,) = [pod for pod in await world.pods() if is_active(pod)]

        assert pod["metadata"]["ownerReferences"][0]["name"] == "a"

    play(opened, scenario)


def test_replica_set_lets_a_relabelled_pod_go(opened: Opened) -> None:
    """A pod that the selector no longer matches is set free, and replaced."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 1)
        (pod,) = await world.until_pods(1)
        name = pod["metadata"]["name"]
        await world.change(PODS, name, {"metadata": {"labels": {"app": "b"}}})
        await world.until_pods(1, "app=a")
        freed = await world.until(
            lambda: world.get(PODS, name), lambda pod: "ownerReferences" not in pod["metadata"]
        )

        assert is_active(freed)

    play(opened, scenario)


def test_replica_set_leaves_pods_of_others_alone(opened: Opened) -> None:
    """A matching pod with another controller is not counted."""

    async def scenario(world: World) -> None:
        other = await world.create(CONFIG_MAPS, "other")
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "other",
            "uid": other["metadata"]["uid"],
            "controller": True,
        }
        await world.pod("taken", labels={"app": "a"}, ownerReferences=[reference])
        await world.replica_set("a", 1)
        await world.until_pods(2)
        status = await world.until_status(REPLICA_SETS, "a", lambda s: s.get("replicas"))

        assert status["replicas"] == 1

    play(opened, scenario)


def test_replica_set_counts_ready_and_available_pods(opened: Opened) -> None:
    """A pod is available when it has been ready for minReadySeconds."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 2, minReadySeconds=3600)
        pods = await world.until_pods(2)
        await world.make_ready(pods[0])
        recent = pods[1]["metadata"]["creationTimestamp"]
        await world.make_ready(pods[1], since=recent)
        status = await world.until_status(
            REPLICA_SETS, "a", lambda s: s.get("readyReplicas") == 2 and s.get("availableReplicas")
        )

        assert status["availableReplicas"] == 1

    play(opened, scenario)


def test_replica_set_becomes_available_as_time_passes(opened: Opened) -> None:
    """Nothing but time makes a ready pod available."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 1, minReadySeconds=2)
        (pod,) = await world.until_pods(1)
        await world.make_ready(pod, since=pod["metadata"]["creationTimestamp"])
        status = await world.until_status(
            REPLICA_SETS, "a", lambda s: s.get("availableReplicas") == 1
        )

        assert status["readyReplicas"] == 1

    play(opened, scenario)


def test_replica_set_counts_fully_labelled_pods(opened: Opened) -> None:
    """A pod that lacks a label of the template is one, but not a fully labelled one."""

    async def scenario(world: World) -> None:
        labels = {"app": "a", "tier": "front"}
        spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "x"}]}
        await world.pod("lone", labels={"app": "a"})
        await world.replica_set("a", 2, template={"metadata": {"labels": labels}, "spec": spec})
        status = await world.until_status(REPLICA_SETS, "a", lambda s: s.get("replicas") == 2)

        assert status["fullyLabeledReplicas"] == 1

    play(opened, scenario)


def test_replica_set_counts_pods_on_their_way_out(opened: Opened) -> None:
    """A pod that is being deleted is replaced at once and counted apart."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 1)
        (pod,) = await world.until_pods(1)
        name = pod["metadata"]["name"]
        await world.change(PODS, name, {"metadata": HELD})
        await world.delete(PODS, name)
        status = await world.until_status(
            REPLICA_SETS, "a", lambda s: s.get("terminatingReplicas") and s["replicas"] == 1
        )
        await world.change(PODS, name, {"metadata": {"finalizers": None}})

        assert status["terminatingReplicas"] == 1

    play(opened, scenario)


def test_replica_set_deleted_as_orphaning_leaves_its_pods(opened: Opened) -> None:
    """Pods of a set deleted with Orphan run on, free."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 2)
        await world.until_pods(2)
        await world.until_status(REPLICA_SETS, "a", lambda s: s.get("replicas") == 2)
        await world.delete(REPLICA_SETS, "a", propagation="Orphan")
        await world.until_gone(REPLICA_SETS, "a")
        pods = await world.until_pods(2)

        assert all("ownerReferences" not in pod["metadata"] for pod in pods)

    play(opened, scenario)


def test_replica_set_deleted_makes_no_more_pods(opened: Opened) -> None:
    """A set that waits for its dependents does not replace them."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 2)
        await world.until_pods(2)
        await world.delete(REPLICA_SETS, "a", propagation="Foreground")
        await world.until_gone(REPLICA_SETS, "a")
        await world.until_pods(0)

    play(opened, scenario)


# -- namespaces ------------------------------------------------------------------------------------


def test_namespace_goes_with_all_that_is_in_it(opened: Opened) -> None:
    """A deleted namespace takes pods, sets, config maps and custom objects along."""

    async def scenario(world: World) -> None:
        await serve_things(world)
        await world.replica_set("a", 2)
        await world.until_pods(2)
        await world.create(CONFIG_MAPS, "c")
        await world.create(THINGS, "t")
        await delete_namespace(world)
        await until_namespace_gone(world)

        assert await world.pods() == []

    play(opened, scenario)


def test_namespace_waits_for_finalizers(opened: Opened) -> None:
    """Objects with finalizers stay, and the namespace's conditions name them."""

    async def scenario(world: World) -> None:
        await world.create(CONFIG_MAPS, "held", metadata=HELD)
        await world.create(CONFIG_MAPS, "free")
        await delete_namespace(world)
        status = await until_namespace_status(
            world, lambda s: has(s, "NamespaceFinalizersRemaining")
        )
        held = await world.get(CONFIG_MAPS, "held")

        assert status["phase"] == "Terminating"
        assert facts(status) == {
            "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
            "NamespaceDeletionGroupVersionParsingFailure": ("False", "ParsedGroupVersions"),
            "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
            "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
            "NamespaceFinalizersRemaining": ("True", "SomeFinalizersRemain"),
        }
        assert "deletionTimestamp" in held["metadata"]
        await world.until_gone(CONFIG_MAPS, "free")
        await world.change(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}})
        await until_namespace_gone(world)

    play(opened, scenario)


def test_namespace_deletes_pods_before_the_rest(opened: Opened) -> None:
    """While a pod is left nothing else is deleted, and nothing is reported as remaining."""

    async def scenario(world: World) -> None:
        await world.pod("held", **HELD)
        await world.create(CONFIG_MAPS, "c")
        await delete_namespace(world)
        status = await until_namespace_status(
            world, lambda s: condition_of(s, "NamespaceContentRemaining")
        )
        left = await world.get(CONFIG_MAPS, "c")

        assert {status for status, _ in facts(status).values()} == {"False"}
        assert "deletionTimestamp" not in left["metadata"]
        await world.change(PODS, "held", {"metadata": {"finalizers": None}})
        await world.until_gone(CONFIG_MAPS, "c")
        await until_namespace_gone(world)

    play(opened, scenario)


def test_namespace_deleted_makes_no_pod_of_its_sets_again(opened: Opened) -> None:
    """A set in a deleted namespace loses its pods for good."""

    async def scenario(world: World) -> None:
        await world.replica_set("a", 3)
        await world.until_pods(3)
        await delete_namespace(world)
        await until_namespace_gone(world)

    play(opened, scenario)


async def delete_namespace(world: World) -> None:
    await world.cluster.delete(NAMESPACES, Key("", world.namespace))


async def until_namespace_status(world: World, holds: object) -> Body:
    async def read() -> Body:
        key = Key("", world.namespace)
        status: Body = (await world.cluster.get(NAMESPACES.untyped(), key))["status"]
        return status

    assert callable(holds)
    return await world.until(read, holds)


async def until_namespace_gone(world: World) -> None:
    async def read() -> Body:
        listed = await world.cluster.list(NAMESPACES)
        return {"names": [found.metadata.name for found in listed.items]}

    await world.until(read, lambda found: world.namespace not in found["names"])


def facts(status: Body) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions") or ()}


async def serve_things(world: World) -> None:
    """Register a custom kind, and wait until it is served."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    spec = {
        "group": THINGS.group,
        "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
        "scope": "Namespaced",
        "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
    }
    name = f"things.{THINGS.group}"
    await world.create(CRDS, name, spec=spec)

    async def read() -> Body:
        status: Body = (await world.cluster.get(CRDS, Key("", name))).get("status") or {}
        return status

    await world.until(read, lambda status: has(status, "Established"))
