"""Kubeconfig files and what is made of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from swell.cluster.kube.access import Access, AccessError, ExecPlugin, KubeUser
from swell.cluster.kube.credentials import TokenFile
from swell.cluster.kube.kubeconfig import in_cluster, read_kubeconfig
from swell.runtime.clock import SystemClock

CONFIG = """
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: here
  cluster: {server: "https://127.0.0.1:6443/", certificate-authority: ca.crt}
- name: there
  cluster: {server: "https://there", insecure-skip-tls-verify: true, tls-server-name: other}
- name: proxied
  cluster: {server: "https://there", proxy-url: "http://proxy"}
users:
- name: token
  user: {token: abc}
- name: cert
  user: {client-certificate-data: Q0VSVA==, client-key: key.pem}
- name: plugin
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token}}
- name: file
  user: {tokenFile: token}
contexts:
- {name: dev, context: {cluster: here, user: token, namespace: team}}
- {name: cert, context: {cluster: there, user: cert}}
- {name: plugin, context: {cluster: here, user: plugin}}
- {name: file, context: {cluster: here, user: file}}
- {name: proxied, context: {cluster: proxied, user: token}}
- {name: lost, context: {cluster: nowhere, user: token}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_bytes(b"CA")
    (tmp_path / "key.pem").write_bytes(b"KEY")
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return path


def test_current_context_is_the_default(config: Path) -> None:
    """Without a name the current context is meant; files are relative to the kubeconfig."""
    access = read_kubeconfig([config])

    assert access == Access(
        "https://127.0.0.1:6443",
        KubeUser(token="abc"),
        context="dev",
        namespace="team",
        ca_pem=b"CA",
    )


def test_context_choice(config: Path) -> None:
    """A named context brings its own cluster, user and namespace."""
    access = read_kubeconfig([config], "cert")

    assert access.insecure
    assert access.tls_server_name == "other"
    assert access.namespace == "default"
    assert access.user == KubeUser(certificate_pem=b"CERT", key_pem=b"KEY")


def test_plugin_is_read_and_not_run(config: Path) -> None:
    """Reading a kubeconfig starts no program."""
    access = read_kubeconfig([config], "plugin")

    assert isinstance(access.user.source, ExecPlugin)


@pytest.mark.parametrize(
    ("context", "said"),
    [("proxied", "proxy-url"), ("lost", "nowhere"), ("unknown", "there are: dev")],
)
def test_unusable_context_says_what_is_wrong(config: Path, context: str, said: str) -> None:
    """The message names the part that cannot be used."""
    with pytest.raises(AccessError, match=said):
        read_kubeconfig([config], context)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "clusters: 3", "clusters: [{}]"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    """Anything else in the file is an access error, never a traceback."""
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(AccessError):
        read_kubeconfig([path])


@pytest.mark.parametrize("data", ["%", "aG", "aG\u7dfb="])
def test_data_that_is_not_base64_is_refused(tmp_path: Path, data: str) -> None:
    path = tmp_path / "config"
    path.write_text(
        CONFIG.replace("certificate-authority: ca.crt", f"certificate-authority-data: '{data}'")
    )

    with pytest.raises(AccessError, match="not base64"):
        read_kubeconfig([path], "dev")


def test_first_file_wins(tmp_path: Path, config: Path) -> None:
    """Of several files the first mention of a name counts."""
    first = tmp_path / "first"
    first.write_text(json.dumps({"users": [{"name": "token", "user": {"token": "first"}}]}))

    assert read_kubeconfig([first, config], "dev").user.token == "first"


def test_secrets_are_not_shown(config: Path) -> None:
    """A logged access gives no token away."""
    assert "abc" not in repr(read_kubeconfig([config]))


def test_token_file_is_read_again(config: Path) -> None:
    """A rotated token is used after it was refused."""
    path = config.parent / "token"
    path.write_text("one\n")
    user = read_kubeconfig([config], "file").user
    assert user.token_file == path
    identity = TokenFile(path, SystemClock())

    assert asyncio.run(identity.authorization()) == "Bearer one"
    path.write_text("two\n")
    assert asyncio.run(identity.authorization()) == "Bearer one"
    identity.forget()
    assert asyncio.run(identity.authorization()) == "Bearer two"


def test_in_cluster_needs_a_service_account(tmp_path: Path) -> None:
    """Outside a pod there is no in-cluster access."""
    assert in_cluster({}, tmp_path) is None
    assert (
        in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, tmp_path)
        is None
    )


def test_service_account_token_is_rotated(tmp_path: Path) -> None:
    """The pod's token is read from its file, and again when it was refused."""
    for name, text in (("token", "one\n"), ("ca.crt", "CA"), ("namespace", "team")):
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(environment, tmp_path)
    assert access is not None
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "team")
    assert (access.user.token_file, access.ca_pem) == (tmp_path / "token", b"CA")
    identity = TokenFile(tmp_path / "token", SystemClock())

    assert asyncio.run(identity.authorization()) == "Bearer one"
    (tmp_path / "token").write_text("two")
    identity.forget()
    assert asyncio.run(identity.authorization()) == "Bearer two"
    (tmp_path / "token").write_text("\n")
    identity.forget()
    with pytest.raises(AccessError, match="no token in it"):
        asyncio.run(identity.authorization())
