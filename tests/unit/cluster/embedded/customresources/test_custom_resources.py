"""Definitions serve kinds from the moment they are stored, and take their objects with them."""

from __future__ import annotations

import asyncio
import gc

import pytest

from swell.api.meta import Body, Key
from swell.cluster.embedded.customresources.kinds import kinds_of
from swell.cluster.embedded.customresources.registrar import Registrar
from swell.cluster.embedded.slices import AT_ONCE
from swell.cluster.embedded.verbs.requests import DeleteOptions, RequestContext
from swell.runtime.cluster import Patch, PatchKind
from swell.runtime.errors import BadRequestError, InvalidError
from tests.unit.cluster.embedded.server import NAMESPACE, Server, a_definition, causes

GROUP = "apiextensions.k8s.io"
CRDS = "customresourcedefinitions"
SIZES: Body = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "kept": {"type": "integer"}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


@pytest.fixture
def server() -> Server:
    return Server()


def define(server: Server, version: Body | None = None) -> Body:
    return server.create(CRDS, a_definition(SIZES, version=version), GROUP)


def a_thing(name: str = "t", **spec: object) -> Body:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


def redefine(server: Server, schema: Body) -> None:
    definition = server.api.get(server.kind(CRDS, GROUP), Key("", "things.example.com")).copy()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    server.update(CRDS, definition, GROUP)


def test_definition_is_established_and_served(server: Server) -> None:
    """Names are filled in and accepted, and objects can be created at once."""
    definition = define(server)

    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert definition["spec"]["names"] | {"listKind": "ThingList"} == definition["spec"]["names"]
    assert definition["status"]["storedVersions"] == ["v1"]
    assert server.create("things", a_thing(size=1), "example.com")["spec"] == {"size": 1}


def test_definition_of_a_taken_kind_is_not_served(server: Server) -> None:
    """The second definition of a kind is stored, but its names are not accepted."""
    define(server)
    other = a_definition(SIZES, "otherthings")
    other["spec"]["names"]["kind"] = "Thing"
    stored = server.create(CRDS, other, GROUP)

    conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "False", "Established": "False"}
    assert server.api.registry.find("example.com", "v1", "otherthings") is None


def test_new_schema_counts_for_the_next_write(server: Server) -> None:
    """A write after the definition's update is checked by the new schema."""
    define(server)
    sizes = {"size": {"type": "integer", "maximum": 3}}
    spec = {"type": "object", "properties": sizes}
    redefine(server, {"type": "object", "properties": {"spec": spec}})

    with pytest.raises(InvalidError) as caught:
        server.create("things", a_thing(size=4), "example.com")

    assert causes(caught.value) == [["spec.size", "FieldValueInvalid"]]


def test_unchanged_field_that_became_invalid_is_tolerated(server: Server) -> None:
    """A new schema does not make an old object unwritable, but no new wrong value gets in."""
    define(server)
    server.create("things", a_thing(size=9, kept=1), "example.com")
    narrow = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "maximum": 3},
                    "kept": {
                        "type": "integer",
                        "x-kubernetes-validations": [{"rule": "self < 0"}],
                    },
                },
            }
        },
    }
    redefine(server, narrow)

    call = RequestContext("tester")
    labels = Patch(PatchKind.MERGE, {"metadata": {"labels": {"a": "b"}}})
    thing = Key(NAMESPACE, "t")
    patched = server.api.patch(server.kind("things", "example.com"), thing, labels, call).body
    assert patched["spec"] == {"size": 9, "kept": 1}
    assert call.warnings == ["spec.kept: Invalid value: 1: failed rule: self < 0"]
    for wrong in ({"size": 8}, {"kept": 2}):
        with pytest.raises(InvalidError):
            server.patch("things", "t", {"spec": wrong}, group="example.com")
    assert server.patch("things", "t", {"spec": {"size": 2}}, group="example.com")


def test_new_schema_shows_in_old_objects(server: Server) -> None:
    """Defaults come and unknown fields go, without a new version of the object."""
    define(server)
    before = server.create("things", a_thing(size=1, kept=2), "example.com")
    fields = {"size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}
    spec = {"type": "object", "properties": fields}
    redefine(server, {"type": "object", "properties": {"spec": spec}})

    after = server.get("things", "t", "example.com")
    assert after["spec"] == {"size": 1, "color": "red"}
    assert after["metadata"] == before["metadata"]


def test_status_subresource_isolates_status(server: Server) -> None:
    """With the subresource a write of the object leaves status alone, and the other way round."""
    define(server, {"subresources": {"status": {}}})
    server.create("things", {**a_thing(size=1), "status": {"phase": "X"}}, "example.com")
    assert "status" not in server.get("things", "t", "example.com")

    patch = {"spec": {"size": 2}, "metadata": {"labels": {"a": "b"}}, "status": {"phase": "Y"}}
    server.patch("things", "t", patch, group="example.com", subresource="status")

    stored = server.get("things", "t", "example.com")
    assert (stored["spec"], stored["status"]) == ({"size": 1}, {"phase": "Y"})
    assert "labels" not in stored["metadata"]
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("level", "warnings"), [("Warn", ['unknown field "spec.odd"']), ("Ignore", [])]
)
def test_unknown_field_is_dropped(server: Server, level: str, warnings: list[str]) -> None:
    """With Warn an unknown field is a warning, with Ignore it is nothing."""
    define(server)
    call = RequestContext("tester", field_validation=level)
    stored = server.create("things", a_thing(size=1, odd=2), "example.com", call)

    assert stored["spec"] == {"size": 1}
    assert call.warnings == warnings


def test_unknown_field_is_refused_when_strict(server: Server) -> None:
    """Strict wants every field to be known."""
    define(server)
    call = RequestContext("tester", field_validation="Strict")

    with pytest.raises(BadRequestError, match=r"spec\.odd"):
        server.create("things", a_thing(size=1, odd=2), "example.com", call)


def test_versions_show_one_object(server: Server) -> None:
    """Versions without conversion differ in apiVersion and in what their schemas keep."""
    definition = a_definition(SIZES)
    second = {**definition["spec"]["versions"][0], "name": "v2", "storage": False}
    second["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {}}}
    definition["spec"]["versions"].append(second)
    server.create(CRDS, definition, GROUP)
    server.create("things", a_thing(size=1), "example.com")

    kind = server.api.registry.find("example.com", "v2", "things")
    assert kind is not None
    seen = server.api.get(kind, Key(NAMESPACE, "t")).body
    assert seen["apiVersion"] == "example.com/v2"
    assert "spec" not in seen
    assert server.get("things", "t", "example.com")["spec"] == {"size": 1}


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({}, ""),
        (
            {"deprecated": True},
            "example.com/v1alpha1 Thing is deprecated; use example.com/v2 Thing",
        ),
        ({"deprecated": True, "deprecationWarning": "use v2"}, "use v2"),
    ],
)
def test_deprecated_version_says_so(server: Server, old: Body, said: str) -> None:
    """Every answer about it carries the warning, its own or the one Kubernetes makes."""
    definition = a_definition(SIZES)
    (first,) = definition["spec"]["versions"]
    for name, more in (("v2", {}), ("v1alpha1", old), ("v3alpha1", {"served": False})):
        version = {**first, "name": name, "storage": False, **more}
        definition["spec"]["versions"].append(version)
    server.create(CRDS, definition, GROUP)

    kinds = {v: server.api.registry.find("example.com", v, "things") for v in ("v1alpha1", "v1")}
    assert [kind.deprecation for kind in kinds.values() if kind is not None] == [said, ""]


def test_deprecated_version_without_a_successor_names_none(server: Server) -> None:
    """Versions that are older still are no way out."""
    definition = a_definition(SIZES, version={"deprecated": True})
    (first,) = definition["spec"]["versions"]
    beta = {**first, "name": "v1beta1", "storage": False, "deprecated": False}
    definition["spec"]["versions"].append(beta)
    server.create(CRDS, definition, GROUP)
    kind = server.api.registry.find("example.com", "v1", "things")

    assert kind is not None
    assert kind.deprecation == "example.com/v1 Thing is deprecated"


def test_deleted_definition_takes_its_objects_along(server: Server) -> None:
    """Objects go first; one that is held by a finalizer holds the definition too."""
    registrar = Registrar(server.api)
    define(server)
    held = a_thing("held", size=1)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    server.create("things", held, "example.com")
    server.create("things", a_thing(size=1), "example.com")
    key = Key("", "things.example.com")
    server.api.delete(server.kind(CRDS, GROUP), key, DeleteOptions(), RequestContext("tester"))
    registrar.drain()

    stored = server.api.storage
    assert [k.name for k, _ in stored.list("things.example.com").items] == ["held"]
    server.patch("things", "held", {"metadata": {"finalizers": None}}, group="example.com")
    registrar.drain()

    assert stored.get("customresourcedefinitions.apiextensions.k8s.io", key) is None
    assert server.api.registry.find("example.com", "v1", "things") is None


def test_definitions_are_served_again_after_a_restart(server: Server) -> None:
    """A registrar on a store with definitions serves them without any commit."""
    define(server)
    server.api.registry.remove("example.com", "things")
    Registrar(server.api)

    assert server.api.registry.find("example.com", "v1", "things") is not None


def test_thousands_of_objects_get_a_new_shape_in_slices(server: Server) -> None:
    """The first objects have it at once, all have it after a while."""
    define(server)
    for n in range(2 * AT_ONCE):
        server.create("things", a_thing(f"t{n}", size=1, kept=2), "example.com")
    schema = {"type": "object", "properties": {"kept": {"type": "integer"}}}
    version = a_definition({"type": "object", "properties": {"spec": schema}})["spec"]["versions"]
    server.patch(CRDS, "things.example.com", {"spec": {"versions": version}}, group=GROUP)

    def pruned() -> int:
        things = server.api.storage.list("things.example.com").items
        return sum(stored.body["spec"] == {"kept": 2} for _, stored in things)

    async def work_on() -> None:
        tasks = [asyncio.create_task(run()) for run in server.api.background]
        for _ in range(10):  # each slice takes one turn of the loop
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    assert pruned() == AT_ONCE
    asyncio.run(work_on())
    assert pruned() == 2 * AT_ONCE


def test_rules_of_a_large_schema_escape_collections_and_are_freed() -> None:
    """No collection looks through them, and they go when their definition does."""
    fields = {f"f{n}": {"type": "integer", "minimum": n} for n in range(4_000)}
    definition = a_definition({"type": "object", "properties": fields})
    kinds_of(definition)  # others in this process may have frozen more before
    before = gc.get_freeze_count()

    kinds = kinds_of(definition)
    held = gc.get_freeze_count()
    del kinds

    assert held > before + 10 * len(fields)
    assert gc.get_freeze_count() < held - 10 * len(fields)
