"""Schemas of definitions are refused where kube-apiserver refused them, and stored as it did."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swell.api.meta import Body
from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.errors import InvalidError
from tests.unit.cluster.embedded.server import Server, a_definition, answers, causes


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@pytest.mark.parametrize("question", answers("schemas")["questions"], ids=lambda q: str(q)[-60:])
def test_schema_as_the_real_server(server: Server, question: dict[str, Any]) -> None:
    """The same mistakes are found in the same places, whatever else is wrong."""
    version: Body = {"subresources": {"status": {}}} if question["hasStatus"] else {}
    body = a_definition(copy.deepcopy(question["schema"]), "probes", version)

    assert _answer(server, body, question["schema"]) == {
        name: question[name] for name in ("status", "causes", "stored") if name in question
    }


def _answer(server: Server, body: Body, schema: Body) -> Body:
    call = RequestContext("tester", dry_run=True)
    try:
        made = server.create("customresourcedefinitions", body, "apiextensions.k8s.io", call)
    except InvalidError as error:
        return {"status": 422, "causes": causes(error)}
    stored = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {"status": 201, **({"stored": stored} if stored != schema else {})}
