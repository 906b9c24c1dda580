"""Machines for tests: one with a cluster that many tests share, and one that is switched off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.up.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Nothing runs, and nothing is left running."""
    made = Machine(tmp_path)
    yield made
    made.swell("down")
    assert made.processes() == []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A cluster is up, for all tests of a file."""
    made = Machine(tmp_path_factory.mktemp("up"))
    made.start()
    yield made
    made.swell("down")
    assert made.processes() == []
