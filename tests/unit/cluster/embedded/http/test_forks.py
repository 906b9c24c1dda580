"""Work in a copy of the process: its results, refusals and failures, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import threading
import time

import pytest

from swell.cluster.embedded import refusals
from swell.cluster.embedded.http import forks
from swell.cluster.embedded.http.forks import ForkError, Forks
from swell.runtime.errors import BadRequestError, ClusterError, TooManyRequestsError

pytestmark = pytest.mark.skipif(not forks.CAN_FORK, reason="copies are made on Linux only")


def _children() -> list[str]:
    with pathlib.Path(f"/proc/self/task/{os.getpid()}/children").open() as file:
        return file.read().split()


def test_result_comes_from_another_process_that_is_gone_afterwards() -> None:
    changed: list[int] = []

    def work() -> tuple[int, bytes]:
        changed.append(1)
        return os.getpid(), b"x" * 5_000_000

    before = _children()
    pid, raw = asyncio.run(Forks().run(work))

    assert pid != os.getpid()
    assert len(raw) == 5_000_000
    assert changed == []
    assert _children() == before


def test_refusal_is_raised_with_its_status() -> None:
    def work() -> None:
        raise refusals.bad_request("no")

    with pytest.raises(BadRequestError, match="no"):
        asyncio.run(Forks().run(work))


@pytest.mark.parametrize(
    "end", [lambda: 1 // 0, lambda: os._exit(9), lambda: os.kill(os.getpid(), 9)]
)
def test_copy_that_fails_or_dies_is_reported(end: object) -> None:
    with pytest.raises(ForkError):
        asyncio.run(Forks().run(end))  # type: ignore[arg-type]


def test_copy_that_nobody_waits_for_is_ended() -> None:
    async def give_up() -> None:
        task = asyncio.create_task(Forks().run(lambda: time.sleep(60)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = _children()
    asyncio.run(give_up())

    assert _children() == before


def test_copy_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "FORK_S_MAX", 0.05)
    with pytest.raises(ClusterError) as refused:
        asyncio.run(Forks().run(lambda: time.sleep(60)))

    assert refused.value.status.code == 504


def test_machine_without_room_for_a_process_asks_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(TooManyRequestsError):
        asyncio.run(Forks().run(lambda: 1))


def test_connection_that_the_server_closes_is_closed_for_its_client() -> None:
    """The copy holds none of the server's descriptors."""

    async def close_meanwhile() -> bytes:
        mine, theirs = socket.socketpair()
        work = asyncio.create_task(Forks().run(lambda: time.sleep(1)))
        await asyncio.sleep(0.2)
        mine.close()
        theirs.settimeout(0.5)
        try:
            return await asyncio.to_thread(theirs.recv, 1)
        finally:
            work.cancel()
            theirs.close()

    assert asyncio.run(close_meanwhile()) == b""


def test_copies_are_made_while_other_threads_work() -> None:
    """A thread that holds locks of its own does not keep a copy from ending."""
    stop = threading.Event()
    lock = threading.Lock()

    def churn() -> None:
        while not stop.is_set():
            with lock:
                str(dict.fromkeys(range(100)))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        found = [asyncio.run(Forks().run(lambda n=n: n * 2)) for n in range(20)]  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()

    assert found == [n * 2 for n in range(20)]
