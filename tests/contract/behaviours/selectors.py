"""Label and field selectors: their grammar and what they select."""

from __future__ import annotations

from swell.api.kinds import RECORDED_EVENTS
from swell.runtime.errors import BadRequestError
from tests.contract.world import CONFIG, EVENT, POD, World, a_pod, behaviour, refused


async def environment(world: World) -> None:
    for name, labels in (
        ("a", {"x": "1"}),
        ("b", {"x": "2", "y": ""}),
        ("c", {}),
        ("d", {"x": "10"}),
    ):
        await world.make(CONFIG, name, metadata={"labels": labels})


async def check(world: World, wanted: dict[str, list[str]]) -> None:
    await environment(world)
    for selector, names in wanted.items():
        assert await world.names(CONFIG, selector) == names, selector


@behaviour
async def equality(world: World) -> None:
    """=, == and != compare values; != is also true where the label is missing."""
    await check(world, {"x=1": ["a"], "x==1": ["a"], "x!=1": ["b", "c", "d"], "x=": []})


@behaviour
async def sets(world: World) -> None:
    """in and notin compare with several values."""
    await check(
        world,
        {"x in (1,2)": ["a", "b"], "x notin (1,2)": ["c", "d"], "x in (3)": [], "y in ()": ["b"]},
    )


@behaviour
async def existence(world: World) -> None:
    """A key alone asks whether the label is there, with ! whether it is not."""
    await check(world, {"x": ["a", "b", "d"], "!x": ["c"], "y": ["b"], "!y": ["a", "c", "d"]})


@behaviour
async def conjunction(world: World) -> None:
    """A comma means and."""
    await check(world, {"x,y": ["b"], "x!=1,x": ["b", "d"], "x=1,y": []})


@behaviour
async def comparison(world: World) -> None:
    """< and > compare numbers, strictly."""
    await check(world, {"x>1": ["b", "d"], "x<2": ["a"], "x>2": ["d"], "x<10,x>1": ["b"]})


@behaviour
async def blanks(world: World) -> None:
    """Blanks around words mean nothing."""
    await check(world, {" x = 1 ": ["a"], "x in ( 1 , 2 )": ["a", "b"]})


@behaviour
async def empty_selector(world: World) -> None:
    """No selector selects all."""
    await check(world, {"": ["a", "b", "c", "d"]})


@behaviour
async def bad_label_selectors(world: World) -> None:
    """What is no selector is refused."""
    for selector in ("x in", "x in 1", "=1", "x=1=2", "x in (1", "a b", "x=1,,y", "x>a", "x=a b"):
        await refused(BadRequestError, world.names(CONFIG, selector))


@behaviour
async def names_as_fields(world: World) -> None:
    """Every kind selects by name and namespace."""
    await environment(world)

    assert await world.names(CONFIG, fields="metadata.name=a") == ["a"]
    assert await world.names(CONFIG, fields="metadata.name!=a") == ["b", "c", "d"]
    assert await world.names(CONFIG, fields=f"metadata.namespace={world.ns}") == [
        "a",
        "b",
        "c",
        "d",
    ]
    assert await world.names(CONFIG, fields="metadata.namespace=other") == []


@behaviour
async def fields_and_labels(world: World) -> None:
    """Both selectors must match."""
    await environment(world)

    assert await world.names(CONFIG, "x", "metadata.name!=a") == ["b", "d"]


@behaviour
async def pods_by_node_and_phase(world: World) -> None:
    """Pods select by node, phase and scheduler."""
    await world.make_pod("a", node=world.ns)
    await world.make_pod("b")
    await world.make_pod("c", **a_pod(schedulerName="other"))
    await world.merge(POD.status, "a", {"status": {"phase": "Running"}})

    assert await world.names(POD, fields=f"spec.nodeName={world.ns}") == ["a"]
    assert await world.names(POD, fields="spec.nodeName=") == ["b", "c"]
    assert await world.names(POD, fields="status.phase=Running") == ["a"]
    assert await world.names(POD, fields="status.phase!=Running") == ["b", "c"]
    assert await world.names(POD, fields="spec.schedulerName=other") == ["c"]
    assert await world.names(POD, fields=f"spec.nodeName={world.ns},status.phase=Pending") == []


@behaviour
async def events_by_their_object(world: World) -> None:
    """Events select by what they are about."""
    for name, about in (("e1", "p1"), ("e2", "p2")):
        reference = {"kind": "Pod", "name": about, "namespace": world.ns, "uid": f"u-{about}"}
        await world.make(EVENT, name, involvedObject=reference, reason="R", type="Warning")

    assert await world.names(EVENT, fields="involvedObject.name=p1") == ["e1"]
    assert await world.names(EVENT, fields="involvedObject.uid=u-p2,type=Warning") == ["e2"]
    assert await world.names(EVENT, fields="reason=other") == []


@behaviour
async def unknown_fields(world: World) -> None:
    """A kind selects by a few fields, and others are refused."""
    for field in ("data.k=1", "metadata.uid=x", "metadata.name", "spec.nodeName=x"):
        await refused(BadRequestError, world.names(CONFIG, fields=field))


@behaviour
async def events_of_both_groups(world: World) -> None:
    """An event written in the newer group is selected in both, by each group's names."""
    recorded = RECORDED_EVENTS
    body = {
        "apiVersion": recorded.api_version,
        "kind": recorded.kind,
        "metadata": {"name": "m.1", "namespace": world.ns},
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "regarding": {"kind": "ConfigMap", "namespace": world.ns, "name": "m"},
        "type": "Normal",
        "reason": "Odd",
        "action": "Look",
        "reportingController": "toy",
        "reportingInstance": "toy-1",
    }
    await world.cluster.create(recorded, body)
    for resource, fields in (
        (EVENT, "involvedObject.name=m"),
        (EVENT, "source=toy"),
        (EVENT, "reportingComponent=toy"),
        (recorded, "regarding.name=m"),
        (recorded, "reportingController=toy"),
    ):
        found = await world.cluster.list(resource, world.selection(fields=fields))
        assert [item["metadata"]["name"] for item in found.items] == ["m.1"], fields
        missing = await world.cluster.list(resource, world.selection(fields=f"{fields}x"))
        assert missing.items == (), fields
