"""Which cluster the commands of a user go to, with two clusters within reach."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.swell_command import Swell

SERVER = "import sys; from swell.cli.main import main; sys.argv = ['swell', 'server']; main()"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"


@dataclass
class TwoClusters:
    """The embedded cluster of a user runs, and KUBECONFIG names another one."""

    swell: Swell
    home: Path
    other: Path

    def has_settings(self, *flags: str) -> bool:
        return self.swell("get", "cm", "settings", *flags).code == 0


def _server(home: Path, **environ: str) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"KUBECONFIG", "SWELL_HOME"}}
    found = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**kept, "HOME": str(home), **environ},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert found.stdout is not None
    assert found.stdout.readline().startswith("export KUBECONFIG=")
    return found


def _stop(server: subprocess.Popen[str]) -> None:
    server.terminate()
    server.wait(20)
    assert server.stdout is not None
    server.stdout.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The home folder of a user whose embedded cluster runs, and the folder of another cluster."""
    home, other = tmp_path_factory.mktemp("user"), tmp_path_factory.mktemp("other")
    own = _server(home)
    far = _server(home, SWELL_HOME=str(other))
    yield home, other
    _stop(own)
    _stop(far)


@pytest.fixture
def two(
    servers: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[TwoClusters]:
    home, other = servers
    monkeypatch.delenv("SWELL_HOME", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "etc"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KUBECONFIG", str(other / "kubeconfig"))
    swell = Swell("default", tmp_path, capsys)
    yield TwoClusters(swell, home, other)
    for flags in (("--embedded",), ("--kubeconfig", str(other / "kubeconfig"))):
        swell("delete", "cm", "settings", *flags)


def test_write_is_refused_where_two_clusters_could_be_meant(two: TwoClusters) -> None:
    """One sentence, and the two flags that decide; nothing is written anywhere."""
    answer = two.swell("apply", "-f", two.swell.file(CONFIG))

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[0].startswith("error: the embedded cluster is running, and ")
    assert "--embedded" in answer.err
    assert "--kubeconfig" in answer.err
    assert not two.has_settings("--embedded")
    assert not two.has_settings("--kubeconfig", str(two.other / "kubeconfig"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete", "cm", "settings"),
        ("scale", "fit", "trainer=2"),
        ("queue", "create", "team"),
        ("chaos", "kill-node", "here"),
        ("run", "--detach", "--", "true"),
        ("uninstall", "--yes"),
    ],
)
def test_every_command_that_writes_refuses(two: TwoClusters, arguments: tuple[str, ...]) -> None:
    """No kind of change goes to a cluster that was guessed."""
    answer = two.swell(*arguments)

    assert (answer.code, answer.out) == (1, "")
    assert "KUBECONFIG names another" in answer.err


def test_flags_decide_between_two_clusters(two: TwoClusters) -> None:
    """Each of the two flags that the refusal names leads to its cluster alone."""
    manifest = two.swell.file(CONFIG)

    assert two.swell("apply", "-f", manifest, "--embedded").code == 0
    assert two.has_settings("--embedded")
    assert not two.has_settings("--kubeconfig", str(two.other / "kubeconfig"))


def test_read_says_which_cluster_it_asked(two: TwoClusters) -> None:
    """A reader gets the embedded cluster's answer, and a note on stderr."""
    answer = two.swell("get", "nodes", "-o", "json")

    assert answer.code == 0
    assert answer.json["kind"] == "List"
    assert answer.err.startswith("note: asked the embedded cluster, not that of KUBECONFIG (https")


def test_use_makes_a_choice_that_lasts(two: TwoClusters) -> None:
    """`swell use` ends the question, and `swell use -` brings it back."""
    manifest = two.swell.file(CONFIG)
    assert two.swell("use", "embedded").code == 0
    assert two.swell("apply", "-f", manifest).out == "configmap/settings created\n"
    assert two.has_settings("--embedded")

    assert two.swell("use", "swell").code == 0
    assert two.swell("apply", "-f", manifest).out == "configmap/settings created\n"
    assert two.has_settings("--kubeconfig", str(two.other / "kubeconfig"))

    assert two.swell("use", "-").code == 0
    assert two.swell("apply", "-f", manifest).code == 1


def test_use_of_a_context_that_is_not_there_is_refused(two: TwoClusters) -> None:
    """A choice that could never work is not kept; the contexts there are get named."""
    answer = two.swell("use", "nowhere")

    assert answer.code == 1
    assert "contexts has no 'nowhere' (there are: swell)" in answer.err
    assert "asked the embedded" in two.swell("get", "nodes").err


def test_cluster_tells_the_choice_and_the_rule(two: TwoClusters) -> None:
    """The rule is printed in full, with the line that applies."""
    answer = two.swell("cluster")

    assert f"the embedded cluster in {two.home}/.local/state/swell" in answer.out
    assert "* 5. an embedded cluster that runs (swell up)" in answer.out
    assert "8. ~/.kube/config" in answer.out
    assert two.swell("cluster", "-o", "json").json["chosenBy"] == "RUNNING"
    flagged = two.swell("cluster", "-o", "json", "--kubeconfig", str(two.other / "kubeconfig"))
    assert (flagged.json["chosenBy"], flagged.json["embedded"]) == ("FLAG", False)


def test_stopped_cluster_is_not_replaced_by_another(
    two: TwoClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `swell down` commands say that it does not run, also where KUBECONFIG names another."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert two.swell("use", "embedded").code == 0

    for arguments in (("get", "nodes"), ("apply", "-f", two.swell.file(CONFIG))):
        answer = two.swell(*arguments)
        assert (answer.code, answer.out) == (1, "")
        assert "is not running" in answer.err
        assert "swell up" in answer.err
    assert two.swell("cluster", "-o", "json").json["running"] is False
    assert not two.has_settings("--kubeconfig", str(two.other / "kubeconfig"))
