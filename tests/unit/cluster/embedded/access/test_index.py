"""The index of roles and bindings: it follows the store, and looks at no binding of others."""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import pytest

from swell.api.meta import Body, Key
from swell.cluster.embedded.access.attributes import Identity, RequestAttributes
from swell.cluster.embedded.access.index import (
    CLUSTER_ROLE_BINDINGS,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
    AccessIndex,
)
from swell.cluster.embedded.http.authorization import wanted_by
from swell.cluster.embedded.http.routing import parse_resource_path, split_path
from swell.cluster.embedded.storage import Storage, StoredChange
from swell.cluster.embedded.verbs.requests import DeleteOptions, RequestContext
from swell.runtime.errors import ForbiddenError, NotFoundError
from tests.unit.cluster.embedded.server import NAMESPACE, Server

ALICE = Identity("alice", ("devs", "system:authenticated"))
GET_PODS = RequestAttributes("get", resource="pods", namespace=NAMESPACE)
READ: Body = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


def a_role(name: str, *rules: Body) -> Body:
    return {"metadata": {"name": name}, "rules": list(rules)}


def a_binding(name: str, role: str, subject: Body, kind: str = "Role") -> Body:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}


@pytest.fixture
def server() -> Server:
    return Server()


def allowed(server: Server, wanted: RequestAttributes = GET_PODS, who: Identity = ALICE) -> bool:
    return server.api.access.decide(who, wanted).allowed


@pytest.mark.parametrize(
    "subject", [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "devs"}], ids=str
)
def test_binding_gives_and_its_deletion_takes(server: Server, subject: Body) -> None:
    """Rights begin and end with the commit of a binding, and of a role's rules."""
    server.create("roles", a_role("r", READ), GROUP)
    assert not allowed(server)
    server.create("rolebindings", a_binding("b", "r", subject), GROUP)
    assert allowed(server)
    assert not allowed(server, GET_PODS._replace(namespace="default"))
    assert not allowed(server, GET_PODS._replace(namespace=""))

    server.update("roles", a_role("r"), GROUP)
    assert not allowed(server)
    server.update("roles", a_role("r", READ), GROUP)
    assert allowed(server)

    kind, key = server.kind("rolebindings", GROUP), Key(NAMESPACE, "b")
    server.api.delete(kind, key, DeleteOptions(), RequestContext("tester"))
    assert not allowed(server)


def test_role_of_another_namespace_is_not_meant(server: Server) -> None:
    """A binding to a Role names one of its own namespace."""
    server.api.create(
        server.kind("roles", GROUP), "default", a_role("r", READ), RequestContext("tester")
    )
    server.create("rolebindings", a_binding("b", "r", {"kind": "User", "name": "alice"}), GROUP)

    assert not allowed(server)


def test_cluster_role_bound_in_a_namespace_counts_there_only(server: Server) -> None:
    """A RoleBinding to a ClusterRole gives its rights in one namespace."""
    binding = a_binding("b", "cluster-admin", {"kind": "User", "name": "alice"}, "ClusterRole")
    server.create("rolebindings", binding, GROUP)

    assert allowed(server)
    assert not allowed(server, RequestAttributes("get", resource="nodes"))
    assert not allowed(server, RequestAttributes("get", path="/swell/backup"))


def test_commit_that_the_disk_refused_gives_nothing() -> None:
    """A rolled back binding is unbound, a rolled back deletion binds again."""
    storage = Storage(lambda: 0.0)
    index = AccessIndex(storage)
    role = {**a_role("r", READ), "metadata": {"name": "r", "namespace": "a"}}
    storage.commit(StoredChange(ROLES, Key("a", "r"), None, role, "t", "create"))
    storage.attach_journal(_Refusing())
    subject = {"kind": "User", "name": "alice"}
    binding = a_binding("b", "r", subject)
    storage.commit(StoredChange(ROLE_BINDINGS, Key("a", "b"), None, binding, "t", "create"))
    wanted = GET_PODS._replace(namespace="a")
    assert index.decide(ALICE, wanted).allowed

    storage.roll_back(OSError("no space"))
    assert not index.decide(ALICE, wanted).allowed


class _Refusing:
    """A journal that writes nothing."""

    def append(self, commit: object) -> None:
        del commit

    def refuses_creations(self) -> bool:
        return False


def test_many_bindings_of_others_cost_nothing(server: Server) -> None:
    """A decision takes as many calls with 20,000 bindings of others as without."""
    storage = server.api.storage
    allowed(server)  # what is made on first use does not count
    alone = n_calls(lambda: allowed(server))
    for n in range(20_000):
        key = Key("", f"b{n}")
        body = a_binding(key.name, "view", {"kind": "User", "name": f"u{n}"}, "ClusterRole")
        storage.commit(StoredChange(CLUSTER_ROLE_BINDINGS, key, None, body, "tester", "create"))
    allowed(server)

    assert n_calls(lambda: allowed(server)) == alone


def n_calls(action: Callable[[], object]) -> int:
    """How many functions an action calls."""
    profile = cProfile.Profile()
    profile.runcall(action)
    return sum(entry.callcount for entry in profile.getstats())


def test_update_of_a_missing_object_needs_the_right_to_create(server: Server) -> None:
    """A PUT that creates is a create, too."""
    update: Body = {
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"],
    }  # fmt: skip
    server.create("roles", a_role("r", update), GROUP)
    server.create("rolebindings", a_binding("b", "r", {"kind": "User", "name": "alice"}), GROUP)
    kind = server.kind("leases", "coordination.k8s.io")
    body: Body = {"metadata": {"name": "l"}, "spec": {}}
    call = RequestContext("tester", identity=ALICE)

    with pytest.raises(ForbiddenError, match='cannot create resource "leases"'):
        server.api.update(kind, Key(NAMESPACE, "l"), body, call)


def test_binding_to_a_missing_role_is_refused_to_users(server: Server) -> None:
    """Its rules cannot be compared with those of its author."""
    write: Body = {"apiGroups": [GROUP], "resources": ["rolebindings"], "verbs": ["create"]}
    server.create("roles", a_role("w", write), GROUP)
    server.create("rolebindings", a_binding("w", "w", {"kind": "User", "name": "alice"}), GROUP)
    binding = a_binding("b", "none", {"kind": "User", "name": "alice"})

    with pytest.raises(NotFoundError):
        server.create("rolebindings", binding, GROUP, RequestContext("tester", identity=ALICE))


@pytest.mark.parametrize(
    ("request_line", "verb", "resource", "namespace", "name"),
    [
        ("GET /api/v1/namespaces/a/pods/x", "get", "pods", "a", "x"),
        ("GET /api/v1/namespaces/a/pods/x/log", "get", "pods/log", "a", "x"),
        ("HEAD /api/v1/pods", "list", "pods", "", ""),
        ("GET /api/v1/namespaces/a/pods?watch=1", "watch", "pods", "a", ""),
        ("GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name=x", "list", "pods", "a", "x"),
        ("DELETE /api/v1/namespaces/a/pods", "deletecollection", "pods", "a", ""),
        ("GET /api/v1/namespaces/a", "get", "namespaces", "a", "a"),
        ("PUT /api/v1/namespaces/a/finalize", "update", "namespaces/finalize", "a", "a"),
        ("GET /api/v1/namespaces", "list", "namespaces", "", ""),
        ("GET /api/v1/namespaces/a/p%6Fds/x/", "get", "pods", "a", "x"),
    ],
)
def test_attributes_of_requests(
    request_line: str, verb: str, resource: str, namespace: str, name: str
) -> None:
    """Verb, resource, namespace and name are those that the request is answered by."""
    method, _, target = request_line.partition(" ")
    path, _, query = target.partition("?")
    segments = split_path(path)
    found = wanted_by(method, segments, parse_resource_path(segments), query)

    assert (found.verb, found.combined) == (verb, resource)
    assert (found.namespace, found.name) == (namespace, name)
