"""Users of the embedded cluster: their rights, their tokens' ends, and what is written of them."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.raw import Raw
from tests.contract.swell_command import Swell
from tests.contract.targets import embedded_server

PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
A_MAP = {"metadata": {"generateName": "m-"}}
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("users")
    with embedded_server(home):
        yield home


class People:
    """The home, its command, and clients as the users it makes."""

    def __init__(self, home: Path, swell: Swell, folder: Path) -> None:
        self.home, self.swell, self._folder = home, swell, folder

    def owner(self) -> Raw:
        return Raw(self.home / "kubeconfig")

    def create(self, name: str, *flags: str) -> Raw:
        return self._client(name, "user", "create", name, *flags)

    def renew(self, name: str, *flags: str) -> Raw:
        return self._client(name, "user", "renew", name, *flags)

    def _client(self, name: str, *command: str) -> Raw:
        done = self.swell(*command)
        assert done.code == 0, done.err
        file = self._folder / f"{name}-{time.monotonic_ns()}"
        file.write_text(done.out)
        return Raw(file)


@pytest.fixture
def people(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> People:
    monkeypatch.setenv("SWELL_HOME", str(home))
    return People(home, Swell("default", tmp_path, capsys), tmp_path)


def code(raw: Raw, line: str, body: object = None) -> int:
    method, _, path = line.partition(" ")
    return raw.ask(method, path, body).code


def begun_watch(raw: Raw) -> ssl.SSLSocket:
    watch = raw.open_stream(f"{PODS}?watch=true")
    assert watch.recv(100).startswith(b"HTTP/1.1 200")
    return watch


def ends(watch: ssl.SSLSocket) -> bool:
    """Whether the server cuts a connection off within some seconds."""
    watch.settimeout(5)
    with watch:
        try:
            while watch.recv(1000):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
    return True


def test_viewer_reads_and_nothing_else(people: People) -> None:
    """Neither Secrets, nor writes, nor a backup, nor rights for others."""
    with people.create("vera", "--role", "view") as vera:
        assert code(vera, f"GET {PODS}") == 200
        assert code(vera, "GET /api/v1/pods") == 200
        assert code(vera, "GET /api/v1/nodes") == 200
        assert code(vera, "GET /apis/scheduling.volcano.sh/v1beta1/queues") == 200
        for line in (f"GET {SECRETS}", "GET /api/v1/secrets", "GET /swell/backup"):
            assert code(vera, line) == 403
        for line in (f"POST {MAPS}", f"DELETE {PODS}", f"PUT {MAPS}/x", "POST /api/v1/namespaces"):
            assert code(vera, line, A_MAP) == 403
        refused = vera.ask("POST", MAPS, A_MAP).json()

    assert refused["message"] == (
        'configmaps is forbidden: User "vera" cannot create resource "configmaps" in API group ""'
        ' in the namespace "default"'
    )


def test_editor_of_a_namespace(people: People) -> None:
    """Writes there, Secrets too, and nothing elsewhere."""
    with people.create("ed", "--role", "edit", "--namespace", "default") as ed:
        assert code(ed, f"POST {MAPS}", A_MAP) == 201
        assert code(ed, f"GET {SECRETS}") == 200
        assert code(ed, "GET /api/v1/namespaces/kube-system/secrets") == 403
        assert code(ed, "GET /api/v1/pods") == 403
        assert code(ed, "GET /api/v1/nodes") == 403


def test_admin(people: People) -> None:
    """Everything; in one namespace everything there, and no rights beyond one's own."""
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    binding = {
        "metadata": {"generateName": "b-"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "x"}],
    }
    with people.create("ada", "--role", "admin") as ada:
        assert code(ada, "GET /swell/backup") == 200
        assert code(ada, "POST /api/v1/namespaces", {"metadata": {"generateName": "n-"}}) == 201
    with people.create("nat", "--role", "admin", "--namespace", "default") as nat:
        assert code(nat, "GET /swell/backup") == 403
        assert code(nat, f"POST {roles}", binding) == 201
        binding["roleRef"] = {"kind": "ClusterRole", "name": "cluster-admin"}
        assert code(nat, f"POST {roles}", binding) == 403


def test_token_expires_and_is_kept_nowhere(people: People) -> None:
    """After its time it is unknown; the folder has its digest alone."""
    with people.create("max", "--role", "view", "--ttl", "2s") as brief:
        assert code(brief, f"GET {PODS}") == 200
        for file in people.home.iterdir():
            if file.is_file():
                assert brief.token.encode() not in file.read_bytes(), file
        time.sleep(2.1)
        assert code(brief, f"GET {PODS}") == 401
        assert "(expired)" in people.swell("user", "list").out
        with people.renew("max") as renewed, people.owner() as owner:
            assert code(renewed, f"GET {PODS}") == 200
            assert code(brief, f"GET {PODS}") == 401
            known = owner.ask("POST", REVIEW, {"spec": {"token": renewed.token}}).json()["status"]
            gone = owner.ask("POST", REVIEW, {"spec": {"token": brief.token}}).json()["status"]

    assert (people.home / "users.json").stat().st_mode & 0o777 == 0o600
    assert known["user"]["username"] == "max"
    assert known["user"]["groups"] == ["system:authenticated"]
    assert not gone.get("authenticated")


def test_deleted_user_is_refused_at_once_and_its_watch_ends(people: People) -> None:
    """A new user of that name begins with its own rights."""
    with people.create("dora", "--role", "admin") as dora:
        watch = begun_watch(dora)
        assert people.swell("user", "delete", "dora").code == 0
        assert code(dora, f"GET {PODS}") == 401
        assert ends(watch)
    with people.create("dora", "--role", "view") as again:
        assert code(again, f"GET {SECRETS}") == 403


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("create", "Vera", "--role", "view"), "is no name of a user"),
        (("create", "swell-admin", "--role", "view"), "is that of a part of Swell"),
        (("create", "x", "--role", "view", "--namespace", "none"), "there is no namespace none"),
        (("create", "x", "--role", "view", "--ttl", "10000h"), "up to 8784h"),
        (("create", "x", "--role", "view", "--ttl", "0"), "up to 8784h"),
        (("renew", "nobody"), "there is no user nobody"),
        (("delete", "nobody"), "there is no user nobody"),
    ],
)
def test_refused_commands(people: People, command: tuple[str, ...], text: str) -> None:
    """One sentence each."""
    done = people.swell("user", *command)

    assert done.code in {1, 2}
    assert text in done.err
    assert "Traceback" not in done.err


def test_second_user_of_a_name_is_refused(people: People) -> None:
    """The first one's token stays valid."""
    with people.create("tim", "--role", "view") as tim:
        done = people.swell("user", "create", "tim", "--role", "admin")
        assert done.code == 1
        assert "there is a user tim already" in done.err
        assert code(tim, f"GET {SECRETS}") == 403


def test_rotated_token(people: People) -> None:
    """The old one is refused from then on, and a watch of it ends."""
    with people.owner() as old:
        watch = begun_watch(old)
        done = people.swell("rotate", "token")
        assert done.code == 0, done.err
        assert code(old, f"GET {PODS}") == 401
        assert ends(watch)
    with people.owner() as new:
        assert code(new, f"GET {PODS}") == 200


def test_rotated_certificate(people: People) -> None:
    """New connections get the new one, which the old kubeconfig does not trust."""
    with people.owner() as old:
        assert code(old, f"GET {PODS}") == 200
        done = people.swell("rotate", "certificate")
        assert done.code == 0, done.err
        with people.owner() as new:
            assert code(new, f"GET {PODS}") == 200
        old.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            old.ask("GET", PODS)


def test_audit_log_tells_who_wrote_and_who_was_denied(people: People) -> None:
    """Writes and denials with their user, no reads, and no content of objects."""
    log = people.home / "audit.log"
    with people.create("aud", "--role", "edit") as aud, people.owner() as owner:
        before = len(log.read_text().splitlines())
        secret = {"metadata": {"name": "audited"}, "stringData": {"key": "hush-hush"}}
        assert code(aud, f"POST {SECRETS}", secret) == 201
        assert code(aud, f"GET {SECRETS}/audited") == 200
        assert code(aud, "DELETE /api/v1/nodes/x") == 403
        assert code(aud, f"DELETE {SECRETS}/audited") == 200
        assert owner.ask("GET", PODS, headers={"Impersonate-User": "imp"}).code == 403
        assert aud.ask("GET", PODS, headers={"Authorization": "Bearer x"}).code == 401
    lines = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    shown = [(e["user"], e["verb"], e["resource"], e["name"], e["code"]) for e in lines]

    assert shown == [
        ("aud", "create", "secrets", "", 201),
        ("aud", "delete", "nodes", "x", 403),
        ("aud", "delete", "secrets", "audited", 200),
        ("imp", "list", "pods", "", 403),
        ("", "list", "pods", "", 401),
    ]
    assert "hush-hush" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
