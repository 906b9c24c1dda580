"""Acknowledged writes survive SIGKILL; `python -m tests.contract.killing` kills 20 times."""

from __future__ import annotations

from pathlib import Path

from tests.contract.killing import kill_often
from tests.contract.raw import Raw
from tests.contract.targets import embedded_server


def test_killed_server_keeps_acknowledged_writes(tmp_path: Path) -> None:
    """Two kills at random moments, and nothing acknowledged is lost."""
    ledger, wrong = kill_often(tmp_path, kills=2, seed=4)

    assert wrong == []
    assert ledger.n_acknowledged > 50


def test_restarted_server_is_the_same_for_its_clients(tmp_path: Path) -> None:
    """Port, certificate and token stay, so that a kubeconfig stays good."""
    before: dict[str, bytes] = {}
    for _ in range(2):
        with embedded_server(tmp_path), Raw(tmp_path / "kubeconfig") as raw:
            assert raw.ask("GET", "/readyz").body == b"ok"
            files = ("kubeconfig", "token", "port", "server.crt")
            found = {name: (tmp_path / name).read_bytes() for name in files}
        before = before or found
        assert found == before


def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    """No other user of the machine can read the credentials."""
    with embedded_server(tmp_path):
        modes = {
            name: (tmp_path / name).stat().st_mode & 0o777
            for name in ("kubeconfig", "token", "server.key")
        }

    assert set(modes.values()) == {0o600}
