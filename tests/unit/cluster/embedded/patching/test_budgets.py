"""Budgets of JSON patches, and the size of stored objects."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api.meta import Key
from swell.cluster.embedded.patching.jsonpatch import JsonPatchError, apply_operations
from swell.cluster.embedded.storage import (
    OBJECT_BYTES_MAX,
    ObjectTooLargeError,
    Storage,
    Stored,
    StoredChange,
)
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.errors import ClusterError
from tests.unit.cluster.embedded.server import NAMESPACE, Server


def _copies(count: int) -> list[dict[str, Any]]:
    return [{"op": "copy", "from": "/a", "path": f"/c{n}"} for n in range(count)]


def test_copies_are_bounded_together() -> None:
    body = {"a": "x" * 500_000}

    assert len(apply_operations(body, _copies(6))) == 7
    with pytest.raises(JsonPatchError, match="accumulated size"):
        apply_operations(body, _copies(100))


def test_doubling_ends() -> None:
    operations = [{"op": "copy", "from": "/a", "path": f"/a/b{n}"} for n in range(100)]

    with pytest.raises(JsonPatchError, match=r"accumulated size|nested"):
        apply_operations({"a": {"x": [1] * 1000}}, operations)


def test_moves_cannot_nest_without_end() -> None:
    operations: list[dict[str, Any]] = []
    for n in range(4_000):
        operations += [
            {"op": "add", "path": f"/n{n + 1}", "value": {}},
            {"op": "move", "from": f"/n{n}", "path": f"/n{n + 1}/x"},
        ]
    with pytest.raises(JsonPatchError, match="nested"):
        apply_operations({"n0": {}}, operations)
    test = {"op": "test", "path": "/n4000", "value": {}}
    with pytest.raises(JsonPatchError):
        apply_operations({"n0": {}}, [*operations, test])


def test_inserts_into_a_long_list_are_bounded() -> None:
    inserts = [{"op": "add", "path": "/a/0", "value": 1}] * 5_000

    with pytest.raises(JsonPatchError, match="shift"):
        apply_operations({"a": [0] * 90_000}, inserts)


def test_object_beyond_the_limit_is_not_stored() -> None:
    server = Server()
    body = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": NAMESPACE},
        "message": "x" * OBJECT_BYTES_MAX,
    }  # fmt: skip
    before = server.api.storage.version
    with pytest.raises(ClusterError) as refused:
        server.api.create(server.kind("events"), NAMESPACE, body, RequestContext("test"))

    assert refused.value.status.code == 413
    assert server.api.storage.version == before


def test_object_of_an_earlier_release_may_shrink() -> None:
    storage = Storage(lambda: 0.0)
    key = Key("n", "o")
    large = Stored.of({"metadata": {}, "a": "x" * 2 * OBJECT_BYTES_MAX}, 1)
    storage.load("things", [(key, large)])
    smaller = {"metadata": {}, "a": "x" * (2 * OBJECT_BYTES_MAX - 9)}
    storage.commit(StoredChange("things", key, large, smaller, "test", "update"))
    current = storage.get("things", key)
    assert current is not None

    larger = {"metadata": {}, "a": "x" * 3 * OBJECT_BYTES_MAX}
    with pytest.raises(ObjectTooLargeError):
        storage.commit(StoredChange("things", key, current, larger, "test", "update"))
