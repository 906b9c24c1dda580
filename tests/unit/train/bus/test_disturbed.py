"""The bus over real sockets, disturbed: frozen members, half-cut lines, hostile connections."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swell.train.bus.messages import FRAME_BYTES_MAX
from swell.train.bus.shell.handshake import MAGIC, NONCE_BYTES, PROOF_BYTES, Handshake
from swell.train.bus.shell.reporting import report_token
from tests.unit.train.bus.cluster import PORT, CountingCluster
from tests.unit.train.bus.relay import Relay
from tests.unit.train.bus.test_loopback import SECRET, ask, check_steps


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[CountingCluster]:
    made = CountingCluster(tmp_path)
    yield made
    made.close()


def test_frozen_member_is_waited_for(cluster: CountingCluster) -> None:
    """A member that is stopped for 5 s is not taken for dead: the same group goes on."""
    cluster.resize(3)
    cluster.start(0, 1, 2)
    cluster.wait_for_size(3)
    at = cluster.signal(signal.SIGSTOP, 1)
    time.sleep(5.0)
    cluster.signal(signal.SIGCONT, 1)
    cluster.wait_for_size(3, since=at + 5.0)

    check_steps(cluster.facts())
    assert len({f["plan"] for f in cluster.facts() if "plan" in f}) == 1


def test_frozen_leader_is_replaced_and_comes_back(cluster: CountingCluster) -> None:
    """A leader that is silent for more than 10 s is left behind, and joins again afterwards."""
    cluster.resize(3)
    cluster.start(0, 1, 2)
    cluster.wait_for_size(3)
    leader = next(f for f in cluster.facts() if "plan" in f)["members"][0]
    at = cluster.signal(signal.SIGSTOP, leader)
    cluster.wait_for_size(2, since=at + 1.0)
    thawed = cluster.signal(signal.SIGCONT, leader)
    cluster.wait_for_size(3, since=thawed)

    check_steps([f for f in cluster.facts() if f["index"] != leader])


@pytest.mark.parametrize("direction", ["in", "out"])
def test_half_cut_lines_are_given_up(cluster: CountingCluster, direction: str) -> None:
    """Lines over which only one end can speak are dropped; members find another way and go on."""
    hosts = [cluster.address(100 + index) for index in range(3)]
    cluster.resize(3, hosts=hosts)
    relays = [Relay(host, PORT, (cluster.address(i), PORT)) for i, host in enumerate(hosts)]
    cluster.start(0, 1, 2)
    first = cluster.wait_for_size(3)
    at = time.time()
    for relay in relays:
        setattr(relay, f"drops_{direction}", True)

    def next_step() -> bool:
        steps = [f for f in cluster.facts(since=at) if f.get("size") == 3]
        return any(f["generation"] > first["generation"] for f in steps)

    cluster.wait(next_step)
    for relay in relays:
        relay.close()

    check_steps(cluster.facts())


def hostile_sockets(address: str) -> list[socket.socket]:
    """Connections of all kinds that no peer makes, left open."""
    opened = []
    wrong = Handshake(b"wrong", os.urandom(NONCE_BYTES), calls=True)
    for payload in (
        b"",  # says nothing
        os.urandom(4096),
        b"G",  # slowly
        b"GET /report HTTP/1.1\r\nX: ",
        b"GET " + b"a" * 200_000,
        MAGIC[:3],
        wrong.opening,
        wrong.opening + os.urandom(PROOF_BYTES),
        MAGIC + b"\0" * NONCE_BYTES + b"\0" * PROOF_BYTES + b"\xff" * 100_000,
    ):
        sock = socket.create_connection((address, PORT), timeout=2.0)
        with contextlib.suppress(OSError):  # It may be refused before it has said all.
            sock.sendall(payload)
        opened.append(sock)
    return opened


def huge_frame(address: str) -> socket.socket:
    """A peer that knows the secret, and announces more than any message has."""
    sock = socket.create_connection((address, PORT), timeout=2.0)
    shake = Handshake(SECRET, os.urandom(NONCE_BYTES), calls=True)
    sock.sendall(shake.opening)
    received = bytearray()
    while not shake.is_done:
        received += sock.recv(4096)
        answer = shake.take(received)
        assert answer is not None
        sock.sendall(answer)
    sock.sendall((FRAME_BYTES_MAX + 1).to_bytes(4) + b"x" * 1000)
    return sock


def test_hostile_connections_disturb_nobody(cluster: CountingCluster) -> None:
    """Garbage, wrong keys, slow and huge requests, and floods: the group trains on."""
    cluster.resize(2)
    cluster.start(0, 1)
    cluster.wait_for_size(2)
    opened = [sock for i in (0, 1) for sock in hostile_sockets(cluster.address(i))]
    opened += [huge_frame(cluster.address(i)) for i in (0, 1)]
    for _ in range(400):
        opened.append(socket.create_connection((cluster.address(0), PORT), timeout=2.0))
    codes = [ask(cluster.address(i), report_token(SECRET))[0] for i in (0, 1)]

    assert sorted(codes) == [200, 404]
    flooded = time.time()
    cluster.wait_for_size(2, since=flooded)
    assert len({f["plan"] for f in cluster.facts() if "plan" in f}) == 1
    for sock in opened[:18]:
        sock.settimeout(60.0)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(65536):  # All of them are closed by the member.
                pass
    for sock in opened:
        sock.close()


def test_process_with_another_secret_is_no_member(cluster: CountingCluster) -> None:
    """One that does not know the secret is not let in, and the others start without it."""
    cluster.resize(2)
    cluster.start(0, 1)
    cluster.wait_for_size(2)
    at = cluster.kill(1)
    cluster.wait_for_size(1, since=at)
    cluster.start(1, secret="another one")
    time.sleep(3.0)

    assert not [f for f in cluster.facts(1, since=at) if "plan" in f]
    cluster.wait_for_size(1, since=time.time())


def test_release_file_is_a_word_to_leave(cluster: CountingCluster, tmp_path: Path) -> None:
    """A process whose release file names a deadline leaves as if it had been signalled."""
    release = tmp_path / "release"
    release.write_text("")
    cluster.resize(2)
    cluster.start(0)
    cluster.start(1, release=str(release))
    cluster.wait_for_size(2)
    at = time.time()
    release.write_text('{"reason": "shrink", "deadline": "2099-01-01T00:00:00Z", "epoch": 2}')

    assert cluster.wait_for_exit(1) == 143
    cluster.wait_for_size(1, since=at)
