"""Unknown fields: dropped, reported or refused, as the client wishes."""

from __future__ import annotations

from swell.runtime.cluster import WriteOptions, merge_patch
from swell.runtime.errors import BadRequestError, InvalidError
from tests.contract.world import CONFIG, WIDGET, World, behaviour, causes, refused

STRICT = WriteOptions(field_validation="Strict")
IGNORE = WriteOptions(field_validation="Ignore")


@behaviour
async def unknown_fields_are_dropped(world: World) -> None:
    """By default what is not known is not kept."""
    made = await world.make(CONFIG, "a", bogus=1)

    assert "bogus" not in made


@behaviour
async def strict_refuses(world: World) -> None:
    """Strict refuses what is not known."""
    body = world.body(CONFIG, "a", bogus=1)
    await refused(BadRequestError, world.cluster.create(CONFIG, body, STRICT))

    assert await world.names(CONFIG) == []


@behaviour
async def strict_refuses_in_custom_kinds(world: World) -> None:
    """A schema makes a field known."""
    body = world.body(WIDGET, "a", spec={"size": 1, "bogus": 1})
    await refused(BadRequestError, world.cluster.create(WIDGET, body, STRICT))


@behaviour
async def strict_accepts_the_known(world: World) -> None:
    """A good object passes."""
    made = await world.cluster.create(CONFIG, world.body(CONFIG, "a", data={"k": "v"}), STRICT)

    assert made["data"] == {"k": "v"}


@behaviour
async def strict_on_update(world: World) -> None:
    """The same for a PUT."""
    made = await world.make(CONFIG, "a")
    await refused(BadRequestError, world.cluster.update(CONFIG, {**made, "bogus": 1}, STRICT))


@behaviour
async def strict_on_patch(world: World) -> None:
    """A patch that adds an unknown field is invalid."""
    await world.make(WIDGET, "a", spec={"size": 1})
    patch = merge_patch({"spec": {"bogus": 1}})
    status = await refused(InvalidError, world.cluster.patch(WIDGET, world.key("a"), patch, STRICT))

    assert causes(status) == [("patch", "FieldValueInvalid")]


@behaviour
async def ignore_drops_silently(world: World) -> None:
    """Ignore drops as well."""
    body = world.body(WIDGET, "a", spec={"size": 1, "bogus": 1})
    made = await world.cluster.create(WIDGET, body, IGNORE)

    assert "bogus" not in made["spec"]


@behaviour
async def unknown_level(world: World) -> None:
    """There are three levels."""
    options = WriteOptions(field_validation="Perhaps")
    doing = world.cluster.create(CONFIG, world.body(CONFIG, "a"), options)
    status = await refused(InvalidError, doing)

    assert causes(status) == [("fieldValidation", "FieldValueNotSupported")]


@behaviour
async def preserved_fields_are_known(world: World) -> None:
    """Where a schema preserves unknown fields nothing is unknown."""
    body = world.body(WIDGET, "a", spec={"size": 1, "free": {"anything": {"goes": [1]}}})
    made = await world.cluster.create(WIDGET, body, STRICT)

    assert made["spec"]["free"] == {"anything": {"goes": [1]}}
