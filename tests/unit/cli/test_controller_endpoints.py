"""Metrics that can be reached from elsewhere ask for a token, unless told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cli.command_line import CommandError
from swell.cli.controllers.options import MetricsAuth
from swell.cli.controllers.process import asks_for_token, server_tls


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
