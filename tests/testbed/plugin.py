"""Fixtures for tests that need the real control plane; loaded by name in tests/conftest.py.

One control plane serves a whole run, and one cluster with real nodes. Where the binaries are
missing, tests are skipped with the line that says how to get them, or fail when
SWELL_REQUIRE_TESTBED=1 says that they must be there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from testbed.cluster import ClusterError, check
from testbed.site import find_site
from tests.testbed import binaries
from tests.testbed.cluster import RealCluster, running_cluster
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.kubectl import Kubectl


@pytest.fixture(scope="session")
def testbed_binaries() -> None:
    """The binaries are there, or the test does not run."""
    try:
        binaries.require()
    except binaries.BinariesMissingError as error:
        _do_without(str(error))


@pytest.fixture(scope="session")
def control_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A real control plane with the controllers that the embedded one has too."""
    with running_control_plane() as plane:
        yield plane


@pytest.fixture
def kubectl(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl as the administrator of the real control plane."""
    return Kubectl(control_plane.kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A whole Kubernetes: two real nodes with containers, pod network and DNS.

    SWELL_CLUSTER names the folder of a running one to use, and to leave as it is afterwards.
    """
    running = find_site(Path(os.environ.get("SWELL_CLUSTER", "")).absolute())
    if running is not None:
        yield RealCluster(running)
        return
    folder = tmp_path_factory.mktemp("cluster") / "cluster"
    try:
        check(folder)
    except ClusterError as error:
        _do_without(str(error))
    with running_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def cluster_kubectl(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl as the administrator of the cluster with real nodes."""
    return Kubectl(real_cluster.kubeconfig, tmp_path_factory.mktemp("kubectl"))


def _do_without(problem: str) -> NoReturn:
    if os.environ.get("SWELL_REQUIRE_TESTBED") == "1":
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)
