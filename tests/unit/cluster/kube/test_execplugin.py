"""Exec plugins of kubeconfigs: programs that print a credential."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from swell.api.meta import Body
from swell.cluster.kube import execplugin
from swell.cluster.kube.access import Access, AccessError, ExecPlugin, KubeUser, ProviderLogin
from swell.cluster.kube.credentials import client_tls, credential_source
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock

VERSION = "client.authentication.k8s.io/v1"
KIND = {"apiVersion": VERSION, "kind": "ExecCredential"}


def access_with(folder: Path, program: str, **entry: object) -> Access:
    """A kubeconfig whose user runs a program of Python, named relative to the file."""
    script = folder / "bin" / "plugin"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!{sys.executable} -S\nimport json, os, sys, time\n{program}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    plugin = {"apiVersion": VERSION, "command": "bin/plugin", **entry}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [
            {"name": "k", "cluster": {"server": "http://127.0.0.1", "tls-server-name": "k8s"}}
        ],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return read_kubeconfig([path])


def printing(**status: object) -> str:
    return f"print({json.dumps({**KIND, 'status': status})!r})"


def header_of(access: Access) -> str:
    source = credential_source(access, client_tls(access), SystemClock())
    return asyncio.run(source.authorization())


def test_token_is_kept_until_it_is_refused(tmp_path: Path) -> None:
    """The plugin runs once, and once more after the server has refused what it gave."""
    count = f"open({str(tmp_path / 'calls')!r}, 'a').write('x')\n"
    access = access_with(tmp_path, count + printing(token="t"))
    source = credential_source(access, client_tls(access), SystemClock())

    assert asyncio.run(source.authorization()) == "Bearer t"
    assert asyncio.run(source.authorization()) == "Bearer t"
    assert (tmp_path / "calls").read_text() == "x"
    source.forget()
    assert asyncio.run(source.authorization()) == "Bearer t"
    assert (tmp_path / "calls").read_text() == "xx"


def test_token_that_ended_is_fetched_again(tmp_path: Path) -> None:
    """What the plugin says about its end counts."""
    ended = datetime(2001, 1, 1, tzinfo=UTC).isoformat().replace("+00:00", "Z")
    count = f"open({str(tmp_path / 'calls')!r}, 'a').write('x')\n"
    access = access_with(tmp_path, count + printing(token="t", expirationTimestamp=ended))
    source = credential_source(access, client_tls(access), SystemClock())

    for _ in range(2):
        assert asyncio.run(source.authorization()) == "Bearer t"
    assert (tmp_path / "calls").read_text() == "xx"


def test_plugin_is_told_what_it_needs(tmp_path: Path) -> None:
    """Arguments, variables, and the cluster if it asks for it, reach the program."""
    shown = tmp_path / "shown"
    program = (
        "told = {'arguments': sys.argv[1:], 'mine': os.environ['MINE'],"
        " 'info': json.loads(os.environ['KUBERNETES_EXEC_INFO'])}\n"
        f"open({str(shown)!r}, 'w').write(json.dumps(told))\n"
    )
    access = access_with(
        tmp_path,
        program + printing(token="t"),
        args=["--cluster", "a"],
        env=[{"name": "MINE", "value": "yes"}],
        provideClusterInfo=True,
        interactiveMode="Never",
    )
    assert header_of(access) == "Bearer t"
    told: Body = json.loads(shown.read_text())
    assert (told["arguments"], told["mine"]) == (["--cluster", "a"], "yes")
    cluster = {"server": "http://127.0.0.1", "tls-server-name": "k8s"}
    assert told["info"] == {**KIND, "spec": {"interactive": False, "cluster": cluster}}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (printing(), "no credentials came"),
        (printing(clientCertificateData="CERT"), "not both"),
        (printing(clientCertificateData="CERT", clientKeyData="KEY"), "do not fit"),
        (printing(token="t", expirationTimestamp="soon"), "printed no ExecCredential"),
        ("print('[]')", "printed no ExecCredential"),
        ("print('Bearer t')", "printed no ExecCredential"),
        (f"print({json.dumps({**KIND, 'kind': 'Secret'})!r})", "printed Secret of"),
        ("sys.exit(3)", "ended with code 3"),
        ("print('x' * 2000000)", "prints too much"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, program: str, said: str) -> None:
    """In one sentence that names the context, never what the plugin printed."""
    with pytest.raises(AccessError, match=f"^(context 'c'|client certificate).*{said}") as raised:
        header_of(access_with(tmp_path, program))
    assert "Bearer" not in str(raised.value)


def test_plugin_that_is_not_installed_comes_with_its_hint(tmp_path: Path) -> None:
    """Whoever wrote the kubeconfig knows where to get the program."""
    access = access_with(
        tmp_path, "", command="no-such-plugin", installHint="get it from\n  your admin"
    )
    with pytest.raises(AccessError, match=r"cannot be started: .*; get it from your admin"):
        header_of(access)


def test_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that cannot ask anybody does not hold up a command for ever."""
    monkeypatch.setattr(execplugin, "ANSWER_S", 0.2)
    access = access_with(tmp_path, "time.sleep(600)", interactiveMode="Never")
    with pytest.raises(AccessError, match="did not end within"):
        header_of(access)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "speaks .*v1alpha1"),
        ({"interactiveMode": "Always"}, "needs a terminal"),
        ({"command": 3}, r"its exec plugin: Expected `str`"),
        ({"args": "a b"}, r"its exec plugin: Expected `array"),
    ],
)
def test_entries_that_cannot_be_used(tmp_path: Path, entry: Body, said: str) -> None:
    """Before anything is started."""
    with pytest.raises(AccessError, match=said):
        header_of(access_with(tmp_path, printing(token="t"), **entry))


def test_certificate_may_come_with_the_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded into the connection's context, and no header is sent for it."""
    loaded: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(
        "swell.cluster.kube.credentials.load_certificate",
        lambda _, certificate, key: loaded.append((certificate, key)),
    )
    access = access_with(tmp_path, printing(clientCertificateData="CERT", clientKeyData="KEY"))
    assert isinstance(access.user.source, ExecPlugin)
    assert header_of(access) == ""
    assert loaded == [(b"CERT", b"KEY")]


def test_auth_provider_needs_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what to install; nobody else carries it along."""
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    access = access_with(tmp_path, "")
    login = ProviderLogin({}, "c", tmp_path)
    with pytest.raises(AccessError, match=r"context 'c': .*pip install 'swell\[kube\]'"):
        header_of(replace(access, user=KubeUser(source=login)))
