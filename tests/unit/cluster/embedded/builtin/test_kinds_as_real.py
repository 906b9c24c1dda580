"""Objects of built-in kinds are accepted and refused as a real server did, for the same reasons."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swell.cluster.embedded.verbs.requests import RequestContext
from swell.runtime.errors import ClusterError
from tests.unit.cluster.embedded.server import NAMESPACE, Server, answers, causes

# Of a real server's checks on what nobody here uses; each is listed in the docs.
DIFFERENT = (
    "mountPropagation",  # the field is shown without the mount's index
    "serviceAccountToken",
    "stopSignal",
    '"imagePullSecrets": [{}]',
    "resourceClaims",
    "allowPrivilegeEscalation",  # privileged containers are allowed here
    "resizePolicy",
)


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


def asked(server: Server, path: str, body: dict[str, Any], name: str) -> tuple[int, Any]:
    """Status and causes of a create, as a dry run."""
    given = copy.deepcopy(body)
    if isinstance(given.get("metadata"), dict):
        given["metadata"].setdefault("name", name)
    kind = server.kind(path.rpartition("/")[2], _group(path))
    namespace = NAMESPACE if kind.namespaced else ""
    try:
        server.api.create(kind, namespace, given, RequestContext("tester", dry_run=True))
    except ClusterError as error:
        return error.status.code, causes(error)
    return 201, None


def _group(path: str) -> str:
    parts = path.split("/")
    return parts[2] if parts[1] == "apis" else ""


def _questions(name: str) -> list[Any]:
    document = answers(name)
    return [
        pytest.param(question.get("path", document.get("path")), question, id=str(index))
        for index, question in enumerate(document["questions"])
        if not any(word in repr(question).replace("'", '"') for word in DIFFERENT)
    ]


@pytest.mark.parametrize(("path", "question"), _questions("pods") + _questions("kinds"))
def test_create_as_the_real_server(server: Server, path: str, question: dict[str, Any]) -> None:
    """The same code, and the same causes, for the same object."""
    status, found = asked(server, path, question["body"], "subject")

    assert status == question["status"]
    if status == 422:
        assert found == question["causes"]
