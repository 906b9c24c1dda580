"""Metrics that can be reached from elsewhere ask for a token, unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from swell.cli.command_line import CommandError
from swell.cli.controllers.options import MetricsAuth
from swell.cli.controllers.process import (
    ProgramDependencies,
    _add_traces,
    asks_for_token,
    server_tls,
)
from swell.cli.main import run
from swell.runtime.clock import SystemClock
from swell.runtime.health import HealthChecks
from swell.runtime.manager import Manager
from swell.runtime.metrics import Metrics
from tests.unit.cli.test_operator_command import Started, started  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("auth", "host", "asks"),
    [
        (MetricsAuth.AUTO, "127.0.0.1", False),
        (MetricsAuth.AUTO, "::1", False),
        (MetricsAuth.AUTO, "localhost", False),
        (MetricsAuth.AUTO, "0.0.0.0", True),
        (MetricsAuth.AUTO, "10.0.0.7", True),
        (MetricsAuth.AUTO, "metrics.example", True),
        (MetricsAuth.NONE, "0.0.0.0", False),
        (MetricsAuth.KUBERNETES, "127.0.0.1", True),
    ],
)
def test_token_is_asked_for(auth: MetricsAuth, host: str, asks: bool) -> None:
    assert asks_for_token(auth, host) is asks


def test_certificate_is_made_where_none_is_given() -> None:
    """It needs no file system: the root of a container is read-only."""
    assert server_tls("").get_ca_certs() == []


def test_folder_without_a_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no usable tls"):
        server_tls(str(tmp_path))
    (tmp_path / "tls.crt").write_text("not a certificate")
    (tmp_path / "tls.key").write_text("not a key")
    with pytest.raises(CommandError, match=str(tmp_path)):
        server_tls(str(tmp_path))


def test_traces_go_to_the_collector_that_is_named(started: list[Started]) -> None:  # noqa: F811
    """By a service of its own, and only where one is named; what is no address is refused."""

    def traced(*flags: str) -> tuple[list[str], Metrics]:
        assert run(["operator", *flags]) == 0
        clock = SystemClock()
        manager, metrics = Manager(clock=clock), Metrics()
        nobody = cast("Any", None)  # no cluster is asked
        parts = ProgramDependencies(nobody, nobody, clock, Random(1), metrics, HealthChecks())
        _add_traces(manager, started[-1][0], parts)
        return [service.name for service in manager._services], metrics

    services, metrics = traced("--traces-endpoint", "http://collector:4318")
    assert services == ["traces"]
    assert metrics.tracer is not None
    assert traced()[0] == []
    with pytest.raises(CommandError, match="not an address: 'collector:4318'"):
        traced("--traces-endpoint", "collector:4318")
