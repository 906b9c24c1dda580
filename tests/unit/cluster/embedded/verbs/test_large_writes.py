"""A large write is decided elsewhere, and committed only if that decision still holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import LARGE_TRIES_MAX
from swell.cluster.embedded.verbs.requests import RequestContext, Written
from swell.cluster.embedded.verbs.writing import PendingWrite
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import AlreadyExistsError, NotFoundError, TooManyRequestsError
from tests.unit.cluster.embedded.server import NAMESPACE, Server

KEY = Key(NAMESPACE, "a")
CALL = RequestContext("tester")


def _config(**data: str) -> Body:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    return {**head, "data": data}


def _write(
    server: Server, decide: Callable[[], PendingWrite], *meanwhile: Callable[[], object]
) -> tuple[Written, int]:
    """Carry a large write out, with other writes between its decisions and its commit."""
    others, n_decided = list(meanwhile), 0

    async def run(decide: Callable[[], PendingWrite]) -> PendingWrite:
        nonlocal n_decided
        n_decided += 1
        write = decide()
        if others:
            others.pop(0)()
        return write

    written = asyncio.run(server.api.answer_large(decide, run))
    return written, n_decided


def _patch(server: Server, data: dict[str, str]) -> Callable[[], PendingWrite]:
    kind = server.kind("configmaps")
    return lambda: server.api.decide_patch(kind, KEY, merge_patch({"data": data}), CALL, "")


def test_decision_that_still_holds_is_committed() -> None:
    server = Server()
    kind = server.kind("configmaps")
    written, n_decided = _write(
        server, lambda: server.api.decide_create(kind, NAMESPACE, _config(a="1"), CALL)
    )

    assert written.created
    assert n_decided == 1
    assert server.get("configmaps", "a")["data"] == {"a": "1"}


def test_object_that_changed_meanwhile_is_decided_on_again() -> None:
    """The other write is not lost."""
    server = Server()
    server.create("configmaps", _config())
    _, n_decided = _write(
        server,
        _patch(server, {"mine": "1"}),
        lambda: server.patch("configmaps", "a", {"data": {"other": "1"}}),
    )

    assert n_decided == 2
    assert server.get("configmaps", "a")["data"] == {"mine": "1", "other": "1"}


def test_object_that_changes_all_the_time_is_not_decided_on_for_ever() -> None:
    """Nor is it decided on where nothing else can happen meanwhile: other clients would wait."""
    server = Server()
    server.create("configmaps", _config())

    def disturb() -> None:
        n = int(server.get("configmaps", "a")["metadata"]["resourceVersion"])
        server.patch("configmaps", "a", {"data": {"other": str(n)}})

    with pytest.raises(TooManyRequestsError):
        _write(server, _patch(server, {"mine": "1"}), *[disturb] * LARGE_TRIES_MAX)

    assert "mine" not in server.get("configmaps", "a")["data"]


def test_large_writes_of_one_object_do_not_spoil_each_other() -> None:
    """Each is decided on what the one before it has left, although all come at once."""
    server = Server()
    server.create("configmaps", _config())
    n_decided = 0

    async def run(decide: Callable[[], PendingWrite]) -> PendingWrite:
        nonlocal n_decided
        n_decided += 1
        write = decide()
        await asyncio.sleep(0)
        return write

    async def all_at_once() -> None:
        writes = [_patch(server, {f"k{n}": "v"}) for n in range(9)]
        await asyncio.gather(*(server.api.answer_large(decide, run) for decide in writes))

    asyncio.run(all_at_once())

    assert n_decided == 9
    assert len(server.get("configmaps", "a")["data"]) == 9


def test_object_that_was_created_meanwhile_is_not_replaced() -> None:
    server = Server()
    kind = server.kind("configmaps")
    with pytest.raises(AlreadyExistsError):
        _write(
            server,
            lambda: server.api.decide_create(kind, NAMESPACE, _config(a="1"), CALL),
            lambda: server.create("configmaps", _config(a="other")),
        )

    assert server.get("configmaps", "a")["data"] == {"a": "other"}


def test_namespace_that_went_meanwhile_gets_no_object() -> None:
    server = Server()
    kind, namespaces = server.kind("configmaps"), server.kind("namespaces")

    def remove_namespace() -> None:
        stored = server.api.storage.get("namespaces", Key("", NAMESPACE))
        assert stored is not None
        server.api._core.remove(
            namespaces,
            Key("", NAMESPACE),
            stored,
            server.api._core.context("delete", CALL),
        )

    with pytest.raises(NotFoundError):
        _write(
            server,
            lambda: server.api.decide_create(kind, NAMESPACE, _config(), CALL),
            remove_namespace,
        )


def test_address_that_another_service_took_meanwhile_is_not_taken_twice() -> None:
    """A decision that read other objects does not outlive a change of them."""
    server = Server()
    kind = server.kind("services")

    def service(name: str) -> Body:
        spec = {"ports": [{"port": 1}], "clusterIP": "10.96.0.77"}
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
        return {**head, "spec": spec}

    _, n_decided = _write(
        server,
        lambda: server.api.decide_create(
            kind, NAMESPACE, {**service("a"), "spec": {"ports": [{"port": 1}]}}, CALL
        ),
        lambda: server.create("services", service("b")),
    )

    assert n_decided == 2
    assert server.get("services", "a")["spec"]["clusterIP"] != "10.96.0.77"
