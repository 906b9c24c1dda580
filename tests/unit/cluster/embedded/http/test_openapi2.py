"""The OpenAPI document of version 2, and its form in protobuf."""

from __future__ import annotations

from typing import Any

from swell.cluster.embedded.builtin.kinds import builtin_registry
from swell.cluster.embedded.http import openapi2
from tests.protobuf_bodies import chunk


def document() -> dict[str, Any]:
    return openapi2.document(builtin_registry(), lambda _kind: None)


def test_every_reference_is_defined() -> None:
    """kubectl reads nothing of a document with a reference that leads nowhere."""
    definitions = document()["definitions"]
    pending: list[Any] = list(definitions.values())
    n_references = 0
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            if isinstance(here.get("$ref"), str):
                n_references += 1
                assert here["$ref"].removeprefix("#/definitions/") in definitions
            pending.extend(here.values())

    assert n_references > 300


def test_every_kind_takes_field_validation() -> None:
    """From the parameters of its patch kubectl learns that the server checks fields."""
    patched = [item["patch"] for item in document()["paths"].values()]

    assert len(patched) == len(list(builtin_registry()))
    for one in patched:
        assert "fieldValidation" in {parameter["name"] for parameter in one["parameters"]}


def test_texts_that_may_be_numbers_are_texts() -> None:
    """Version 2 has no alternatives; kubectl takes a number where a text is wanted."""
    definitions = document()["definitions"]

    assert definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"


def test_custom_schemas() -> None:
    """What version 2 cannot say is left out, down to the type where any value goes."""
    schema = {
        "type": "object",
        "properties": {
            "any": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "list": {"type": "array", "items": {"type": "string", "nullable": True}},
        },
    }

    assert openapi2._second_version(schema)["properties"] == {
        "any": {"x-kubernetes-int-or-string": True},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
        "list": {"type": "array", "items": {"type": "string"}},
    }


def test_protobuf_of_a_small_document() -> None:
    """The bytes of one definition and one path, written out."""
    small = {
        "swagger": "2.0",
        "info": {"title": "t", "version": "v"},
        "paths": {"/p": {"patch": {"parameters": [{"name": "dryRun"}]}}},
        "definitions": {"D": {"type": "object", "required": ["r"]}},
    }
    query = chunk(3, chunk(2, b"query") + chunk(4, b"dryRun"))
    patch = chunk(8, chunk(8, chunk(1, chunk(2, query))))
    path = chunk(8, chunk(2, chunk(1, b"/p") + chunk(2, patch)))
    schema = chunk(19, b"r") + chunk(22, chunk(1, b"object"))
    definitions = chunk(9, chunk(1, chunk(1, b"D") + chunk(2, schema)))
    head = chunk(1, b"2.0") + chunk(2, chunk(1, b"t") + chunk(2, b"v"))

    assert openapi2.protobuf(small) == head + path + definitions
