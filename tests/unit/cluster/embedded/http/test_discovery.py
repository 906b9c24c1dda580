"""What is said to be served."""

from __future__ import annotations

from swell.cluster.embedded.builtin.kinds import builtin_registry
from swell.cluster.embedded.http import discovery, openapi
from swell.cluster.embedded.registry import version_rank

KINDS = list(builtin_registry())


def test_versions_are_ranked() -> None:
    """Stable over beta over alpha, then the higher number; what is no version comes last."""
    versions = ["v1alpha1", "foo", "v2beta1", "v1", "v10", "v2", "v1beta2"]
    ranked = sorted(versions, key=version_rank, reverse=True)

    assert ranked == ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]


def test_streams_are_listed_and_proxies_are_not() -> None:
    """Subresources we answer for are listed, even where the answer is no."""
    listed = discovery.resource_list(KINDS, "", "v1")
    assert listed is not None
    names = {resource["name"] for resource in listed["resources"]}

    assert {"pods/exec", "pods/log", "pods/eviction"} <= names
    assert "pods/proxy" not in names


def test_unknown_groups_are_none() -> None:
    """What is not served has no document."""
    assert discovery.group(KINDS, "none") is None
    assert discovery.group(KINDS, "") is None
    assert discovery.resource_list(KINDS, "apps", "v9") is None
    assert openapi.document(KINDS, "apis/none/v1", lambda _: None) is None


def test_schemas_refer_to_schemas() -> None:
    """Every reference in a document leads somewhere in it."""
    for path in openapi.index(KINDS, 1)["paths"]:
        document = openapi.document(KINDS, path, lambda _: None)
        assert document is not None
        schemas = document["components"]["schemas"]
        wanted = set(references(document))
        missing = {
            name for name in wanted if name.removeprefix("#/components/schemas/") not in schemas
        }
        assert not missing, path


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [name for inner in value.values() for name in references(inner)]
    if isinstance(value, list):
        return [name for inner in value for name in references(inner)]
    return []
