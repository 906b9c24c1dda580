"""Custom resources: schema, defaults, pruning, rules, and the definitions themselves."""

from __future__ import annotations

import contextlib

from swell.api.kinds import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.errors import ClusterError, InvalidError, NotFoundError
from tests.contract.definitions import definition
from tests.contract.world import (
    GROUP,
    WIDGET,
    World,
    behaviour,
    causes,
    eventually,
    refused,
)


@behaviour
async def defaults_are_filled_in(world: World) -> None:
    """Defaults of the schema are stored, nested ones too."""
    spec = (await world.make(WIDGET, "a", spec={"size": 1}))["spec"]

    assert (spec["color"], spec["low"], spec["high"]) == ("green", 0, 9)
    assert spec["nested"] == {"depth": 3}


@behaviour
async def given_values_win(world: World) -> None:
    """A default fills gaps only."""
    spec = (await world.make(WIDGET, "a", spec={"size": 1, "nested": {"depth": 7}}))["spec"]

    assert spec["nested"] == {"depth": 7}


@behaviour
async def unknown_fields_are_pruned(world: World) -> None:
    """What the schema does not know is not stored."""
    made = await world.make(WIDGET, "a", spec={"size": 1, "bogus": 1}, other=2)

    assert "bogus" not in made["spec"]
    assert "other" not in made


@behaviour
async def unknown_fields_are_pruned_on_update(world: World) -> None:
    """Nor is it on update or patch."""
    await world.make(WIDGET, "a", spec={"size": 1})
    patched = await world.merge(WIDGET, "a", {"spec": {"bogus": 1}})

    assert "bogus" not in patched["spec"]


@behaviour
async def unknown_fields_may_be_preserved(world: World) -> None:
    """Unless the schema says so."""
    free = {"a": {"b": [1, "x", None, True]}}
    made = await world.make(WIDGET, "a", spec={"size": 1, "free": free})

    assert made["spec"]["free"] == free


@behaviour
async def required_fields(world: World) -> None:
    """What is required must be there."""
    status = await refused(InvalidError, world.make(WIDGET, "a", spec={}))
    assert causes(status) == [("spec.size", "FieldValueRequired")]

    status = await refused(InvalidError, world.make(WIDGET, "a"))
    assert causes(status) == [("spec", "FieldValueRequired")]


@behaviour
async def bounds(world: World) -> None:
    """Numbers have bounds."""
    for size in (0, 11):
        status = await refused(InvalidError, world.make(WIDGET, "a", spec={"size": size}))
        assert causes(status) == [("spec.size", "FieldValueInvalid")]


@behaviour
async def enumerations(world: World) -> None:
    """A value is one of those listed."""
    doing = world.make(WIDGET, "a", spec={"size": 1, "color": "blue"})
    status = await refused(InvalidError, doing)

    assert causes(status) == [("spec.color", "FieldValueNotSupported")]


@behaviour
async def patterns(world: World) -> None:
    """Text has a pattern and a length."""
    doing = world.make(WIDGET, "a", spec={"size": 1, "code": "A1"})
    assert causes(await refused(InvalidError, doing)) == [("spec.code", "FieldValueInvalid")]

    doing = world.make(WIDGET, "a", spec={"size": 1, "code": "abcde"})
    assert causes(await refused(InvalidError, doing)) == [("spec.code", "FieldValueTooLong")]


@behaviour
async def types(world: World) -> None:
    """A value has the type of its schema; a whole float is an integer."""
    for wrong in (True, "many", [1], {"a": 1}, 1.5):
        doing = world.make(WIDGET, "a", spec={"size": wrong})
        found = causes(await refused(InvalidError, doing))
        assert found == [("spec.size", "FieldValueTypeInvalid")], wrong
    made = await world.make(WIDGET, "b", spec={"size": 2.0})

    assert made["spec"]["size"] == 2


@behaviour
async def sets_have_no_duplicates(world: World) -> None:
    """A list that is a set holds every value once."""
    doing = world.make(WIDGET, "a", spec={"size": 1, "tags": ["x", "x"]})

    assert causes(await refused(InvalidError, doing)) == [("spec.tags[1]", "FieldValueDuplicate")]


@behaviour
async def maps_have_unique_keys(world: World) -> None:
    """A list that is a map holds every key once."""
    parts = [{"name": "x"}, {"name": "x"}]
    doing = world.make(WIDGET, "a", spec={"size": 1, "parts": parts})

    assert causes(await refused(InvalidError, doing)) == [("spec.parts[1]", "FieldValueDuplicate")]


@behaviour
async def int_or_string(world: World) -> None:
    """Some fields take both."""
    for name, port in (("a", 80), ("b", "http")):
        made = await world.make(WIDGET, name, spec={"size": 1, "port": port})
        assert made["spec"]["port"] == port


@behaviour
async def null_is_dropped(world: World) -> None:
    """null is kept where it is allowed, and dropped elsewhere; a default then applies."""
    spec = {"size": 1, "note": None, "code": None, "color": None}
    made = (await world.make(WIDGET, "a", spec=spec))["spec"]

    assert made["note"] is None
    assert "code" not in made
    assert made["color"] == "green"


@behaviour
async def rules_are_enforced(world: World) -> None:
    """A rule across fields refuses with its own message."""
    doing = world.make(WIDGET, "a", spec={"size": 1, "low": 5, "high": 2})
    status = await refused(InvalidError, doing)

    assert causes(status) == [("spec", "FieldValueInvalid")]
    assert status.details is not None
    assert "low must not exceed high" in status.details.causes[0].message


@behaviour
async def rules_are_enforced_on_update(world: World) -> None:
    """On update and patch as well."""
    made = await world.make(WIDGET, "a", spec={"size": 1})
    await refused(InvalidError, world.merge(WIDGET, "a", {"spec": {"low": 10}}))
    made["spec"]["low"] = 10
    await refused(InvalidError, world.cluster.update(WIDGET, made))


@behaviour
async def transition_rules(world: World) -> None:
    """A rule may compare with the old object."""
    await world.make(WIDGET, "a", spec={"size": 1, "color": "red"})
    doing = world.merge(WIDGET, "a", {"spec": {"color": "green"}})
    status = await refused(InvalidError, doing)

    assert status.details is not None
    assert "color is for ever" in status.details.causes[0].message
    await world.merge(WIDGET, "a", {"spec": {"size": 2}})


async def define(world: World, kind: str, schema: Body, **more: object) -> Resource[Body]:
    """A kind of this behaviour's own, served."""
    plural = f"{kind.lower()}s"
    await world.cluster.create(DEFINITIONS, definition(plural, kind, schema, **more))
    resource: Resource[Body] = Resource(GROUP, "v1", kind, plural, dict)

    async def is_served() -> bool:
        try:
            await world.cluster.list(resource)
        except ClusterError:
            return False
        return True

    await eventually(is_served)
    return resource


def kind_name(world: World, prefix: str) -> str:
    return prefix + world.ns.replace("-", "")


@behaviour
async def definition_is_established(world: World) -> None:
    """A definition is accepted, established, and says so."""
    resource = await define(world, kind_name(world, "Thing"), {"type": "object"})
    found = await world.cluster.get(DEFINITIONS, Key("", f"{resource.plural}.{GROUP}"))
    conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}

    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert found["status"]["acceptedNames"]["kind"] == resource.kind
    assert found["status"]["storedVersions"] == ["v1"]


@behaviour
async def definition_takes_its_objects_along(world: World) -> None:
    """With its definition a kind and all its objects go."""
    resource = await define(world, kind_name(world, "Gone"), {"type": "object"})
    await world.make(resource, "a")
    await world.cluster.delete(DEFINITIONS, Key("", f"{resource.plural}.{GROUP}"))

    async def is_gone() -> bool:
        try:
            await world.cluster.list(resource)
        except NotFoundError:
            return True
        return False

    await eventually(is_gone)


@behaviour
async def definition_without_a_schema(world: World) -> None:
    """A version has a schema."""
    body = definition("nothings", kind_name(world, "Nothing"), {})
    del body["spec"]["versions"][0]["schema"]
    await refused(InvalidError, world.cluster.create(DEFINITIONS, body))


@behaviour
async def definition_with_another_name(world: World) -> None:
    """A definition is named after its resource and group."""
    body = definition("these", kind_name(world, "These"), {"type": "object"})
    body["metadata"]["name"] = f"those.{GROUP}"
    status = await refused(InvalidError, world.cluster.create(DEFINITIONS, body))

    assert ("metadata.name", "FieldValueInvalid") in causes(status)


@behaviour
async def schema_must_be_structural(world: World) -> None:
    """Every value in a schema has a type."""
    schema = {"type": "object", "properties": {"spec": {"properties": {"a": {}}}}}
    body = definition("loose", kind_name(world, "Loose"), schema)
    await refused(InvalidError, world.cluster.create(DEFINITIONS, body))


@behaviour
async def rule_must_compile(world: World) -> None:
    """A rule that cannot be read is refused with the definition."""
    rules = [{"rule": "self.none > 1"}]
    spec = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": rules,
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    body = definition("ruled", kind_name(world, "Ruled"), schema)
    await refused(InvalidError, world.cluster.create(DEFINITIONS, body))


@behaviour
async def unchanged_errors_are_tolerated(world: World) -> None:
    """What became invalid by a new schema does not stop other changes."""
    spec: Body = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    resource = await define(world, kind_name(world, "Aging"), schema)
    await world.make(resource, "x", spec={"a": 100, "b": 1})
    name = f"{resource.plural}.{GROUP}"
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maximum"
    tighten = Patch(PatchKind.JSON, [{"op": "add", "path": path, "value": 10}])
    await world.cluster.patch(DEFINITIONS, Key("", name), tighten)

    async def is_tight() -> bool:
        with contextlib.suppress(NotFoundError):
            await world.cluster.delete(resource, world.key("y"))
        try:
            await world.make(resource, "y", spec={"a": 11})
        except InvalidError:
            return True
        return False

    await eventually(is_tight)
    patched = await world.merge(resource, "x", {"spec": {"b": 2}})
    assert patched["spec"] == {"a": 100, "b": 2}
    await refused(InvalidError, world.merge(resource, "x", {"spec": {"a": 101}}))
