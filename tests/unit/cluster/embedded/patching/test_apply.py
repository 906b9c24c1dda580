"""Patches as the server takes them: which codes refuse which patch."""

from __future__ import annotations

import pytest

from swell.runtime.cluster import PatchKind
from swell.runtime.errors import ClusterError
from tests.unit.cluster.embedded.server import Server, a_definition, causes


@pytest.fixture
def server() -> Server:
    server = Server()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    server.create("configmaps", body)
    return server


def test_merge_patch_merges_and_removes(server: Server) -> None:
    """RFC 7386."""
    patched = server.patch("configmaps", "a", {"data": {"k": None, "l": "2"}})

    assert patched["data"] == {"l": "2"}


@pytest.mark.parametrize(
    ("kind", "patch", "code"),
    [
        (PatchKind.MERGE, "x", 400),
        (PatchKind.MERGE, {"data": "text"}, 422),
        (PatchKind.MERGE, {"metadata": {"name": "b"}}, 400),
        (PatchKind.JSON, {"op": "add"}, 400),
        (PatchKind.JSON, [1], 400),
        (PatchKind.JSON, [{"op": "test", "path": "/data/k", "value": "2"}], 422),
        (PatchKind.JSON, [{"op": "remove", "path": "/data/x"}], 422),
        (PatchKind.JSON, [{"op": "test", "path": "/data/k", "value": "1"}] * 10_001, 413),
        (PatchKind.STRATEGIC, [], 400),
        (PatchKind.STRATEGIC, {"data": ["x"]}, 422),
    ],
)
def test_bad_patch_is_refused(server: Server, kind: PatchKind, patch: object, code: int) -> None:
    """A patch that cannot be read is a bad request, one that cannot be applied is invalid."""
    with pytest.raises(ClusterError) as caught:
        server.patch("configmaps", "a", patch, kind)

    assert caught.value.status.code == code
    assert server.get("configmaps", "a")["data"] == {"k": "1"}


def test_result_of_the_wrong_shape_names_the_patch(server: Server) -> None:
    """The cause of a patch that gives no readable object is the patch."""
    with pytest.raises(ClusterError) as caught:
        server.patch("configmaps", "a", {"data": {"k": 5}})

    assert causes(caught.value) == [["patch", "FieldValueInvalid"]]


def test_strategic_patch_of_a_custom_resource_is_unsupported(server: Server) -> None:
    """Nothing is known about merging its lists."""
    server.create(
        "customresourcedefinitions", a_definition({"type": "object"}), "apiextensions.k8s.io"
    )
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    server.create("things", body, "example.com")

    with pytest.raises(ClusterError) as caught:
        server.patch("things", "t", {}, PatchKind.STRATEGIC, "example.com")

    assert caught.value.status.code == 415
