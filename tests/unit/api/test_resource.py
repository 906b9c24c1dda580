"""Resources: names, paths and subresources."""

from __future__ import annotations

from swell.api.core import Node
from swell.api.kinds import NODES, POD_GROUPS, PODS
from swell.api.meta import Key, ObjectMeta, OwnerReference, Uid


def test_paths_are_those_of_the_api() -> None:
    """Core and other groups, namespaces, names and subresources each have their place."""
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("a", "b") == "/api/v1/namespaces/a/pods/b"
    assert PODS.status.path("a", "b") == "/api/v1/namespaces/a/pods/b/status"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"
    assert POD_GROUPS.path("a") == "/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups"
    assert PODS.sub("binding", Node).path("a", "b").endswith("/pods/b/binding")


def test_resources_know_their_version_and_name() -> None:
    """As in manifests, and as people write them."""
    assert (PODS.api_version, POD_GROUPS.api_version) == ("v1", "scheduling.volcano.sh/v1beta1")
    assert (str(PODS), str(POD_GROUPS)) == ("pods", "podgroups.scheduling.volcano.sh")
    assert PODS.untyped().struct is dict


def test_metadata_knows_its_key_and_controller() -> None:
    """An object is found by its key, and managed by at most one owner."""
    owners = (OwnerReference(uid=Uid("1")), OwnerReference(uid=Uid("2"), controller=True))
    metadata = ObjectMeta(name="b", namespace="a", owner_references=owners)

    assert metadata.key == Key("a", "b")
    assert (str(metadata.key), str(Key("", "n"))) == ("a/b", "n")
    assert metadata.controller == owners[1]
    assert ObjectMeta().controller is None
