"""Clusters for the contract tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.controller_world import Opened, embedded, real
from tests.contract.swell_command import Swell
from tests.contract.targets import ContractTarget, embedded_server, in_process, over_https
from tests.testbed.control_plane import ControlPlane

KINDS = ("aitrainingjobs", "trainingjobs", "podgroups", "queues")


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The embedded server over HTTPS, one for the whole run."""
    home = tmp_path_factory.mktemp("embedded")
    with embedded_server(home):
        yield home / "kubeconfig"


@pytest.fixture(scope="session", params=["store", "https", "kubernetes"])
def target(request: pytest.FixtureRequest) -> Iterator[ContractTarget]:
    """Each of the three clusters in turn."""
    if request.param == "store":
        target = ContractTarget(in_process())
    elif request.param == "https":
        target = ContractTarget(over_https(request.getfixturevalue("embedded_kubeconfig")))
    else:
        plane: ControlPlane = request.getfixturevalue("control_plane")
        target = ContractTarget(over_https(plane.kubeconfig))
    yield target
    target.close()


@pytest.fixture(params=["embedded", "kubernetes"])
def swell(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Swell:
    """The command with a cluster chosen by $KUBECONFIG and a fresh namespace in it."""
    if request.param == "embedded":
        kubeconfig = request.getfixturevalue("embedded_kubeconfig")
    else:
        kubeconfig = request.getfixturevalue("control_plane").kubeconfig
    # No cluster or choice of the person who runs the tests is ever found.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SWELL_HOME", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    namespace = f"t-{abs(hash(request.node.name)):x}"[:40]
    made = Swell(namespace, tmp_path, capsys)
    if not _serves_kinds(made):  # once for the whole run: to define them is most of a test's cost
        crds = made("crds")
        assert made("apply", "-f", made.file(crds.out, "crds.yaml")).code == 0
        _await_kinds(made)
    own = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"
    assert made("apply", "-f", made.file(own, "namespace.yaml")).code == 0
    return made


@pytest.fixture(params=["embedded", "kubernetes"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """How to open a cluster with built-in controllers, ours and a real one."""
    if request.param == "embedded":
        return embedded
    return real(request.getfixturevalue("control_plane"))


def _serves_kinds(swell: Swell) -> bool:
    return all(swell("get", kind).code == 0 for kind in KINDS)


def _await_kinds(swell: Swell) -> None:
    """A server that has just got a definition needs a moment to serve it."""
    for _ in range(100):
        if _serves_kinds(swell):
            break
        time.sleep(0.1)
