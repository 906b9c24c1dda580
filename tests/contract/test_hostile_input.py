"""A thousand hostile requests; `python -m tests.contract.hostile` sends 20,000."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import hostile
from tests.contract.raw import Raw
from tests.contract.targets import embedded_server
from tests.testbed.control_plane import ControlPlane

N_REQUESTS = 1000
SEED = 20


class Target:
    """A server of its own, whose memory can be looked at."""

    def __init__(self, raw: Raw, pid: int) -> None:
        self.raw = raw
        self.pid = pid


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home: Path = tmp_path_factory.mktemp("hostile")
    with embedded_server(home) as process, Raw(home / "kubeconfig") as raw:
        hostile.prepare(raw)
        yield Target(raw, process.pid)


def test_hostile_requests_do_no_harm(target: Target) -> None:
    """No 5xx, an answer in time to each, and no memory lost."""
    before = hostile.memory_bytes(target.pid)
    report = hostile.attack(target.raw, N_REQUESTS, SEED)
    growth = hostile.memory_bytes(target.pid) - before

    assert report.server_errors == []
    assert report.slow == []
    assert growth < hostile.GROWTH_BYTES_MAX


def test_hostile_requests_leave_a_working_server(target: Target) -> None:
    """Afterwards every kind can still be listed, as objects and as tables."""
    hostile.attack(target.raw, 100, SEED + 1)
    for path in hostile.objects("x"):
        for accept in hostile.ACCEPTS[:3]:
            assert target.raw.ask("GET", path, headers={"Accept": accept}).code == 200, path
    assert target.raw.ask("GET", "/healthz").body == b"ok"


def test_hostile_requests_get_no_more_than_from_a_real_server(
    target: Target, control_plane: ControlPlane
) -> None:
    """Nothing is accepted that a real server refuses."""
    with Raw(control_plane.kubeconfig) as reference:
        hostile.prepare(reference)
        report = hostile.attack(target.raw, N_REQUESTS, SEED + 2, reference=reference)

    assert report.too_generous == []


def test_hostile_protobuf_gets_no_more_than_from_a_real_server(
    target: Target, control_plane: ControlPlane
) -> None:
    """Spoilt bodies in protobuf: no 5xx, and nothing is accepted that a real server refuses."""
    with Raw(control_plane.kubeconfig) as reference:
        hostile.prepare(reference)
        report = hostile.attack(
            target.raw, N_REQUESTS, SEED + 3, reference=reference, protobuf=True
        )

    assert report.server_errors == []
    assert report.slow == []
    assert report.too_generous == []
    assert {201, 400, 422} <= report.codes.keys()


def test_many_idle_connections_do_not_keep_others_out(target: Target) -> None:
    """Idle connections do not slow down or block other clients."""
    silent = [target.raw.open_silent() for _ in range(200)]
    try:
        assert target.raw.ask("GET", "/healthz").body == b"ok"
    finally:
        for one in silent:
            one.close()
