"""Strategic merge patches: lists merged by key, directives, and the order of elements."""

from __future__ import annotations

from typing import Any

import pytest

from swell.cluster.embedded.builtin.definitions import merge_schema
from swell.cluster.embedded.patching.strategic import StrategicMergeError, strategic_merge

POD_SPEC = merge_schema("io.k8s.api.core.v1.PodSpec")
METADATA = merge_schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
SPEC = {
    "containers": [{"name": "one", "image": "a", "command": ["x", "y"]}, {"name": "two"}],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "nodeSelector": {"a": "1", "b": "2"},
    "tolerations": [{"key": "t"}],
}


def _names(spec: dict[str, Any]) -> list[str]:
    return [container["name"] for container in spec["containers"]]


def test_list_with_a_key_is_merged() -> None:
    """The element with the same key is merged, the others stay."""
    merged = strategic_merge(SPEC, {"containers": [{"name": "one", "image": "b"}]}, POD_SPEC)

    assert merged["containers"] == [
        {"name": "one", "image": "b", "command": ["x", "y"]},
        {"name": "two"},
    ]


def test_list_without_a_key_is_replaced() -> None:
    """Lists of a schema without a strategy are values."""
    patch = {"containers": [{"name": "one", "command": ["z"]}], "tolerations": [{"key": "u"}]}
    merged = strategic_merge(SPEC, patch, POD_SPEC)

    assert merged["containers"][0]["command"] == ["z"]
    assert merged["tolerations"] == [{"key": "u"}]


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ({"containers": [{"name": "new"}]}, ["new", "one", "two"]),
        ({"containers": [{"name": "two", "$patch": "delete"}]}, ["one"]),
        ({"containers": [{"name": "none", "$patch": "delete"}]}, ["one", "two"]),
        ({"containers": [{"name": "new"}, {"$patch": "replace"}]}, ["new"]),
        ({"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}, ["two", "one"]),
        (
            {
                "$setElementOrder/containers": [{"name": "two"}, {"name": "new"}, {"name": "one"}],
                "containers": [{"name": "new"}],
            },
            ["two", "new", "one"],
        ),
    ],
)
def test_elements_and_their_order(patch: dict[str, Any], names: list[str]) -> None:
    """New elements come first, deleted ones go, and an order can be given."""
    assert _names(strategic_merge(SPEC, patch, POD_SPEC)) == names


def test_map_is_merged_and_null_removes() -> None:
    """Maps are merged like any object."""
    merged = strategic_merge(SPEC, {"nodeSelector": {"a": None, "c": "3"}}, POD_SPEC)

    assert merged["nodeSelector"] == {"b": "2", "c": "3"}


def test_retain_keys_drops_the_others() -> None:
    """A union changes its member without naming the old one."""
    patch = {"volumes": [{"name": "v", "hostPath": {}, "$retainKeys": ["name", "hostPath"]}]}
    merged = strategic_merge(SPEC, patch, POD_SPEC)

    assert merged["volumes"] == [{"name": "v", "hostPath": {}}]


def test_primitive_list_is_a_set() -> None:
    """Values are added once and deleted by a directive."""
    held = {"finalizers": ["a.b/1", "a.b/2"]}

    added = strategic_merge(held, {"finalizers": ["a.b/1", "a.b/3"]}, METADATA)
    left = strategic_merge(held, {"$deleteFromPrimitiveList/finalizers": ["a.b/1"]}, METADATA)

    assert sorted(added["finalizers"]) == ["a.b/1", "a.b/2", "a.b/3"]
    assert left["finalizers"] == ["a.b/2"]


def test_replace_directive_replaces_an_object() -> None:
    """Everything that was there goes."""
    merged = strategic_merge(SPEC, {"$patch": "replace", "containers": []}, POD_SPEC)

    assert merged == {"containers": []}


@pytest.mark.parametrize(
    "patch",
    [
        {"$patch": "odd"},
        {"containers": [{"image": "x"}]},
        {"containers": [1]},
        {"volumes": [{"name": "v", "$retainKeys": 1}]},
        {"$deleteFromPrimitiveList/x": 1},
    ],
)
def test_patch_that_makes_no_sense_is_refused(patch: dict[str, Any]) -> None:
    """Unknown directives and elements without their key are errors."""
    with pytest.raises(StrategicMergeError):
        strategic_merge(SPEC, patch, POD_SPEC)
