"""Create, update and patch: identity, versions, generation, and what each path may change."""

from __future__ import annotations

from functools import partial

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.storage import Commit
from swell.cluster.embedded.verbs.requests import Written
from swell.runtime.errors import BadRequestError, NotFoundError
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world, causes, refusal


def a_config(world: World, name: str = "a", **metadata: object) -> Body:
    return world.create("configmaps", metadata={"name": name, **metadata}, data={"k": "1"}).copy()


def test_create_fills_what_is_the_servers() -> None:
    """UID, version, time and generation come from the server, whatever the client sent."""
    world = a_world()

    metadata = world.create(
        "replicasets",
        metadata={"name": "a", "uid": "mine", "generation": 41, "selfLink": "/x"},
    ).metadata

    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["namespace"] == NAMESPACE
    assert metadata["creationTimestamp"] == "2025-06-15T15:06:40Z"
    assert "selfLink" not in metadata


def test_versions_grow_over_all_kinds() -> None:
    """There is one version counter, whatever is written."""
    world = a_world()

    versions = [
        world.create("configmaps", "a").version,
        world.create("secrets", "a").version,
        world.create("leases", "a").version,
        world.patch("secrets", "a", {"data": {"k": "dg=="}}).version,
    ]

    assert versions == list(range(versions[0], versions[0] + 4))


def test_create_twice_is_already_exists() -> None:
    """A name is taken once."""
    world = a_world()
    world.create("configmaps", "a")

    assert refusal(lambda: world.create("configmaps", "a")) == (
        409,
        "AlreadyExists",
        "configmaps",
        "a",
    )


def test_generate_name_makes_five_characters() -> None:
    """A generated name is the prefix and five characters, another one each time."""
    world = a_world()

    made = {
        world.create("configmaps", metadata={"generateName": "g-"}).metadata["name"] for _ in "ab"
    }

    assert len(made) == 2
    assert all(name.startswith("g-") and len(name) == 7 for name in made)


def test_generate_name_cuts_a_long_prefix() -> None:
    """The prefix is cut so that the whole fits a label."""
    world = a_world()

    name = world.create("configmaps", metadata={"generateName": "p" * 80}).metadata["name"]

    assert len(name) == 63


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({}, "metadata.name"),
        ({"name": "-a"}, "metadata.name"),
        ({"name": "a..b"}, "metadata.name"),
        ({"name": "A"}, "metadata.name"),
        ({"name": "a" * 254}, "metadata.name"),
        ({"generateName": "gen."}, "metadata.generateName"),
        ({"name": "a", "labels": {"a b": "1"}}, "metadata.labels"),
        ({"name": "a", "labels": {"a/b/c": "1"}}, "metadata.labels"),
        ({"name": "a", "labels": {"a": "v" * 64}}, "metadata.labels"),
        ({"name": "a", "annotations": {"a": "x" * (256 * 1024)}}, "metadata.annotations"),
        ({"name": "a", "finalizers": ["a b/c"]}, "metadata.finalizers"),
        ({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers"),
        ({"name": "a", "ownerReferences": [{"kind": "Pod"}]}, "metadata.ownerReferences.uid"),
    ],
)
def test_create_refuses_bad_metadata(metadata: Body, field: str) -> None:
    """Every rule of metadata names the field that breaks it."""
    world = a_world()

    found = causes(lambda: world.create("configmaps", metadata=metadata))

    assert field in [name for name, _ in found]


def test_create_refuses_two_controllers() -> None:
    """An object has at most one controller among its owners."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "x", "controller": True}

    found = causes(
        lambda: a_world().create("secrets", metadata={"name": "a", "ownerReferences": [owner] * 2})
    )

    assert found == [("metadata.ownerReferences", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("plural", "name", "fits"),
    [
        ("services", "7a", True),
        ("services", "a.b", False),
        ("services", "a" * 64, False),
        ("configmaps", "a.b", True),
        ("poddisruptionbudgets", "A_b-", True),
        ("events", "A_b-", True),
        ("events", "a%b", False),
        ("events", "..", False),
    ],
)
def test_name_rule_of_a_kind(plural: str, name: str, fits: bool) -> None:
    """Services are labels, most kinds subdomains, budgets and events anything a path can hold."""
    world = a_world()

    if fits:
        assert world.create(plural, name).metadata["name"] == name
    else:
        assert causes(lambda: world.create(plural, name)) == [
            ("metadata.name", "FieldValueInvalid")
        ]


def test_finalizer_needs_a_domain_on_most_built_in_kinds() -> None:
    """Well-known ones do not, and leases, budgets, events and custom kinds take any."""
    world = a_world()
    plain = {"name": "a", "finalizers": ["orphan", "plain"]}

    assert causes(lambda: world.create("secrets", metadata=dict(plain))) == [
        ("metadata.finalizers[1]", "FieldValueInvalid")
    ]
    for plural in ("leases", "poddisruptionbudgets", "events", "widgets"):
        world.create(plural, metadata=dict(plain))


def test_create_in_a_missing_namespace_is_not_found() -> None:
    """It is the namespace that is not found."""
    world = a_world()
    kind = world.kind("configmaps")
    body: Body = {"metadata": {"name": "a"}}

    assert refusal(lambda: world.api.create(kind, "nowhere", body, world.call())) == (
        404,
        "NotFound",
        "namespaces",
        "nowhere",
    )


def test_create_in_a_terminating_namespace_is_forbidden() -> None:
    """Nothing new begins in a namespace that ends, and the cause says so."""
    world = a_world()
    world.create("namespaces", "x", spec={"finalizers": ["kubernetes"]})
    world.delete("namespaces", "x")
    kind = world.kind("configmaps")
    body: Body = {"metadata": {"name": "a"}}

    found = causes(lambda: world.api.create(kind, "x", body, world.call()))

    assert found == [("metadata.namespace", "NamespaceTerminating")]


def test_create_with_a_version_or_another_namespace_is_a_bad_request() -> None:
    """What contradicts the address, or existence, is refused before it is looked at."""
    world = a_world()

    for field in ({"namespace": "other"}, {"resourceVersion": "5"}):
        with pytest.raises(BadRequestError):
            world.create("configmaps", metadata={"name": "a", **field})
    world.create("configmaps", metadata={"name": "a", "resourceVersion": "0"})
    node = world.create("nodes", metadata={"name": "n", "namespace": "anywhere"})
    assert "namespace" not in node.metadata


def test_create_by_update_ignores_a_version_and_refuses_a_uid() -> None:
    """A UID says that there was an object; there is none."""
    world = a_world()
    known: Body = {"metadata": {"name": "a", "uid": "u"}, "spec": {}}
    versioned: Body = {"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {}}

    assert refusal(lambda: world.update("leases", known)) == (409, "Conflict", "leases", "a")
    assert world.update("leases", versioned).created


def test_patch_cannot_turn_an_object_into_another() -> None:
    """Another name is a bad request; another kind is the patch's fault."""
    world = a_world()
    a_config(world)
    renames: list[Body] = [{"metadata": {"name": "b"}}, {"metadata": {"name": None}}]

    for rename in [*renames, {"metadata": None}, {"metadata": {"namespace": "other"}}]:
        with pytest.raises(BadRequestError):
            world.patch("configmaps", "a", rename)
    for change in ({"kind": "Secret"}, {"apiVersion": "v2"}):
        found = causes(partial(world.patch, "configmaps", "a", change))

        assert found == [("patch", "FieldValueInvalid")]


def test_update_with_a_stale_version_is_a_conflict() -> None:
    """Who decided on an older state does not write, and nothing changes."""
    world = a_world()
    first, second = a_config(world), world.get("configmaps", "a").copy()
    world.update("configmaps", {**first, "data": {"k": "2"}})

    assert refusal(lambda: world.update("configmaps", {**second, "data": {"k": "3"}})) == (
        409,
        "Conflict",
        "configmaps",
        "a",
    )
    assert world.get("configmaps", "a").body["data"] == {"k": "2"}


def test_update_without_change_keeps_the_version() -> None:
    """A write that changes nothing is none: no version, no event."""
    world = a_world()
    body = a_config(world)
    before = world.storage.version

    world.update("configmaps", body)
    world.patch("configmaps", "a", {"data": {"k": "1"}})

    assert world.storage.version == before


@pytest.mark.parametrize("version", [None, "", "0"])
def test_update_without_a_version(version: str | None) -> None:
    """Most built-in kinds take it; leases, budgets and custom resources do not."""
    world = a_world()

    def unconditional(plural: str) -> Written:
        body = world.create(plural, "a").copy()
        body["metadata"] |= {"labels": {"x": "1"}, "resourceVersion": version}
        return world.update(plural, body)

    assert unconditional("configmaps").stored.labels == {"x": "1"}
    for plural in ("leases", "widgets"):
        wanted = (422, "Invalid", plural, "a")

        assert refusal(partial(unconditional, plural)) == wanted


def test_update_with_another_uid_is_a_conflict_and_by_patch_invalid() -> None:
    """PUT takes the UID as a precondition, PATCH as a change of what cannot change."""
    world = a_world()
    body = a_config(world)
    body["metadata"]["uid"] = "another"

    assert refusal(lambda: world.update("configmaps", body)) == (409, "Conflict", "configmaps", "a")
    assert refusal(lambda: world.patch("configmaps", "a", {"metadata": {"uid": "another"}})) == (
        422,
        "Invalid",
        "ConfigMap",
        "a",
    )


def test_update_of_the_missing_creates_only_where_kinds_allow() -> None:
    """Leases, services and endpoints are created by PUT; others are not found."""
    world = a_world()
    lease: Body = {"metadata": {"name": "a"}, "spec": {}}

    assert world.update("leases", lease).created
    with pytest.raises(NotFoundError):
        world.update("replicasets", {"metadata": {"name": "a"}})


def test_update_needs_the_name_of_the_address() -> None:
    """A body for another object, or for none, is a bad request."""
    world = a_world()
    a_config(world)
    kind, key = world.kind("configmaps"), world.key("configmaps", "a")
    bodies: list[Body] = [{"metadata": {}}, {"metadata": {"name": "b"}}]

    for body in bodies:
        with pytest.raises(BadRequestError):
            world.api.update(kind, key, body, world.call())


def test_update_cannot_change_creation_time_or_generation() -> None:
    """What is the server's is put back, not refused."""
    world = a_world()
    body = world.create("replicasets", "a").copy()
    created = body["metadata"]["creationTimestamp"]
    body["metadata"] |= {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}
    body["metadata"]["labels"] = {"a": "b"}

    metadata = world.update("replicasets", body).stored.metadata

    assert (metadata["creationTimestamp"], metadata["generation"]) == (created, 1)


@pytest.mark.parametrize(
    ("plural", "subresource", "change", "generation"),
    [
        ("pods", "", {"metadata": {"labels": {"a": "b"}}}, 1),
        ("pods", "status", {"status": {"phase": "Running"}}, 1),
        ("jobs", "", {"spec": {"backoffLimit": 1}}, 2),
        ("jobs", "", {"status": {"active": 1}}, 1),
        ("widgets", "", {"spec": {"size": 2}}, 2),
        ("widgets", "status", {"status": {"size": 2}}, 1),
        ("plains", "", {"anything": 1}, 2),
        ("plains", "", {"status": {"ready": True}}, 2),
        ("plains", "", {"metadata": {"labels": {"a": "b"}}}, 1),
        ("secrets", "", {"data": {"k": "dg=="}}, None),
    ],
)
def test_generation_grows_with_desired_state_alone(
    plural: str, subresource: str, change: Body, generation: int | None
) -> None:
    """Metadata and status are not desired state; without a status part everything else is."""
    world = a_world()
    world.create(plural, "a", spec={"x": 1})

    metadata = world.patch(plural, "a", change, subresource=subresource).metadata

    assert metadata.get("generation") == generation


def test_status_and_the_rest_do_not_touch_each_other() -> None:
    """A write to the object leaves the status, a write to the status leaves the spec."""
    world = a_world()
    world.pod("a")
    world.patch("pods", "a", {"status": {"phase": "Running"}}, subresource="status")

    world.patch("pods", "a", {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}})
    world.patch("pods", "a", {"spec": {"priority": 7}}, subresource="status")
    pod = world.get("pods", "a").body

    assert pod["status"] == {"phase": "Running"}
    assert pod["metadata"]["labels"] == {"a": "b"}
    assert "priority" not in pod["spec"]


def test_dry_run_answers_and_keeps_nothing() -> None:
    """A dry run shows what would be, with no version of its own, and no trace."""
    world = a_world()
    before = world.storage.version

    created = world.create("configmaps", "a", dry_run=True)
    world.storage.on_commit.append(lambda commit: pytest.fail(f"committed {commit.key}"))

    assert created.uid
    assert world.storage.version == before
    with pytest.raises(NotFoundError):
        world.get("configmaps", "a")


def test_dry_run_update_shows_the_old_version() -> None:
    """The object as it would be, under the version it has."""
    world = a_world()
    body = a_config(world)

    shown = world.update("configmaps", {**body, "data": {"k": "2"}}, dry_run=True).stored

    assert shown.body["data"] == {"k": "2"}
    assert shown.metadata["resourceVersion"] == body["metadata"]["resourceVersion"]
    assert world.get("configmaps", "a").body["data"] == {"k": "1"}


def test_commit_names_its_actor() -> None:
    """Every commit says who made it, of what, and what was before."""
    world = a_world()
    seen: list[Commit] = []
    world.storage.on_commit.append(seen.append)
    a_config(world)
    world.actor = "someone"
    world.patch("configmaps", "a", {"data": {"k": "2"}})

    assert [(commit.actor, commit.verb) for commit in seen] == [
        ("tester", "create"),
        ("someone", "patch"),
    ]
    assert seen[1].before is seen[0].after
