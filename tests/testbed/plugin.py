"""Fixtures for tests that need the real control plane; loaded by name in tests/conftest.py.

One control plane serves a whole run. Where its binaries are missing, tests are skipped with the
line that says how to get them, or fail when SWELL_REQUIRE_TESTBED=1 says that they must be there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.kubectl import Kubectl


@pytest.fixture(scope="session")
def testbed_binaries() -> None:
    """The binaries are there, or the test does not run."""
    problem = ""
    try:
        binaries.require()
    except binaries.BinariesMissingError as error:
        problem = str(error)
    if problem and os.environ.get("SWELL_REQUIRE_TESTBED") == "1":
        pytest.fail(problem, pytrace=False)
    if problem:
        pytest.skip(problem)


@pytest.fixture(scope="session")
def control_plane(testbed_binaries: None) -> Iterator[ControlPlane]:
    """A real control plane with the controllers that the embedded one has too."""
    with running_control_plane() as plane:
        yield plane


@pytest.fixture
def kubectl(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl as the administrator of the real control plane."""
    return Kubectl(control_plane.kubeconfig, tmp_path_factory.mktemp("kubectl"))
