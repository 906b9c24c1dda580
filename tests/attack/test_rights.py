"""A user of the cluster tries to get at more than its role gives: everything is refused.

Each attempt is one of the ways in which rights have been widened elsewhere: another spelling of a
path, another verb, a binding, an impersonation, a review, a token of yesterday.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.cluster.embedded.http.credentials import Files, kubeconfig_text, last_port
from swell.cluster.embedded.http.users import add_user
from tests.contract.raw import Raw
from tests.contract.targets import embedded_server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MINE, OTHER = "/api/v1/namespaces/mine", "/api/v1/namespaces/other"
A_MAP = {"metadata": {"name": "m"}}
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


def bound(name: str, role: str, user: str, kind: str = "ClusterRole") -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }


class Crowd:
    """A server with a viewer of everything, an editor and an admin of one namespace."""

    def __init__(self, home: Path) -> None:
        self._files, self._open = Files(home), [Raw(home / "kubeconfig")]
        self.owner = self._open[0]
        for name in ("mine", "other"):
            self.done("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            secret = {"metadata": {"name": "secret"}, "stringData": {"key": "hush"}}
            self.done("POST", f"/api/v1/namespaces/{name}/secrets", secret)
        self.viewer = self.user("viewer")
        self.editor, self.admin = self.user("editor"), self.user("admin")
        self.done("POST", f"{RBAC}/clusterrolebindings", bound("v", "view", "viewer"))
        for role in ("edit", "admin"):
            name = {"edit": "editor", "admin": "admin"}[role]
            self.done("POST", f"{RBAC}/namespaces/mine/rolebindings", bound(name, role, name))

    def user(self, name: str, ttl_s: float = 3600.0) -> Raw:
        _, token = add_user(self._files.users_file, name, (), time.time(), ttl_s)
        file = self._files.folder / f"{name}.kubeconfig"
        file.write_text(kubeconfig_text(self._files, last_port(self._files), token, name))
        self._open.append(Raw(file))
        return self._open[-1]

    def done(self, method: str, path: str, body: object = None) -> None:
        answer = self.owner.ask(method, path, body)
        assert answer.code in {200, 201}, answer.body

    def close(self) -> None:
        for raw in self._open:
            raw.close()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    home = tmp_path_factory.mktemp("rights")
    with embedded_server(home):
        crowd = Crowd(home)
        yield crowd
        crowd.close()


READS_OF_SECRETS = [
    f"{MINE}/secrets",
    f"{MINE}/secrets/secret",
    f"{MINE}/secrets/secret/",
    f"{MINE}/s%65crets/secret",
    f"{MINE}//secrets/secret",
    f"{MINE}/pods/../secrets/secret",
    f"{MINE}/pods/x%2f..%2f..%2fsecrets",
    "/api/v1/secrets",
    "/api/v1/secrets?watch=true",
    "/api/v1/secrets?watch=false",
    "/api/v1/watch/secrets",
    f"{MINE}/secrets?fieldSelector=metadata.name%3Dsecret",
    f"{MINE}/secrets?resourceVersion=0",
    "//api/v1/secrets",
    "/api/v1/namespaces/mine/namespaces/mine/secrets",
    "/swell/backup",
    "/swell/backup/",
    "/swell%2fbackup",
    "/swell/./backup",
]


@pytest.mark.parametrize("path", READS_OF_SECRETS)
def test_viewer_reads_no_secret(crowd: Crowd, path: str) -> None:
    """By no spelling of a path, in no form of answer."""
    for accept in (
        "application/json",
        "application/yaml",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            answer = crowd.viewer.ask(method, path, headers={"Accept": accept})
            assert answer.code in {400, 401, 403, 404, 405}
            assert b"hush" not in answer.body
            assert b"aHVzaA" not in answer.body


WRITES = [
    ("POST", f"{MINE}/configmaps", A_MAP),
    ("POST", f"{MINE}/configmaps?dryRun=All", A_MAP),
    ("PUT", f"{MINE}/configmaps/m", A_MAP),
    ("PATCH", f"{MINE}/configmaps/m", {"data": {}}),
    ("DELETE", f"{MINE}/configmaps", None),
    ("POST", f"{MINE}/pods/x/eviction", {}),
    ("POST", f"{MINE}/pods/x/binding", {}),
    ("POST", f"{MINE}/bindings", {"metadata": {"name": "x"}, "target": {"name": "n"}}),
    ("GET", f"{MINE}/pods/x/exec?command=id", None),
    ("POST", f"{MINE}/pods/x/portforward", None),
    ("PUT", "/api/v1/namespaces/mine/finalize", {}),
    ("DELETE", "/api/v1/namespaces/mine", None),
    ("PUT", f"{MINE}/pods/x/status", {}),
    ("POST", f"{RBAC}/clusterrolebindings", bound("x", "cluster-admin", "viewer")),
    ("PATCH", f"{RBAC}/clusterrolebindings/v", {"subjects": []}),
    ("PATCH", f"{RBAC}/clusterroles/view", {"rules": EVERYTHING}),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "x"}}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_viewer_writes_nothing(crowd: Crowd, method: str, path: str, body: object) -> None:
    """Neither objects, nor their parts, nor rights; a dry run is a write."""
    kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
    version = crowd.owner.ask("GET", f"{MINE}/configmaps").json()["metadata"]["resourceVersion"]

    assert crowd.viewer.ask(method, path, body, {**(kind or {})}).code == 403
    after = crowd.owner.ask("GET", f"{MINE}/configmaps").json()["metadata"]["resourceVersion"]
    assert after == version


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "swell-admin"},
        {"Impersonate-User": "x", "Impersonate-Group": "system:masters"},
        {"impersonate-user": "system:serviceaccount:mine:x"},
        {"Impersonate-Group": "system:masters"},
        {"Impersonate-Uid": "1"},
        {"Impersonate-User": "x", "Impersonate-Extra-Y": "z"},
    ],
    ids=str,
)
def test_nobody_becomes_another(crowd: Crowd, headers: dict[str, str | None]) -> None:
    """Impersonation takes a right that no role but the administrator's has."""
    for raw in (crowd.viewer, crowd.editor, crowd.admin):
        assert raw.ask("GET", f"{OTHER}/secrets", headers=headers).code in {400, 403}


def test_rights_end_at_the_namespace(crowd: Crowd) -> None:
    """An editor and an admin of one namespace are nobody in another one, and in the cluster."""
    for raw in (crowd.editor, crowd.admin):
        assert raw.ask("GET", f"{MINE}/secrets").code == 200
        for path in (f"{OTHER}/secrets", f"{OTHER}/pods", "/api/v1/secrets", "/api/v1/nodes"):
            assert raw.ask("GET", path).code == 403
        assert raw.ask("POST", f"{OTHER}/configmaps", A_MAP).code == 403
        inside = {"metadata": {"name": "m", "namespace": "other"}}
        assert raw.ask("POST", f"{MINE}/configmaps", inside).code == 400
        assert raw.ask("DELETE", "/api/v1/namespaces/other").code == 403
        assert raw.ask("GET", "/swell/backup").code == 403


def test_admin_of_a_namespace_grants_no_more_than_it_has(crowd: Crowd) -> None:
    """Neither by a role, nor by a binding, nor by changing one that is there."""
    roles = f"{RBAC}/namespaces/mine/roles"
    bindings = f"{RBAC}/namespaces/mine/rolebindings"
    merge = {"Content-Type": "application/merge-patch+json"}
    admin = crowd.admin
    crowd.done("POST", roles, {"metadata": {"name": "small"}, "rules": []})
    every = {"metadata": {"name": "all"}, "rules": EVERYTHING}
    attempts = [
        admin.ask("POST", roles, every),
        admin.ask("PUT", f"{roles}/all", every),
        admin.ask("PATCH", f"{roles}/small", {"rules": EVERYTHING}, {**merge}),
        admin.ask("POST", bindings, bound("x", "cluster-admin", "admin")),
        admin.ask("PUT", f"{bindings}/x", bound("x", "cluster-admin", "admin")),
        admin.ask("POST", f"{RBAC}/clusterroles", every),
        admin.ask("POST", f"{RBAC}/clusterrolebindings", bound("x", "view", "admin")),
        admin.ask("POST", f"{RBAC}/namespaces/other/rolebindings", bound("x", "view", "admin")),
        crowd.editor.ask("POST", bindings, bound("x", "view", "editor")),
        crowd.editor.ask("POST", roles, {"metadata": {"name": "none"}, "rules": []}),
    ]

    assert [answer.code for answer in attempts] == [403] * len(attempts)
    own = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    assert admin.ask("POST", roles, {"metadata": {"name": "own"}, "rules": own}).code == 201


def test_role_of_very_many_permissions_holds_up_nobody(crowd: Crowd) -> None:
    """Its permissions are not compared one by one."""
    many = [f"x{n}" for n in range(3000)]
    rules = [{"apiGroups": many, "resources": many, "verbs": many}]
    path = f"{RBAC}/namespaces/mine/roles"
    answer = crowd.admin.ask("POST", path, {"metadata": {"name": "big"}, "rules": rules})

    assert answer.code == 403
    assert "more than 5,000 single permissions" in answer.json()["message"]


def test_tokens_that_are_none(crowd: Crowd) -> None:
    """Expired, cut, doubled, of another scheme, or the digest instead of the token."""
    import hashlib

    late = crowd.user("late", ttl_s=0.5)
    time.sleep(0.6)
    token = crowd.viewer.token
    digest = hashlib.sha256(token.encode()).hexdigest()
    headers: list[str | None] = [None, "", "Bearer", "Bearer ", f"Bearer {late.token}"]
    headers += [f"Bearer {token[:-1]}", f"Bearer {token} {token}", f"Basic {token}", token]
    headers += [f"Bearer {digest}", "Bearer null", "Bearer " + "a" * 5000]
    for header in headers:
        answer = crowd.viewer.ask("GET", f"{MINE}/pods", headers={"Authorization": header})
        assert answer.code == 401, header
    assert crowd.viewer.ask("GET", f"{MINE}/pods").code == 200
