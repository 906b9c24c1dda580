"""Clusters for the contract tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.grounds import Ground, embedded_server, in_process, over_https
from tests.testbed.control_plane import ControlPlane


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The embedded server over HTTPS, one for the whole run."""
    home = tmp_path_factory.mktemp("embedded")
    with embedded_server(home):
        yield home / "kubeconfig"


@pytest.fixture(scope="session", params=["store", "https", "kubernetes"])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Each of the three clusters in turn."""
    if request.param == "store":
        ground = Ground(in_process())
    elif request.param == "https":
        ground = Ground(over_https(request.getfixturevalue("embedded_kubeconfig")))
    else:
        plane: ControlPlane = request.getfixturevalue("control_plane")
        ground = Ground(over_https(plane.kubeconfig))
    yield ground
    ground.close()
