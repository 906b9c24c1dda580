"""Delete: preconditions, grace, what is answered."""

from __future__ import annotations

from swell.api.meta import Key, Uid
from swell.runtime.cluster import Deletion
from swell.runtime.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from tests.contract.world import (
    CONFIG,
    NAMESPACE,
    POD,
    World,
    a_pod,
    behaviour,
    causes,
    refused,
)

OTHER = Uid("11111111-2222-3333-4444-555555555555")


@behaviour
async def removes_at_once(world: World) -> None:
    """An object that nothing holds is gone when the delete is answered."""
    await world.make(CONFIG, "a")
    assert await world.cluster.delete(CONFIG, world.key("a")) is None

    await refused(NotFoundError, world.get(CONFIG, "a"))


@behaviour
async def missing_object_is_not_found(world: World) -> None:
    """There is nothing to delete."""
    status = await refused(NotFoundError, world.cluster.delete(CONFIG, world.key("a")))

    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("configmaps", "a")


@behaviour
async def uid_precondition(world: World) -> None:
    """A delete meant for an object spares its namesake."""
    made = await world.make(CONFIG, "a")
    doing = world.cluster.delete(CONFIG, world.key("a"), Deletion(uid=OTHER))
    status = await refused(ConflictError, doing)
    assert status.details is not None
    assert (status.details.kind, status.details.name) == ("ConfigMap", "a")

    right = Deletion(uid=Uid(made["metadata"]["uid"]))
    assert await world.cluster.delete(CONFIG, world.key("a"), right) is None


@behaviour
async def version_precondition(world: World) -> None:
    """A delete decided on an old state is refused."""
    made = await world.make(CONFIG, "a")
    newer = await world.merge(CONFIG, "a", {"data": {"k": "1"}})
    old = Deletion(resource_version=made["metadata"]["resourceVersion"])
    await refused(ConflictError, world.cluster.delete(CONFIG, world.key("a"), old))

    current = Deletion(resource_version=newer["metadata"]["resourceVersion"])
    assert await world.cluster.delete(CONFIG, world.key("a"), current) is None


@behaviour
async def name_is_free_again(world: World) -> None:
    """The next object of that name is a new one."""
    first = await world.make(CONFIG, "a")
    await world.cluster.delete(CONFIG, world.key("a"))
    second = await world.make(CONFIG, "a")

    assert first["metadata"]["uid"] != second["metadata"]["uid"]


@behaviour
async def bound_pod_waits_for_its_grace(world: World) -> None:
    """A pod on a node is marked; the node's agent removes it."""
    await world.make_pod("a", node=world.ns)
    left = await world.cluster.delete(POD, world.key("a"))

    assert left is not None
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await world.get(POD, "a"))["metadata"]["deletionTimestamp"]


@behaviour
async def unbound_pod_goes_at_once(world: World) -> None:
    """Nobody has to stop what nobody started."""
    await world.make_pod("a")

    assert await world.cluster.delete(POD, world.key("a")) is None
    await refused(NotFoundError, world.get(POD, "a"))


@behaviour
async def grace_from_the_pod(world: World) -> None:
    """The pod itself may say how long it takes."""
    await world.make_pod("a", node=world.ns, **a_pod(terminationGracePeriodSeconds=7))
    left = await world.cluster.delete(POD, world.key("a"))

    assert left is not None
    assert left["metadata"]["deletionGracePeriodSeconds"] == 7


@behaviour
async def grace_from_the_request(world: World) -> None:
    """Who deletes may say it too."""
    await world.make_pod("a", node=world.ns)
    left = await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=12))

    assert left is not None
    assert left["metadata"]["deletionGracePeriodSeconds"] == 12


@behaviour
async def no_grace_removes_a_bound_pod(world: World) -> None:
    """Zero seconds mean now."""
    await world.make_pod("a", node=world.ns)

    assert await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=0)) is None
    await refused(NotFoundError, world.get(POD, "a"))


@behaviour
async def grace_only_shrinks(world: World) -> None:
    """A second delete may hurry a pod, not slow it down."""
    await world.make_pod("a", node=world.ns)
    await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=20))
    longer = await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=40))
    assert longer is not None
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 20

    shorter = await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=5))
    assert shorter is not None
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5


@behaviour
async def finished_pod_goes_at_once(world: World) -> None:
    """Nothing is left to stop in a finished pod."""
    await world.make_pod("a", node=world.ns)
    await world.merge(POD.status, "a", {"status": {"phase": "Succeeded"}})

    assert await world.cluster.delete(POD, world.key("a")) is None


@behaviour
async def name_of_a_dying_pod_is_taken(world: World) -> None:
    """Until a pod is gone its name is not free."""
    await world.make_pod("a", node=world.ns)
    await world.cluster.delete(POD, world.key("a"))
    await refused(AlreadyExistsError, world.make_pod("a"))


@behaviour
async def unknown_policy_is_refused(world: World) -> None:
    """There are three propagation policies."""
    await world.make(CONFIG, "a")
    doing = world.cluster.delete(CONFIG, world.key("a"), Deletion(propagation="Sideways"))
    status = await refused(InvalidError, doing)

    assert causes(status) == [("propagationPolicy", "FieldValueNotSupported")]


@behaviour
async def negative_grace_is_the_shortest(world: World) -> None:
    """Less than no time is taken for one second."""
    await world.make_pod("a", node=world.ns)
    left = await world.cluster.delete(POD, world.key("a"), Deletion(grace_s=-1))

    assert left is not None
    assert left["metadata"]["deletionGracePeriodSeconds"] == 1


@behaviour
async def system_namespaces_stay(world: World) -> None:
    """The namespaces a cluster begins with cannot be deleted."""
    for name in ("default", "kube-system", "kube-public"):
        await refused(ForbiddenError, world.cluster.delete(NAMESPACE, Key("", name)))


@behaviour
async def collection_by_label(world: World) -> None:
    """What is selected goes, what is not stays."""
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        await world.make(CONFIG, name, metadata={"labels": {"app": app}})
    await world.cluster.delete_collection(CONFIG, world.selection("app=x"))

    assert await world.names(CONFIG) == ["c"]


@behaviour
async def collection_by_field(world: World) -> None:
    """Fields select too."""
    for name in ("a", "b"):
        await world.make(CONFIG, name)
    await world.cluster.delete_collection(CONFIG, world.selection(fields="metadata.name!=a"))

    assert await world.names(CONFIG) == ["a"]


@behaviour
async def collection_respects_finalizers(world: World) -> None:
    """What has a finalizer waits, in a collection too."""
    await world.make(CONFIG, "a", metadata={"finalizers": ["example.com/x"]})
    await world.make(CONFIG, "b")
    await world.cluster.delete_collection(CONFIG, world.selection())

    assert await world.names(CONFIG) == ["a"]
    await world.merge(CONFIG, "a", {"metadata": {"finalizers": None}})


@behaviour
async def collection_of_nothing(world: World) -> None:
    """Nothing to delete is no error."""
    await world.cluster.delete_collection(CONFIG, world.selection("none=there"))

    assert await world.names(CONFIG) == []
