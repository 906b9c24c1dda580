"""The roll call: every member learns everybody's ports, and strangers learn nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from swell.train.bus import BusStoppedError
from swell.train.bus.plan import NOTHING, GroupPlan, Member
from swell.train.launch import program, rollcall
from swell.train.launch.agent import Signals
from swell.train.launch.arguments import parse
from swell.train.launch.rollcall import Entry, Roll, RollCallServer, call_roll, signed, verified
from swell.train.launch.variables import Seat
from swell.train.place import Place

SECRET = b"secret"


@pytest.fixture
def server() -> Iterator[RollCallServer]:
    made = RollCallServer("127.0.0.1", SECRET)
    yield made
    made.close()


def a_plan(server: RollCallServer, size: int, prefix: str = "p") -> GroupPlan:
    members = [
        Member(
            index=i, instance=1, incarnation=i, host="127.0.0.1", meeting=server.port, held=NOTHING
        )
        for i in range(size)
    ]
    return GroupPlan(1, 1, tuple(members), prefix, source=0, behind=())


def never() -> bool:
    return False


def test_all_members_get_all_seats(server: RollCallServer) -> None:
    """In the order of ranks, whoever comes first, with the workers each of them has."""
    plan = a_plan(server, 5)
    ports = [tuple(range(100 * rank, 100 * rank + rank + 1)) for rank in range(5)]
    with ThreadPoolExecutor(5) as pool:
        calls = [
            pool.submit(call_roll, plan, rank, ports[rank], SECRET, never)
            for rank in reversed(range(5))
        ]
        answers = [call.result(timeout=10) for call in calls]

    assert answers == [tuple(Seat("127.0.0.1", one) for one in ports)] * 5


def test_call_that_is_over_ends_without_seats(server: RollCallServer) -> None:
    """A member of the plan died before it came."""
    plan = a_plan(server, 2)
    give_up = time.monotonic() + 0.2

    assert call_roll(plan, 0, (1,), SECRET, lambda: time.monotonic() > give_up) is None


def test_wrong_secret_gets_no_answer(server: RollCallServer) -> None:
    """Its line is closed, and does not count."""
    plan = a_plan(server, 1)
    give_up = time.monotonic() + 0.3

    assert call_roll(plan, 0, (1,), b"other", lambda: time.monotonic() > give_up) is None
    assert call_roll(plan, 0, (1,), SECRET, never) == (Seat("127.0.0.1", (1,)),)


@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"\xff\xfe\n", b"[1]\n"])
def test_strangers_are_dropped(server: RollCallServer, text: bytes) -> None:
    """The server goes on."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as line:
        line.sendall(text)
        assert line.recv(100) == b""
    assert call_roll(a_plan(server, 1), 0, (7,), SECRET, never) == (Seat("127.0.0.1", (7,)),)


def test_codes_cover_the_whole_message() -> None:
    """Neither another port nor another generation, nor an answer as an entry."""
    entry = Entry("p", 2, 0, (1, 2))
    line = signed(entry, SECRET).removesuffix(b"\n")
    code = line[: -len(msgspec.json.encode(entry))]

    assert verified(line, Entry, SECRET) == entry
    for changed in (Entry("q", 2, 0, (1, 2)), Entry("p", 2, 1, (1, 2)), Entry("p", 2, 0, (1, 3))):
        assert verified(code + msgspec.json.encode(changed), Entry, SECRET) is None
    assert verified(line, Roll, SECRET) is None
    assert verified(line, Entry, b"other") is None


def test_nothing_is_parsed_before_its_code_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a stranger does not reach the decoder."""
    monkeypatch.setattr(msgspec.json, "decode", None)

    assert verified(b"0" * 64 + b"{}", Entry, SECRET) is None
    assert verified(b"", Entry, SECRET) is None


def test_strangers_get_little_memory(server: RollCallServer) -> None:
    """A line without an end is cut off after 8 KiB, long before its time is up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as line:
        with contextlib.suppress(OSError):  # cut off while it was sent
            line.sendall(b"x" * (1 << 20))
        with contextlib.suppress(ConnectionError):
            assert line.recv(100) == b""


def test_closing_an_ended_server_is_no_error() -> None:
    """Its thread may have ended by itself before it is woken, and it may be closed twice."""
    server = RollCallServer("127.0.0.1", SECRET)
    server._is_closed = True
    server._waker.send(b"\0")
    server._thread.join(timeout=10)

    server.close()
    server.close()


def test_without_room_the_oldest_stranger_goes(
    server: RollCallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers who fill the room keep no member out."""
    monkeypatch.setattr(rollcall, "_CALLERS_MAX", 1)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as stranger:
        answer = call_roll(a_plan(server, 1), 0, (7,), SECRET, never)

        assert stranger.recv(10) == b""
    assert answer == (Seat("127.0.0.1", (7,)),)


def test_no_server_is_left_where_there_is_no_place_in_the_job(tmp_path: Path) -> None:
    """A launcher that cannot take its place ends, and its roll call with it."""
    (tmp_path / "epoch").write_text("1")
    (tmp_path / "trainer").write_text("127.0.0.1\n")
    place = Place("job", "trainer", index=5, instance=0, members=tmp_path, address="")
    options = parse(["train.py"], {})

    with (
        pytest.raises(BusStoppedError, match="index 5"),
        program._group(options, place, Signals()),
    ):
        raise AssertionError

    assert "roll call" not in [thread.name for thread in threading.enumerate()]
