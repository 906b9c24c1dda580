"""Owners of fields: sets of paths, merging, comparing, and the managers of an object."""

from __future__ import annotations

from typing import Any

import pytest

from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.commits import Stored
from swell.cluster.embedded.ownership.fieldsets import from_fields, path_text, to_fields
from swell.cluster.embedded.ownership.managers import (
    APPLY,
    ApplyConflictError,
    ManagerKey,
    applied,
    read_managers,
    updated,
    write_managers,
)
from swell.cluster.embedded.ownership.structure import Structure, StructureError
from swell.cluster.embedded.ownership.walks import compared, fields_of, merged

POD = Structure({"$ref": "io.k8s.api.core.v1.Pod"}, definitions.schemas())
A, B = ManagerKey(APPLY, "a", "v1"), ManagerKey(APPLY, "b", "v1")
KEY = 'k:{"name":"x"}'


def _pod(*names: str, **more: Any) -> dict[str, Any]:
    containers = [{"name": name, "image": "i"} for name in names]
    return {"metadata": {"name": "p", **more}, "spec": {"containers": containers}}


def test_fields_are_written_and_read_again() -> None:
    """A member with further members is marked by a dot."""
    paths = frozenset({("f:a",), ("f:b", "f:c"), ("f:b", KEY), ("f:b", KEY, "f:name")})
    assert to_fields(paths) == {
        "f:a": {},
        "f:b": {"f:c": {}, KEY: {".": {}, "f:name": {}}},
    }
    assert from_fields(to_fields(paths)) == paths


@pytest.mark.parametrize("wrong", [{"a": {}}, {"f:a": 1}, {"f:a": {"q:b": {}}}])
def test_what_is_no_set_of_fields_is_refused(wrong: dict[str, Any]) -> None:
    """Unknown steps, and values that are no objects."""
    with pytest.raises(ValueError, match="no "):
        from_fields(wrong)


def test_paths_read_as_people_write_them() -> None:
    """Fields with dots, items by their keys, values of sets."""
    assert path_text(("f:spec", "f:containers", KEY, "f:image")) == (
        '.spec.containers[name="x"].image'
    )
    assert path_text(("f:metadata", "f:finalizers", 'v:"x/y"')) == '.metadata.finalizers[="x/y"]'


def test_fields_of_a_body() -> None:
    """Values, items of keyed lists with their keys, entries of maps, atoms as a whole."""
    body = _pod("x", labels={"a": "1"}, finalizers=["f/f"])
    body["spec"]["containers"][0]["args"] = ["one", "two"]
    assert fields_of(body, POD) == {
        ("f:metadata", "f:name"),
        ("f:metadata", "f:labels", "f:a"),
        ("f:metadata", "f:finalizers", 'v:"f/f"'),
        ("f:spec", "f:containers", KEY),
        ("f:spec", "f:containers", KEY, "f:name"),
        ("f:spec", "f:containers", KEY, "f:image"),
        ("f:spec", "f:containers", KEY, "f:args"),
    }


def test_merged_lists_keep_the_order_of_what_is_applied() -> None:
    """Items that only the live object has stay where they were."""
    names = [one["name"] for one in merged(_pod(*"abc"), _pod(*"cda"), POD)["spec"]["containers"]]
    assert names == ["c", "b", "d", "a"]


def test_two_items_of_one_key_are_refused() -> None:
    """Nobody could say which of the two is meant."""
    with pytest.raises(StructureError, match="duplicate entries for key"):
        fields_of(_pod("x", "x"), POD)


def test_compared_has_new_parts_with_all_that_is_in_them() -> None:
    """Added maps count themselves; a removed item with all its fields."""
    changes = compared(_pod("x"), _pod("y", labels={"a": "1"}), POD)
    assert ("f:metadata", "f:labels") in changes.written
    assert ("f:metadata", "f:labels", "f:a") in changes.written
    assert changes.removed == {
        ("f:spec", "f:containers", KEY, *rest) for rest in ((), ("f:name",), ("f:image",))
    }


def test_applied_item_goes_with_fields_that_nobody_owns() -> None:
    """Fields that the server filled in go with the item; another manager's keep it."""
    first = applied(None, _pod("x", "y"), A, POD, 0.0, force=False)
    live = _stored(first)
    live["spec"]["containers"][1]["imagePullPolicy"] = "Always"
    gone = applied(live, _pod("x"), A, POD, 1.0, force=False)
    assert [one["name"] for one in gone.body["spec"]["containers"]] == ["x"]
    policy = {"name": "y", "imagePullPolicy": "Always"}
    shared = _stored(applied(live, {"spec": {"containers": [policy]}}, B, POD, 1.0, force=False))
    left = applied(shared, _pod("x"), A, POD, 2.0, force=False)
    assert left.body["spec"]["containers"][1] == policy


def test_last_label_takes_the_map_with_it() -> None:
    """An object that loses its last field is not left behind empty."""
    live = _stored(applied(None, _pod("x", labels={"a": "1"}), A, POD, 0.0, force=False))
    assert "labels" not in applied(live, _pod("x"), A, POD, 1.0, force=False).body["metadata"]


def test_object_without_managers_was_written_before_the_first_apply() -> None:
    """Its fields belong to one manager of that name, which conflicts like any other."""
    with pytest.raises(ApplyConflictError) as caught:
        applied(_pod("x", labels={"a": "1"}), _pod(labels={"a": "2"}), A, POD, 0.0, force=False)
    assert [(str(who), path_text(path)) for who, path in caught.value.conflicts] == [
        ('"before-first-apply" using v1', ".metadata.labels.a")
    ]


def test_time_of_a_manager_is_that_of_its_last_change() -> None:
    """An apply of the same fields, and a write that changes none of them, leave it."""
    live = _stored(applied(None, _pod("x"), A, POD, 0.0, force=False))
    again = applied(live, _pod("x"), A, POD, 50.0, force=False)
    assert write_managers(again.managers) == live["metadata"]["managedFields"]
    labelled = {**live, "metadata": {**live["metadata"], "labels": {"a": "1"}}}
    writer = ManagerKey("Update", "m", "v1")
    found = write_managers(updated(live, labelled, writer, POD, 60.0))
    assert [(one["manager"], one["time"]) for one in found] == [
        ("a", "1970-01-01T00:00:00Z"),
        ("m", "1970-01-01T00:01:00Z"),
    ]
    assert read_managers(found).keys() == {A, writer}


def test_owners_are_kept_as_bytes_alone() -> None:
    """The log keeps thousands of states: decoded, a thousand owners in each would fill memory."""
    body = _stored(applied(None, _pod("x"), A, POD, 0.0, force=False))
    kept = Stored.of(body, 7)

    assert "managedFields" not in kept.metadata
    assert kept.copy()["metadata"]["managedFields"] == body["metadata"]["managedFields"]
    assert kept.metadata["resourceVersion"] == "7"


def _stored(found: Any) -> dict[str, Any]:
    entries = write_managers(found.managers)
    return {**found.body, "metadata": {**found.body["metadata"], "managedFields": entries}}
